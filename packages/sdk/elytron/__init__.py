"""Elytron: governed memory for AI agents.

    import elytron

    with elytron.open("memory.db") as memory:
        memory.add("We moved to Lisbon in May.", speaker="Ada")
        print(memory.recall("when did we move?").hits[0].text)

`async with` and `await` give the same calls to asyncio programs. Names are loaded when they are first used, so that
importing the package costs little.
"""

from typing import TYPE_CHECKING

from elytron.exports import HOMES as _HOMES
from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron.factory import Opening, open  # noqa: A004  (the verb of the product)
    from elytron.flows.transcript_import import TranscriptImportReport, import_transcript
    from elytron.remote import Connecting, RemoteMemory, SyncRemoteMemory, connect
    from elytron.runtime import MemoryRuntime
    from elytron.sync_runtime import SyncMemoryRuntime
    from elytron_core.clock import instant
    from elytron_core.contracts.admin.archive import (
        ImportMode,
        MemoryImportReport,
        MemoryImportRequest,
        MemorySpaceExportReport,
        MemorySpaceExportRequest,
    )
    from elytron_core.contracts.admin.embedding import (
        EmbeddingOutcome,
        MemoryEmbedReport,
        MemoryEmbedRequest,
        ModelSwitchRequest,
    )
    from elytron_core.contracts.admin.erasures import (
        MemoryErasuresApplyReport,
        MemoryErasuresApplyRequest,
        MemoryErasuresKeepReport,
        MemoryErasuresKeepRequest,
    )
    from elytron_core.contracts.admin.inspection import (
        LedgerOrder,
        MemoryCloseRequest,
        MemoryInspectionReport,
        MemoryInspectionRequest,
        MemoryLifecycleReport,
        MemoryRecoverRequest,
        MemoryReplayReport,
        MemoryReplayRequest,
    )
    from elytron_core.contracts.admin.maintenance import (
        Extraction,
        JobCancelRequest,
        JobListReport,
        JobListRequest,
        JobReport,
        JobRetryRequest,
        JobRunReport,
        JobRunRequest,
        MemoryFinalizeTurnReport,
        MemoryFinalizeTurnRequest,
        MemoryMaintainRequest,
        MemoryMaintenanceReport,
        SkillReuse,
    )
    from elytron_core.contracts.admin.platform import (
        CapabilityPolicy,
        MemoryCapabilitiesRequest,
        MemoryCapabilityCatalog,
    )
    from elytron_core.contracts.admin.spaces import MemorySpacesReport, MemorySpacesRequest, SpaceSummary
    from elytron_core.contracts.conditions import AnyOf, Comparison, Condition
    from elytron_core.contracts.conversation.candidates import (
        CandidateListReport,
        CandidateListRequest,
        CandidateResolveReport,
        CandidateResolveRequest,
        CandidatesWrite,
        MemoryMergeReport,
        MemoryMergeRequest,
        Resolution,
    )
    from elytron_core.contracts.conversation.continuity import (
        ContinuityExportReport,
        ContinuityExportRequest,
        ContinuityImportReport,
        ContinuityImportRequest,
        ContinuityReport,
        ContinuityRequest,
        ContinuitySnapshot,
        SnapshotMode,
    )
    from elytron_core.contracts.conversation.projection import MemoryProjectionReport, MemoryProjectionRequest, Pressure
    from elytron_core.contracts.conversation.transcript import (
        CanonicalTurnDelta,
        MemoryTranscriptCommitReport,
        MemoryTranscriptCommitRequest,
        MemoryTranscriptExportReport,
        MemoryTranscriptExportRequest,
        MemoryTranscriptLifecycleReport,
        MemoryTranscriptLifecycleRequest,
        MemoryTranscriptRepairReport,
        MemoryTranscriptRepairRequest,
        MemoryTranscriptReplayReport,
        MemoryTranscriptReplayRequest,
        RedactedTranscriptSlice,
        TranscriptLifecycleTransition,
        TranscriptReplayView,
    )
    from elytron_core.contracts.conversation.write import (
        FactDraft,
        LongTermExtraction,
        MemoryWriteReport,
        MemoryWriteRequest,
        Procedural,
        RuntimeSkillWrite,
        TranscriptWrite,
        TurnDraft,
    )
    from elytron_core.contracts.knowledge.control import (
        Hidden,
        ListOrder,
        MemoryControlReport,
        MemoryCorrectRequest,
        MemoryEraseRequest,
        MemoryForgetRequest,
        MemoryGetRequest,
        MemoryHistoryReport,
        MemoryHistoryRequest,
        MemoryListReport,
        MemoryListRequest,
        Origin,
        OriginKind,
    )
    from elytron_core.contracts.knowledge.facts import (
        FactAction,
        FactChangeReport,
        FactChangeRequest,
        FactDetailReport,
        FactDetailRequest,
        FactEntry,
        FactForgetReport,
        FactForgetRequest,
        FactListReport,
        FactListRequest,
        FreshnessHint,
        FreshnessState,
        LearningReport,
        LearningRequest,
        ProfileBearing,
        ProfileGroup,
        ProfileLine,
        ProfileReport,
        ProfileRequest,
        ProfileSentence,
        ProfileWording,
    )
    from elytron_core.contracts.knowledge.recall import (
        Diversity,
        MemoryRecallReport,
        MemoryRecallRequest,
        Plane,
        RecallConfidence,
        RecallFilters,
        RecallHit,
        RecallOutcome,
    )
    from elytron_core.contracts.knowledge.records import (
        RecordDeleteReport,
        RecordDeleteRequest,
        RecordGetReport,
        RecordGetRequest,
        RecordHistoryReport,
        RecordHistoryRequest,
        RecordItem,
        RecordNamespace,
        RecordNamespaceListReport,
        RecordNamespaceListRequest,
        RecordPutReport,
        RecordPutRequest,
        RecordSearchReport,
        RecordSearchRequest,
    )
    from elytron_core.contracts.knowledge.skills import (
        AgentSkillDirAddRequest,
        RuntimeSkillDeleteRequest,
        RuntimeSkillDetailRequest,
        RuntimeSkillEditRequest,
        RuntimeSkillGovernRequest,
        RuntimeSkillListRequest,
        RuntimeSkillReuseRequest,
        RuntimeSkillSetEnabledRequest,
    )
    from elytron_core.contracts.knowledge.subjects import (
        GardenAudience,
        GardenReport,
        GardenRequest,
        SubjectAudience,
        SubjectsReport,
        SubjectsRequest,
    )
    from elytron_core.contracts.modes import HostRoom, ModeInput
    from elytron_core.contracts.planes import (
        CapsuleDraft,
        CapsulesWrite,
        EdgeDraft,
        ExecutionDraft,
        ExecutionWrite,
        GardenDraft,
        GardenWrite,
        NoteDraft,
        NotesWrite,
        SubjectDraft,
        SubjectsWrite,
        SummaryDraft,
        SummaryWrite,
    )
    from elytron_core.contracts.tools import (
        AgentToolObservation,
        AgentToolRegistryUpsertRequest,
        AgentToolUsageFeedback,
        AgentToolUsageFeedbackWrite,
        ToolOutcome,
    )
    from elytron_core.errors import ElytronError
    from elytron_core.planes.conversation.actors import ActorAttribution
    from elytron_core.planes.conversation.attributes import Attribute
    from elytron_core.planes.conversation.candidates import (
        CandidateDraft,
        DiagnosticProposal,
        FactProposal,
        GardenProposal,
        Judgement,
        OriginTag,
        SkillProposal,
        SoulProposal,
        Target,
        Verdict,
    )
    from elytron_core.planes.conversation.host_refs import HostOpaqueRef, HostRefRelation, HostRefVisibility, OpaqueItem
    from elytron_core.planes.conversation.transcript import Delivery, Message
    from elytron_core.planes.derived_refs import DerivedMemoryRef, TranscriptEvidenceRef
    from elytron_core.planes.evidence import EvidenceAuthority, Trust
    from elytron_core.planes.knowledge.learning_rules import LearningAction
    from elytron_core.planes.knowledge.long_term import Authority, Kind, Privacy, Reach
    from elytron_core.planes.knowledge.procedural import ReuseOutcome
    from elytron_core.planes.knowledge.profiles import ProfileName
    from elytron_core.planes.knowledge.records import RecordVersion
    from elytron_core.planes.knowledge.subjects import SoulBinding, SubjectMount
    from elytron_core.planes.roles import Role
    from elytron_core.planes.tools import AgentToolDescriptor, AgentToolRegistryRef, AgentToolRegistrySnapshot
    from elytron_core.policy.maintenance.budget import Budget
    from elytron_core.policy.tools.fingerprints import with_fingerprints
    from elytron_core.scope import Scope
    from elytron_store import Durability, WhenMissing
    from elytron_store.sealed.providers import FileKeys

# Some in a line: a name stands here, above, and in `homes`.
__all__ = [
    "ActorAttribution", "AgentSkillDirAddRequest", "AgentToolDescriptor", "AgentToolObservation",
    "AgentToolRegistryRef", "AgentToolRegistrySnapshot", "AgentToolRegistryUpsertRequest", "AgentToolUsageFeedback",
    "AgentToolUsageFeedbackWrite", "AnyOf", "Attribute", "Authority", "Budget", "CandidateDraft", "CandidateListReport",
    "CandidateListRequest", "CandidateResolveReport", "CandidateResolveRequest", "CandidatesWrite",
    "CanonicalTurnDelta", "CapabilityPolicy", "CapsuleDraft", "CapsulesWrite", "Comparison", "Condition", "Connecting",
    "ContinuityExportReport", "ContinuityExportRequest", "ContinuityImportReport", "ContinuityImportRequest",
    "ContinuityReport", "ContinuityRequest", "ContinuitySnapshot", "Delivery", "DerivedMemoryRef", "DiagnosticProposal",
    "Diversity", "Durability", "EdgeDraft", "ElytronError", "EmbeddingOutcome", "EvidenceAuthority", "ExecutionDraft",
    "ExecutionWrite", "Extraction", "FactAction", "FactChangeReport", "FactChangeRequest", "FactDetailReport",
    "FactDetailRequest", "FactDraft", "FactEntry", "FactForgetReport", "FactForgetRequest", "FactListReport",
    "FactListRequest", "FactProposal", "FileKeys", "FreshnessHint", "FreshnessState", "GardenAudience", "GardenDraft",
    "GardenProposal", "GardenReport", "GardenRequest", "GardenWrite", "Hidden", "HostOpaqueRef", "HostRefRelation",
    "HostRefVisibility", "HostRoom", "ImportMode", "JobCancelRequest", "JobListReport", "JobListRequest", "JobReport",
    "JobRetryRequest", "JobRunReport", "JobRunRequest", "Judgement", "Kind", "LearningAction", "LearningReport",
    "LearningRequest", "LedgerOrder", "ListOrder", "LongTermExtraction", "MemoryCapabilitiesRequest",
    "MemoryCapabilityCatalog", "MemoryCloseRequest", "MemoryControlReport", "MemoryCorrectRequest", "MemoryEmbedReport",
    "MemoryEmbedRequest", "MemoryEraseRequest", "MemoryErasuresApplyReport", "MemoryErasuresApplyRequest",
    "MemoryErasuresKeepReport", "MemoryErasuresKeepRequest", "MemoryFinalizeTurnReport", "MemoryFinalizeTurnRequest",
    "MemoryForgetRequest", "MemoryGetRequest", "MemoryHistoryReport", "MemoryHistoryRequest", "MemoryImportReport",
    "MemoryImportRequest", "MemoryInspectionReport", "MemoryInspectionRequest", "MemoryLifecycleReport",
    "MemoryListReport", "MemoryListRequest", "MemoryMaintainRequest", "MemoryMaintenanceReport", "MemoryMergeReport",
    "MemoryMergeRequest", "MemoryProjectionReport", "MemoryProjectionRequest", "MemoryRecallReport",
    "MemoryRecallRequest", "MemoryRecoverRequest", "MemoryReplayReport", "MemoryReplayRequest", "MemoryRuntime",
    "MemorySpaceExportReport", "MemorySpaceExportRequest", "MemorySpacesReport", "MemorySpacesRequest",
    "MemoryTranscriptCommitReport", "MemoryTranscriptCommitRequest", "MemoryTranscriptExportReport",
    "MemoryTranscriptExportRequest", "MemoryTranscriptLifecycleReport", "MemoryTranscriptLifecycleRequest",
    "MemoryTranscriptRepairReport", "MemoryTranscriptRepairRequest", "MemoryTranscriptReplayReport",
    "MemoryTranscriptReplayRequest", "MemoryWriteReport", "MemoryWriteRequest", "Message", "ModeInput",
    "ModelSwitchRequest", "NoteDraft", "NotesWrite", "OpaqueItem", "Opening", "Origin", "OriginKind", "OriginTag",
    "Plane", "Pressure", "Privacy", "Procedural", "ProfileBearing", "ProfileGroup", "ProfileLine", "ProfileName",
    "ProfileReport", "ProfileRequest", "ProfileSentence", "ProfileWording", "Reach", "RecallConfidence",
    "RecallFilters", "RecallHit", "RecallOutcome", "RecordDeleteReport", "RecordDeleteRequest", "RecordGetReport",
    "RecordGetRequest", "RecordHistoryReport", "RecordHistoryRequest", "RecordItem", "RecordNamespace",
    "RecordNamespaceListReport", "RecordNamespaceListRequest", "RecordPutReport", "RecordPutRequest",
    "RecordSearchReport", "RecordSearchRequest", "RecordVersion", "RedactedTranscriptSlice", "RemoteMemory",
    "Resolution", "ReuseOutcome", "Role", "RuntimeSkillDeleteRequest", "RuntimeSkillDetailRequest",
    "RuntimeSkillEditRequest", "RuntimeSkillGovernRequest", "RuntimeSkillListRequest", "RuntimeSkillReuseRequest",
    "RuntimeSkillSetEnabledRequest", "RuntimeSkillWrite", "Scope", "SkillProposal", "SkillReuse", "SnapshotMode",
    "SoulBinding", "SoulProposal", "SpaceSummary", "SubjectAudience", "SubjectDraft", "SubjectMount", "SubjectsReport",
    "SubjectsRequest", "SubjectsWrite", "SummaryDraft", "SummaryWrite", "SyncMemoryRuntime", "SyncRemoteMemory",
    "Target", "ToolOutcome", "TranscriptEvidenceRef", "TranscriptImportReport", "TranscriptLifecycleTransition",
    "TranscriptReplayView", "TranscriptWrite", "Trust", "TurnDraft", "Verdict", "WhenMissing", "connect",
    "import_transcript", "instant", "open", "with_fingerprints",
]  # fmt: skip


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
