"""The calls after a reply: finalize, maintain, and the queue of what was put off."""

from elytron.faces.face import Face
from elytron_core.contracts import maintaining


class MaintainingFace(Face):
    """Commit a finished turn, maintain memory, and look after the jobs."""

    async def finalize_turn_and_maintain(
        self, request: maintaining.MemoryFinalizeTurnRequest, /
    ) -> maintaining.MemoryFinalizeTurnReport:
        """Commit a finished turn as evidence, without any model, then maintain memory. Raises TurnConflict."""
        return await self.operate(request, maintaining.MemoryFinalizeTurnReport)

    async def maintain(
        self, request: maintaining.MemoryMaintainRequest | None = None, /
    ) -> maintaining.MemoryMaintenanceReport:
        """Run the parts of maintenance now, one outcome each. Raises Unsupported where a model is demanded in vain."""
        return await self.operate(request or maintaining.MemoryMaintainRequest(), maintaining.MemoryMaintenanceReport)

    async def list_jobs(self, request: maintaining.JobListRequest | None = None, /) -> maintaining.JobListReport:
        """Read what was put off, whether it gets done, and what models may still cost today."""
        return await self.operate(request or maintaining.JobListRequest(), maintaining.JobListReport)

    async def run_jobs(self, request: maintaining.JobRunRequest | None = None, /) -> maintaining.JobRunReport:
        """Do the jobs that are due, oldest first."""
        return await self.operate(request or maintaining.JobRunRequest(), maintaining.JobRunReport)

    async def retry_job(self, request: str | maintaining.JobRetryRequest, /) -> maintaining.JobReport:
        """Let a job be tried again at once, also one that was given up. Raises NotFound."""
        if isinstance(request, str):
            request = maintaining.JobRetryRequest(id=request)
        return await self.operate(request, maintaining.JobReport)

    async def cancel_job(self, request: str | maintaining.JobCancelRequest, /) -> maintaining.JobReport:
        """Give a job up; what it did already stays. Raises NotFound."""
        if isinstance(request, str):
            request = maintaining.JobCancelRequest(id=request)
        return await self.operate(request, maintaining.JobReport)
