"""Every operation, declared once by family, and the lookup of one."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from elytron import flows, ops
from elytron_core.contracts import (
    archive,
    continuity,
    facts,
    inspection,
    memories,
    projection,
    recall,
    records,
    skills,
    tools,
    transcript,
)
from elytron_core.contracts.maintenance import embedding, jobs, maintenance
from elytron_core.errors import Unsupported
from elytron_core.model import OperationRequest, Value, report_type
from elytron_core.planes.facts import FactPrivacy, LearningAction

if TYPE_CHECKING:
    from elytron.context import OperationContext


RequestT = TypeVar("RequestT", bound=OperationRequest[Any])
ReportT = TypeVar("ReportT", bound=Value)


class CallerRole(StrEnum):
    """The role that an operation requires of its caller."""

    MEMBER = "member"
    """Callers that may use the space."""
    OPERATOR = "operator"
    """The machine's operator, who may read or write its files, or end the runtime."""


class RepeatGuard(StrEnum):
    """Mechanism that prevents a repeated call under one idempotency key from acting twice."""

    HARMLESS = "harmless"
    """None is needed: it changes no memory."""
    STORE = "store"
    """The store: the key is part of the commit."""
    RECEIPT = "receipt"
    """A receipt, written after the effect."""


class CallGravity(StrEnum):
    """Why a model must not call an operation unasked."""

    REMOVES = "permanently removes data"
    TAKES_OUT = "exports the memory"
    AGREES = "agrees on the owner's behalf"


@dataclass(frozen=True, slots=True)
class Operation(Generic[RequestT, ReportT]):
    """One operation: its request, its report, the function that performs it, and its description.

    `operator_fields` are fields of the request that only an operator may set, `operator_values` values of a field that
    only an operator may use; `private_values` are those that request private memories. A model may not make a `grave`
    call unasked: any, or if there are `grave_values` one whose field has such a value. One that `is_local` acts on the
    runtime of its own process and is only called there: no transport over a wire has it.
    """

    name: str
    request: type[RequestT]
    performer: Callable[[], Callable[["OperationContext", RequestT], Awaitable[ReportT]]]
    """Returns the function that performs it; its module is loaded then, so that one operation loads no other."""
    summary: str
    mutates: bool = False
    role: CallerRole = CallerRole.MEMBER
    repeat: RepeatGuard = RepeatGuard.HARMLESS
    is_local: bool = False
    operator_fields: frozenset[str] = frozenset()
    operator_values: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    private_values: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    grave: CallGravity | None = None
    grave_values: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    report: type[ReportT] = field(init=False)
    """The report type that the request declares."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "report", report_type(self.request))

    @property
    def perform(self) -> Callable[["OperationContext", RequestT], Awaitable[ReportT]]:
        """Return the function that performs it, after finishing interrupted erasures; some inspect damage
        themselves."""
        perform_function = self.performer()

        @wraps(perform_function)
        async def perform(ctx: "OperationContext", request: RequestT) -> ReportT:
            if self.name not in _OVER_DAMAGE and not getattr(request, "whole_space", None):
                await ctx.settled(request)
            return await perform_function(ctx, request)

        return perform

    def beyond_members(self, request: RequestT, /) -> tuple[str, ...]:
        """Return the parts of `request` that only an operator may use."""
        fields = [name for name in self.operator_fields if getattr(request, name)]
        values = [
            f"{name} {getattr(request, name)}"
            for name, reserved_values in self.operator_values.items()
            if getattr(request, name) in reserved_values
        ]
        return tuple(sorted((*fields, *values)))

    def asks_private(self, request: RequestT, /) -> bool:
        """Return whether `request` asks for something that a model sees only if its host allows it."""
        field_values = {"private_context": frozenset({"allowed"}), **self.private_values}
        is_private_value = any(getattr(request, name, None) in values for name, values in field_values.items())
        return is_private_value or getattr(request, "include_private", False) is True

    def is_grave(self, arguments: Mapping[str, object], /) -> bool:
        """Return whether a request with these JSON `arguments` must not be made unasked."""
        if self.grave is None or arguments.get("dry_run") is True:
            return False
        values_and_grave = [(arguments.get(name), grave_values) for name, grave_values in self.grave_values.items()]
        return not values_and_grave or any(
            isinstance(value, str) and value in grave_values for value, grave_values in values_and_grave
        )


_OVER_DAMAGE = frozenset({"inspect", "recover"})
AnyOperation = Operation[Any, Any]


_DISCLOSING = {"action": frozenset({facts.FactAction.CHANGE_PRIVACY.value})}
_OPENED = {"privacy": frozenset({FactPrivacy.PUBLIC.value, FactPrivacy.SHARED.value})}
_ALLOWING = {"action": frozenset({LearningAction.RESUME.value, LearningAction.ALLOW.value})}
_ACCEPTING = {"resolution": frozenset({facts.CandidateResolution.ACCEPT.value})}
_DELETING = {"transition": frozenset({transcript.TranscriptLifecycleTransition.DELETE_RAW.value})}
_RAW = {"view": frozenset({transcript.TranscriptReplayView.RAW_OWNER_ONLY.value})}
_AUDIT = {"view": frozenset({transcript.TranscriptReplayView.OPERATOR_AUDIT.value})}

Family = tuple[AnyOperation, ...]

# fmt: off
_EVERYDAY: Family = (
    Operation("write", transcript.MemoryWriteRequest, lambda: ops.transcript.write_memory,
              "Store evidence, facts or procedures.",
              mutates=True, repeat=RepeatGuard.STORE),
    Operation("recall", recall.MemoryRecallRequest, lambda: ops.recall.recall_memories,
              "Find the memories that answer a query, best first."),
    Operation("project", projection.MemoryProjectionRequest, lambda: ops.projection.build_projection,
              "Build the bounded memory block for a model."),
    Operation("inspect", inspection.MemoryInspectionRequest, lambda: flows.maintenance_inspection,
              "Report a space's contents.", operator_fields=frozenset({"check", "repair", "acknowledge"})),
    Operation("replay", inspection.MemoryReplayRequest, lambda: ops.inspection.replay_turns,
              "Read the turns of a conversation in order."),
    Operation("export", archive.MemorySpaceExportRequest, lambda: ops.archive.export_space,
              "Export the non-private part of the space, or all of it, to an archive file.",
              role=CallerRole.OPERATOR, grave=CallGravity.TAKES_OUT),
    Operation("import", archive.MemoryImportRequest, lambda: ops.archive.import_archive,
              "Import an archive file into the space.", mutates=True, role=CallerRole.OPERATOR,
              repeat=RepeatGuard.RECEIPT),
    Operation("keep_erasures", archive.MemoryErasuresKeepRequest, lambda: ops.archive.keep_erasures,
              "Save the list of erasures to a file outside the store.", role=CallerRole.OPERATOR),
    Operation("apply_erasures", archive.MemoryErasuresApplyRequest, lambda: ops.archive.apply_erasures,
              "Re-apply erasures to a restored backup.", mutates=True, role=CallerRole.OPERATOR,
              repeat=RepeatGuard.RECEIPT, grave=CallGravity.REMOVES),
    Operation("get", memories.MemoryGetRequest, lambda: ops.memories.get_memory, "Read one memory by its id."),
    Operation("list", memories.MemoryListRequest, lambda: ops.memories.list_memories,
              "List memories in the order they were stored."),
    Operation("history", memories.MemoryHistoryRequest, lambda: ops.memories.memory_history,
              "Read the history of one memory."),
    Operation("forget", memories.MemoryForgetRequest, lambda: ops.memories.forget_memories,
              "Hide memories from recall, reversibly.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("correct", memories.MemoryCorrectRequest, lambda: ops.memories.correct_memory,
              "Replace the content of a fact or message, keeping history.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("erase", memories.MemoryEraseRequest, lambda: ops.memories.erase_from_space,
              "Permanently erase memories.",
              mutates=True, repeat=RepeatGuard.RECEIPT, grave=CallGravity.REMOVES),
    Operation("recover", inspection.MemoryRecoverRequest, lambda: ops.inspection.recover_store,
              "Check a space and rebuild its index.", mutates=True, role=CallerRole.OPERATOR),
    Operation("close", inspection.MemoryCloseRequest, lambda: ops.inspection.close_runtime,
              "Close the runtime.", mutates=True,
              role=CallerRole.OPERATOR, is_local=True),
)
"""The operations that every host uses: write, recall, project, control, inspect, transfer, end."""
_GOVERNING: Family = (
    Operation("list_candidates", facts.CandidateListRequest, lambda: ops.candidates.list_candidates,
              "List proposed beliefs that await a decision."),
    Operation("resolve_candidate", facts.CandidateResolveRequest, lambda: ops.candidates.resolve_candidate,
              "Accept or reject a proposed belief.", mutates=True, repeat=RepeatGuard.RECEIPT, grave=CallGravity.AGREES,
              grave_values=_ACCEPTING),
    Operation("list_facts", facts.FactListRequest, lambda: ops.facts.list_facts,
              "List facts in full, with their confidence."),
    Operation("get_fact", facts.FactDetailRequest, lambda: ops.facts.get_fact, "Read one fact in full."),
    Operation("profile", facts.ProfileRequest, lambda: flows.build_profile,
              "Show the current facts about a person, grouped and cited."),
    Operation("change_fact", facts.FactChangeRequest, lambda: ops.facts.change_fact,
              "Correct, supersede, delete, mark stale or invalidate a fact, or change its privacy or scope.",
              mutates=True, repeat=RepeatGuard.RECEIPT, grave=CallGravity.AGREES, grave_values=_DISCLOSING,
              private_values=_OPENED),
    Operation("forget_facts", facts.FactForgetRequest, lambda: ops.facts.forget_facts,
              "Forget facts that match a query; a dry run returns the token.", mutates=True,
              repeat=RepeatGuard.RECEIPT),
    Operation("set_learning", facts.LearningRequest, lambda: ops.facts.set_learning,
              "Pause or resume learning; suppress or allow a topic.", mutates=True, repeat=RepeatGuard.RECEIPT,
              grave=CallGravity.AGREES, grave_values=_ALLOWING),
    Operation("merge_facts", facts.MemoryMergeRequest, lambda: ops.facts.merge_facts,
              "Merge near-duplicate facts; can be undone.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("read_continuity", continuity.ContinuityRequest, lambda: ops.continuity.read_continuity,
              "Show the state of a conversation."),
    Operation("export_continuity", continuity.ContinuityExportRequest, lambda: ops.continuity.export_continuity,
              "Export a conversation's continuity."),
    Operation("import_continuity", continuity.ContinuityImportRequest, lambda: ops.continuity.import_continuity,
              "Import a continuity snapshot into a conversation.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("read_subjects", continuity.SubjectsRequest, lambda: ops.continuity.read_subjects,
              "List the subjects of a space.",
              operator_values={"audience": frozenset({"audit"})}),
    Operation("read_garden", continuity.GardenRequest, lambda: ops.continuity.read_garden,
              "Read a conversation's private documents.", private_values={"audience": frozenset({"owner", "model"})})
)
"""The operations of governance, continuity and subjects."""
_EMBEDDING: Family = (
    Operation("embed", embedding.MemoryEmbedRequest, lambda: ops.maintenance.embedding.embed_space,
              "Embed texts that have no vectors.",
              mutates=True, role=CallerRole.OPERATOR),
    Operation("switch_model", embedding.ModelSwitchRequest, lambda: ops.maintenance.embedding.switch_model,
              "Re-embed with another model, then compare only its vectors.", mutates=True, role=CallerRole.OPERATOR),
)
_TRANSCRIPT: Family = (
    Operation("commit_transcript", transcript.MemoryTranscriptCommitRequest, lambda: ops.transcript.commit_transcript,
              "Commit a finished turn as governed evidence.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("replay_transcript", transcript.MemoryTranscriptReplayRequest, lambda: ops.transcript.replay_transcript,
              "Read a conversation for one audience.", operator_values=_AUDIT, private_values=_RAW),
    Operation("export_transcript", transcript.MemoryTranscriptExportRequest, lambda: ops.transcript.export_transcript,
              "Read the exportable part of a conversation."),
    Operation("request_transcript_lifecycle", transcript.MemoryTranscriptLifecycleRequest,
              lambda: ops.transcript.request_transcript_lifecycle,
              "Archive, restore, mask or delete the raw text of turns, or preview the effect.", mutates=True,
              repeat=RepeatGuard.RECEIPT, operator_values=_AUDIT, grave=CallGravity.REMOVES, grave_values=_DELETING),
    Operation("repair_transcript", transcript.MemoryTranscriptRepairRequest, lambda: ops.transcript.repair_transcript,
              "Report the broken links of a conversation."),
)
_PLATFORM: Family = (
    Operation("capabilities", inspection.MemoryCapabilitiesRequest, lambda: ops.inspection.list_capabilities,
              "List what this memory can do."),
    Operation("list_spaces", inspection.MemorySpacesRequest, lambda: ops.inspection.list_spaces,
              "List the spaces of the store.",
              role=CallerRole.OPERATOR),
)
_SKILLS: Family = (
    Operation("list_runtime_skills", skills.RuntimeSkillListRequest, lambda: ops.skills.list_runtime_skills,
              "List the runtime skills."),
    Operation("get_runtime_skill", skills.RuntimeSkillDetailRequest, lambda: ops.skills.get_runtime_skill,
              "Read one runtime skill with its history."),
    Operation("edit_runtime_skill", skills.RuntimeSkillEditRequest, lambda: ops.skills.edit_runtime_skill,
              "Revise an existing runtime skill.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("set_runtime_skill_enabled", skills.RuntimeSkillSetEnabledRequest,
              lambda: ops.skills.set_runtime_skill_enabled,
              "Enable or disable a runtime skill.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("delete_runtime_skill", skills.RuntimeSkillDeleteRequest, lambda: ops.skills.delete_runtime_skill,
              "Remove a runtime skill.", mutates=True, repeat=RepeatGuard.RECEIPT, grave=CallGravity.REMOVES),
    Operation("record_skill_reuse", skills.RuntimeSkillReuseRequest, lambda: ops.skills.record_skill_reuse,
              "Record the outcome of the skills that a reply used.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("govern_runtime_skills", skills.RuntimeSkillGovernRequest, lambda: ops.skills.govern_runtime_skills,
              "Merge, retire and prune runtime skills by quality and age.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("add_agent_skill_dir", skills.AgentSkillDirAddRequest, lambda: ops.skills.add_agent_skill_dir,
              "Add a directory of agent skills.", role=CallerRole.OPERATOR),
)
_TOOLS: Family = (
    Operation("upsert_agent_tool_registry", tools.AgentToolRegistryUpsertRequest,
              lambda: ops.tools.upsert_agent_tool_registry, "Register or replace a snapshot of a host's tools.",
              mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("list_agent_tool_registries", tools.AgentToolRegistryListRequest,
              lambda: ops.tools.list_agent_tool_registries,
              "List the registries of hosts' tools."),
    Operation("get_agent_tool_registry", tools.AgentToolRegistryGetRequest, lambda: ops.tools.get_agent_tool_registry,
              "Read one tool registry."),
    Operation("delete_agent_tool_registry", tools.AgentToolRegistryDeleteRequest,
              lambda: ops.tools.delete_agent_tool_registry, "Remove a tool registry.", mutates=True,
              repeat=RepeatGuard.RECEIPT, grave=CallGravity.REMOVES),
)
_RECORDS: Family = (
    Operation("put_record", records.RecordPutRequest, lambda: ops.records.put_record,
              "Store a value under a namespace and a key.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("get_record", records.RecordGetRequest, lambda: ops.records.get_record, "Read one record."),
    Operation("delete_record", records.RecordDeleteRequest, lambda: ops.records.delete_record,
              "Delete a record; its history stays until it is erased.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("search_records", records.RecordSearchRequest, lambda: ops.records.search_records,
              "Search records by namespace, fields and words."),
    Operation("list_record_namespaces", records.RecordNamespaceListRequest, lambda: ops.records.list_record_namespaces,
              "List the namespaces that contain records."),
    Operation("record_history", records.RecordHistoryRequest, lambda: ops.records.record_history,
              "Read the versions of a record.")
)
_MAINTAINING: Family = (
    Operation("finalize_turn_and_maintain", maintenance.MemoryFinalizeTurnRequest,
              lambda: flows.finalize_turn_and_maintain, "Commit a finished turn, then run maintenance.",
              mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("maintain", maintenance.MemoryMaintainRequest, lambda: flows.run_maintenance,
              "Run maintenance now.", mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("list_jobs", jobs.JobListRequest, lambda: ops.maintenance.jobs.list_jobs,
              "List deferred jobs and their progress."),
    Operation("run_jobs", jobs.JobRunRequest, lambda: flows.run_jobs, "Run the jobs that are due.", mutates=True,
              repeat=RepeatGuard.RECEIPT),
    Operation("retry_job", jobs.JobRetryRequest, lambda: ops.maintenance.jobs.retry_job,
              "Make a job due immediately.",
              mutates=True, repeat=RepeatGuard.RECEIPT),
    Operation("cancel_job", jobs.JobCancelRequest, lambda: ops.maintenance.jobs.cancel_job,
              "Cancel a job.", mutates=True,
              repeat=RepeatGuard.RECEIPT),
    Operation("compact_journal", maintenance.JournalCompactRequest,
              lambda: ops.maintenance.jobs.compact_journal,
              "Compact the journal: replace each run of outdated entries with one entry.", mutates=True,
              role=CallerRole.OPERATOR, repeat=RepeatGuard.RECEIPT),
)
"""The operations after a reply: finalize, maintain, and the queue of deferred jobs."""
# fmt: on

FAMILIES: dict[str, Family] = {
    "everyday": _EVERYDAY,
    "governing": _GOVERNING,
    "embedding": _EMBEDDING,
    "transcript": _TRANSCRIPT,
    "platform": _PLATFORM,
    "skills": _SKILLS,
    "tools": _TOOLS,
    "records": _RECORDS,
    "maintaining": _MAINTAINING,
}
OPERATIONS: tuple[AnyOperation, ...] = tuple(operation for family in FAMILIES.values() for operation in family)
WIRE_OPERATIONS: tuple[AnyOperation, ...] = tuple(operation for operation in OPERATIONS if not operation.is_local)
"""The operations offered by transports over a wire."""

_BY_NAME = {operation.name: operation for operation in OPERATIONS}
_FAMILY_OF = {operation.name: name for name, family in FAMILIES.items() for operation in family}
_BY_REQUEST = {operation.request: operation for operation in OPERATIONS}


def by_name(name: str, /) -> AnyOperation:
    """Return the operation called `name`. Raises Unsupported."""
    operation = _BY_NAME.get(name)
    if operation is None:
        raise Unsupported(f"there is no such operation; choose from {', '.join(_BY_NAME)}")
    return operation


def family_of(operation: AnyOperation, /) -> str:
    """Return the name of the family that `operation` was declared in."""
    return _FAMILY_OF[operation.name]


def by_request(request: OperationRequest[ReportT], /) -> Operation[Any, ReportT]:
    """Return the operation that takes `request`. Raises Unsupported."""
    operation = _BY_REQUEST.get(type(request))
    if operation is None:
        raise Unsupported(f"no operation takes {type(request).__name__}: pass a request, such as MemoryRecallRequest")
    return operation
