"""Following a journal: in order, without gaps, from any position, across processes and erasures."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import get_args

import pytest

import elytron
from elytron import MemoryEraseRequest, MemoryForgetRequest, MemoryRuntime
from elytron.journal.compaction import compact_space
from elytron.journal.follower import AnnouncingStore, StoreJournals, entry_pages, inner_store
from elytron_core import limits
from elytron_core.contracts.events import EventAction, EventGap, GapReason, JournalEvent
from elytron_core.errors import StoreClosed
from elytron_core.ids import SpaceId
from elytron_core.ports.store import JournalAction, JournalEntry
from elytron_core.profiles import StoreCapabilities
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")


def journals(memory: MemoryRuntime, *, poll_s: float = 60.0) -> StoreJournals:
    return StoreJournals(memory.context.store, memory.context.commits, poll_s=poll_s)


async def stream(found: StoreJournals, after: str | None) -> AsyncIterator[JournalEvent | EventGap]:
    follower = found.follow(ADA)
    async for page in entry_pages(follower, await follower.begin(after)):
        for item in (page,) if isinstance(page, EventGap) else page:
            yield item


async def taken(found: StoreJournals, after: str | None, count: int) -> list[JournalEvent | EventGap]:
    """Return the next `count` items after `after`."""
    items: list[JournalEvent | EventGap] = []
    async with asyncio.timeout(100):
        async for item in stream(found, after):
            items.append(item)
            if len(items) == count:
                break
    return items


def sequences(items: list[JournalEvent | EventGap]) -> list[int]:
    return [item.sequence for item in items if isinstance(item, JournalEvent)]


def test_events_name_the_actions_of_the_journal() -> None:
    assert set(get_args(EventAction)) == {action.value for action in JournalAction}


async def test_entries_arrive_in_order_without_content(memory: MemoryRuntime) -> None:
    await memory.add("The safe code is 4711.", speaker="Ada")
    items = await taken(journals(memory), "0", 2)
    assert sequences(items) == [1, 2]
    assert "4711" not in str(items)
    assert "Ada" not in str(items)


async def test_commits_of_this_runtime_are_reported_immediately(memory: MemoryRuntime) -> None:
    await memory.add("one")
    waiting = asyncio.create_task(taken(journals(memory), None, 2))
    for _ in range(20):
        await asyncio.sleep(0)  # until it waits at the end
    await memory.add("two")
    await memory.add("three")
    assert sequences(await waiting) == [3, 4]


async def test_commits_of_another_process_are_found_by_polling(path: str) -> None:
    async with elytron.open(path, space="ada") as here, elytron.open(path, space="ada") as there:
        await here.add("one")
        found = journals(here, poll_s=0.005)
        waiting = [asyncio.create_task(taken(found, "2", 2)) for _ in range(3)]
        for number in range(2):
            await there.add(f"more {number}")
            await asyncio.sleep(0)
        assert [sequences(await task) for task in waiting] == [[3, 4]] * 3


class Alone(PassingStore):
    """A store that no other handle commits to; it counts reads of its journal."""

    looks = 0

    @property
    def capabilities(self) -> StoreCapabilities:
        return super().capabilities.model_copy(update={"following": False})

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        self.looks += 1
        return await super().journal(space, after=after, limit=limit)


async def test_a_store_without_following_is_not_polled() -> None:
    store = Alone(MemoryStore())
    async with elytron.open(store, space="ada") as memory:
        await memory.add("one")
        waiting = asyncio.create_task(taken(journals(memory, poll_s=0.0), None, 1))
        for _ in range(20):
            await asyncio.sleep(0)  # until it waits at the end
        before = store.looks
        for _ in range(20):
            await asyncio.sleep(0)
        assert store.looks == before
        await memory.add("two")
        assert sequences(await waiting) == [3]


async def test_an_event_id_is_the_position_to_resume_from(memory: MemoryRuntime) -> None:
    for number in range(5):
        await memory.add(f"text {number}")
    found = journals(memory)
    whole = await taken(found, "0", 6)
    for place, item in enumerate(whole[:-1], 1):
        assert isinstance(item, JournalEvent)
        assert await taken(found, item.id, 6 - place) == whole[place:]
        assert await taken(found, str(item.sequence), 6 - place) == whole[place:]


async def test_pages_join_without_a_gap(memory: MemoryRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENTS_PAGE", 3)
    for number in range(20):
        await memory.add(f"text {number}")
    assert sequences(await taken(journals(memory), "0", 21)) == list(range(1, 22))


async def test_the_newest_entry_is_found_without_reading_all(memory: MemoryRuntime) -> None:
    found = journals(memory)
    assert await found.last(ADA, 0) is None
    for number in range(1, 40):
        await memory.add(f"text {number}")
        last = await found.last(ADA, 0)
        assert last is not None
        assert last.sequence == number + 1


class TestGaps:
    async def test_an_erased_space_is_reported_before_later_entries(self, memory: MemoryRuntime) -> None:
        await memory.add(["one", "two", "three"])
        (first, *_, last) = await taken(journals(memory), "0", 4)
        assert isinstance(last, JournalEvent)
        await memory.erase(MemoryEraseRequest(whole_space="ada"))
        await memory.add(["one", "two", "three", "four"])
        gap, again = await taken(journals(memory), last.id, 2)
        assert gap == EventGap(space="ada", reason=GapReason.ERASED, first=1, last=last.sequence)
        assert isinstance(again, JournalEvent)
        assert again.sequence == 1
        assert again != first

    async def test_an_erasure_is_reported_to_listeners(self, memory: MemoryRuntime) -> None:
        await memory.add("one")
        waiting = asyncio.create_task(taken(journals(memory), None, 2))
        for _ in range(20):
            await asyncio.sleep(0)
        await memory.erase(MemoryEraseRequest(whole_space="ada"))
        await memory.add("anew")
        gap, event = await waiting
        assert isinstance(gap, EventGap)
        assert isinstance(event, JournalEvent)
        assert (gap.reason, event.sequence) == (GapReason.ERASED, 1)

    async def test_an_erased_memory_is_not_a_gap(self, memory: MemoryRuntime) -> None:
        written = await memory.add("one")
        waiting = asyncio.create_task(taken(journals(memory), "0", 4))
        for _ in range(20):
            await asyncio.sleep(0)
        await memory.erase(MemoryEraseRequest(ids=written.ids))
        items = await waiting
        assert sequences(items) == [1, 2, 3, 4]

    async def test_a_position_beyond_the_journal_is_a_gap(self, memory: MemoryRuntime) -> None:
        await memory.add("one")
        gap, event = await taken(journals(memory), "900", 2)
        assert isinstance(gap, EventGap)
        assert isinstance(event, JournalEvent)
        assert (gap.reason, event.sequence) == (GapReason.ERASED, 1)

    async def test_a_reader_too_far_behind_is_told_about_the_gap(
        self, memory: MemoryRuntime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("elytron.journal.follower.EVENTS_BACKLOG", 5)
        for number in range(10):
            await memory.add(f"text {number}")
        gap, *events = await taken(journals(memory), "2", 6)
        assert gap == EventGap(space="ada", reason=GapReason.RETENTION, first=3, last=6)
        assert sequences(events) == [7, 8, 9, 10, 11]

    @pytest.mark.parametrize("place", ["0", "1", "3"])
    async def test_entries_that_were_compacted_are_a_gap(self, memory: MemoryRuntime, place: str) -> None:
        written = await memory.add(["one", "two", "three"])
        await memory.erase(MemoryEraseRequest(ids=written.ids))
        await compact_space(memory.context.store, ADA)
        last = (await memory.inspect()).sequence
        *before, gap, event = await taken(journals(memory), place, 3 if place == "0" else 2)
        assert sequences(before) == ([1] if place == "0" else [])
        assert gap == EventGap(space="ada", reason=GapReason.COMPACTED, first=max(2, int(place) + 1), last=last - 1)
        assert isinstance(event, JournalEvent)
        assert event.sequence == last

    async def test_a_reader_inside_compacted_entries_continues_after_them(self, memory: MemoryRuntime) -> None:
        written = await memory.add(["one", "two", "three"])
        reader = journals(memory).follow(ADA)
        await reader.begin("3")
        await memory.erase(MemoryEraseRequest(ids=written.ids))
        await compact_space(memory.context.store, ADA)
        last = (await memory.inspect()).sequence
        assert await reader.read() == EventGap(space="ada", reason=GapReason.COMPACTED, first=4, last=last - 1)
        behind = await reader.read()
        assert not isinstance(behind, EventGap)
        assert [event.sequence for event in behind] == [last]


async def test_a_closed_store_ends_the_stream(path: str) -> None:
    memory = await elytron.open(path, space="ada")
    await memory.add("one")
    waiting = asyncio.create_task(taken(journals(memory, poll_s=0.005), None, 1))
    for _ in range(20):
        await asyncio.sleep(0)
    await memory.close()
    with pytest.raises(StoreClosed):
        await waiting


async def test_forgetting_is_an_event_too(memory: MemoryRuntime) -> None:
    written = await memory.add("one")
    waiting = asyncio.create_task(taken(journals(memory), None, 1))
    for _ in range(20):
        await asyncio.sleep(0)
    await memory.forget(MemoryForgetRequest(ids=written.ids))
    assert sequences(await waiting) == [3]


async def test_the_store_beneath_can_be_reached(tmp_path: Path) -> None:
    store = MemoryStore()
    async with elytron.open(store) as memory:
        assert isinstance(memory.context.store, AnnouncingStore)
        assert inner_store(memory.context.store) is store
        assert inner_store(store) is store
