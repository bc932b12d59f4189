"""States of jobs: which one runs next, how one moves from state to state, and the health of all."""

from collections.abc import Collection, Sequence
from typing import Final

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.maintenance.jobs import WorkHealth
from elytron_core.ids import ConversationTag
from elytron_core.limits import JOB_STALL_MS
from elytron_core.planes.jobs import (
    MAINTENANCE,
    Job,
    JobId,
    JobLease,
    JobQueue,
    JobState,
    QueuedJob,
)

JOBS_ACTIVE: Final = 256


JOBS_KEPT: Final = 512
"""Jobs that are over and can still be looked at."""


JOB_WAIT_MS: Final = 15 * 1000


def work_health(queue: JobQueue, ended_states: Sequence[JobState], now: Instant, /) -> WorkHealth:
    """Return the health of deferred work; `ended_states` are those of the jobs that ended last."""
    # A leased job is due when its lease ends, so a dead worker shows here as well.
    is_late = any(job.due_at < now - JOB_STALL_MS for job in queue.active)
    is_blocked = any(job.state is JobState.BLOCKED for job in queue.active)
    if is_late or is_blocked or JobState.DEAD_LETTER in ended_states:
        return WorkHealth.DEGRADED
    return WorkHealth.WORKING if queue.active else WorkHealth.IDLE


NEVER_ENDED: Final = "never_ended"


def claimable_job(queue: JobQueue, now: Instant, kinds: Collection[str], /) -> QueuedJob | None:
    """Return the next job of `kinds` to lease: due, oldest first, with no other job of its conversation running."""
    # A lease that has ended keeps no conversation busy: its worker is gone.
    busy_conversations = {job.conversation for job in queue.active if job.state is JobState.LEASED and job.due_at > now}
    free_jobs = (job for job in queue.active if job.kind in kinds and job.conversation not in busy_conversations)
    return next((job for job in free_jobs if job.due_at <= now), None)


def joinable_job(queue: JobQueue, conversation: ConversationTag, /) -> QueuedJob | None:
    """Return the conversation's job that has not been leased yet, to which more turns can be added."""
    unleased_states = {JobState.PENDING, JobState.RETRY_WAITING, JobState.BLOCKED}
    waiting_jobs = (job for job in queue.active if job.kind == MAINTENANCE and job.state in unleased_states)
    return next((job for job in waiting_jobs if job.conversation == conversation), None)


def has_room(queue: JobQueue, /, *, kind: str = MAINTENANCE) -> bool:
    """Return True if one more job of a kind may become active."""
    if kind == MAINTENANCE:
        return len(queue.active) < JOBS_ACTIVE
    return sum(job.kind == kind for job in queue.active) < limits.JOBS_ACTIVE_OF_KIND


def lease_job(job: Job, *, holder: str, at: Instant) -> Job:
    """Return `job` leased to `holder` from `at` on; no other worker may take it before the lease ends.

    A job that was taken too often without coming to an end, because its workers died, is given up.
    """
    if job.attempts >= limits.JOB_ATTEMPTS:
        return _move_job(job, JobState.DEAD_LETTER, at=at, error=NEVER_ENDED)
    lease = JobLease(holder=holder, until=Instant(at + job.terms.lease_ms))
    attempts = job.attempts + 1
    return _move_job(job, JobState.LEASED, at=at, due_at=lease.until).model_copy(
        update={"lease": lease, "attempts": attempts}
    )


def renew_job(job: Job, *, at: Instant) -> Job:
    """Return a leased `job` with its lease renewed from `at`."""
    assert job.lease is not None
    until = Instant(at + job.terms.lease_ms)
    lease = job.lease.model_copy(update={"until": until})
    return job.model_copy(update={"lease": lease, "due_at": until, "updated_at": at})


def is_held(job: Job, holder: str, /) -> bool:
    """Return whether `holder` still holds the job's lease."""
    return job.state is JobState.LEASED and job.lease is not None and job.lease.holder == holder


def finish_job(job: Job, *, at: Instant) -> Job:
    """Return `job` as done."""
    return _move_job(job, JobState.SUCCEEDED, at=at, error="")


def fail_job(job: Job, *, at: Instant, error: str, retryable: bool, jitter: int) -> Job:
    """Return `job` after a failed attempt: waiting longer each time, or abandoned. `jitter` is 0 to 255."""
    if not retryable or job.attempts >= limits.JOB_ATTEMPTS:
        return _move_job(job, JobState.DEAD_LETTER, at=at, error=error)
    return _move_job(
        job,
        JobState.RETRY_WAITING,
        at=at,
        due_at=Instant(at + wait_ms(job.attempts, jitter, most_ms=job.terms.wait_max_ms)),
        error=error,
    )


def block_job(job: Job, *, at: Instant, until: Instant, error: str) -> Job:
    """Return `job` blocked until `until`; this does not count as an attempt."""
    blocked_job = _move_job(job, JobState.BLOCKED, at=at, due_at=until, error=error)
    return blocked_job.model_copy(update={"attempts": max(0, job.attempts - 1)})


def cancel_job(job: Job, *, at: Instant) -> Job:
    """Return `job` cancelled on request."""
    return _move_job(job, JobState.CANCELLED, at=at)


def retry_job(job: Job, *, at: Instant) -> Job:
    """Return `job` due now with its attempts reset; finished parts stay done."""
    return _move_job(job, JobState.PENDING, at=at, due_at=at, error="").model_copy(update={"attempts": 0})


def wait_ms(attempts: int, jitter: int, /, *, most_ms: int = limits.JOB_WAIT_MAX_MS) -> int:
    """Return the wait after `attempts` attempts: doubled each time up to a limit, minus up to a half."""
    # Bounded before the shift, which would otherwise make huge numbers.
    longest_ms = min(JOB_WAIT_MS << max(0, min(attempts, 32) - 1), most_ms)
    return longest_ms - longest_ms * jitter // 512


def next_day(at: Instant, /) -> Instant:
    """Return the beginning of the day, in UTC, after `at`."""
    return Instant((at // DAY_MS + 1) * DAY_MS)


def list_job(queue: JobQueue, entry: QueuedJob, /) -> tuple[JobQueue, tuple[JobId, ...]]:
    """Return `queue` with `entry` in the job's old position, and the ids of long finished jobs that it drops."""
    other_jobs = [queued_job for queued_job in queue.active if queued_job.id != entry.id]
    ended_jobs = tuple(queued_job for queued_job in queue.over if queued_job != entry.id)
    if not entry.state.is_active:
        ended_jobs = (*ended_jobs, entry.id)
        return JobQueue(active=tuple(other_jobs), over=ended_jobs[-JOBS_KEPT:]), ended_jobs[:-JOBS_KEPT]
    # A job keeps its position, or each retry would move the oldest one back.
    position = next(
        (index for index, queued_job in enumerate(queue.active) if queued_job.id == entry.id), len(other_jobs)
    )
    return JobQueue(active=(*other_jobs[:position], entry, *other_jobs[position:]), over=ended_jobs), ()


def unlist_job(queue: JobQueue, job_id: JobId, /) -> JobQueue:
    """Return `queue` without the unfinished job of this id."""
    return queue.model_copy(
        update={"active": tuple(queued_job for queued_job in queue.active if queued_job.id != job_id)}
    )


def _move_job(
    job: Job, state: JobState, *, at: Instant, due_at: Instant | None = None, error: str | None = None
) -> Job:
    return job.model_copy(
        update={
            "state": state,
            "updated_at": at,
            "due_at": due_at if due_at is not None else job.due_at,
            "lease": None,
            "error": job.error if error is None else error,
        }
    )
