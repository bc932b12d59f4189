"""The durable queue: one holder at a time, nothing repeated, nothing lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.towns import PORTO, SPACE, opened, said, talk, towns
from tests.sdk.turns import answering, finish

import elytron
from elytron.flows.worker import JobWorker
from elytron.jobs.queue import claim_job, read_queue
from elytron.models import ScriptedModel
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.contracts.maintenance.jobs import (
    JobCancelRequest,
    JobListRequest,
    JobRetryRequest,
    JobRunRequest,
    WorkHealth,
)
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod
from elytron_core.errors import ModelRefused, ModelUnavailable, NotFound
from elytron_core.ids import SeededIds
from elytron_core.planes.jobs import JOB_LEASE_MS, JobState
from elytron_core.policy.job_states import JOB_WAIT_MS
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    yield store
    await store.close()


async def test_a_job_runs_once_and_stays_inspectable(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, answering(("Porto", PORTO)), ids=SeededIds())
    await finish(memory, "t1", "Well, home is Porto these days.")
    assert (await memory.list_jobs()).health is WorkHealth.WORKING
    (done,) = (await memory.run_jobs()).jobs
    assert (done.state, done.attempts, done.spent.calls) == (JobState.SUCCEEDED, 1, 1)
    report = await memory.list_jobs()
    assert (report.health, report.counts) == (WorkHealth.IDLE, {"succeeded": 1})
    assert report.jobs == (done,)
    assert (await memory.run_jobs()).changed is False
    assert (await memory.list_jobs(JobListRequest(states=(JobState.PENDING,)))).jobs == ()


async def test_an_unavailable_model_is_retried_with_growing_delays(store: MemoryStore, clock: FrozenClock) -> None:
    away = [ModelUnavailable("off")] * limits.JOB_ATTEMPTS
    memory = await opened(store, clock, ScriptedModel([*away, PORTO]), ids=SeededIds())
    await finish(memory, "t1", "Well, home is Porto these days.")
    waits: list[int] = []
    (job,) = (await memory.list_jobs()).jobs
    while (await read_queue(memory.context, SPACE)).active:
        (job,) = (await memory.run_jobs()).jobs
        waits.append(job.due_at - job.updated_at)
        assert (await memory.run_jobs()).jobs == ()
        clock.advance(limits.JOB_WAIT_MAX_MS)
    assert (job.state, job.error, job.attempts) == (JobState.DEAD_LETTER, "model_unavailable", limits.JOB_ATTEMPTS)
    assert all(JOB_WAIT_MS / 2 <= wait <= limits.JOB_WAIT_MAX_MS for wait in waits[:-1])
    assert waits[0] < waits[3] < waits[6]
    assert (await memory.list_jobs()).health is WorkHealth.DEGRADED
    tried = await memory.retry_job(job.id)
    assert (tried.changed, tried.job.state, tried.job.attempts) == (True, JobState.PENDING, 0)
    assert (await memory.run_jobs()).jobs[0].state is JobState.SUCCEEDED


async def test_a_refused_turn_becomes_a_dead_letter_and_can_be_retried(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, ScriptedModel([ModelRefused("no"), PORTO]), ids=SeededIds())
    await finish(memory, "t1", "Well, home is Porto these days.")
    (job,) = (await memory.run_jobs()).jobs
    assert (job.state, job.error) == (JobState.DEAD_LETTER, "model_refused")
    assert "extraction" not in job.done
    await memory.retry_job(job.id)
    (job,) = (await memory.run_jobs(JobRunRequest(id=job.id))).jobs
    assert job.state is JobState.SUCCEEDED
    assert (await memory.inspect()).documents["facts"] == 1


async def test_a_cancelled_job_does_not_run(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, answering(("Porto", PORTO)), ids=SeededIds())
    report = await finish(memory, "t1", "Well, home is Porto these days.")
    assert report.job is not None
    cancelled = await memory.cancel_job(report.job)
    assert (cancelled.changed, cancelled.job.state) == (True, JobState.CANCELLED)
    assert not (await memory.cancel_job(report.job)).changed
    assert not (await memory.cancel_job(JobCancelRequest(id=report.job))).changed, "the typed form is the same"
    assert (await memory.retry_job(JobRetryRequest(id=report.job))).job.state is JobState.PENDING
    await memory.cancel_job(report.job)
    assert (await memory.run_jobs()).jobs == ()


async def test_unknown_jobs_are_not_found(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, None, ids=SeededIds())
    assert (await memory.run_jobs()).jobs == ()
    for call in (memory.retry_job, memory.cancel_job):
        with pytest.raises(NotFound):
            await call("abc123")


async def test_two_workers_never_lease_the_same_job(store: MemoryStore, clock: FrozenClock) -> None:
    one = await opened(store, clock, towns(1), ids=SeededIds("one"))
    two = await opened(store, clock, towns(1), ids=SeededIds("two"))
    await finish(one, "t1", said(0))
    space = SPACE
    taken = await asyncio.gather(claim_job(one.context, space, "one"), claim_job(two.context, space, "two"))
    assert sorted(known is not None for known in taken) == [False, True]
    clock.advance(JOB_LEASE_MS)
    again = await claim_job(two.context, space, "two")
    assert again is not None
    assert again.job.attempts == 2


async def test_many_workers_share_the_jobs_and_run_each_once(store: MemoryStore, clock: FrozenClock) -> None:
    model = towns(12)
    runtimes = [await opened(store, clock, model, ids=SeededIds(f"w{number}")) for number in range(4)]
    for number in range(12):
        scope = talk(f"talk {number}")
        await finish(runtimes[number % 4], f"t{number}", said(number), scope=scope)
    reports = await asyncio.gather(*(runtime.run_jobs() for runtime in runtimes))
    done = [job.id for report in reports for job in report.jobs]
    assert sorted(set(done)) == sorted(done)
    assert len(done) == 12
    assert len(model.prompts) == 12
    assert (await runtimes[0].inspect()).documents["facts"] == 12


async def test_a_full_queue_accepts_no_more_and_maintain_finds_the_rest(
    store: MemoryStore, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_core.policy.job_states.JOBS_ACTIVE", 1)
    memory = await opened(store, clock, towns(2), ids=SeededIds())
    await finish(memory, "t0", said(0), scope=talk("a"))
    left = await finish(memory, "t1", said(1), scope=talk("b"))
    assert left.job is None
    assert {outcome.reason for outcome in left.maintenance if outcome.status == "failed"} == {"queue_full"}
    from elytron_core.contracts.maintenance.maintenance import MemoryMaintainRequest

    found = await memory.maintain(MemoryMaintainRequest(scope=talk("b")))
    assert found.turns == 1
    assert (await memory.inspect()).documents["facts"] == 1


async def test_a_worker_that_lost_its_lease_ends_and_leaves_the_job_to_the_other(
    store: MemoryStore, clock: FrozenClock
) -> None:
    space = SPACE
    other = await opened(store, clock, towns(1), ids=SeededIds("other"))
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[Any]] = []

    class Slow(ScriptedModel):
        async def complete(self, *args: Any, **options: Any) -> Any:
            clock.advance(JOB_LEASE_MS + 1)
            tasks.append(loop.create_task(claim_job(other.context, space, "other")))
            await tasks[0]
            return await towns(1).complete(*args, **options)

    memory = await opened(store, clock, Slow([]), ids=SeededIds())
    await finish(memory, "t0", said(0))
    (job,) = (await memory.run_jobs(JobRunRequest(limit=1))).jobs
    assert job.state is JobState.LEASED
    assert tasks[0].result().job.lease.holder == "other"


async def test_a_runtime_with_workers_runs_jobs_while_it_is_open(store: MemoryStore, clock: FrozenClock) -> None:
    model = answering(("Porto", PORTO))
    memory = await opened(store, clock, model, ids=SeededIds())
    worker = JobWorker(memory.context, pause_s=0.001)
    worker.start()
    await finish(memory, "t1", "Well, home is Porto these days.")
    async with asyncio.timeout(100):
        while (await memory.list_jobs()).health is not WorkHealth.IDLE:
            await memory.context.commits.next(SPACE).wait()
    await worker.stop()
    await worker.stop()
    assert (await memory.inspect()).documents["facts"] == 1


class SharedStore(MemoryStore):
    """A store that outlives the runtimes that use it."""

    async def close(self) -> None:
        return


async def test_a_worker_finds_deferred_jobs_and_returns_its_job_when_stopped(clock: FrozenClock) -> None:
    store = SharedStore()
    host = await opened(store, clock, towns(1), ids=SeededIds("host"))
    await finish(host, "t0", said(0))
    asked = asyncio.Event()

    class Endless(ScriptedModel):
        async def complete(self, *args: Any, **options: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    async with opened(store, clock, Endless([]), ids=SeededIds("worker"), work=True):
        await asked.wait()
        assert (await host.list_jobs()).counts == {"leased": 1}
    assert (await host.list_jobs()).counts == {"pending": 1}


async def test_rules_need_no_queue(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, None, ids=SeededIds())
    await finish(memory, "t0", "I live in Lisbon.", extraction=ExtractionMethod.RULES)
    assert (await memory.list_jobs()).jobs == ()


def test_a_stored_job_contains_no_message_text(tmp_path: Path) -> None:
    async def tell() -> list[bytes]:
        async with elytron.open(f"sqlite:///{tmp_path}/m.db", space="ada", language_model=towns(1)) as memory:
            await finish(memory, "t0", said(0))
            await memory.run_jobs()
            store = memory.context.store
            found = [
                await store.scan(SPACE, name, limit=10) for name in ("jobs", "jobs_over", "maintained", "spending")
            ]
            return [document.body for page in found for document in page]

    bodies = asyncio.run(tell())
    assert len(bodies) == 4
    assert not any(b"bells" in body for body in bodies)
