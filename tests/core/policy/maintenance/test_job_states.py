"""The lifecycle of a job, step by step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.ids import ConversationTag
from elytron_core.planes.jobs import JOB_LEASE_MS, MAINTENANCE, Job, JobId, JobQueue, JobState, QueuedJob
from elytron_core.policy import job_states
from elytron_core.policy.job_states import JOB_WAIT_MS, JOBS_ACTIVE, JOBS_KEPT

NOW = Instant(1_767_225_600_000)
HERE = ConversationTag("aa")
THERE = ConversationTag("bb")
KINDS = {MAINTENANCE}


def job(**changes: object) -> Job:
    made = Job(channel="default", conversation="c", turns=(1,), made_at=NOW, updated_at=NOW, due_at=NOW)
    return made.model_copy(update=changes)


def queued(name: str, *, at: int = 0, state: JobState = JobState.PENDING, tag: ConversationTag = HERE) -> QueuedJob:
    return QueuedJob(id=JobId(name), conversation=tag, state=state, due_at=Instant(NOW + at))


def test_the_oldest_due_job_is_leased_first() -> None:
    queue = JobQueue(active=(queued("1", at=5), queued("2"), queued("3", tag=THERE)))
    assert job_states.claimable_job(queue, NOW, KINDS) == queue.active[1]
    assert job_states.claimable_job(JobQueue(active=(queued("1", at=5),)), NOW, KINDS) is None


def test_two_jobs_of_one_conversation_never_run_together() -> None:
    held = queued("1", at=1, state=JobState.LEASED)
    assert job_states.claimable_job(JobQueue(active=(held, queued("2"))), NOW, KINDS) is None
    assert job_states.claimable_job(JobQueue(active=(held, queued("2", tag=THERE))), NOW, KINDS) == queued(
        "2", tag=THERE
    )


def test_an_expired_lease_frees_the_job() -> None:
    held = queued("1", state=JobState.LEASED)
    assert job_states.claimable_job(JobQueue(active=(held,)), NOW, KINDS) == held


def test_a_leased_job_belongs_to_one_worker_until_its_lease_ends() -> None:
    taken = job_states.lease_job(job(), holder="w1", at=NOW)
    assert (taken.state, taken.attempts, taken.due_at) == (JobState.LEASED, 1, NOW + JOB_LEASE_MS)
    assert job_states.is_held(taken, "w1")
    assert not job_states.is_held(taken, "w2")
    later = job_states.renew_job(taken, at=Instant(NOW + 7))
    assert later.due_at == NOW + 7 + JOB_LEASE_MS


def test_a_job_that_never_finishes_ends_at_its_last_attempt() -> None:
    given_up = job_states.lease_job(job(attempts=limits.JOB_ATTEMPTS), holder="w1", at=NOW)
    assert (given_up.state, given_up.error) == (JobState.DEAD_LETTER, job_states.NEVER_ENDED)


def test_a_transient_failure_waits_and_a_permanent_one_ends_the_job() -> None:
    waiting = job_states.fail_job(job(attempts=1), at=NOW, error="model_unavailable", retryable=True, jitter=0)
    assert (waiting.state, waiting.due_at) == (JobState.RETRY_WAITING, NOW + JOB_WAIT_MS)
    refused = job_states.fail_job(job(attempts=1), at=NOW, error="model_refused", retryable=False, jitter=0)
    assert (refused.state, refused.error) == (JobState.DEAD_LETTER, "model_refused")
    last = job_states.fail_job(job(attempts=limits.JOB_ATTEMPTS), at=NOW, error="x", retryable=True, jitter=0)
    assert last.state is JobState.DEAD_LETTER


@given(attempts=st.integers(0, 10_000), jitter=st.integers(0, 255))
def test_a_wait_grows_up_to_a_limit_and_jitter_at_most_halves_it(attempts: int, jitter: int) -> None:
    wait = job_states.wait_ms(attempts, jitter)
    longest = job_states.wait_ms(attempts, 0)
    assert JOB_WAIT_MS / 2 <= wait <= longest <= limits.JOB_WAIT_MAX_MS
    assert longest <= job_states.wait_ms(attempts + 1, 0)
    assert wait >= longest // 2


def test_a_blocked_job_uses_no_attempt() -> None:
    held = job_states.lease_job(job(), holder="w1", at=NOW)
    put_aside = job_states.block_job(held, at=NOW, until=Instant(NOW + 9), error="budget_reached")
    assert (put_aside.state, put_aside.attempts, put_aside.lease) == (JobState.BLOCKED, 0, None)


def test_a_retried_job_keeps_its_progress() -> None:
    dead = job(state=JobState.DEAD_LETTER, attempts=8, done=("summary",), error="x")
    fresh = job_states.retry_job(dead, at=NOW)
    assert (fresh.state, fresh.attempts, fresh.done, fresh.error) == (JobState.PENDING, 0, ("summary",), "")


def test_the_next_day_begins_at_midnight_utc() -> None:
    assert job_states.next_day(Instant(5)) == DAY_MS
    assert job_states.next_day(Instant(DAY_MS)) == 2 * DAY_MS


def test_a_queue_keeps_job_positions_and_drops_the_oldest_finished_jobs() -> None:
    queue = JobQueue(active=(queued("1"), queued("2")))
    queue, gone = job_states.list_job(queue, queued("1", state=JobState.LEASED, at=3))
    assert ([entry.id for entry in queue.active], gone) == (["1", "2"], ())
    queue, _ = job_states.list_job(queue, queued("1", state=JobState.SUCCEEDED))
    assert ([entry.id for entry in queue.active], queue.over) == (["2"], ("1",))
    queue, _ = job_states.list_job(queue, queued("1"))
    assert ([entry.id for entry in queue.active], queue.over) == (["2", "1"], ())
    full = JobQueue(over=tuple(JobId(f"{number:x}") for number in range(JOBS_KEPT)))
    _, gone = job_states.list_job(full, queued("ffff", state=JobState.CANCELLED))
    assert gone == ("0",)


def test_turns_join_a_job_of_their_conversation_only_before_it_is_leased() -> None:
    queue = JobQueue(active=(queued("1", state=JobState.LEASED), queued("2", state=JobState.BLOCKED)))
    assert job_states.joinable_job(queue, HERE) == queue.active[1]
    assert job_states.joinable_job(queue, THERE) is None


@pytest.mark.parametrize("count", [JOBS_ACTIVE - 1, JOBS_ACTIVE])
def test_a_queue_has_room_for_256_jobs(count: int) -> None:
    queue = JobQueue(active=tuple(queued(f"{number:x}") for number in range(count)))
    assert job_states.has_room(queue) is (count < JOBS_ACTIVE)
