"""Calls on runtime skills, and on directories of agent skills."""

from os import PathLike, fspath

from elytron.api.base import Face
from elytron_core.contracts.knowledge import skills
from elytron_core.planes.knowledge.procedural import ReuseOutcome


class SkillsFace(Face):
    """See, edit, switch, delete and govern what was learned; read what the host keeps."""

    async def list_runtime_skills(
        self, request: skills.RuntimeSkillListRequest | None = None, /
    ) -> skills.RuntimeSkillListReport:
        """Read what runtime skills there are, those in use and of quality first."""
        return await self.operate(request or skills.RuntimeSkillListRequest(), skills.RuntimeSkillListReport)

    async def get_runtime_skill(
        self, skill: str | skills.RuntimeSkillDetailRequest, /
    ) -> skills.RuntimeSkillDetailReport:
        """Read one runtime skill with its history. Raises NotFound."""
        if isinstance(skill, str):
            skill = skills.RuntimeSkillDetailRequest(name=skill)
        return await self.operate(skill, skills.RuntimeSkillDetailReport)

    async def edit_runtime_skill(self, request: skills.RuntimeSkillEditRequest, /) -> skills.RuntimeSkillMutationReport:
        """Revise an existing runtime skill; the change is kept as a diff. Raises NotFound."""
        return await self.operate(request, skills.RuntimeSkillMutationReport)

    async def set_runtime_skill_enabled(
        self, skill: str | skills.RuntimeSkillSetEnabledRequest, /, *, enabled: bool = True
    ) -> skills.RuntimeSkillMutationReport:
        """Let recall show a runtime skill, or not; its content stays. Raises NotFound."""
        if isinstance(skill, str):
            skill = skills.RuntimeSkillSetEnabledRequest(name=skill, enabled=enabled)
        return await self.operate(skill, skills.RuntimeSkillMutationReport)

    async def delete_runtime_skill(
        self, skill: str | skills.RuntimeSkillDeleteRequest, /
    ) -> skills.RuntimeSkillMutationReport:
        """Remove a runtime skill. Raises NotFound."""
        if isinstance(skill, str):
            skill = skills.RuntimeSkillDeleteRequest(name=skill)
        return await self.operate(skill, skills.RuntimeSkillMutationReport)

    async def record_skill_reuse(
        self,
        skill: str | skills.RuntimeSkillReuseRequest,
        /,
        *,
        outcome: ReuseOutcome = ReuseOutcome.SUCCEEDED,
        note: str = "",
    ) -> skills.RuntimeSkillReuseReport:
        """Say how it went with the runtime skills that a reply used."""
        if isinstance(skill, str):
            skill = skills.RuntimeSkillReuseRequest(names=(skill,), outcome=outcome, note=note)
        return await self.operate(skill, skills.RuntimeSkillReuseReport)

    async def govern_runtime_skills(
        self, request: skills.RuntimeSkillGovernRequest | None = None, /
    ) -> skills.RuntimeSkillGovernReport:
        """Merge, retire and prune runtime skills by likeness, quality and age."""
        return await self.operate(request or skills.RuntimeSkillGovernRequest(), skills.RuntimeSkillGovernReport)

    async def add_agent_skill_dir(
        self, path: str | PathLike[str] | skills.AgentSkillDirAddRequest, /
    ) -> skills.AgentSkillDirectoryReport:
        """Have one more directory of agent skills read until this runtime closes. Raises InvalidInput."""
        if not isinstance(path, skills.AgentSkillDirAddRequest):
            path = skills.AgentSkillDirAddRequest(path=fspath(path))
        return await self.operate(path, skills.AgentSkillDirectoryReport)
