"""Background work on a space under a secret: it waits, a grant permits it, and a lock ends that."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

import elytron
from elytron.context import Beat
from elytron.flows.worker import JobWorker, run_next
from elytron.jobs.queue import find_job, schedule_job
from elytron.runtime import MemoryRuntime
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import SpaceIncomplete, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import JobState
from elytron_core.ports.store import PutChange
from elytron_core.scope import Scope
from elytron_store.sealed.providers import LocalKeys
from elytron_store.secret.holds import fresh_until
from elytron_store.secret.records import (
    GRANT,
    SECRET_SLOT,
    GrantRecord,
    SecretRenewal,
    SecretSlotState,
    fresh_inner,
    secret_batch,
)

pytestmark = pytest.mark.anyio

ADA, BEA = SpaceId("ada"), SpaceId("bea")
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
KEYS = LocalKeys({"old": bytes(range(32))}, current="old")
HOUR_MS = 3_600_000
OTHER = """
import asyncio, sys
import elytron
from elytron.flows.worker import run_next
from elytron_core.errors import SpaceLocked
from elytron_core.ids import SpaceId
from elytron_store.sealed.providers import LocalKeys

async def main():
    keys = LocalKeys({"old": bytes(range(32))}, current="old")
    async with elytron.open(sys.argv[1], space="ada", keys=keys) as memory:
        said = []
        async def run(scope, payload, beat):
            hits = (await memory.search("boat key", user_id=scope.space)).hits
            said.append(hits[0].text)
        memory.context.runners["remind"] = run
        for line in sys.stdin:
            said.clear()
            try:
                await run_next(memory.context, SpaceId("ada"), kinds=("remind",))
                print(said[0] if said else "nothing", flush=True)
            except SpaceLocked:
                print("space_locked", flush=True)
            try:
                await memory.search("boat key")
                print("open", flush=True)
            except SpaceLocked:
                print("closed", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'kept.db'}"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def memory(url: str, clock: FrozenClock) -> AsyncIterator[MemoryRuntime]:
    async with elytron.open(url, space="ada", keys=KEYS, clock=clock) as opened:
        await opened.add("the boat key is under the oar")
        await opened.secrets.seal("ada", words=WORDS, minutes=60)
        yield opened


class Reminders:
    """Runs jobs, and records what it found; the first may be delayed by `meanwhile`."""

    def __init__(self, memory: MemoryRuntime) -> None:
        self.memory = memory
        self.said: list[str] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        memory.context.runners["remind"] = self.run

    async def run(self, scope: Scope, payload: str, beat: Beat) -> None:
        work, self.meanwhile = self.meanwhile, None
        if work is not None:
            await work()
        await beat()
        hits = (await self.memory.search("boat key", user_id=scope.space)).hits
        self.said.append(f"{payload}: {hits[0].text}")


async def schedule(memory: MemoryRuntime, name: str, space: SpaceId = ADA) -> None:
    made = await schedule_job(
        memory.context, Scope(space=space), "remind", name, name, due_at=Instant(memory.context.clock.now())
    )
    assert made is not None


async def state(memory: MemoryRuntime, name: str) -> tuple[JobState, int]:
    known = await find_job(memory.context, ADA, "remind", name)
    assert known is not None
    return known.job.state, known.job.attempts


async def test_a_job_continues_after_a_new_data_key(memory: MemoryRuntime) -> None:
    reminders = Reminders(memory)
    await schedule(memory, "one")
    reminders.meanwhile = partial(memory.secrets.rotate, "ada", words=WORDS)
    await run_next(memory.context, ADA, kinds=("remind",))
    assert reminders.said == ["one: the boat key is under the oar"]
    assert await state(memory, "one") == (JobState.SUCCEEDED, 1)


async def test_a_job_interrupted_by_a_sealing_restarts_from_scratch(memory: MemoryRuntime, clock: FrozenClock) -> None:
    reminders = Reminders(memory)
    await schedule(memory, "one")

    async def begin_sealing() -> None:
        """Leave the state of another process killed while it reseals the space."""
        found = await memory.secrets.store.slots.read(ADA)
        assert found is not None
        renewal = SecretRenewal(inner=fresh_inner())
        put = {"state": SecretSlotState.RENEWING, "renewal": renewal, "until": fresh_until(clock)}
        slot = found[0].model_copy(update=put)
        await memory.store.commit(secret_batch(ADA, clock, PutChange(SECRET_SLOT, slot.to_bytes(), found[1])))

    reminders.meanwhile = begin_sealing
    for _ in range(2):
        with pytest.raises(SpaceIncomplete):
            await run_next(memory.context, ADA, kinds=("remind",))
    clock.advance(30_000)
    await run_next(memory.context, ADA, kinds=("remind",))
    assert reminders.said == ["one: the boat key is under the oar"]
    assert await state(memory, "one") == (JobState.SUCCEEDED, 1)


async def test_jobs_of_a_locked_space_wait_and_continue_after_an_unlock(memory: MemoryRuntime) -> None:
    reminders = Reminders(memory)
    await schedule(memory, "one")
    await memory.secrets.lock("ada")
    for _ in range(3):
        with pytest.raises(SpaceLocked):
            await run_next(memory.context, ADA, kinds=("remind",))
    assert reminders.said == []
    await memory.secrets.unlock("ada", words=WORDS)
    assert await state(memory, "one") == (JobState.PENDING, 0)
    await run_next(memory.context, ADA, kinds=("remind",))
    assert reminders.said == ["one: the boat key is under the oar"]
    assert (await state(memory, "one"))[0] is JobState.SUCCEEDED


async def test_a_job_interrupted_by_a_lock_counts_no_attempt(memory: MemoryRuntime) -> None:
    reminders = Reminders(memory)
    reminders.meanwhile = partial(memory.secrets.lock, "ada")
    await schedule(memory, "one")
    with pytest.raises(SpaceLocked):
        await run_next(memory.context, ADA, kinds=("remind",))
    await memory.secrets.unlock("ada", words=WORDS)
    await run_next(memory.context, ADA, kinds=("remind",))
    assert reminders.said == ["one: the boat key is under the oar"]
    assert await state(memory, "one") == (JobState.SUCCEEDED, 1)


async def test_a_worker_processes_other_spaces_meanwhile(memory: MemoryRuntime) -> None:
    reminders = Reminders(memory)
    await memory.add("bea's boat key hangs by the door", user_id="bea")
    await schedule(memory, "ada's")
    await memory.secrets.lock("ada")
    await schedule(memory, "bea's", BEA)
    worker = JobWorker(memory.context, kinds=("remind",), pause_s=0.01)
    worker.start()
    while not reminders.said:
        await asyncio.sleep(0.01)
    assert reminders.said == ["bea's: bea's boat key hangs by the door"]
    await memory.secrets.unlock("ada", words=WORDS)
    while len(reminders.said) < 2:
        await asyncio.sleep(0.01)
    await worker.stop()
    assert reminders.said[1] == "ada's: the boat key is under the oar"


async def test_a_grant_opens_a_space_only_for_a_job(memory: MemoryRuntime, clock: FrozenClock) -> None:
    reminders = Reminders(memory)
    await schedule(memory, "one")
    granted = await memory.secrets.grant("ada", minutes=120)
    assert granted.grant_until == clock.now() + 2 * HOUR_MS
    clock.advance(HOUR_MS)
    with pytest.raises(SpaceLocked):
        await memory.search("boat key")
    await run_next(memory.context, ADA, kinds=("remind",))
    assert reminders.said == ["one: the boat key is under the oar"]
    with pytest.raises(SpaceLocked):
        await memory.search("boat key")
    assert memory.context.folds.memory_use[0] == 0


async def test_a_grant_expires_and_leaves_no_bytes(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await schedule(memory, "one")
    await memory.secrets.grant("ada", minutes=60)
    clock.advance(HOUR_MS)
    with pytest.raises(SpaceLocked):
        await run_next(memory.context, ADA, kinds=("remind",))
    assert (await memory.secrets.status("ada")).grant_until is None
    assert await memory.store.get(ADA, (GRANT,)) == [None]


async def test_a_grant_is_bound_to_one_space_one_expiry_and_one_unlock(
    memory: MemoryRuntime, clock: FrozenClock
) -> None:
    Reminders(memory)
    await schedule(memory, "one")
    await memory.secrets.seal("bea", words=WORDS)
    for space in (ADA, BEA):
        await memory.secrets.grant(space, minutes=60)
    (hers,), (own,) = await memory.store.get(BEA, (GRANT,)), await memory.store.get(ADA, (GRANT,))
    assert hers is not None
    assert own is not None
    longer = GrantRecord.from_bytes(own.body).model_copy(update={"until": Instant(clock.now() + 24 * HOUR_MS)})
    await memory.secrets.lock("ada")
    for forged in (hers.body, own.body, longer.to_bytes(), b"{}"):
        put = PutChange(GRANT, forged, 0)
        await memory.store.commit(secret_batch(ADA, clock, put))
        with pytest.raises(SpaceLocked):
            await run_next(memory.context, ADA, kinds=("remind",))
        await memory.secrets.revoke("ada")


async def test_only_a_caller_with_the_space_unlocked_may_grant(memory: MemoryRuntime) -> None:
    await memory.secrets.lock("ada")
    with pytest.raises(SpaceLocked):
        await memory.secrets.grant("ada")


async def test_another_process_uses_a_grant_until_the_lock(url: str) -> None:
    """A second process over the same store, which never had the words."""
    async with elytron.open(url, space="ada", keys=KEYS) as memory:
        await memory.add("the boat key is under the oar")
        await memory.secrets.seal("ada", words=WORDS)
        for name in ("one", "two", "three"):
            await schedule(memory, name)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", OTHER, url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        answers: list[tuple[str, str]] = []

        async def ask() -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"go\n")
            told = [(await process.stdout.readline()).decode().strip() for _ in range(2)]
            answers.append((told[0], told[1]))

        await ask()
        await memory.secrets.grant("ada", minutes=60)
        await ask()
        await memory.secrets.lock("ada")
        await ask()
        await memory.secrets.unlock("ada", words=WORDS)
        await ask()
        process.stdin.close()
        await process.wait()
    assert answers == [
        ("space_locked", "closed"),
        ("the boat key is under the oar", "closed"),
        ("space_locked", "closed"),
        ("space_locked", "closed"),
    ]


async def test_a_lock_in_one_process_closes_the_other(url: str) -> None:
    async with (
        elytron.open(url, space="ada", keys=KEYS) as one,
        elytron.open(url, space="ada", keys=KEYS) as other,
    ):
        await one.add("the boat key is under the oar")
        assert (await other.search("boat key")).hits
        await one.secrets.seal("ada", words=WORDS)
        with pytest.raises(SpaceLocked):
            await other.search("boat key")
        with pytest.raises(SpaceLocked):
            await other.add("said while it was locked")
        await other.secrets.unlock("ada", words=WORDS)
        await other.add("said while both are open")
        assert (await one.search("said while")).hits[0].text == "said while both are open"
        await one.secrets.lock("ada")
        with pytest.raises(SpaceLocked):
            await other.search("boat key")
        assert list(other.secrets.store.sessions) == []
        assert other.context.folds.memory_use[0] == 0
