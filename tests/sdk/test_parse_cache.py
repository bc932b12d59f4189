"""The cache of parsed documents never serves other bytes, respects its limit, and is dropped with the index."""

from pathlib import Path

import pytest
from benchmarks.rigs.live_words import live_bytes
from tests.sdk.told import believe

import elytron
from elytron.indexing.index_manager import SpaceIndexes
from elytron.indexing.units import READING_BYTES, ParseCache
from elytron_core.clock import Instant
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.ids import SpaceId
from elytron_core.planes import transcript
from elytron_core.ports.store import Document, DocumentRef

ADA, BOB = SpaceId("ada"), SpaceId("bob")


def document(number: int, text: str = "tea") -> Document:
    turn = transcript.Turn(
        sequence=number,
        recorded_at=Instant(number),
        channel="web",
        conversation="c",
        messages=(transcript.Message(text=text),),
    )
    return Document(DocumentRef(transcript.TURNS, f"aa.{number:012x}"), 1, turn.to_bytes())


def test_equal_bytes_are_parsed_once() -> None:
    readings = ParseCache()
    first = readings.turn(ADA, document(1))
    assert readings.turn(ADA, document(1)) is first
    assert readings.turn(ADA, document(1, "coffee")).turn.messages[0].text == "coffee"
    assert readings.turn(BOB, document(1)) is not first


def test_large_documents_are_not_cached() -> None:
    readings = ParseCache()
    readings.turn(ADA, document(1, "x" * READING_BYTES))
    assert len(readings) == 0


def test_the_oldest_entries_are_evicted_other_spaces_first() -> None:
    readings = ParseCache(3)
    for space, number in ((BOB, 1), (BOB, 2), (ADA, 1), (ADA, 2)):
        readings.turn(space, document(number))
    assert len(readings) == 2
    for number in range(3, 6):
        readings.turn(ADA, document(number))
    assert len(readings) == 3
    newest = readings.turn(ADA, document(5))
    assert readings.turn(ADA, document(5)) is newest
    readings.forget(ADA)
    readings.forget(ADA)
    assert len(readings) == 0


@pytest.mark.anyio
async def test_a_list_is_rebuilt_only_for_a_new_state_and_dropped_with_its_space() -> None:
    readings = ParseCache(4)
    made: list[str] = []

    async def listed(space: SpaceId, name: str, state: int, *values: str) -> tuple[str, ...]:
        async def make() -> tuple[str, ...]:
            made.append(name)
            return values

        return tuple(await readings.listed(space, name, state, make))

    assert await listed(ADA, "drinks", 1, "tea") == await listed(ADA, "drinks", 1, "coffee") == ("tea",)
    assert await listed(ADA, "drinks", 2, "coffee") == ("coffee",)
    assert await listed(BOB, "drinks", 2, "milk") == ("milk",)
    readings.forget(ADA)
    assert await listed(ADA, "drinks", 2, "water") == ("water",)
    assert await listed(BOB, "drinks", 2, "juice") == ("milk",)
    assert made == ["drinks"] * 4
    # The least recently used entry is evicted.
    assert await listed(BOB, "meals", 1, "soup", "bread", "cake") == ("soup", "bread", "cake")
    assert await listed(ADA, "drinks", 2, "wine") == ("wine",)


@pytest.mark.anyio
async def test_a_list_read_before_its_space_was_dropped_is_not_cached() -> None:
    readings = ParseCache()

    async def make() -> tuple[str, ...]:
        readings.forget(ADA)
        return ("erased meanwhile",)

    async def other() -> tuple[str, ...]:
        return ()

    assert await readings.listed(ADA, "list", 1, make) == ("erased meanwhile",)
    assert await readings.listed(ADA, "list", 1, other) == ()


def folds_of(memory: elytron.MemoryRuntime) -> SpaceIndexes:
    return memory.context.folds


@pytest.mark.anyio
async def test_an_erasure_by_any_process_clears_the_cache(tmp_path: Path) -> None:
    async with elytron.open(tmp_path / "m.db") as mine, elytron.open(tmp_path / "m.db") as others:
        ids = (await mine.add(["The canary sings at noon.", "The cat sleeps at noon."])).ids
        await believe(mine, "canary", "The canary is yellow.")
        for memory in (mine, others):
            assert len((await memory.recall("canary at noon")).hits) >= 2
            assert len(folds_of(memory).readings) >= 2
        await mine.erase(MemoryEraseRequest(ids=ids[:1]))
        assert not any(b"sings" in data for data in live_bytes(folds_of(mine)))
        for memory in (mine, others):
            texts = [hit.text for hit in (await memory.recall("canary at noon")).hits]
            assert "The canary sings at noon." not in texts
            caches = folds_of(memory).readings._caches  # pyright: ignore[reportPrivateUsage]
            assert not any(b"sings" in body for cache in caches.values() for body, _ in cache.values())


@pytest.mark.anyio
async def test_an_erasure_leaves_no_cached_list_with_its_content() -> None:
    async with elytron.open("memory:") as memory:
        (wish,) = (await memory.add(["Never suggest pork.", "The cat sleeps at noon."])).ids[:1]
        assert "Never suggest pork." in (await memory.project("What shall I cook?")).system_memory_block
        lists = folds_of(memory).readings._lists  # pyright: ignore[reportPrivateUsage]
        assert "pork" in str(lists)
        await memory.erase(MemoryEraseRequest(ids=(wish,)))
        assert "pork" not in str(lists)
        assert "pork" not in (await memory.project("What shall I cook?")).system_memory_block


@pytest.mark.anyio
async def test_modifying_a_hit_does_not_affect_later_ones() -> None:
    async with elytron.open("memory:") as memory:
        await memory.add("I like tea", metadata={"cups": 2})
        (hit,) = (await memory.recall("tea")).hits
        hit.metadata["cups"] = 9
        hit.signals.clear()
        (again,) = (await memory.recall("tea")).hits
        assert again.metadata == {"cups": 2}
        assert again.signals
