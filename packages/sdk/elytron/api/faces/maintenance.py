"""Calls of maintenance: finished turns, jobs, and compaction of the journal."""

from elytron.api.calls import BlockingCalls, CallFace, blocking_call
from elytron_core.contracts.maintenance import jobs, maintenance


class MaintenanceFace(CallFace):
    """Commit a finished turn, maintain memory, manage jobs, and compact the journal.

    The examples start from here:

    >>> from elytron.models import ScriptedModel
    >>> memory = elytron.open("memory:", language_model=ScriptedModel([])).sync()
    >>> said = (elytron.Message(text="I'm allergic to hazelnuts."),)
    >>> reply = elytron.Message(role=elytron.EvidenceRole.ASSISTANT, text="Noted.")
    >>> turn = elytron.CanonicalTurnDelta(turn_id="turn-1", input_messages=said, assistant_message=reply)
    """

    async def finalize_turn_and_maintain(
        self, request: maintenance.MemoryFinalizeTurnRequest, /
    ) -> maintenance.MemoryFinalizeTurnReport:
        """Commit a finished turn as evidence, without any model, then maintain memory. Raises TurnConflict.

        >>> request = elytron.MemoryFinalizeTurnRequest(delta=turn, extraction=elytron.ExtractionMethod.RULES)
        >>> _ = memory.finalize_turn_and_maintain(request)
        >>> memory.list_facts().items[0].content
        'The user is allergic to hazelnuts'
        """
        return await self.operate(request)

    async def maintain(
        self, request: maintenance.MemoryMaintainRequest | None = None, /
    ) -> maintenance.MemoryMaintenanceReport:
        """Run the parts of maintenance now, with one outcome each. Raises Unsupported if a required model is missing.

        >>> _ = memory.commit_transcript(elytron.MemoryTranscriptCommitRequest(delta=turn))
        >>> memory.maintain(elytron.MemoryMaintainRequest(extraction=elytron.ExtractionMethod.RULES)).turns
        1
        """
        return await self.operate(request or maintenance.MemoryMaintainRequest())

    async def list_jobs(self, request: jobs.JobListRequest | None = None, /) -> jobs.JobListReport:
        """List deferred jobs, their health, and what models may still cost today.

        >>> _ = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> [job.turns for job in memory.list_jobs().jobs]
        [1]
        """
        return await self.operate(request or jobs.JobListRequest())

    async def run_jobs(self, request: jobs.JobRunRequest | None = None, /) -> jobs.JobRunReport:
        """Run the due jobs, oldest first.

        >>> _ = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> [job.attempts for job in memory.run_jobs().jobs]
        [1]
        """
        return await self.operate(request or jobs.JobRunRequest())

    async def retry_job(self, request: str | jobs.JobRetryRequest, /) -> jobs.JobReport:
        """Make a job due immediately, even an abandoned one. Raises NotFound.

        >>> report = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> print(memory.retry_job(report.job).job.state)
        pending
        """
        if isinstance(request, str):
            request = jobs.JobRetryRequest(id=request)
        return await self.operate(request)

    async def cancel_job(self, request: str | jobs.JobCancelRequest, /) -> jobs.JobReport:
        """Cancel a job; work already done stays. Raises NotFound.

        >>> report = memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=turn))
        >>> print(memory.cancel_job(report.job).job.state)
        cancelled
        """
        if isinstance(request, str):
            request = jobs.JobCancelRequest(id=request)
        return await self.operate(request)

    async def compact_journal(
        self, request: maintenance.JournalCompactRequest | None = None, /
    ) -> maintenance.JournalCompactReport:
        """Replace each run of journal entries without information by one; bounded stores do so automatically.

        >>> _ = memory.erase(memory.add("The ferry leaves at six.").ids)
        >>> memory.compact_journal().changed
        True
        """
        return await self.operate(request or maintenance.JournalCompactRequest())


class BlockingMaintenance(BlockingCalls):
    """The calls of maintenance, blocking until their answer."""

    compact_journal = blocking_call(MaintenanceFace.compact_journal)
    finalize_turn_and_maintain = blocking_call(MaintenanceFace.finalize_turn_and_maintain)
    maintain = blocking_call(MaintenanceFace.maintain)
    list_jobs = blocking_call(MaintenanceFace.list_jobs)
    run_jobs = blocking_call(MaintenanceFace.run_jobs)
    retry_job = blocking_call(MaintenanceFace.retry_job)
    cancel_job = blocking_call(MaintenanceFace.cancel_job)
