"""The operations of the transcript: commit, views, life of raw text, repair, export."""

from elytron import ops
from elytron.registry.operation import AnyOperation, Grave, Operation, Repeat
from elytron_core.contracts.conversation import transcript

_DELETING = {"transition": frozenset({transcript.TranscriptLifecycleTransition.DELETE_RAW.value})}
_RAW = {"view": frozenset({transcript.TranscriptReplayView.RAW_OWNER_ONLY.value})}
_AUDIT = {"view": frozenset({transcript.TranscriptReplayView.OPERATOR_AUDIT.value})}

TRANSCRIPT: tuple[AnyOperation, ...] = (
    Operation("commit_transcript", transcript.MemoryTranscriptCommitRequest, transcript.MemoryTranscriptCommitReport,
              lambda: ops.commit_transcript, "Commit a finished turn as governed evidence.", mutates=True,
              repeat=Repeat.RECEIPT),
    Operation("replay_transcript", transcript.MemoryTranscriptReplayRequest, transcript.MemoryTranscriptReplayReport,
              lambda: ops.replay_transcript, "Read a conversation as one audience may see it.", operator_values=_AUDIT,
              private_values=_RAW),
    Operation("export_transcript", transcript.MemoryTranscriptExportRequest, transcript.MemoryTranscriptExportReport,
              lambda: ops.export_transcript, "Read a conversation as it may leave the house."),
    Operation("request_transcript_lifecycle", transcript.MemoryTranscriptLifecycleRequest,
              transcript.MemoryTranscriptLifecycleReport, lambda: ops.request_transcript_lifecycle,
              "Archive, restore, mask or delete the raw text of turns, or review what that would touch.",
              mutates=True, repeat=Repeat.RECEIPT, operator_values=_AUDIT, grave=Grave.REMOVES, grave_values=_DELETING),
    Operation("repair_transcript", transcript.MemoryTranscriptRepairRequest, transcript.MemoryTranscriptRepairReport,
              lambda: ops.repair_transcript, "Say which links of a conversation are broken."),
)  # fmt: skip
"""The transcript's operations."""
