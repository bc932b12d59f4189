"""Journal entries show the plane and conversation that they concern, without content."""

from collections.abc import AsyncIterator

import pytest

import elytron
from elytron.journal.follower import event_of
from elytron_core.clock import FrozenClock
from elytron_core.contracts.events import JournalEvent
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.space import COLLECTIONS, plane_of
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def memory(request: pytest.FixtureRequest) -> AsyncIterator[elytron.MemoryRuntime]:
    wanted = getattr(request, "param", False)
    async with elytron.open(
        MemoryStore(), space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds(), projection_events=wanted
    ) as runtime:
        yield runtime


async def events(memory: elytron.MemoryRuntime) -> list[JournalEvent]:
    space = SpaceId("ada")
    return [event_of(space, entry) for entry in await memory.context.store.journal(space, after=0, limit=100)]


async def test_an_entry_names_its_plane_and_the_conversation_by_a_tag(memory: elytron.MemoryRuntime) -> None:
    await memory.add("Ada likes tea.", conversation="kitchen talk")
    await memory.add("Ada likes rain.", conversation="kitchen talk")
    await memory.add("Ada likes snow.", conversation="hall talk")
    await memory.add_fact("drink", "tea")
    found = await events(memory)
    turns = [event.conversation for event in found if event.collection == "turns"]
    assert turns[0] == turns[1] != turns[2]
    assert None not in turns
    assert {event.plane for event in found} >= {"transcript", "long_term"}
    assert "talk" not in "".join(event.model_dump_json() for event in found)


def test_every_collection_has_its_plane() -> None:
    assert {plane_of(collection) for collection in COLLECTIONS} >= {"transcript", "long_term", "space", "notes", "jobs"}


@pytest.mark.parametrize(("memory", "count"), [(True, 2), (False, 0)], indirect=["memory"])
async def test_a_projection_leaves_a_contentless_event_on_request(memory: elytron.MemoryRuntime, count: int) -> None:
    await memory.add("Ada likes tea.")
    for _ in range(2):
        assert "tea" in (await memory.project("tea")).system_memory_block
    left = [event for event in await events(memory) if event.action == "projection"]
    assert len(left) == count
    assert all(event.digest and "tea" not in event.model_dump_json() for event in left)
    assert [hit.text for hit in (await memory.recall("tea")).hits] == ["Ada likes tea."]


@pytest.mark.parametrize("memory", [True], indirect=True)
async def test_a_space_event_does_not_change_its_record(memory: elytron.MemoryRuntime) -> None:
    await memory.add("Ada likes tea.")
    await memory.project("tea")
    report = await memory.inspect(MemoryInspectionRequest(check=True))
    assert report.journal_account is not None
    assert report.journal_account.ok
