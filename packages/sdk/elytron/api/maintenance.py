"""The calls after a reply: finalize, maintain, the queue of what was put off, and the vectors of a space."""

from elytron.api.base import Face
from elytron_core.contracts.admin import compaction, embedding, maintenance


class MaintenanceFace(Face):
    """Commit a finished turn, maintain memory, look after the jobs, and keep vectors complete."""

    async def finalize_turn_and_maintain(
        self, request: maintenance.MemoryFinalizeTurnRequest, /
    ) -> maintenance.MemoryFinalizeTurnReport:
        """Commit a finished turn as evidence, without any model, then maintain memory. Raises TurnConflict."""
        return await self.operate(request, maintenance.MemoryFinalizeTurnReport)

    async def maintain(
        self, request: maintenance.MemoryMaintainRequest | None = None, /
    ) -> maintenance.MemoryMaintenanceReport:
        """Run the parts of maintenance now, one outcome each. Raises Unsupported where a model is demanded in vain."""
        return await self.operate(request or maintenance.MemoryMaintainRequest(), maintenance.MemoryMaintenanceReport)

    async def list_jobs(self, request: maintenance.JobListRequest | None = None, /) -> maintenance.JobListReport:
        """Read what was put off, whether it gets done, and what models may still cost today."""
        return await self.operate(request or maintenance.JobListRequest(), maintenance.JobListReport)

    async def run_jobs(self, request: maintenance.JobRunRequest | None = None, /) -> maintenance.JobRunReport:
        """Do the jobs that are due, oldest first."""
        return await self.operate(request or maintenance.JobRunRequest(), maintenance.JobRunReport)

    async def retry_job(self, request: str | maintenance.JobRetryRequest, /) -> maintenance.JobReport:
        """Let a job be tried again at once, also one that was given up. Raises NotFound."""
        if isinstance(request, str):
            request = maintenance.JobRetryRequest(id=request)
        return await self.operate(request, maintenance.JobReport)

    async def cancel_job(self, request: str | maintenance.JobCancelRequest, /) -> maintenance.JobReport:
        """Give a job up; what it did already stays. Raises NotFound."""
        if isinstance(request, str):
            request = maintenance.JobCancelRequest(id=request)
        return await self.operate(request, maintenance.JobReport)

    async def compact_journal(
        self, request: compaction.JournalCompactRequest | None = None, /
    ) -> compaction.JournalCompactReport:
        """Leave one journal entry for each run of entries that tell of nothing; bounded stores do so by themselves."""
        return await self.operate(request or compaction.JournalCompactRequest(), compaction.JournalCompactReport)

    async def embed(self, request: embedding.MemoryEmbedRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Make vectors of what has none; a runtime with an embedder does so by itself after writes."""
        return await self.operate(request or embedding.MemoryEmbedRequest(), embedding.MemoryEmbedReport)

    async def switch_model(self, request: embedding.ModelSwitchRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Make vectors by the runtime's embedder; when none is missing, recall compares these. Call until complete."""
        return await self.operate(request or embedding.ModelSwitchRequest(), embedding.MemoryEmbedReport)
