"""An erasure whose process is killed is ended by the next that comes to the space, and is never seen undone."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.sdk.kill_points import ADA, erasing, exit_code
from tests.sdk.told import believe, learn, texts

import elytron
from elytron.state.spaces import ERASING, REF, end_erasing, erasing_places, erasing_put
from elytron_core.clock import FrozenClock
from elytron_core.errors import StoreFull, StoreUnavailable
from elytron_core.planes.space import MemoryPlace
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
)
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

WORD = "zanzibar"
SQLITE, FILE = "sqlite:{}/m.db", "file:{}/files"


async def told(memory: elytron.MemoryRuntime) -> list[str]:
    """Tell of tea, and of what is to be erased: a message of a turn, a turn, a fact, and a procedure."""
    await memory.add("tea at four", conversation="kitchen")
    messages = (elytron.Message(text=f"{WORD} one"), elytron.Message(text="tea with milk"))
    write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
    (turn,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    whole = await memory.add(f"{WORD} two", conversation="kitchen")
    fact = await believe(memory, "home", f"{WORD} three")
    skill = await learn(memory, WORD, f"1. Fetch {WORD}.\n2. Wait.\n3. Serve tea.")
    return [f"{turn}#0", *whole.ids, *fact.ids, *skill.ids]


def remains(folder: Path) -> list[str]:
    """Return the files that hold the word."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("url", "point", "number"),
    [
        (SQLITE, "begun", 1),
        (SQLITE, "journal", 2),
        (SQLITE, "purge", 1),
        (SQLITE, "finished", 1),
        (SQLITE, "ended", 1),
        (SQLITE, "journal", 3),
        (FILE, "begun", 1),
        (FILE, "replace", 1),
        (FILE, "finished", 1),
        (FILE, "ended", 1),
    ],
)
async def test_an_erasure_that_is_killed_is_ended_by_whoever_comes_next(
    url: str, point: str, number: int, tmp_path: Path
) -> None:
    place = url.format(str(tmp_path).replace("/", "%2F"))
    async with elytron.open(place, space=ADA) as memory:
        ids = await told(memory)
    assert remains(tmp_path)
    assert exit_code(erasing, place, point, number, *ids) == -signal.SIGKILL
    async with elytron.open(place, space=ADA) as memory:
        assert sorted(await texts(memory, f"{WORD} tea")) == ["tea at four", "tea with milk"]
        assert not remains(tmp_path)
        assert await erasing_places(memory.context.store, ADA) == ()
        report = await memory.inspect(elytron.MemoryInspectionRequest(check=True))
        assert report.store_check is not None
        assert report.journal_account is not None
        assert (report.store_check.ok, report.journal_account.ok) == (True, True)
        assert (await memory.replay("kitchen")).total_turns == 1
    assert not remains(tmp_path)


async def test_an_erasure_that_is_killed_before_its_first_commit_has_changed_nothing(tmp_path: Path) -> None:
    place = SQLITE.format(str(tmp_path).replace("/", "%2F"))
    async with elytron.open(place, space=ADA) as memory:
        ids = await told(memory)
    assert exit_code(erasing, place, "journal", 1, *ids) == -signal.SIGKILL
    async with elytron.open(place, space=ADA) as memory:
        assert WORD in str(await texts(memory, WORD))
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))
        assert WORD not in str(await texts(memory, WORD))
    assert not remains(tmp_path)


class DyingStore(MemoryStore):
    """A store that breaks off at the `left`th commit or erasure from now on, and stays open for others."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1
        self.error: Exception = StoreUnavailable("the process dies here")

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self._step()
        return await super().commit(batch)

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        self._step()
        return await super().erase(erasure)

    async def close(self) -> None:
        """Stay open."""

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error


@pytest.mark.parametrize("step", [2, 3])
async def test_two_that_come_at_once_both_wait_until_an_erasure_is_ended(step: int) -> None:
    store = DyingStore()
    memory = await elytron.open(store, space=ADA)
    ids = await told(memory)
    store.left = step
    with pytest.raises(StoreUnavailable):
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))
    again = await elytron.open(store, space=ADA)
    found = await asyncio.gather(texts(again, f"{WORD} tea"), texts(again, f"{WORD} home"))
    assert WORD not in str(found)
    assert await erasing_places(store, ADA) == ()


async def test_a_store_without_room_is_read_although_an_erasure_cannot_be_ended() -> None:
    store = DyingStore()
    memory = await elytron.open(store, space=ADA)
    ids = await told(memory)
    store.left = 2
    with pytest.raises(StoreUnavailable):
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))
    store.left, store.error = 1, StoreFull(engine="memory")
    full = await elytron.open(store, space=ADA)
    assert "tea at four" in await texts(full, "tea")
    assert await erasing_places(store, ADA)
    store.left = -1
    assert WORD not in str(await texts(await elytron.open(store, space=ADA), WORD))


async def test_erasures_of_two_processes_end_each_their_own() -> None:
    store, now = MemoryStore(), FrozenClock().now()
    await (await elytron.open(store, space=ADA)).add("tea")
    ours, theirs = MemoryPlace("facts", "ab"), MemoryPlace("turns", "cd", 1)
    entry = EntryDraft(JournalAction.MAINTENANCE, REF)
    for place in (ours, theirs):
        await store.commit(Batch(ADA, now, (entry,), (await erasing_put(store, ADA, [place]),)))
    await end_erasing(store, ADA, [ours], at=now)
    assert await erasing_places(store, ADA) == (theirs,)
    await end_erasing(store, ADA, [theirs], at=now)
    assert await store.get(ADA, (ERASING,)) == [None]
