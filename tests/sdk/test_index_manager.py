"""Guarantees of updating the index: own writes are not reread, others' are never missed."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterable, Iterator, Sequence
from mmap import mmap
from typing import Self

import pytest
from tests.sdk.told import believe, learn, texts

import elytron
from elytron.indexing import checkpoints, index_manager, waiting_commits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import NotFound, StoreFull
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.ports.store import Document, DocumentRef, ErasureTarget, JournalEntry
from elytron_core.text.analyser import TextAnalyser
from elytron_index import space_index
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


class Counting(MemoryStore):
    """A memory store that counts its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0
        self.turns: list[str] = []

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        found = await super().journal(space, after=after, limit=limit)
        self.entries += len(found)
        return found

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        self.turns += [ref.key for ref in refs if ref.collection == "turns"]
        return await super().get(space, refs)


def told(*said: str, user: str | None = None) -> elytron.MemoryWriteRequest:
    turns = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in said)
    scope = elytron.Scope(space=SpaceId(user)) if user is not None else None
    return elytron.MemoryWriteRequest(scope=scope, write=elytron.TranscriptWrite(turns=turns))


async def test_own_writes_are_folded_without_being_reread() -> None:
    store = Counting()
    async with elytron.open(store, space="ada") as memory:
        for number in range(5):
            await memory.add(f"tea number {number}")
            store.entries = 0
            assert len((await memory.recall("tea")).hits) == number + 1
            assert store.entries == 1, "the last entry alone is looked at, to see that nobody wrote meanwhile"


@pytest.mark.parametrize("others", [False, True])
async def test_erasing_the_last_folded_memory_keeps_the_index(*, others: bool) -> None:
    store = Counting()
    one = await elytron.open(store, space="ada")
    other = await elytron.open(store, space="ada") if others else one
    *_, last = [(await one.add(f"tea number {number}")).ids[0] for number in range(30)]
    before = await one.context.folds.current(SpaceId("ada"))
    await other.erase(elytron.MemoryEraseRequest(ids=(last,)))
    store.turns.clear()
    assert await one.context.folds.current(SpaceId("ada")) is before
    assert before.units == 29
    assert set(store.turns) <= {last}


async def test_many_writes_are_folded_before_anyone_recalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_manager, "FED_AT_ONCE", 10)
    store = Counting()
    async with elytron.open(store, space="ada") as memory:
        for number in range(4):
            await memory.write(told(*(f"tea {number} {part}" for part in range(6))))
        await believe(memory, "drink", "green tea")
        await learn(memory, "brew", "1. Heat water.\n2. Add tea.\n3. Wait.", topic="brewing tea")
        store.entries = 0
        assert (await memory.recall("tea", limit=100)).considered == 26
        assert store.entries == 1


async def test_foreign_writes_between_own_ones_are_read_from_the_journal(path: str) -> None:
    async with elytron.open(path) as one, elytron.open(path) as other:
        await one.add("tea one")
        await other.add("tea two")
        await one.add("tea three")
        await one.add("tea four")
        assert sorted(await texts(one, "tea")) == ["tea four", "tea one", "tea three", "tea two"]
        assert sorted(await texts(other, "tea")) == sorted(await texts(one, "tea"))


async def test_a_reopened_store_is_not_treated_as_new(path: str) -> None:
    async with elytron.open(path) as memory:
        await memory.add("tea one")
    async with elytron.open(path) as memory:
        await memory.add("tea two")
        assert sorted(await texts(memory, "tea")) == ["tea one", "tea two"]


async def test_writes_during_an_index_rebuild_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_manager, "FED_AT_ONCE", 2)
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("tea 0")
        await asyncio.gather(*(call for n in range(1, 20) for call in (memory.add(f"tea {n}"), memory.recall("tea"))))
        assert len((await memory.recall("tea", limit=100)).hits) == 20


async def test_incremental_updates_and_a_rebuild_give_the_same_recall() -> None:
    said = [f"tea {number} with {'milk' if number % 3 else 'lemon'}" for number in range(40)]
    clock = FrozenClock(step_ms=1)
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds()) as memory:
        await memory.recall("tea")
        await memory.write(told(*said))
        fed = await memory.recall("lemon tea", limit=20)
        await memory.recover()
        assert (await memory.recall("lemon tea", limit=20)).hits == fed.hits


LONG = " ".join(f"w{number}" for number in range(20_000))
"""A message with more words than are analysed at once."""


class Turns:
    """Counts other tasks' loop iterations during a wait."""

    def __init__(self) -> None:
        self.had = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._count())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.had += 1


async def test_other_tasks_run_while_a_long_message_is_folded() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("tea w7")
        await memory.recall("tea")
        await memory.add(LONG)
        async with Turns() as turns:
            recalled = await memory.recall("w7 w19999")
        assert {hit.text for hit in recalled.hits} == {LONG, "tea w7"}
        assert turns.had > 15


async def test_other_tasks_run_while_a_long_message_is_read_from_the_store(path: str) -> None:
    async with elytron.open(path, space="ada") as memory:
        await memory.add(LONG)
    async with elytron.open(path, space="ada") as memory, Turns() as turns:
        assert len((await memory.recall("w19999")).hits) == 1
        assert turns.had > 15


async def test_many_long_messages_are_folded_in_steps_before_anyone_recalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_manager, "FED_AT_ONCE", 2)
    async with elytron.open("memory:", space="ada") as memory:
        await memory.write(told(LONG, "w7 tea"))
        await memory.write(told(LONG, "w7 milk"))
        recalled = await memory.recall("w7", limit=10)
        assert len(recalled.hits) == 4
        assert (await memory.recall("w7 milk")).hits[0].text == "w7 milk"


@pytest.mark.parametrize(("many", "in_steps"), [(waiting_commits.MANY_CHARS, False), (10_000, True)])
async def test_short_messages_are_folded_immediately_unless_there_are_very_many(
    monkeypatch: pytest.MonkeyPatch, many: int, in_steps: bool
) -> None:
    monkeypatch.setattr(waiting_commits, "MANY_CHARS", many)
    stepped: list[str] = []
    steps = TextAnalyser.steps

    def noted(self: TextAnalyser, text: str) -> Iterator[list[str]]:
        stepped.append(text)
        return steps(self, text)

    monkeypatch.setattr(TextAnalyser, "steps", noted)
    async with elytron.open("memory:", space="ada") as memory:
        said = [f"tea {number} " + "and some more words " * 8 for number in range(500)]
        await memory.write(told(*said))
        assert (await memory.recall("tea")).considered == 500
    assert bool(stepped) is in_steps
    assert set(stepped) <= set(said)


async def test_an_evicted_index_is_stored_and_not_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "WORTH_STORING", 5)
    store = Counting()
    async with elytron.open(store, index_bytes=1) as memory:
        for name in ("ada", "ben"):
            await memory.write(told(*(f"tea {number}" for number in range(9)), user=name))
            await memory.recall("tea", user_id=name)
        await memory.recall("tea", user_id="ada")
        await memory.context.folds.checkpoint()
        assert set(await blobs(store)) == {"ada", "ben"}
        for name in ("ben", "ada", "ben"):
            store.entries = 0
            assert len((await memory.recall("tea", user_id=name, limit=20)).hits) == 9
            assert store.entries <= 2, "the last entry is looked at, and none is folded again"
            await memory.context.folds.checkpoint()


async def test_an_evicted_index_releases_its_memory_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_index, "MAPPED", 0)
    rooms: list[weakref.ref[bytearray | mmap]] = []
    room = space_index.allocate_memory

    def watched(size: int) -> bytearray | mmap:
        found = room(size)
        rooms.append(weakref.ref(found))
        return found

    monkeypatch.setattr(space_index, "allocate_memory", watched)
    monkeypatch.setattr(checkpoints, "WORTH_STORING", 1)
    async with elytron.open("memory:", index_bytes=1) as memory:
        for name in ("ada", "ben"):
            await memory.write(told("tea", "milk", user=name))
            await memory.recall("tea", user_id=name)
        await memory.context.folds.checkpoint()
        gc.disable()
        try:
            await memory.recall("tea", user_id="ada")
            assert [there() is not None for there in rooms] == [True]
            await memory.recall("tea", user_id="ben")
            assert [there() is not None for there in rooms] == [False, True]
        finally:
            gc.enable()


async def test_many_simultaneously_evicted_indexes_are_stored_in_turn_and_reloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "WORTH_STORING", 1)
    monkeypatch.setattr(index_manager, "LEAVING_AT_ONCE", 1)
    names = [f"user{number}" for number in range(8)]
    async with elytron.open("memory:", index_bytes=1) as memory:
        for name in names:
            await memory.write(told("tea", "milk", user=name))
        for _ in range(3):
            found = await asyncio.gather(*(memory.recall("tea milk", user_id=name) for name in names))
            assert [len(report.hits) for report in found] == [2] * len(names)


async def test_content_erased_during_an_eviction_is_in_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "WORTH_STORING", 1)
    for whole in (False, True):
        store = Erasing(whole_space=whole)
        async with elytron.open(store, index_bytes=1) as memory:
            await memory.write(told("the canary sings", "tea", user="ada"))
            await memory.recall("canary", user_id="ada")
            store.armed = True
            await memory.write(told("tea", user="ben"))
            await memory.recall("tea", user_id="ben")
            await memory.context.folds.checkpoint()
            assert not store.armed
            assert "ada" not in await blobs(store)
            assert [hit.text for hit in (await memory.recall("tea canary", user_id="ada")).hits] == (
                [] if whole else ["tea"]
            )


async def test_a_refused_checkpoint_costs_only_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "WORTH_STORING", 1)
    async with elytron.open(Refusing(), index_bytes=1) as memory:
        for name in ("ada", "ben", "ada"):
            await memory.write(told("tea", user=name))
            assert (await memory.recall("tea", user_id=name)).hits


async def test_an_index_is_compacted_in_the_background_while_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_index.structures.index_state._COMPACT_DEAD", 3)
    async with elytron.open("memory:", space="ada") as memory:
        report = await memory.write(told(*(f"tea {number}" for number in range(12))))
        await memory.recall("tea")
        for turn in report.ids[:9]:
            await memory.forget(elytron.MemoryForgetRequest(ids=(turn,)))
        assert len((await memory.recall("tea", limit=20)).hits) == 3
        await memory.add("tea again")
        assert len((await memory.recall("tea", limit=20)).hits) == 4
        await memory.context.folds.checkpoint()
        await memory.add("tea for ever")
        assert len((await memory.recall("tea", limit=20)).hits) == 5


async def blobs(store: MemoryStore) -> list[SpaceId]:
    """Return the spaces that have a checkpoint."""
    found: list[SpaceId] = []
    for space in await store.spaces(limit=100):
        try:
            _ = [chunk async for chunk in store.read_blob(space, checkpoints.CHECKPOINT)]
        except NotFound:
            continue
        found.append(space)
    return found


class Erasing(MemoryStore):
    """A memory store in which somebody erases content of a space just before its checkpoint is written."""

    def __init__(self, *, whole_space: bool) -> None:
        super().__init__()
        self.armed = False
        self._whole = whole_space

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        if self.armed and space == "ada":
            self.armed = False
            (first,) = await self.scan(space, "turns", limit=1)
            refs = () if self._whole else (first.ref,)
            blobs = () if self._whole else (checkpoints.CHECKPOINT,)
            await self.erase(ErasureTarget(space, Instant(5), refs=refs, blobs=blobs, whole_space=self._whole))
        return await super().write_blob(space, key, chunks)


class Refusing(MemoryStore):
    """A memory store whose device has no room for a checkpoint."""

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        raise StoreFull(engine="memory")


@pytest.mark.parametrize("turns", [3, 4, 5, 9, 22])
async def test_the_progress_of_an_index_rebuild_is_reported(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    monkeypatch.setattr(index_manager, "PAGE", 4)
    store, seen = MemoryStore(), list[tuple[int, int]]()
    writer = await elytron.open(store, space="ada")
    for number in range(turns):
        await writer.add(f"tea number {number}")
    end = (await writer.inspect()).sequence
    reader = await elytron.open(store, space="ada", progress=lambda done, total: seen.append((done, total)))
    assert len((await reader.recall("tea", limit=50)).hits) == turns
    steps = [] if end < 4 else [0, *range(4, end, 3), end]
    assert seen == [(done, end) for done in steps]
    seen.clear()
    await writer.add("tea once more")
    assert len((await reader.recall("tea", limit=50)).hits) == turns + 1
    assert seen == []
    await reader.close()
