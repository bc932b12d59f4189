"""The durable queue: one holder at a time, nothing done twice, nothing lost."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sdk.turns import answering, finish, item, items

import elytron
from elytron.models import ScriptedModel
from elytron.queueing import claim, read_queue
from elytron.worker import Worker
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.maintaining import Extraction, JobListRequest, JobRunRequest, WorkHealth
from elytron_core.errors import ModelRefused, ModelUnavailable, NotFound, StoreUnavailable
from elytron_core.ids import SeededIds
from elytron_core.planes.jobs import JobState
from elytron_core.ports.store import Batch, Committed
from elytron_core.scope import Scope
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

PORTO = items(item("The user lives in Porto.", "home is Porto these days"))


NAMES = (
    "Aarhus", "Bergen", "Cork", "Dijon", "Essen", "Fulda", "Ghent", "Hull", "Izmir", "Jaffa",
    "Kazan", "Lodz", "Malmo", "Nice", "Oulu", "Pisa", "Quito", "Riga", "Split", "Turin",
)  # fmt: skip


def towns(count: int) -> ScriptedModel:
    """Return a model that reads a town from each of the turns that `said` gives."""
    return answering(
        *(
            (f"the bells of {name} ", items(item(fact(number), f"bells of {name} wake me", topic=name)))
            for number, name in enumerate(NAMES[:count])
        )
    )


def said(number: int) -> str:
    return f"Mornings the bells of {NAMES[number]} wake me."


def fact(number: int) -> str:
    return f"{NAMES[number]} {NAMES[number][::-1]} {NAMES[-1 - number]}: bells."


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    yield store
    await store.close()


def opened(store: Any, clock: FrozenClock, model: ScriptedModel | None, /, **more: Any) -> elytron.Opening:
    return elytron.open(store, space="ada", clock=clock, language_model=model, **more)


async def test_a_job_is_done_once_and_kept_to_be_looked_at(store: MemoryStore, clock: FrozenClock) -> None:
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


async def test_a_model_that_is_away_is_asked_again_later_and_later(store: MemoryStore, clock: FrozenClock) -> None:
    away = [ModelUnavailable("off")] * limits.JOB_ATTEMPTS
    memory = await opened(store, clock, ScriptedModel([*away, PORTO]), ids=SeededIds())
    await finish(memory, "t1", "Well, home is Porto these days.")
    waits: list[int] = []
    while (await read_queue(memory.context, memory.context.default_scope.space)).active:  # type: ignore[union-attr]
        (job,) = (await memory.run_jobs()).jobs
        waits.append(job.due_at - job.updated_at)
        assert (await memory.run_jobs()).jobs == ()
        clock.advance(limits.JOB_WAIT_MAX_MS)
    assert (job.state, job.error, job.attempts) == (JobState.DEAD_LETTER, "model_unavailable", limits.JOB_ATTEMPTS)
    assert all(limits.JOB_WAIT_MS / 2 <= wait <= limits.JOB_WAIT_MAX_MS for wait in waits[:-1])
    assert waits[0] < waits[3] < waits[6]
    assert (await memory.list_jobs()).health is WorkHealth.DEGRADED
    tried = await memory.retry_job(job.id)
    assert (tried.changed, tried.job.state, tried.job.attempts) == (True, JobState.PENDING, 0)
    assert (await memory.run_jobs()).jobs[0].state is JobState.SUCCEEDED


async def test_a_refused_turn_ends_in_the_dead_letters_and_can_be_tried_again(
    store: MemoryStore, clock: FrozenClock
) -> None:
    memory = await opened(store, clock, ScriptedModel([ModelRefused("no"), PORTO]), ids=SeededIds())
    await finish(memory, "t1", "Well, home is Porto these days.")
    (job,) = (await memory.run_jobs()).jobs
    assert (job.state, job.error) == (JobState.DEAD_LETTER, "model_refused")
    assert "extraction" not in job.done
    await memory.retry_job(job.id)
    (job,) = (await memory.run_jobs(JobRunRequest(id=job.id))).jobs
    assert job.state is JobState.SUCCEEDED
    assert (await memory.inspect()).documents["facts"] == 1


async def test_a_cancelled_job_is_not_done(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, answering(("Porto", PORTO)), ids=SeededIds())
    report = await finish(memory, "t1", "Well, home is Porto these days.")
    assert report.job is not None
    cancelled = await memory.cancel_job(report.job)
    assert (cancelled.changed, cancelled.job.state) == (True, JobState.CANCELLED)
    assert not (await memory.cancel_job(report.job)).changed
    assert (await memory.run_jobs()).jobs == ()


async def test_what_is_no_job_is_not_found(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, None, ids=SeededIds())
    assert (await memory.run_jobs()).jobs == ()
    for call in (memory.retry_job, memory.cancel_job):
        with pytest.raises(NotFound):
            await call("abc123")


async def test_two_workers_never_have_one_job(store: MemoryStore, clock: FrozenClock) -> None:
    one = await opened(store, clock, towns(1), ids=SeededIds("one"))
    two = await opened(store, clock, towns(1), ids=SeededIds("two"))
    await finish(one, "t1", said(0))
    space = Scope(space="ada").space  # type: ignore[arg-type]
    taken = await asyncio.gather(claim(one.context, space, "one"), claim(two.context, space, "two"))
    assert sorted(known is not None for known in taken) == [False, True]
    clock.advance(limits.JOB_LEASE_MS)
    again = await claim(two.context, space, "two")
    assert again is not None
    assert again.job.attempts == 2


async def test_many_workers_share_the_jobs_and_do_each_once(store: MemoryStore, clock: FrozenClock) -> None:
    model = towns(12)
    runtimes = [await opened(store, clock, model, ids=SeededIds(f"w{number}")) for number in range(4)]
    for number in range(12):
        scope = Scope(space="ada", conversation=f"talk {number}")  # type: ignore[arg-type]
        await finish(runtimes[number % 4], f"t{number}", said(number), scope=scope)
    reports = await asyncio.gather(*(runtime.run_jobs() for runtime in runtimes))
    done = [job.id for report in reports for job in report.jobs]
    assert sorted(set(done)) == sorted(done)
    assert len(done) == 12
    assert len(model.prompts) == 12
    assert (await runtimes[0].inspect()).documents["facts"] == 12


async def test_a_full_queue_takes_no_more_and_maintain_finds_what_was_left(
    store: MemoryStore, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOBS_ACTIVE", 1)
    memory = await opened(store, clock, towns(2), ids=SeededIds())
    await finish(memory, "t0", said(0), scope=Scope(space="ada", conversation="a"))  # type: ignore[arg-type]
    left = await finish(memory, "t1", said(1), scope=Scope(space="ada", conversation="b"))  # type: ignore[arg-type]
    assert left.job is None
    assert {outcome.reason for outcome in left.maintenance if outcome.status == "failed"} == {"queue_full"}
    from elytron_core.contracts.maintaining import MemoryMaintainRequest

    found = await memory.maintain(MemoryMaintainRequest(scope=Scope(space="ada", conversation="b")))  # type: ignore[arg-type]
    assert found.turns == 1
    assert (await memory.inspect()).documents["facts"] == 1


class Cut(StoreUnavailable):
    """The machine went away."""


class CuttingStore(MemoryStore):
    """A store whose machine goes away at a commit: before it is applied, or after and before anybody hears of it."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.is_applied = False

    async def commit(self, batch: Batch, /) -> Committed:
        if self.left is None:
            return await super().commit(batch)
        self.left -= 1
        if self.left > 0:
            return await super().commit(batch)
        if self.is_applied:
            await super().commit(batch)
        raise Cut("cut")


@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_worker_that_dies_at_any_step_leaves_nothing_undone_or_done_twice(
    clock: FrozenClock, is_applied: bool
) -> None:
    for step in range(1, 40):
        store = CuttingStore()
        first = await opened(store, clock, towns(2), ids=SeededIds(f"{step}"))
        await finish(first, "t0", said(0))
        await finish(first, "t1", said(1))
        store.left, store.is_applied = step, is_applied
        try:
            await first.run_jobs()
        except Cut:
            has_died = True
        else:
            has_died = False
        store.left = None
        clock.advance(limits.JOB_LEASE_MS + 1)
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


CHILD = """
import asyncio, sys
import elytron
from elytron.models import ScriptedModel
from elytron_core.contracts.maintaining import MemoryFinalizeTurnRequest
from elytron_core.contracts.transcript import CanonicalTurnDelta
from elytron_core.planes.transcript import Message, Role

def hang(prompt):
    print("asked", flush=True)
    while True:
        pass

async def main():
    memory = await elytron.open(sys.argv[1], space="ada", language_model=ScriptedModel(hang))
    said, answer = Message(text="Well, home is Porto these days."), Message(role=Role.ASSISTANT, text="Nice.")
    delta = CanonicalTurnDelta(turn_id="t1", input_messages=(said,), assistant_message=answer)
    await memory.finalize_turn_and_maintain(MemoryFinalizeTurnRequest(delta=delta))
    await memory.run_jobs()

asyncio.run(main())
"""


async def test_a_killed_process_leaves_its_job_to_the_next(path: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "asked\n"
    child.kill()
    child.wait()
    child.stdout.close()
    clock = FrozenClock(Instant(time.time_ns() // 1_000_000), step_ms=1)
    async with elytron.open(path, space="ada", clock=clock, language_model=answering(("Porto", PORTO))) as memory:
        assert (await memory.run_jobs()).jobs == ()
        assert (await memory.list_jobs()).counts == {"leased": 1}
        clock.advance(limits.JOB_LEASE_MS)
        (job,) = (await memory.run_jobs()).jobs
        assert (job.state, job.attempts) == (JobState.SUCCEEDED, 2)
        assert "The user lives in Porto." in [hit.text for hit in (await memory.recall("Porto")).hits]


async def test_a_job_whose_workers_always_die_is_given_up(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, towns(1), ids=SeededIds())
    await finish(memory, "t0", said(0))
    space = Scope(space="ada").space  # type: ignore[arg-type]
    for attempt in range(limits.JOB_ATTEMPTS):
        assert await claim(memory.context, space, f"dying {attempt}") is not None
        clock.advance(limits.JOB_LEASE_MS + 1)
    (job,) = (await memory.run_jobs()).jobs
    assert (job.state, job.error) == (JobState.DEAD_LETTER, "never_ended")


async def test_a_worker_that_lost_its_lease_ends_and_leaves_the_job_to_the_other(
    store: MemoryStore, clock: FrozenClock
) -> None:
    space = Scope(space="ada").space  # type: ignore[arg-type]
    other = await opened(store, clock, towns(1), ids=SeededIds("other"))
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[Any]] = []

    class Slow(ScriptedModel):
        async def complete(self, *args: Any, **options: Any) -> Any:
            clock.advance(limits.JOB_LEASE_MS + 1)
            tasks.append(loop.create_task(claim(other.context, space, "other")))
            await tasks[0]
            return await super().complete(*args, **options)

    memory = await opened(store, clock, Slow(towns(1)._script), ids=SeededIds())
    await finish(memory, "t0", said(0))
    (job,) = (await memory.run_jobs(JobRunRequest(limit=1))).jobs
    assert job.state is JobState.LEASED
    assert tasks[0].result().job.lease.holder == "other"


async def test_a_runtime_asked_to_work_does_the_jobs_while_it_is_open(store: MemoryStore, clock: FrozenClock) -> None:
    model = answering(("Porto", PORTO))
    memory = await opened(store, clock, model, ids=SeededIds())
    worker = Worker(memory.context, pause_s=0.001)
    worker.start()
    await finish(memory, "t1", "Well, home is Porto these days.")
    async with asyncio.timeout(10):
        while (await memory.list_jobs()).health is not WorkHealth.IDLE:
            await memory.context.commits.next(Scope(space="ada").space).wait()  # type: ignore[arg-type]
    await worker.stop()
    await worker.stop()
    assert (await memory.inspect()).documents["facts"] == 1


async def test_a_worker_finds_what_others_put_off_and_gives_its_job_back_when_it_stops(
    store: MemoryStore, clock: FrozenClock
) -> None:
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
        store_close, store.close = store.close, asyncio.Event().set  # type: ignore[method-assign, assignment]
        store.close = _stay_open  # type: ignore[method-assign]
    store.close = store_close  # type: ignore[method-assign]
    assert (await host.list_jobs()).counts == {"pending": 1}


async def _stay_open() -> None:
    return


async def test_a_store_that_is_away_does_not_end_a_worker(clock: FrozenClock) -> None:
    store = CuttingStore()
    memory = await opened(store, clock, towns(1), ids=SeededIds())
    await finish(memory, "t0", said(0))
    store.left = 1
    worker = Worker(memory.context, pause_s=0.001)
    worker.start()
    async with asyncio.timeout(10):
        while store.left > 0:
            await asyncio.sleep(0)
        store.left = None
        while (await memory.list_jobs()).counts != {"succeeded": 1}:
            clock.advance(limits.JOB_LEASE_MS)
            await asyncio.sleep(0)
    await worker.stop()


@given(story=st.lists(st.sampled_from(["turn", "run", "die", "hour", "cancel", "retry"]), max_size=14), seed=st.integers(0, 9))
def test_whatever_happens_every_turn_is_read_exactly_once(story: list[str], seed: int) -> None:
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
    clock.advance(limits.JOB_LEASE_MS + limits.JOB_WAIT_MAX_MS)
    await memory.run_jobs()
    report = await memory.list_jobs()
    assert set(report.counts) <= {"succeeded"}
    found = [hit for hit in (await memory.recall("bells", limit=200)).hits if hit.plane == "long_term"]
    assert sorted(hit.text for hit in found) == sorted(fact(number) for number in range(turns))
    assert all(len(hit.citations) == 1 for hit in found)


async def test_rules_need_no_queue(store: MemoryStore, clock: FrozenClock) -> None:
    memory = await opened(store, clock, None, ids=SeededIds())
    await finish(memory, "t0", "I live in Lisbon.", extraction=Extraction.RULES)
    assert (await memory.list_jobs()).jobs == ()


def test_the_file_of_a_job_holds_no_word_of_what_was_said(tmp_path: Path) -> None:
    async def tell() -> list[bytes]:
        async with elytron.open(f"sqlite:///{tmp_path}/m.db", space="ada", language_model=towns(1)) as memory:
            await finish(memory, "t0", said(0))
            await memory.run_jobs()
            store = memory.context.store
            found = [await store.scan(Scope(space="ada").space, name, limit=10) for name in ("jobs", "queue", "maintained", "spending")]  # type: ignore[arg-type]
            return [document.body for page in found for document in page]

    bodies = asyncio.run(tell())
    assert len(bodies) == 4
    assert not any(b"bells" in body for body in bodies)
