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
        "elytron.runtime": "MemoryRuntime SyncMemoryRuntime",
        "elytron_core.clock": "instant",
        "elytron_core.contracts.archive": "*",
        "elytron_core.contracts.continuity": "*",
        "elytron_core.contracts.memories": "*",
        "elytron_core.contracts.facts": "*",
        "elytron_core.contracts.inspection": "*",
        "elytron_core.contracts.maintenance.embedding": "*",
        "elytron_core.contracts.maintenance.jobs": "*",
        "elytron_core.contracts.maintenance.maintenance": "*",
        "elytron_core.contracts.projection": "*",
        "elytron_core.contracts.recall": "*",
        "elytron_core.contracts.records": "*",
        "elytron_core.contracts.skills": "*",
        "elytron_core.contracts.tools": "*",
        "elytron_core.contracts.transcript": "*",
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
        "elytron_core.policy.spending_budget": "SpendingBudget",
        "elytron_core.policy.tools": "with_fingerprints",
        "elytron_core.profiles": "HostRoom MemoryPressure ModeInput ProfileName",
        "elytron_core.scope": "Scope",
        "elytron_integrations.clients.model_clients": "wrap",
        "elytron_store": "WhenMissing WriteDurability",
        "elytron_store.sealed.providers": "FileKeys",
    },
)
