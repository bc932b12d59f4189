"""Stored sessions: like the framework's in-memory service, but durable and isolated by user and app."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

import elytron
from elytron.api import MemoryFace
from elytron.runtime_records import records_of
from elytron_core.errors import InvalidInput, PreconditionFailed, ScopeMissing, StoreClosed
from elytron_core.planes.records import Record
from elytron_integrations import conversation_items
from elytron_integrations.conversation_items import ConversationItems
from elytron_integrations.google_adk import ElytronMemoryService, ElytronSessionService, stored_sessions
from elytron_integrations.google_adk.events import content_text

pytestmark = pytest.mark.anyio
ADA: dict[str, Any] = {"app_name": "harbour", "user_id": "ada"}


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:") as memory:
        yield memory


@pytest.fixture(params=["elytron", "framework"])
def service(request: pytest.FixtureRequest, memory: MemoryFace) -> BaseSessionService:
    """Return the adapter and the framework's own service, to which the same claims apply."""
    return ElytronSessionService(memory) if request.param == "elytron" else InMemorySessionService()


@pytest.fixture
def own_service(memory: MemoryFace) -> ElytronSessionService:
    return ElytronSessionService(memory)


def event_of(text: str, author: str = "user", at: float = 1_700_000_000.0, delta: Any = None) -> Event:
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])
    actions = EventActions(state_delta=delta or {})
    return Event(author=author, content=content, timestamp=at, invocation_id="i", actions=actions)


async def reread(service: BaseSessionService, session: Session, **config: Any) -> Session:
    names = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
    stored = await service.get_session(**names, config=GetSessionConfig(**config) if config else None)
    assert stored is not None
    return stored


async def test_a_new_session_has_its_state_and_id(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA, state={"topic": "boats", "temp:x": 1}, session_id=" s1 ")
    assert (session.id, session.app_name, session.user_id, session.events) == ("s1", "harbour", "ada", [])
    assert (await reread(service, session)).state == {"topic": "boats"}
    assert (await service.create_session(**ADA)).id
    assert await service.get_session(**ADA, session_id="none") is None


async def test_an_id_that_is_taken_is_refused(service: BaseSessionService) -> None:
    await service.create_session(**ADA, session_id="s1")
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**ADA, session_id="s1")


async def test_events_are_returned_complete_and_in_order(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA)
    image = types.Part(inline_data=types.Blob(data=b"\x00\xff" * 100_000, mime_type="image/png"))
    call = types.Part(function_call=types.FunctionCall(id="c", name="look", args={"place": "oar"}))
    events = [
        event_of("Where is the key?"),
        Event(author="pilot", invocation_id="i", content=types.Content(role="model", parts=[call, image])),
        event_of("Under the oar.", "pilot"),
    ]
    for event in events:
        await service.append_event(session, event)
    assert (await reread(service, session)).events == events == session.events


async def test_partial_and_repeated_events_are_not_stored(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA)
    event = event_of("Hello.")
    await service.append_event(session, event_of("He").model_copy(update={"partial": True}))
    await service.append_event(session, event)
    await service.append_event(await reread(service, session), event)
    assert (await reread(service, session)).events == [event]


async def test_state_belongs_to_the_session_the_user_or_the_app(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA, state={"user:name": "Ada", "app:season": "may", "a": 1})
    event = event_of("Hi.", delta={"a": 2, "user:tea": "green", "app:open": True, "temp:draft": "x"})
    await service.append_event(session, event)
    assert session.state["temp:draft"] == "x"
    shared = {"user:name": "Ada", "user:tea": "green", "app:season": "may", "app:open": True}
    assert (await reread(service, session)).state == {"a": 2, **shared}
    assert (await service.create_session(**ADA)).state == shared
    assert await service.get_user_state(**ADA) == {"name": "Ada", "tea": "green"}


async def test_the_last_events_or_those_after_a_time_are_returned(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA)
    events = [event_of(str(number), at=1_700_000_000.0 + number) for number in range(4)]
    for event in events:
        await service.append_event(session, event)
    assert (await reread(service, session, num_recent_events=2)).events == events[2:]
    assert (await reread(service, session, num_recent_events=0)).events == []
    assert (await reread(service, session, after_timestamp=events[1].timestamp)).events == events[1:]
    assert (await reread(service, session, num_recent_events=9, after_timestamp=1.0)).events == events


async def test_sessions_are_listed_latest_last(service: BaseSessionService) -> None:
    first = await service.create_session(**ADA, session_id="first", state={"n": 1})
    await service.create_session(**ADA, session_id="second")
    await service.append_event(first, event_of("Later.", at=4_000_000_000.0))
    listed = (await service.list_sessions(**ADA)).sessions
    assert [(session.id, session.events) for session in listed] == [("second", []), ("first", [])]
    assert listed[1].state == {"n": 1}


async def test_a_deleted_session_is_gone_and_accepts_no_event(service: BaseSessionService) -> None:
    session = await service.create_session(**ADA)
    await service.append_event(session, event_of("Hello."))
    await service.delete_session(**ADA, session_id=session.id)
    await service.delete_session(**ADA, session_id=session.id)
    assert (await service.list_sessions(**ADA)).sessions == []
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, event_of("Again."))


async def test_a_deleted_session_leaves_nothing_in_memory(
    own_service: ElytronSessionService, memory: MemoryFace
) -> None:
    session = await own_service.create_session(**ADA)
    await own_service.append_event(session, event_of("The key is under the oar."))
    await own_service.delete_session(**ADA, session_id=session.id)
    assert (await memory.list(user_id="ada")).items == ()


async def test_an_event_appended_during_a_deletion_is_refused(
    own_service: ElytronSessionService, memory: MemoryFace, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await own_service.create_session(**ADA)
    await own_service.append_event(session, event_of("The key is under the oar."))
    erase = ConversationItems.erase

    async def erase_and_append(items: ConversationItems) -> int:
        count = await erase(items)
        with pytest.raises(SessionNotFoundError):
            await own_service.append_event(session, event_of("The tea is in the tin."))
        return count

    monkeypatch.setattr(ConversationItems, "erase", erase_and_append)
    await own_service.delete_session(**ADA, session_id=session.id)
    assert (await memory.list(user_id="ada")).items == ()


@pytest.mark.parametrize("is_deleted_again", [True, False])
async def test_an_interrupted_deletion_is_finished_by_the_next_or_by_a_new_session(
    own_service: ElytronSessionService, memory: MemoryFace, monkeypatch: pytest.MonkeyPatch, is_deleted_again: bool
) -> None:
    session = await own_service.create_session(**ADA, session_id="s1")
    await own_service.append_event(session, event_of("The key is under the oar."))

    async def fail(_items: ConversationItems) -> int:
        raise StoreClosed

    monkeypatch.setattr(ConversationItems, "erase", fail)
    with pytest.raises(StoreClosed):
        await own_service.delete_session(**ADA, session_id="s1")
    monkeypatch.undo()
    assert await own_service.get_session(**ADA, session_id="s1") is None
    assert (await own_service.list_sessions(**ADA)).sessions == []
    if is_deleted_again:
        await own_service.delete_session(**ADA, session_id="s1")
    new_session = await own_service.create_session(**ADA, session_id="s1")
    assert (await reread(own_service, new_session)).events == []
    assert (await memory.list(user_id="ada")).items == ()


async def test_deleting_a_session_erases_events_without_a_head(
    own_service: ElytronSessionService, memory: MemoryFace
) -> None:
    session = Session(id="s1", app_name="harbour", user_id="ada", events=[event_of("The key is under the oar.")])
    await ElytronMemoryService(memory).add_session_to_memory(session)
    await own_service.delete_session(**ADA, session_id="s1")
    assert (await memory.list(user_id="ada")).items == ()


async def test_messages_can_be_recalled_without_thoughts(
    own_service: ElytronSessionService, memory: MemoryFace
) -> None:
    session = await own_service.create_session(**ADA)
    parts = [types.Part(text="I guess.", thought=True), types.Part(text="The key is under the oar.")]
    await own_service.append_event(session, Event(author="pilot", content=types.Content(role="model", parts=parts)))
    hit = (await memory.recall("where is the key?", user_id="ada"))[0]
    assert (hit.text, hit.speaker, hit.conversation) == ("The key is under the oar.", "pilot", session.id)


async def test_half_a_surrogate_pair_is_stored_and_searched_as_a_replacement_character(
    own_service: ElytronSessionService, memory: MemoryFace
) -> None:
    session = await own_service.create_session(**ADA)
    event = event_of("The key is under the oar \ud83d", "pilot")
    await own_service.append_event(session, event)
    assert (await reread(own_service, session)).events == [event]
    (found,) = (await ElytronMemoryService(memory).search_memory(**ADA, query="where is the key? \ud83d")).memories
    assert content_text(found.content) == "The key is under the oar \ufffd"


async def test_a_message_erased_from_memory_has_no_event(
    own_service: ElytronSessionService, memory: MemoryFace
) -> None:
    session = await own_service.create_session(**ADA)
    for text in ("The key is under the oar.", "Tea?"):
        await own_service.append_event(session, event_of(text))
    hit = (await memory.recall("where is the key?", user_id="ada"))[0]
    await memory.erase(hit.id, user_id="ada")
    (event,) = (await reread(own_service, session)).events
    assert event.content == types.Content(role="user", parts=[types.Part(text="Tea?")])


async def test_parallel_events_lose_no_state(own_service: ElytronSessionService) -> None:
    session = await own_service.create_session(**ADA)
    copies = [await reread(own_service, session) for _ in range(6)]
    appends = [
        own_service.append_event(copy, event_of(f"e{n}", delta={f"k{n}": n, f"user:u{n}": n}))
        for n, copy in enumerate(copies)
    ]
    await asyncio.gather(*appends)
    stored = await reread(own_service, session)
    assert len(stored.events) == 6
    assert stored.state == {**{f"k{n}": n for n in range(6)}, **{f"user:u{n}": n for n in range(6)}}


async def test_sessions_survive_the_process(tmp_path: Path) -> None:
    for is_first in (True, False):
        async with elytron.open(tmp_path / "memory.db") as memory:
            service = ElytronSessionService(memory)
            if is_first:
                await service.append_event(
                    await service.create_session(**ADA, session_id="s"), event_of("Hi.", delta={"a": 1})
                )
            stored = await service.get_session(**ADA, session_id="s")
            assert stored is not None
            assert (len(stored.events), stored.state) == (1, {"a": 1})


async def test_a_change_of_state_gives_up_after_many_writers(
    own_service: ElytronSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await own_service.create_session(**ADA)

    async def refuse(*_args: Any, **_fields: Any) -> Record:
        raise PreconditionFailed

    monkeypatch.setattr(conversation_items, "CHANGE_ATTEMPTS", 2)
    monkeypatch.setattr(stored_sessions.RuntimeRecords, "finalize_turn", refuse)
    with pytest.raises(PreconditionFailed):
        await own_service.append_event(session, event_of("Hi."))
    monkeypatch.setattr(stored_sessions.RuntimeRecords, "put", refuse)
    with pytest.raises(AlreadyExistsError):
        await own_service.create_session(**ADA)
    with pytest.raises(PreconditionFailed):
        await own_service.create_session(**ADA, state={"user:a": 1})


async def test_another_user_or_app_reaches_no_session_of_the_same_id(own_service: ElytronSessionService) -> None:
    session = await own_service.create_session(**ADA, session_id="s1", state={"user:name": "Ada", "a": 1})
    await own_service.append_event(session, event_of("The key is under the oar."))
    others: list[dict[str, Any]] = [{**ADA, "user_id": "grace"}, {**ADA, "app_name": "office"}]
    for names in others:
        assert await own_service.get_session(**names, session_id="s1") is None
        assert (await own_service.list_sessions(**names)).sessions == []
        assert await own_service.get_user_state(**names) == {}
        await own_service.delete_session(**names, session_id="s1")
        with pytest.raises(SessionNotFoundError):
            await own_service.append_event(Session(id="s1", **names), event_of("Mine."))
        assert (await own_service.create_session(**names, session_id="s1")).state == {}
    assert len((await reread(own_service, session)).events) == 1


async def test_without_a_user_nothing_is_listed(own_service: ElytronSessionService) -> None:
    with pytest.raises(ScopeMissing, match="list_sessions"):
        await own_service.list_sessions(app_name="harbour")
    with pytest.raises(InvalidInput, match="is a reserved name"):
        await own_service.create_session(app_name="harbour", user_id="google-adk-apps")


async def test_a_memory_of_one_user_serves_no_other_and_has_its_own_app_state() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        service = ElytronSessionService(memory)
        with pytest.raises(InvalidInput, match="not the user"):
            await service.create_session(app_name="harbour", user_id="grace")
        assert (await service.create_session(**ADA, state={"app:open": True})).state == {"app:open": True}
        assert len([record async for record in records_of(memory).below()]) == 2
