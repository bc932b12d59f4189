"""The operations on runtime skills, and on the host's directories of agent skills."""

from elytron import ops
from elytron.registry.operation import AnyOperation, Grave, Operation, Repeat, Role
from elytron_core.contracts.knowledge import skills

SKILLS: tuple[AnyOperation, ...] = (
    Operation("list_runtime_skills", skills.RuntimeSkillListRequest, skills.RuntimeSkillListReport,
              lambda: ops.list_runtime_skills, "Read what runtime skills there are."),
    Operation("get_runtime_skill", skills.RuntimeSkillDetailRequest, skills.RuntimeSkillDetailReport,
              lambda: ops.get_runtime_skill, "Read one runtime skill with its history."),
    Operation("edit_runtime_skill", skills.RuntimeSkillEditRequest, skills.RuntimeSkillMutationReport,
              lambda: ops.edit_runtime_skill, "Revise an existing runtime skill.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("set_runtime_skill_enabled", skills.RuntimeSkillSetEnabledRequest, skills.RuntimeSkillMutationReport,
              lambda: ops.set_runtime_skill_enabled, "Let recall show a runtime skill, or not.", mutates=True,
              repeat=Repeat.RECEIPT),
    Operation("delete_runtime_skill", skills.RuntimeSkillDeleteRequest, skills.RuntimeSkillMutationReport,
              lambda: ops.delete_runtime_skill, "Remove a runtime skill.", mutates=True, repeat=Repeat.RECEIPT,
              grave=Grave.REMOVES),
    Operation("record_skill_reuse", skills.RuntimeSkillReuseRequest, skills.RuntimeSkillReuseReport,
              lambda: ops.record_skill_reuse, "Say how it went with the skills that a reply used.", mutates=True,
              repeat=Repeat.RECEIPT),
    Operation("govern_runtime_skills", skills.RuntimeSkillGovernRequest, skills.RuntimeSkillGovernReport,
              lambda: ops.govern_runtime_skills, "Merge, retire and prune runtime skills by quality and age.",
              mutates=True,
              repeat=Repeat.RECEIPT),
    Operation("add_agent_skill_dir", skills.AgentSkillDirAddRequest, skills.AgentSkillDirectoryReport,
              lambda: ops.add_agent_skill_dir, "Read one more directory of agent skills.", role=Role.OPERATOR),
)  # fmt: skip
