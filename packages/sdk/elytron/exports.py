"""Where each public name of `elytron` lives; it is loaded from there when it is first used."""

from types import MappingProxyType
from typing import Final

HOMES: Final = MappingProxyType(
    {
        "elytron_core.contracts.conditions": "AnyOf Comparison Condition",
        "elytron_core.contracts.conversation.continuity": (
            "ContinuityExportReport ContinuityExportRequest ContinuityImportReport ContinuityImportRequest "
            "ContinuityReport ContinuityRequest ContinuitySnapshot SnapshotMode"
        ),
        "elytron_core.contracts.admin.embedding": (
            "EmbeddingOutcome MemoryEmbedReport MemoryEmbedRequest ModelSwitchRequest"
        ),
        "elytron_core.contracts.admin.erasures": (
            "MemoryErasuresApplyReport MemoryErasuresApplyRequest MemoryErasuresKeepReport MemoryErasuresKeepRequest"
        ),
        "elytron_core.contracts.knowledge.facts": (
            "FactAction FactChangeReport FactChangeRequest FactDetailReport FactDetailRequest FactEntry "
            "FactForgetReport FactForgetRequest FactListReport FactListRequest FreshnessHint FreshnessState "
            "LearningReport LearningRequest ProfileBearing ProfileGroup ProfileLine ProfileReport ProfileRequest "
            "ProfileSentence ProfileWording"
        ),
        "elytron_core.contracts.conversation.candidates": (
            "CandidateListReport CandidateListRequest CandidateResolveReport CandidateResolveRequest "
            "CandidatesWrite MemoryMergeReport MemoryMergeRequest Resolution"
        ),
        "elytron_core.contracts.planes": (
            "CapsuleDraft CapsulesWrite EdgeDraft ExecutionDraft ExecutionWrite GardenDraft GardenWrite NoteDraft "
            "NotesWrite SubjectDraft SubjectsWrite SummaryDraft SummaryWrite"
        ),
        "elytron_core.contracts.knowledge.subjects": (
            "GardenAudience GardenReport GardenRequest SubjectAudience SubjectsReport SubjectsRequest"
        ),
        "elytron_core.planes.conversation.candidates": (
            "CandidateDraft DiagnosticProposal FactProposal GardenProposal Judgement OriginTag SkillProposal "
            "SoulProposal Target Verdict"
        ),
        "elytron_core.planes.knowledge.subjects": "SoulBinding SubjectMount",
        "elytron.flows.transcript_import": "TranscriptImportReport import_transcript",
        "elytron.factory": "Opening open",
        "elytron.sync_runtime": "SyncMemoryRuntime",
        "elytron.remote": "Connecting RemoteMemory SyncRemoteMemory connect",
        "elytron.runtime": "MemoryRuntime",
        "elytron_core.contracts.knowledge.control": (
            "Hidden ListOrder MemoryControlReport MemoryCorrectRequest MemoryEraseRequest MemoryForgetRequest "
            "MemoryGetRequest MemoryHistoryReport MemoryHistoryRequest MemoryListReport MemoryListRequest "
            "Origin OriginKind"
        ),
        "elytron_core.contracts.admin.inspection": (
            "LedgerOrder MemoryCloseRequest MemoryInspectionReport MemoryInspectionRequest MemoryLifecycleReport "
            "MemoryRecoverRequest MemoryReplayReport MemoryReplayRequest"
        ),
        "elytron_core.contracts.admin.maintenance": (
            "Extraction JobCancelRequest JobListReport JobListRequest JobReport JobRetryRequest JobRunReport "
            "JobRunRequest MemoryFinalizeTurnReport MemoryFinalizeTurnRequest MemoryMaintainRequest "
            "MemoryMaintenanceReport SkillReuse"
        ),
        "elytron_core.contracts.admin.archive": (
            "ImportMode MemoryImportReport MemoryImportRequest MemorySpaceExportReport MemorySpaceExportRequest"
        ),
        "elytron_core.contracts.modes": "HostRoom ModeInput",
        "elytron_core.contracts.conversation.projection": "MemoryProjectionReport MemoryProjectionRequest Pressure",
        "elytron_core.contracts.knowledge.recall": (
            "Diversity MemoryRecallReport MemoryRecallRequest Plane RecallConfidence RecallFilters RecallHit "
            "RecallOutcome"
        ),
        "elytron_core.contracts.knowledge.records": (
            "RecordDeleteReport RecordDeleteRequest RecordGetReport RecordGetRequest RecordHistoryReport "
            "RecordHistoryRequest RecordItem RecordNamespace RecordNamespaceListReport RecordNamespaceListRequest "
            "RecordPutReport RecordPutRequest RecordSearchReport RecordSearchRequest"
        ),
        "elytron_core.planes.knowledge.records": "RecordVersion",
        "elytron_core.contracts.knowledge.skills": (
            "AgentSkillDirAddRequest RuntimeSkillDeleteRequest RuntimeSkillDetailRequest RuntimeSkillEditRequest "
            "RuntimeSkillGovernRequest RuntimeSkillListRequest RuntimeSkillReuseRequest "
            "RuntimeSkillSetEnabledRequest"
        ),
        "elytron_core.contracts.tools": (
            "AgentToolObservation AgentToolRegistryUpsertRequest AgentToolUsageFeedback "
            "AgentToolUsageFeedbackWrite ToolOutcome"
        ),
        "elytron_core.contracts.conversation.write": (
            "FactDraft LongTermExtraction MemoryWriteReport MemoryWriteRequest Procedural RuntimeSkillWrite "
            "TranscriptWrite TurnDraft"
        ),
        "elytron_core.errors": "ElytronError",
        "elytron_core.planes.knowledge.procedural": "ReuseOutcome",
        "elytron_core.planes.tools": "AgentToolDescriptor AgentToolRegistryRef AgentToolRegistrySnapshot",
        "elytron_core.clock": "instant",
        "elytron_core.planes.knowledge.learning_rules": "LearningAction",
        "elytron_core.planes.knowledge.long_term": "Authority Kind Privacy Reach",
        "elytron_core.planes.roles": "Role",
        "elytron_core.planes.conversation.transcript": "Delivery Message",
        "elytron_store": "Durability WhenMissing",
        "elytron_store.sealed.providers": "FileKeys",
        "elytron_core.policy.tools.fingerprints": "with_fingerprints",
        "elytron_core.policy.maintenance.budget": "Budget",
        "elytron_core.scope": "Scope",
        "elytron_core.contracts.conversation.transcript": (
            "CanonicalTurnDelta MemoryTranscriptCommitReport MemoryTranscriptCommitRequest "
            "MemoryTranscriptExportReport MemoryTranscriptExportRequest MemoryTranscriptLifecycleReport "
            "MemoryTranscriptLifecycleRequest MemoryTranscriptRepairReport MemoryTranscriptRepairRequest "
            "MemoryTranscriptReplayReport MemoryTranscriptReplayRequest RedactedTranscriptSlice "
            "TranscriptLifecycleTransition TranscriptReplayView"
        ),
        "elytron_core.contracts.admin.spaces": "MemorySpacesReport MemorySpacesRequest SpaceSummary",
        "elytron_core.contracts.admin.platform": "CapabilityPolicy MemoryCapabilitiesRequest MemoryCapabilityCatalog",
        "elytron_core.planes.conversation.actors": "ActorAttribution",
        "elytron_core.planes.conversation.host_refs": "HostOpaqueRef HostRefRelation HostRefVisibility OpaqueItem",
        "elytron_core.planes.conversation.attributes": "Attribute",
        "elytron_core.planes.derived_refs": "DerivedMemoryRef TranscriptEvidenceRef",
        "elytron_core.planes.evidence": "EvidenceAuthority Trust",
        "elytron_core.planes.knowledge.profiles": "ProfileName",
    }
)
"""Modules, and the names that each gives, apart by spaces."""
