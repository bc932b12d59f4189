"""Jobs of a host's own kinds: due at a time, leased to one worker, retried, abandoned; on every engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.store.postgres_rig import empty_tables, open_tables

import elytron
from elytron import MemoryRuntime
from elytron.context import Beat
from elytron.flows.worker import JobWorker
from elytron.jobs.background import BackgroundTask
from elytron.jobs.queue import QUEUE_REF, claim_job, schedule_job
from elytron_agent.service.agent_service import JobService
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import InvalidInput, StoreUnavailable, Unreachable
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import JOB_LEASE_MS, JobState
from elytron_core.ports.store import Batch, EntryDraft, JournalAction, PutChange
from elytron_core.scope import Scope
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio
SCOPE = Scope(space="ada", conversation="plans")
Opened = Callable[[], Awaitable[MemoryRuntime]]


@pytest.fixture(params=["memory", "file", "sqlite", "postgres"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Opened]:
    """Open one store repeatedly, like several processes."""
    shared = MemoryStore()
    urls = {"file": f"file://{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    if request.param == "postgres":
        database: str = request.getfixturevalue("database")
        await (await open_tables(database)).close()
        empty_tables(database)
        urls["postgres"] = f"{database}?sealed=no"
    async with AsyncExitStack() as stack:

        async def once() -> MemoryRuntime:
            there = urls.get(request.param, shared)
            return await stack.enter_async_context(elytron.open(there, scope=SCOPE, clock=clock))

        yield once


class Notes:
    """A runner that records its jobs, and fails as often as told."""

    def __init__(self, *failures: Exception) -> None:
        self.payloads: list[str] = []
        self._failures = [*failures]

    async def __call__(self, _scope: Scope, payload: str, beat: Beat, /) -> None:
        await beat()
        self.payloads.append(payload)
        if self._failures:
            raise self._failures.pop(0)


async def put_off(memory: MemoryRuntime, name: str = "one", *, after_ms: int = 0) -> None:
    """Schedule a job of the kind "remind"."""
    due_at = Instant(memory.context.clock.now() + after_ms)
    assert await schedule_job(memory.context, SCOPE, "remind", name, name, due_at=due_at) is not None


async def test_a_job_runs_once_when_it_is_due(opened: Opened, clock: FrozenClock) -> None:
    memory, notes = await opened(), Notes()
    memory.context.runners["remind"] = notes
    await put_off(memory, after_ms=1_000)
    await put_off(memory, after_ms=1_000)
    assert (await memory.run_jobs()).jobs == ()
    clock.advance(1_000)
    (done,) = (await memory.run_jobs()).jobs
    assert (done.kind, done.state, notes.payloads) == ("remind", JobState.SUCCEEDED, ["one"])
    assert (await memory.run_jobs()).jobs == ()


async def test_a_job_is_left_to_a_process_that_has_its_runner(opened: Opened) -> None:
    without, notes = await opened(), Notes()
    await put_off(without)
    assert (await without.run_jobs()).jobs == ()
    able = await opened()
    able.context.runners["remind"] = notes
    assert len((await able.run_jobs()).jobs) == 1


async def test_a_leased_job_passes_to_another_worker_when_the_lease_ends(opened: Opened, clock: FrozenClock) -> None:
    killed, notes = await opened(), Notes()
    killed.context.runners["remind"] = notes
    await put_off(killed)
    assert await claim_job(killed.context, SCOPE.space, "killed") is not None
    other = await opened()
    other.context.runners["remind"] = notes
    assert (await other.run_jobs()).jobs == ()
    clock.advance(JOB_LEASE_MS)
    (done,) = (await other.run_jobs()).jobs
    assert (done.state, done.attempts, notes.payloads) == (JobState.SUCCEEDED, 2, ["one"])


async def test_a_transient_failure_is_retried_later(opened: Opened, clock: FrozenClock) -> None:
    memory, notes = await opened(), Notes(Unreachable("nothing answers"))
    memory.context.runners["remind"] = notes
    await put_off(memory)
    (waiting,) = (await memory.run_jobs()).jobs
    assert (waiting.state, waiting.error) == (JobState.RETRY_WAITING, Unreachable.key)
    clock.advance(limits.JOB_WAIT_MAX_MS)
    (done,) = (await memory.run_jobs()).jobs
    assert (done.state, notes.payloads) == (JobState.SUCCEEDED, ["one", "one"])


async def test_a_permanent_failure_becomes_a_dead_letter(opened: Opened) -> None:
    memory = await opened()
    memory.context.runners["remind"] = Notes(InvalidInput(field="to", problem="is nobody"))
    await put_off(memory)
    (job,) = (await memory.run_jobs()).jobs
    assert (job.state, job.error) == (JobState.DEAD_LETTER, "invalid_input")


async def test_an_unexpected_error_counts_as_an_attempt(opened: Opened, clock: FrozenClock) -> None:
    memory, notes = await opened(), Notes(*(RuntimeError("odd") for _ in range(limits.JOB_ATTEMPTS)))
    memory.context.runners["remind"] = notes
    await put_off(memory)
    states: list[JobState] = []
    for _ in range(limits.JOB_ATTEMPTS):
        (job,) = (await memory.run_jobs()).jobs
        states.append(job.state)
        assert job.error == "internal"
        clock.advance(limits.JOB_WAIT_MAX_MS)
    assert states == [JobState.RETRY_WAITING] * (limits.JOB_ATTEMPTS - 1) + [JobState.DEAD_LETTER]


async def test_an_unavailable_store_leaves_the_job_leased(opened: Opened) -> None:
    memory = await opened()
    memory.context.runners["remind"] = Notes(StoreUnavailable("the store is away"))
    await put_off(memory)
    with pytest.raises(StoreUnavailable):
        await memory.run_jobs()
    assert [job.state for job in (await memory.list_jobs()).jobs] == [JobState.LEASED]


async def test_turns_do_not_join_a_job_of_another_kind(opened: Opened) -> None:
    memory = await opened()
    await put_off(memory)
    await put_off(memory, "two")
    assert [job.turns for job in (await memory.list_jobs()).jobs] == [0, 0]


async def test_a_full_queue_accepts_no_more_jobs(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_ACTIVE_OF_KIND", 1)
    memory = await opened()
    await put_off(memory)
    assert await schedule_job(memory.context, SCOPE, "remind", "two", "", due_at=memory.context.clock.now()) is None


class Reminders:
    """Runs jobs by calling a function."""

    def __init__(self, do: Callable[[Scope], None], /) -> None:
        self._do = do

    async def run(self, scope: Scope, _payload: str, _beat: Beat, /) -> None:
        self._do(scope)

    async def give_up(self, space: SpaceId, payload: str, /) -> None: ...

    async def repair(self, space: SpaceId, /) -> None: ...


def working(kind: str, memory: MemoryRuntime, do: Callable[[Scope], None], /) -> JobWorker | JobService:
    """Return what runs the jobs of all spaces: a server's worker, or its agents' service."""
    runner = Reminders(do)
    memory.context.runners["remind"] = runner.run
    if kind == "worker":
        return JobWorker(memory.context, pause_s=0.01)
    return JobService(memory.context, {"remind": runner}, poll_s=0.01)


@pytest.mark.parametrize("kind", ["worker", "desk"])
async def test_a_space_with_many_jobs_blocks_no_other(
    kind: str, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_agent.service.agent_service.SCHEDULES_AT_ONCE", 1)
    store, names = MemoryStore(), ("ada", "bob")
    async with elytron.open(store, scope=SCOPE, clock=clock) as memory:
        done: list[str] = []
        is_over = asyncio.Event()

        def note(scope: Scope) -> None:
            done.append(scope.space)
            if len(done) == 31:
                is_over.set()

        for space, count in zip(names, (30, 1), strict=True):
            for number in range(count):
                now = clock.now()
                await schedule_job(memory.context, Scope(space=space), "remind", f"{number}", "", due_at=now)
        worker = working(kind, memory, note)
        worker.start()
        await is_over.wait()
        await worker.stop()
        assert done.index("bob") <= 1


@pytest.mark.parametrize("kind", ["worker", "desk"])
async def test_a_damaged_queue_of_one_space_blocks_no_other(kind: str, clock: FrozenClock) -> None:
    store = MemoryStore()
    async with elytron.open(store, scope=SCOPE, clock=clock) as memory:
        is_done = asyncio.Event()

        for space in ("ada", "bob"):
            now = clock.now()
            await schedule_job(memory.context, Scope(space=space), "remind", "one", "", due_at=now)
        (queue,) = await store.get(SpaceId("ada"), [QUEUE_REF])
        assert queue is not None
        entry = EntryDraft(JournalAction.MAINTENANCE, QUEUE_REF)
        broken = PutChange(QUEUE_REF, b"no queue", expects=queue.revision)
        await store.commit(Batch(SpaceId("ada"), clock.now(), (entry,), (broken,)))
        worker = working(kind, memory, lambda _: is_done.set())
        worker.start()
        await is_done.wait()
        await worker.stop()


async def test_background_work_continues_after_a_fault() -> None:
    begun = 0
    is_there = asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise RuntimeError("odd")
        is_there.set()
        await asyncio.Event().wait()

    task = BackgroundTask(work, name="work", pause_s=0)
    task.start()
    await is_there.wait()
    await task.stop()
    assert begun == 3
