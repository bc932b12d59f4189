"""The life of a job: who may take it, what an attempt's end makes of it, and when it is tried again.

Every step is a pure function of the queue, the job and the time; the store's revisions see to it that of two workers
that plan the same step only one takes it.
"""

from collections.abc import Collection
from typing import Final

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.ids import ConversationTag
from elytron_core.planes.admin.jobs import MAINTENANCE, Job, JobId, JobState, Lease, Queue, QueuedJob

NEVER_ENDED: Final = "never_ended"


def claimable(queue: Queue, now: Instant, kinds: Collection[str], /) -> QueuedJob | None:
    """Return the job of `kinds` to take next: due, oldest first, and no other of its conversation under way."""
    busy = {job.conversation for job in queue.active if job.state is JobState.LEASED and job.due_at > now}
    free = (job for job in queue.active if job.kind in kinds and job.conversation not in busy)
    return next((job for job in free if job.due_at <= now), None)


def joinable(queue: Queue, conversation: ConversationTag, /) -> QueuedJob | None:
    """Return the job of a conversation that has not been taken yet, to which more turns can be added."""
    waiting = (job for job in queue.active if job.kind == MAINTENANCE and _waits(job))
    return next((job for job in waiting if job.conversation == conversation), None)


def has_room(queue: Queue, /) -> bool:
    """Return True if one more job may become active."""
    return len(queue.active) < limits.JOBS_ACTIVE


def taken(job: Job, *, holder: str, at: Instant) -> Job:
    """Return `job` leased to `holder` from `at` on: no other worker may take it before the lease ends.

    A job that was taken too often without coming to an end, because its workers died, is given up.
    """
    if job.attempts >= limits.JOB_ATTEMPTS:
        return _moved(job, JobState.DEAD_LETTER, at=at, error=NEVER_ENDED)
    lease = Lease(holder=holder, until=Instant(at + limits.JOB_LEASE_MS))
    attempts = job.attempts + 1
    return _moved(job, JobState.LEASED, at=at, due_at=lease.until).model_copy(
        update={"lease": lease, "attempts": attempts}
    )


def renewed(job: Job, *, at: Instant) -> Job:
    """Return a leased `job` with its lease counted from `at`."""
    assert job.lease is not None
    until = Instant(at + limits.JOB_LEASE_MS)
    lease = job.lease.model_copy(update={"until": until})
    return job.model_copy(update={"lease": lease, "due_at": until, "updated_at": at})


def is_held(job: Job, holder: str, /) -> bool:
    """Return True if `holder` still has the job."""
    return job.state is JobState.LEASED and job.lease is not None and job.lease.holder == holder


def succeeded(job: Job, *, at: Instant) -> Job:
    """Return `job` as done."""
    return _moved(job, JobState.SUCCEEDED, at=at, error="")


def failed(job: Job, *, at: Instant, error: str, retryable: bool, jitter: int) -> Job:
    """Return `job` after an attempt that failed: waiting longer each time, or given up. `jitter` is 0 to 255."""
    if not retryable or job.attempts >= limits.JOB_ATTEMPTS:
        return _moved(job, JobState.DEAD_LETTER, at=at, error=error)
    return _moved(job, JobState.RETRY_WAITING, at=at, due_at=Instant(at + wait_ms(job.attempts, jitter)), error=error)


def blocked(job: Job, *, at: Instant, until: Instant, error: str) -> Job:
    """Return `job` put aside until `until`; what it could not try was no attempt."""
    waiting = _moved(job, JobState.BLOCKED, at=at, due_at=until, error=error)
    return waiting.model_copy(update={"attempts": max(0, job.attempts - 1)})


def cancelled(job: Job, *, at: Instant) -> Job:
    """Return `job` as given up on request."""
    return _moved(job, JobState.CANCELLED, at=at)


def again(job: Job, *, at: Instant) -> Job:
    """Return `job` to be tried at once, with its attempts counted from zero; what it had done stays done."""
    return _moved(job, JobState.PENDING, at=at, due_at=at, error="").model_copy(update={"attempts": 0})


def wait_ms(attempts: int, jitter: int, /) -> int:
    """Return the wait after `attempts` attempts: twice as long each time, up to a bound, less up to a half."""
    longest = min(limits.JOB_WAIT_MS << max(0, min(attempts, 32) - 1), limits.JOB_WAIT_MAX_MS)
    return longest - longest * jitter // 512


def next_day(at: Instant, /) -> Instant:
    """Return the beginning of the day, in UTC, after `at`."""
    return Instant((at // DAY_MS + 1) * DAY_MS)


def listed(queue: Queue, entry: QueuedJob, /) -> tuple[Queue, tuple[JobId, ...]]:
    """Return `queue` with a job as `entry` has it, in its old place, and the ids of jobs long over that it lets go."""
    others = [known for known in queue.active if known.id != entry.id]
    over = tuple(known for known in queue.over if known != entry.id)
    if not entry.state.is_active:
        over = (*over, entry.id)
        return Queue(active=tuple(others), over=over[-limits.JOBS_KEPT :]), over[: -limits.JOBS_KEPT]
    place = next((at for at, known in enumerate(queue.active) if known.id == entry.id), len(others))
    return Queue(active=(*others[:place], entry, *others[place:]), over=over), ()


def _waits(job: QueuedJob) -> bool:
    return job.state in {JobState.PENDING, JobState.RETRY_WAITING, JobState.BLOCKED}


def _moved(job: Job, state: JobState, *, at: Instant, due_at: Instant | None = None, error: str | None = None) -> Job:
    return job.model_copy(
        update={
            "state": state,
            "updated_at": at,
            "due_at": due_at if due_at is not None else job.due_at,
            "lease": None,
            "error": job.error if error is None else error,
        }
    )
