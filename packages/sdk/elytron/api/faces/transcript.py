"""Calls on transcripts: commit, replay, export, retention and repair."""

from elytron.api.calls import BlockingCalls, CallFace, blocking_call
from elytron_core.contracts import transcript


class TranscriptFace(CallFace):
    """Commit turns, read them through views, change the lifecycle of their text, check their links."""

    async def commit_transcript(
        self, request: transcript.MemoryTranscriptCommitRequest, /
    ) -> transcript.MemoryTranscriptCommitReport:
        """Commit a finished turn as governed evidence. Raises TurnConflict, Conflict.

        >>> said = (elytron.Message(text="My order never came."),)
        >>> delta = elytron.CanonicalTurnDelta(turn_id="turn-7", input_messages=said)
        >>> memory.commit_transcript(elytron.MemoryTranscriptCommitRequest(delta=delta)).sequence
        3
        """
        return await self.operate(request)

    async def replay_transcript(
        self, request: transcript.MemoryTranscriptReplayRequest | None = None, /
    ) -> transcript.MemoryTranscriptReplayReport:
        """Read the scope's conversation as one audience may see it; defaults to the host's UI.

        >>> request = elytron.MemoryTranscriptReplayRequest(view=elytron.TranscriptReplayView.MODEL_CONTEXT, limit=1)
        >>> [turn.messages[0].text for turn in memory.replay_transcript(request).slice.turns]
        ['We moved to Lisbon in May.']
        """
        request = request or transcript.MemoryTranscriptReplayRequest()
        return await self.operate(request)

    async def export_transcript(
        self, request: transcript.MemoryTranscriptExportRequest | None = None, /
    ) -> transcript.MemoryTranscriptExportReport:
        """Read the scope's conversation in the export view: only content that may be exported.

        >>> len(memory.export_transcript().slice.turns)
        2
        """
        request = request or transcript.MemoryTranscriptExportRequest()
        return await self.operate(request)

    async def request_transcript_lifecycle(
        self, request: transcript.MemoryTranscriptLifecycleRequest, /
    ) -> transcript.MemoryTranscriptLifecycleReport:
        """Archive, restore, mask or delete the raw text of turns, or preview what that would affect.

        >>> mask = elytron.TranscriptLifecycleTransition.MASK
        >>> request = elytron.MemoryTranscriptLifecycleRequest(transition=mask, turn_ids=(key,))
        >>> memory.request_transcript_lifecycle(request).affected_turns
        1
        """
        return await self.operate(request)

    async def repair_transcript(
        self, request: transcript.MemoryTranscriptRepairRequest | None = None, /
    ) -> transcript.MemoryTranscriptRepairReport:
        """Report the broken links of the scope's conversation.

        >>> report = memory.repair_transcript()
        >>> (report.checked_turns, report.issues)
        (2, ())
        """
        request = request or transcript.MemoryTranscriptRepairRequest()
        return await self.operate(request)


class BlockingTranscript(BlockingCalls):
    """The calls of transcripts, blocking until their answer."""

    commit_transcript = blocking_call(TranscriptFace.commit_transcript)
    replay_transcript = blocking_call(TranscriptFace.replay_transcript)
    export_transcript = blocking_call(TranscriptFace.export_transcript)
    request_transcript_lifecycle = blocking_call(TranscriptFace.request_transcript_lifecycle)
    repair_transcript = blocking_call(TranscriptFace.repair_transcript)
