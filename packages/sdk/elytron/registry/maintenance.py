"""The operations after a reply: finalize, maintain, and the queue of what was put off."""

from elytron import flows, ops
from elytron.registry.operation import AnyOperation, Operation, Repeat, Role
from elytron_core.contracts.admin import compaction, maintenance

MAINTAINING: tuple[AnyOperation, ...] = (
    Operation("finalize_turn_and_maintain", maintenance.MemoryFinalizeTurnRequest, maintenance.MemoryFinalizeTurnReport,
              lambda: flows.finalize_turn_and_maintain, "Commit a finished turn, then maintain memory with it.",
              mutates=True, repeat=Repeat.RECEIPT),
    Operation("maintain", maintenance.MemoryMaintainRequest, maintenance.MemoryMaintenanceReport,
              lambda: flows.maintain, "Run the parts of maintenance now.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("list_jobs", maintenance.JobListRequest, maintenance.JobListReport, lambda: ops.list_jobs,
              "Read what was put off, and whether it gets done."),
    Operation("run_jobs", maintenance.JobRunRequest, maintenance.JobRunReport, lambda: flows.run_jobs,
              "Do the jobs that are due.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("retry_job", maintenance.JobRetryRequest, maintenance.JobReport, lambda: ops.retry_job,
              "Let a job be tried again at once.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("cancel_job", maintenance.JobCancelRequest, maintenance.JobReport, lambda: ops.cancel_job,
              "Give a job up.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("compact_journal", compaction.JournalCompactRequest, compaction.JournalCompactReport,
              lambda: ops.compact_journal,
              "Leave one journal entry for each run of entries that tell of nothing any more.", mutates=True,
              role=Role.OPERATOR, repeat=Repeat.RECEIPT),
)  # fmt: skip
