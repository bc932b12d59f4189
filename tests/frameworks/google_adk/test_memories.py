"""The memory service: content is found once, only for its user and app, and stays deleted."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

import elytron
from elytron.api import MemoryFace
from elytron_core.errors import InvalidInput, NotFound, ScopeMissing, Unsupported
from elytron_integrations.google_adk import ElytronMemoryService, ElytronSessionService

pytestmark = pytest.mark.anyio
ADA: dict[str, Any] = {"app_name": "harbour", "user_id": "ada"}
KEY = "The boat key is under the oar."


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:") as memory:
        yield memory


@pytest.fixture
def service(memory: MemoryFace) -> ElytronMemoryService:
    return ElytronMemoryService(memory)


def event_of(text: str, author: str = "user") -> Event:
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])
    return Event(author=author, content=content, timestamp=1_700_000_000.0)


def session_of(*events: Event) -> Session:
    return Session(id="s1", events=list(events), **ADA)


async def found(service: ElytronMemoryService, query: str = "where is the boat key?", **names: str) -> list[str]:
    answer = await service.search_memory(**{**ADA, **names}, query=query)
    return [str(entry.content.parts[0].text) for entry in answer.memories if entry.content.parts]


async def test_a_session_is_found_by_meaning_with_author_and_time(service: ElytronMemoryService) -> None:
    await service.add_session_to_memory(session_of(event_of(KEY), event_of("Noted.", "pilot"), Event(author="pilot")))
    entry = (await service.search_memory(**ADA, query="where is the boat key?")).memories[0]
    assert (entry.author, entry.timestamp) == ("user", "2023-11-14T22:13:20+00:00")
    assert entry.content == types.Content(role="user", parts=[types.Part(text=KEY)])


async def test_a_repeated_session_is_stored_once(service: ElytronMemoryService, memory: MemoryFace) -> None:
    first = event_of(KEY)
    await service.add_session_to_memory(session_of(first))
    await service.add_session_to_memory(session_of(first, event_of("I drink tea.")))
    await service.add_events_to_memory(**ADA, events=[first], session_id="s1")
    assert [item.text for item in (await memory.list(user_id="ada")).items] == [KEY, "I drink tea."]


async def test_events_of_the_session_service_are_not_stored_twice(
    service: ElytronMemoryService, memory: MemoryFace
) -> None:
    sessions = ElytronSessionService(memory)
    session = await sessions.create_session(**ADA)
    for event in (event_of(KEY), event_of("Noted.", "pilot")):
        await sessions.append_event(session, event)
    await service.add_session_to_memory(session)
    assert [item.text for item in (await memory.list(user_id="ada")).items] == [KEY, "Noted."]


async def test_a_search_without_an_answer_returns_nothing(service: ElytronMemoryService) -> None:
    assert await found(service) == []
    await service.add_session_to_memory(session_of(event_of(KEY)))
    assert await found(service, "how do volcanoes form?") == []


async def test_memories_are_added_unchanged(service: ElytronMemoryService) -> None:
    content = types.Content(role="model", parts=[types.Part(text=KEY)])
    for _ in range(2):
        await service.add_memory(**ADA, memories=[MemoryEntry(id="m1", content=content, author="pilot")])
    assert await found(service) == [KEY]
    with pytest.raises(InvalidInput, match="contain a memory without words"):
        await service.add_memory(**ADA, memories=[MemoryEntry(content=types.Content())])


async def test_metadata_without_effect_is_rejected(service: ElytronMemoryService) -> None:
    with pytest.raises(Unsupported, match="custom_metadata"):
        await service.add_events_to_memory(**ADA, events=[], custom_metadata={"ttl": 1})
    with pytest.raises(Unsupported, match="custom_metadata"):
        await service.add_memory(**ADA, memories=[], custom_metadata={"ttl": 1})


async def test_a_deleted_memory_is_not_restored_with_its_session(service: ElytronMemoryService) -> None:
    session = session_of(event_of(KEY), event_of("I drink tea."))
    await service.add_session_to_memory(session)
    entry = (await service.search_memory(**ADA, query="where is the boat key?")).memories[0]
    await service.delete_memory(**ADA, memory_id=entry.id)
    await service.add_session_to_memory(session)
    assert await found(service) == []
    assert await found(service, "what do I drink?") == ["I drink tea."]
    with pytest.raises(NotFound):
        await service.delete_memory(**ADA, memory_id=entry.id)


@pytest.mark.parametrize("memory_id", [None, ""])
async def test_deleting_without_an_id_is_refused(service: ElytronMemoryService, memory_id: str | None) -> None:
    await service.add_session_to_memory(session_of(event_of(KEY)))
    with pytest.raises(InvalidInput, match="would erase all of the user's memories"):
        await service.delete_memory(**ADA, memory_id=memory_id)
    assert await found(service) == [KEY]


async def test_a_call_without_a_user_is_refused(service: ElytronMemoryService) -> None:
    with pytest.raises(ScopeMissing, match="search_memory"):
        await service.search_memory(app_name="harbour", user_id="", query="key")


async def test_another_user_or_app_finds_and_deletes_nothing(service: ElytronMemoryService) -> None:
    await service.add_session_to_memory(session_of(event_of(KEY)))
    entry = (await service.search_memory(**ADA, query="where is the boat key?")).memories[0]
    for names in ({"app_name": "harbour", "user_id": "grace"}, {"app_name": "office", "user_id": "ada"}):
        assert await found(service, **names) == []
        with pytest.raises(NotFound):
            await service.delete_memory(**names, memory_id=entry.id)
    assert await found(service) == [KEY]


async def test_a_search_of_everything_finds_what_other_programs_stored(
    service: ElytronMemoryService, memory: MemoryFace
) -> None:
    (memory_id,) = (await memory.add(KEY, user_id="ada")).ids
    assert await found(service) == []
    everything = ElytronMemoryService(memory, searches_all=True)
    assert await found(everything) == [KEY]
    with pytest.raises(NotFound):
        await everything.delete_memory(**ADA, memory_id=memory_id)
