"""The operations after a reply: finalize, maintain, and the queue of what was put off."""

from elytron import ops
from elytron.flows.finalizing import finalize_turn_and_maintain
from elytron.flows.maintaining import maintain
from elytron.flows.working import run_jobs
from elytron.registry.declaring import AnyOperation, Operation, Repeat
from elytron_core.contracts import maintaining

MAINTAINING: tuple[AnyOperation, ...] = (
    Operation("finalize_turn_and_maintain", maintaining.MemoryFinalizeTurnRequest, maintaining.MemoryFinalizeTurnReport,
              finalize_turn_and_maintain, "Commit a finished turn, then maintain memory with it.",
              mutates=True, repeat=Repeat.RECEIPT),
    Operation("maintain", maintaining.MemoryMaintainRequest, maintaining.MemoryMaintenanceReport, maintain,
              "Run the parts of maintenance now.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("list_jobs", maintaining.JobListRequest, maintaining.JobListReport, ops.list_jobs,
              "Read what was put off, and whether it gets done."),
    Operation("run_jobs", maintaining.JobRunRequest, maintaining.JobRunReport, run_jobs,
              "Do the jobs that are due.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("retry_job", maintaining.JobRetryRequest, maintaining.JobReport, ops.retry_job,
              "Let a job be tried again at once.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("cancel_job", maintaining.JobCancelRequest, maintaining.JobReport, ops.cancel_job,
              "Give a job up.", mutates=True, repeat=Repeat.RECEIPT),
)  # fmt: skip
