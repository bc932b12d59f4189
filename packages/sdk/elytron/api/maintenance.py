"""The calls after a reply: finalize, maintain, the queue of what was put off, and the vectors of a space."""

from elytron.api.base import Face
from elytron_core.contracts.admin import compaction, embedding, maintenance


class MaintenanceFace(Face):
    """Commit a finished turn, maintain memory, look after the jobs, and keep vectors complete.

    The examples start from here:

    >>> from elytron.models import ScriptedModel
    >>> memory = elytron.open("memory:", language_model=ScriptedModel([])).sync()
    >>> said = (elytron.Message(text="I'm allergic to hazelnuts."),)
    >>> reply = elytron.Message(role=elytron.Role.ASSISTANT, text="Noted.")
    >>> turn = elytron.CanonicalTurnDelta(turn_id="turn-1", input_messages=said, assistant_message=reply)
    """

    async def finalize_turn_and_maintain(
        self, request: maintenance.MemoryFinalizeTurnRequest, /
    ) -> maintenance.MemoryFinalizeTurnReport:
        """Commit a finished turn as evidence, without any model, then maintain memory. Raises TurnConflict.

        >>> request = elytron.MemoryFinalizeTurnRequest(delta=turn, extraction=elytron.Extraction.RULES)
        >>> _ = memory.finalize_turn_and_maintain(request)
        >>> memory.list_facts().items[0].content
        'The user is allergic to hazelnuts'
        """
        return await self.operate(request, maintenance.MemoryFinalizeTurnReport)

    async def maintain(
        self, request: maintenance.MemoryMaintainRequest | None = None, /
    ) -> maintenance.MemoryMaintenanceReport:
        """Run the parts of maintenance now, one outcome each. Raises Unsupported where a model is demanded in vain.

        >>> _ = memory.commit_transcript(elytron.MemoryTranscriptCommitRequest(delta=turn))
        >>> memory.maintain(elytron.MemoryMaintainRequest(extraction=elytron.Extraction.RULES)).turns
        1
        """
        return await self.operate(request or maintenance.MemoryMaintainRequest(), maintenance.MemoryMaintenanceReport)

    async def list_jobs(self, request: maintenance.JobListRequest | None = None, /) -> maintenance.JobListReport:
        """Read what was put off, whether it gets done, and what models may still cost today.

        >>> _ = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> [job.turns for job in memory.list_jobs().jobs]
        [1]
        """
        return await self.operate(request or maintenance.JobListRequest(), maintenance.JobListReport)

    async def run_jobs(self, request: maintenance.JobRunRequest | None = None, /) -> maintenance.JobRunReport:
        """Do the jobs that are due, oldest first.

        >>> _ = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> [job.attempts for job in memory.run_jobs().jobs]
        [1]
        """
        return await self.operate(request or maintenance.JobRunRequest(), maintenance.JobRunReport)

    async def retry_job(self, request: str | maintenance.JobRetryRequest, /) -> maintenance.JobReport:
        """Let a job be tried again at once, also one that was given up. Raises NotFound.

        >>> report = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> print(memory.retry_job(report.job).job.state)
        pending
        """
        if isinstance(request, str):
            request = maintenance.JobRetryRequest(id=request)
        return await self.operate(request, maintenance.JobReport)

    async def cancel_job(self, request: str | maintenance.JobCancelRequest, /) -> maintenance.JobReport:
        """Give a job up; what it did already stays. Raises NotFound.

        >>> report = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> print(memory.cancel_job(report.job).job.state)
        cancelled
        """
        if isinstance(request, str):
            request = maintenance.JobCancelRequest(id=request)
        return await self.operate(request, maintenance.JobReport)

    async def compact_journal(
        self, request: compaction.JournalCompactRequest | None = None, /
    ) -> compaction.JournalCompactReport:
        """Leave one journal entry for each run of entries that tell of nothing; bounded stores do so by themselves.

        >>> _ = memory.erase(memory.add("The ferry leaves at six.").ids)
        >>> memory.compact_journal().changed
        True
        """
        return await self.operate(request or compaction.JournalCompactRequest(), compaction.JournalCompactReport)

    async def embed(self, request: embedding.MemoryEmbedRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Make vectors of what has none; a runtime with an embedder does so by itself after writes.

        >>> _ = memory.add("The ferry leaves at six.")
        >>> print(memory.embed().outcome)  # opened with an `embedder`: complete
        no_embedder
        """
        return await self.operate(request or embedding.MemoryEmbedRequest(), embedding.MemoryEmbedReport)

    async def switch_model(self, request: embedding.ModelSwitchRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Make vectors by the runtime's embedder; when none is missing, recall compares these. Call until complete.

        >>> _ = memory.add("The ferry leaves at six.")
        >>> print(memory.switch_model().outcome)  # opened with an `embedder`: more, then complete
        no_embedder
        """
        return await self.operate(request or embedding.ModelSwitchRequest(), embedding.MemoryEmbedReport)
