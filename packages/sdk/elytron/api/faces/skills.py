"""Calls on runtime skills, and on directories of agent skills."""

from os import PathLike, fspath

from elytron.api.calls import BlockingCalls, CallFace, blocking_call, takes_request
from elytron_core.contracts import skills
from elytron_core.planes.skills import ReuseOutcome


class SkillsFace(CallFace):
    """List, edit, enable, delete and govern learned skills; read the host's own.

    The examples start from here:

    >>> steps = "1. Turn the heating off. 2. Open the valve until water comes. 3. Close it."
    >>> draft = elytron.RuntimeSkillWrite(
    ...     name="bleed", topic="heating", title="Bleed the radiators", summary="Let the air out", content=steps
    ... )
    >>> procedures = elytron.ProcedureSource(writes=(draft,))
    >>> (skill,) = memory.write(elytron.MemoryWriteRequest(write=procedures)).ids
    """

    async def list_runtime_skills(
        self, request: skills.RuntimeSkillListRequest | None = None, /
    ) -> skills.RuntimeSkillListReport:
        """List runtime skills, best first: those in use, then by quality.

        >>> [item.title for item in memory.list_runtime_skills().runtime_skills]
        ['Bleed the radiators']
        """
        return await self.operate(request or skills.RuntimeSkillListRequest())

    async def get_runtime_skill(
        self, skill: str | skills.RuntimeSkillDetailRequest, /
    ) -> skills.RuntimeSkillDetailReport:
        """Read one runtime skill with its history. Raises NotFound.

        >>> memory.get_runtime_skill(skill).procedure
        '1. Turn the heating off. 2. Open the valve until water comes. 3. Close it.'
        """
        if isinstance(skill, str):
            skill = skills.RuntimeSkillDetailRequest(name=skill)
        return await self.operate(skill)

    async def edit_runtime_skill(self, request: skills.RuntimeSkillEditRequest, /) -> skills.RuntimeSkillMutationReport:
        """Revise an existing runtime skill; the change is stored as a diff. Raises NotFound.

        >>> edit = elytron.RuntimeSkillEditRequest(name=skill, title="Bleed a radiator", edit_reason="one at a time")
        >>> memory.edit_runtime_skill(edit).skill.title
        'Bleed a radiator'
        """
        return await self.operate(request)

    @takes_request(skills.RuntimeSkillSetEnabledRequest)
    async def set_runtime_skill_enabled(
        self, skill: str, /, *, enabled: bool = True
    ) -> skills.RuntimeSkillMutationReport:
        """Enable or disable a runtime skill in recall; its content stays. Raises NotFound.

        >>> _ = memory.set_runtime_skill_enabled(skill, enabled=False)
        >>> memory.list_runtime_skills().disabled
        1
        """
        return await self.operate(skills.RuntimeSkillSetEnabledRequest(name=skill, enabled=enabled))

    async def delete_runtime_skill(
        self, skill: str | skills.RuntimeSkillDeleteRequest, /
    ) -> skills.RuntimeSkillMutationReport:
        """Remove a runtime skill. Raises NotFound.

        >>> _ = memory.delete_runtime_skill(skill)
        >>> memory.list_runtime_skills().total
        0
        """
        if isinstance(skill, str):
            skill = skills.RuntimeSkillDeleteRequest(name=skill)
        return await self.operate(skill)

    @takes_request(skills.RuntimeSkillReuseRequest)
    async def record_skill_reuse(
        self,
        skill: str,
        /,
        *,
        outcome: ReuseOutcome = ReuseOutcome.SUCCEEDED,
        note: str = "",
    ) -> skills.RuntimeSkillReuseReport:
        """Record the outcome of the runtime skills that a reply used.

        >>> _ = memory.record_skill_reuse(skill, outcome=elytron.ReuseOutcome.MISMATCH, note="no key at hand")
        >>> memory.get_runtime_skill(skill).skill.mismatch_count
        1
        """
        request = skills.RuntimeSkillReuseRequest(names=(skill,), outcome=outcome, note=note)
        return await self.operate(request)

    async def govern_runtime_skills(
        self, request: skills.RuntimeSkillGovernRequest | None = None, /
    ) -> skills.RuntimeSkillGovernReport:
        """Merge, retire and prune runtime skills by similarity, quality and age.

        >>> memory.govern_runtime_skills(elytron.RuntimeSkillGovernRequest(dry_run=True)).looked_at
        1
        """
        return await self.operate(request or skills.RuntimeSkillGovernRequest())

    async def add_agent_skill_dir(
        self, path: str | PathLike[str] | skills.AgentSkillDirAddRequest, /
    ) -> skills.AgentSkillDirectoryReport:
        """Add a directory of agent skills for this runtime to read until it closes. Raises InvalidInput.

        >>> Path("skills/pdf-forms").mkdir(parents=True)
        >>> front = ("---", "name: pdf-forms", "description: Fill PDF forms", "---", "Steps.")
        >>> _ = Path("skills/pdf-forms/SKILL.md").write_text(chr(10).join(front))
        >>> [item.name for item in memory.add_agent_skill_dir("skills").skills]
        ['pdf-forms']
        """
        if not isinstance(path, skills.AgentSkillDirAddRequest):
            path = skills.AgentSkillDirAddRequest(path=fspath(path))
        return await self.operate(path)


class BlockingSkills(BlockingCalls):
    """The calls of skills, blocking until their answer."""

    list_runtime_skills = blocking_call(SkillsFace.list_runtime_skills)
    get_runtime_skill = blocking_call(SkillsFace.get_runtime_skill)
    edit_runtime_skill = blocking_call(SkillsFace.edit_runtime_skill)
    set_runtime_skill_enabled = blocking_call(SkillsFace.set_runtime_skill_enabled)
    delete_runtime_skill = blocking_call(SkillsFace.delete_runtime_skill)
    record_skill_reuse = blocking_call(SkillsFace.record_skill_reuse)
    govern_runtime_skills = blocking_call(SkillsFace.govern_runtime_skills)
    add_agent_skill_dir = blocking_call(SkillsFace.add_agent_skill_dir)
