"""Elytron: governed memory for AI agents.

    import elytron

    with elytron.open("memory.db") as memory:
        memory.add("We moved to Lisbon in May.", speaker="Ada")
        print(memory.recall("when did we move?").hits[0].text)

`async with` and `await` give the same calls to asyncio programs. Names are loaded when they are first used, so that
importing the package costs little.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron.factory": "RuntimeOpening open",
        "elytron.flows.transcript_import": "TranscriptImportReport import_transcript",
        "elytron.remote": "RemoteConnecting RemoteMemory SyncRemoteMemory connect",
        "elytron.runtime": "MemoryRuntime",
        "elytron.sync_runtime": "SyncMemoryRuntime",
        "elytron_core.clock": "instant",
        "elytron_core.contracts.archive": (
            "ArchiveWord ImportMode MemoryErasuresApplyReport MemoryErasuresApplyRequest "
            "MemoryErasuresKeepReport MemoryErasuresKeepRequest MemoryImportReport MemoryImportRequest "
            "MemorySpaceExportReport MemorySpaceExportRequest"
        ),
        "elytron_core.contracts.continuity": (
            "CapsuleDraft CapsulesWrite ContinuityExportReport ContinuityExportRequest ContinuityImportReport "
            "ContinuityImportRequest ContinuityReport ContinuityRequest ContinuitySnapshot EdgeDraft "
            "ExecutionDraft ExecutionWrite GardenAudience GardenDraft GardenReport GardenRequest GardenWrite "
            "NoteDraft NotesWrite SnapshotLayer SnapshotLayers SnapshotManifest SnapshotMode SubjectAudience "
            "SubjectDraft SubjectsReport SubjectsRequest SubjectsWrite SummaryDraft SummaryWrite"
        ),
        "elytron_core.contracts.control": (
            "HiddenFilter ListOrder MemoryControlReport MemoryCorrectRequest MemoryEraseRequest "
            "MemoryForgetRequest MemoryGetRequest MemoryHistoryReport MemoryHistoryRequest MemoryListReport "
            "MemoryListRequest OriginKind OutsideOrigin"
        ),
        "elytron_core.contracts.facts": (
            "CandidateListReport CandidateListRequest CandidateResolution CandidateResolveReport "
            "CandidateResolveRequest CandidatesWrite FactAction FactChangeReport FactChangeRequest "
            "FactDetailReport FactDetailRequest FactDraft FactEntry FactForgetReport FactForgetRequest "
            "FactListReport FactListRequest LearningReport LearningRequest MemoryMergeReport "
            "MemoryMergeRequest ProfileBearing ProfileGroup ProfileLine ProfileReport ProfileRequest "
            "ProfileSentence ProfileWording"
        ),
        "elytron_core.contracts.inspection": (
            "CapabilityPolicy LedgerOrder MemoryCapabilitiesRequest MemoryCapabilityCatalog MemoryCloseRequest "
            "MemoryInspectionReport MemoryInspectionRequest MemoryLifecycleReport MemoryRecoverRequest "
            "MemoryReplayReport MemoryReplayRequest MemorySpacesReport MemorySpacesRequest SpaceSummary"
        ),
        "elytron_core.contracts.maintenance": (
            "EmbeddingOutcome ExtractionMethod JobCancelRequest JobListReport JobListRequest JobReport "
            "JobRetryRequest JobRunReport JobRunRequest JournalCompactReport JournalCompactRequest "
            "MemoryEmbedReport MemoryEmbedRequest MemoryFinalizeTurnReport MemoryFinalizeTurnRequest "
            "MemoryMaintainRequest MemoryMaintenanceReport ModelSwitchRequest SkillReuse"
        ),
        "elytron_core.contracts.projection": "MemoryProjectionReport MemoryProjectionRequest PrivateContext",
        "elytron_core.contracts.recall": (
            "AnyOf ComparisonOperator FieldCondition HitDiversity MemoryRecallReport MemoryRecallRequest "
            "NothingReason RecallExtent RecallFilters RecallHit RecallOutcome RecallPlane"
        ),
        "elytron_core.contracts.records": (
            "RecordDeleteReport RecordDeleteRequest RecordGetReport RecordGetRequest RecordHistoryReport "
            "RecordHistoryRequest RecordItem RecordNamespace RecordNamespaceListReport "
            "RecordNamespaceListRequest RecordPutReport RecordPutRequest RecordSearchReport "
            "RecordSearchRequest"
        ),
        "elytron_core.contracts.skills": (
            "AgentSkillDirAddRequest AgentSkillDirectoryReport RuntimeSkillDeleteRequest "
            "RuntimeSkillDetailReport RuntimeSkillDetailRequest RuntimeSkillEditRequest "
            "RuntimeSkillGovernReport RuntimeSkillGovernRequest RuntimeSkillListReport RuntimeSkillListRequest "
            "RuntimeSkillMutationReport RuntimeSkillReuseReport RuntimeSkillReuseRequest "
            "RuntimeSkillSetEnabledRequest"
        ),
        "elytron_core.contracts.tools": (
            "AgentToolObservation AgentToolRegistryDeleteReport AgentToolRegistryDeleteRequest "
            "AgentToolRegistryGetReport AgentToolRegistryGetRequest AgentToolRegistryListReport "
            "AgentToolRegistryListRequest AgentToolRegistryUpsertReport AgentToolRegistryUpsertRequest "
            "AgentToolUsageFeedback AgentToolUsageFeedbackWrite ToolOutcome"
        ),
        "elytron_core.contracts.transcript": (
            "CanonicalTurnDelta LongTermExtraction MemoryTranscriptCommitReport MemoryTranscriptCommitRequest "
            "MemoryTranscriptExportReport MemoryTranscriptExportRequest MemoryTranscriptLifecycleReport "
            "MemoryTranscriptLifecycleRequest MemoryTranscriptRepairReport MemoryTranscriptRepairRequest "
            "MemoryTranscriptReplayReport MemoryTranscriptReplayRequest MemoryWriteReport MemoryWriteRequest "
            "ProcedureSource RedactedTranscriptSlice RuntimeSkillWrite TranscriptLifecycleTransition "
            "TranscriptReplayView TranscriptWrite TurnDraft"
        ),
        "elytron_core.errors": "ElytronError",
        "elytron_core.evidence": "EvidenceAuthority EvidenceRole TrustLevel",
        "elytron_core.planes.candidates": (
            "AdmissionVerdict CandidateDraft CandidateJudgement CandidateState CandidateTarget "
            "DiagnosticProposal FactProposal GardenProposal OriginTag SkillProposal SoulProposal"
        ),
        "elytron_core.planes.continuity": "CapsuleKind CapsuleState ExecutionStatus GardenRole",
        "elytron_core.planes.facts": (
            "FactAuthority FactConfidence FactKind FactOperation FactPrivacy FactReach FactState FactTier "
            "FreshnessHint FreshnessState LearningAction"
        ),
        "elytron_core.planes.jobs": "JobState MaintenancePass",
        "elytron_core.planes.records": "RecordVersion",
        "elytron_core.planes.skills": "ReuseOutcome SkillSource",
        "elytron_core.planes.subjects": (
            "EdgeKind SoulBinding SoulSurface SubjectKind SubjectLifecycle SubjectMount SubjectVisibility"
        ),
        "elytron_core.planes.tools": (
            "AgentToolDescriptor AgentToolRegistryRef AgentToolRegistrySnapshot RegistryOwner RegistryScope"
        ),
        "elytron_core.planes.transcript": (
            "ActorAttribution AttributePolicy AttributeSource DerivedMemoryRef HostOpaqueRef HostRefRelation "
            "HostRefVisibility Message MessageAttribute OpaqueItem ToolObservation TranscriptEvidenceRef "
            "TurnDelivery TurnOrigin TurnSource"
        ),
        "elytron_core.policy.maintenance": "SpendingBudget",
        "elytron_core.policy.tools": "with_fingerprints",
        "elytron_core.profiles": "HostRoom MemoryPressure ModeInput ProfileName",
        "elytron_core.scope": "Scope",
        "elytron_store": "WhenMissing WriteDurability",
        "elytron_store.sealed.providers": "FileKeys",
    },
)
