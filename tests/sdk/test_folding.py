"""What keeping the index in step promises: own writes are not read twice, others' are never missed."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.sdk.told import believe, learn, texts

import elytron
from elytron import folding
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.ports.store import Document, JournalEntry, Ref
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


class Counting(MemoryStore):
    """A memory store that counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0
        self.turns: list[str] = []

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        found = await super().journal(space, after=after, limit=limit)
        self.entries += len(found)
        return found

    async def get(self, space: SpaceId, refs: Sequence[Ref], /) -> Sequence[Document | None]:
        self.turns += [ref.key for ref in refs if ref.collection == "turns"]
        return await super().get(space, refs)


def told(*said: str) -> elytron.MemoryWriteRequest:
    turns = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in said)
    return elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=turns))


async def test_what_this_runtime_wrote_is_folded_without_being_read_again() -> None:
    store = Counting()
    async with elytron.open(store, space="ada") as memory:
        for number in range(5):
            await memory.add(f"tea number {number}")
            store.entries = 0
            assert len((await memory.recall("tea")).hits) == number + 1
            assert store.entries == 1, "the last entry alone is looked at, to see that nobody wrote meanwhile"


async def test_much_that_was_written_is_folded_before_anyone_recalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FED_AT_ONCE", 10)
    store = Counting()
    async with elytron.open(store, space="ada") as memory:
        for number in range(4):
            await memory.write(told(*(f"tea {number} {part}" for part in range(6))))
        await believe(memory, "drink", "green tea")
        await learn(memory, "brew", "1. Heat water.\n2. Add tea.\n3. Wait.", topic="brewing tea")
        store.entries = 0
        assert (await memory.recall("tea", limit=100)).considered == 26
        assert store.entries == 1


async def test_others_writes_between_own_ones_are_read_from_the_journal(path: str) -> None:
    async with elytron.open(path) as one, elytron.open(path) as other:
        await one.add("tea one")
        await other.add("tea two")
        await one.add("tea three")
        await one.add("tea four")
        assert sorted(await texts(one, "tea")) == ["tea four", "tea one", "tea three", "tea two"]
        assert sorted(await texts(other, "tea")) == sorted(await texts(one, "tea"))


async def test_a_store_with_a_past_is_not_taken_for_a_new_one(path: str) -> None:
    async with elytron.open(path) as memory:
        await memory.add("tea one")
    async with elytron.open(path) as memory:
        await memory.add("tea two")
        assert sorted(await texts(memory, "tea")) == ["tea one", "tea two"]


async def test_writes_while_an_index_is_being_made_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FED_AT_ONCE", 2)
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("tea 0")
        await asyncio.gather(*(call for n in range(1, 20) for call in (memory.add(f"tea {n}"), memory.recall("tea"))))
        assert len((await memory.recall("tea", limit=100)).hits) == 20


async def test_feeding_and_reading_give_the_same_recall() -> None:
    said = [f"tea {number} with {'milk' if number % 3 else 'lemon'}" for number in range(40)]
    clock = FrozenClock(step_ms=1)
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds()) as memory:
        await memory.recall("tea")
        await memory.write(told(*said))
        fed = await memory.recall("lemon tea", limit=20)
        await memory.recover()
        assert (await memory.recall("lemon tea", limit=20)).hits == fed.hits
