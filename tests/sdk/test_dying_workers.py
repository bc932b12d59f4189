"""Workers that die: nothing they held is lost, and nothing they did is repeated."""

import asyncio
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sdk.kill_points import asking, exit_code
from tests.sdk.towns import PORTO, SPACE, fact, opened, said, towns
from tests.sdk.turns import answering, finish

import elytron
from elytron.flows.worker import JobWorker
from elytron.jobs.queue import claim_job
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import StoreUnavailable
from elytron_core.ids import SeededIds
from elytron_core.planes.jobs import JOB_LEASE_MS, JobState
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class Cut(StoreUnavailable):
    """The machine failed."""


class CuttingStore(MemoryStore):
    """A store whose machine fails at a commit: before it is applied, or after it but before anybody learns of it."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.is_applied = False

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if self.left is None:
            return await super().commit(batch)
        self.left -= 1
        if self.left > 0:
            return await super().commit(batch)
        if self.is_applied:
            await super().commit(batch)
        raise Cut("cut")


async def dies(
    worker: elytron.MemoryRuntime, store: CuttingStore, clock: FrozenClock, *, step: int, is_applied: bool
) -> bool:
    """Return whether the worker reached the commit of that number; then its lease is over."""
    store.left, store.is_applied = step, is_applied
    try:
        await worker.run_jobs()
    except Cut:
        has_died = True
    else:
        has_died = False
    store.left = None
    clock.advance(JOB_LEASE_MS + 1)
    return has_died


@pytest.mark.anyio
@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_worker_dying_at_any_step_loses_and_repeats_nothing(clock: FrozenClock, is_applied: bool) -> None:
    for step in range(1, 40):
        store = CuttingStore()
        first = await opened(store, clock, towns(2), ids=SeededIds(f"{step}"))
        await finish(first, "t0", said(0))
        await finish(first, "t1", said(1))
        has_died = await dies(first, store, clock, step=step, is_applied=is_applied)
        second = await opened(store, clock, towns(2), ids=SeededIds(f"{step} again"))
        await second.run_jobs()
        (job,) = (await second.list_jobs()).jobs
        assert (step, job.state) == (step, JobState.SUCCEEDED)
        facts = [hit for hit in (await second.recall("bells", limit=50)).hits if hit.plane == "long_term"]
        assert sorted(hit.text for hit in facts) == [fact(0), fact(1)]
        assert all(len(hit.citations) == 1 for hit in facts)
        if not has_died:
            return
    raise AssertionError("no worker came to an end")


@pytest.mark.anyio
async def test_a_differently_worded_second_answer_adds_nothing(clock: FrozenClock) -> None:
    for step in range(1, 40):
        store = CuttingStore()
        first = await opened(store, clock, answering(("Porto", PORTO)), ids=SeededIds(f"{step}"))
        await finish(first, "t1", "Well, home is Porto these days.")
        has_died = await dies(first, store, clock, step=step, is_applied=True)
        other = PORTO.replace("The user lives in Porto.", "Home of the user is Porto, they say.")
        second = await opened(store, clock, answering(("Porto", other)), ids=SeededIds(f"{step} again"))
        await second.run_jobs()
        assert (await second.list_jobs()).counts == {"succeeded": 1}
        assert (await second.inspect()).documents["facts"] == 1
        if not has_died:
            return
    raise AssertionError("no worker came to an end")


@pytest.mark.anyio
async def test_a_killed_process_leaves_its_job_to_the_next(path: str) -> None:
    assert exit_code(asking, path) == -signal.SIGKILL
    clock = FrozenClock(Instant(time.time_ns() // 1_000_000), step_ms=1)
    async with elytron.open(path, space="ada", clock=clock, language_model=answering(("Porto", PORTO))) as memory:
        assert (await memory.run_jobs()).jobs == ()
        assert (await memory.list_jobs()).counts == {"leased": 1}
        clock.advance(JOB_LEASE_MS)
        (job,) = (await memory.run_jobs()).jobs
        assert (job.state, job.attempts) == (JobState.SUCCEEDED, 2)
        assert "The user lives in Porto." in [hit.text for hit in (await memory.recall("Porto")).hits]


@pytest.mark.anyio
async def test_a_job_whose_workers_always_die_is_abandoned(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, towns(1), ids=SeededIds())
    await finish(memory, "t0", said(0))
    space = SPACE
    for attempt in range(limits.JOB_ATTEMPTS):
        assert await claim_job(memory.context, space, f"dying {attempt}") is not None
        clock.advance(JOB_LEASE_MS + 1)
    (job,) = (await memory.run_jobs()).jobs
    assert (job.state, job.error) == (JobState.DEAD_LETTER, "never_ended")


@pytest.mark.anyio
async def test_an_unavailable_store_does_not_end_a_worker(clock: FrozenClock) -> None:
    store = CuttingStore()
    memory = await opened(store, clock, towns(1), ids=SeededIds())
    await finish(memory, "t0", said(0))
    store.left = 1
    worker = JobWorker(memory.context, pause_s=0.001)
    worker.start()
    async with asyncio.timeout(100):
        while store.left > 0:
            await asyncio.sleep(0)
        store.left = None
        while (await memory.list_jobs()).counts != {"succeeded": 1}:
            clock.advance(JOB_LEASE_MS)
            await asyncio.sleep(0)
    await worker.stop()


@given(
    story=st.lists(st.sampled_from(["turn", "run", "die", "hour", "cancel", "retry"]), max_size=14),
    seed=st.integers(0, 9),
)
def test_every_turn_is_processed_exactly_once(story: list[str], seed: int) -> None:
    asyncio.run(_live(story, seed))


async def _live(story: list[str], seed: int) -> None:
    clock, store, model = FrozenClock(step_ms=1), CuttingStore(), towns(20)
    turns = 0
    memory = await opened(store, clock, model, ids=SeededIds(f"{seed}"))
    for place, event in enumerate(story):
        jobs = (await memory.list_jobs()).jobs
        match event:
            case "turn":
                await finish(memory, f"t{turns}", said(turns))
                turns += 1
            case "run":
                await memory.run_jobs()
            case "die":
                store.left, store.is_applied = 1 + (seed + place) % 7, bool(seed % 2)
                try:
                    await memory.run_jobs()
                except Cut:
                    memory = await opened(store, clock, model, ids=SeededIds(f"{seed} {place}"))
                store.left = None
            case "hour":
                clock.advance(3_600_000)
            case "cancel" if jobs:
                await memory.cancel_job(jobs[0].id)
            case "retry" if jobs:
                await memory.retry_job(jobs[-1].id)
            case _:
                continue
    for job in (await memory.list_jobs()).jobs:
        if job.state in {JobState.CANCELLED, JobState.DEAD_LETTER}:
            await memory.retry_job(job.id)
    clock.advance(JOB_LEASE_MS + limits.JOB_WAIT_MAX_MS)
    await memory.run_jobs()
    report = await memory.list_jobs()
    assert set(report.counts) <= {"succeeded"}
    found = [hit for hit in (await memory.recall("bells", limit=200)).hits if hit.plane == "long_term"]
    assert sorted(hit.text for hit in found) == sorted(fact(number) for number in range(turns))
    assert all(len(hit.citations) == 1 for hit in found)
