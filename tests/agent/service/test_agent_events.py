"""The event channel: one order for every device and server, resumable anywhere, with gaps and erasures."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from tests.agent.chat_script import ScriptedChat, text
from tests.agent.service.served import AT, Event, ServedAgents, ServedUser, called, echo, said, served
from tests.models.fake_server import Asked, Sent

from elytron.runtime import MemoryRuntime
from elytron_agent import Agent
from elytron_agent.runs.journal import MAIN
from elytron_agent.runs.thread_notes import AGENTS
from elytron_agent.service.companion import ServiceSettings, UserAgents
from elytron_agent.service.events import EventLog, FeedEvent
from elytron_agent.service.wire import AgentEventData, AgentEventKind
from elytron_core.clock import FrozenClock
from elytron_core.ids import SpaceId

pytestmark = pytest.mark.anyio


async def until_done(events: AsyncGenerator[Event], count: int = 1) -> list[Event]:
    """Return the events until the end of `count` turns."""
    found: list[Event] = []
    while sum(event.kind in {"agent.done", "agent.error"} for event in found) < count:
        found.append(await anext(events))
    return found


def shape(events: Sequence[Event]) -> list[tuple[str, str | None]]:
    return [(event.kind, event.data.get("message")) for event in events]


def react(asked: Asked) -> Sent:
    if "passed" in str(asked.body["messages"][-1]):
        return called(("react", {"emoji": "🎉"}), text="Well done!")
    return said("Yes.") if asked.body["messages"][-1]["role"] == "tool" else echo(asked)


async def test_every_device_sees_the_same_events_with_the_chats_ids() -> None:
    async with served(react) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        async with ada.stream("GET", "/events") as phone, ada.stream("GET", "/events") as laptop:
            chat = await ada.chat("I passed!")
            seen = [await until_done(device) for device in (phone, laptop)]
    assert seen[0] == seen[1]
    assert [event.id for event in seen[0]] == [event.id for event in chat]
    assert len({event.id for event in chat}) == len(chat)
    assert sorted(event.id for event in chat) == [event.id for event in chat]
    assert shape(seen[0]) == shape(chat)
    (reaction,) = [event for event in seen[0] if event.kind == "agent.reaction"]
    assert reaction.data["emoji"] == "🎉"


async def test_a_reader_resumes_after_any_event() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        whole = [event for number in range(3) for event in await ada.chat(f"message {number}")]
        for place, event in enumerate(whole):
            rest = whole[place + 1 :]
            async with ada.stream("GET", "/events", Last_Event_ID=event.id) as events:
                assert [(await anext(events)).id for _ in rest] == [each.id for each in rest]
        async with ada.stream("GET", "/events?after=0") as events:
            assert [(await anext(events)).id for _ in whole] == [each.id for each in whole]


async def test_pages_of_the_log_follow_each_other() -> None:
    async with served() as server:
        user = UserAgents(server.memory.context, SpaceId("ada"), ServiceSettings(models=("chat:m",)), caller="test")
        log = EventLog(user)
        event = FeedEvent(AgentEventKind.TYPING, AgentEventData(agent_id="a", run_id="r", step=1))
        added = [await log.add(*[event] * count, thread="main") for count in (1, 2, 3, 4) * 10]
        ids = [int(each.id) for events in added for each in events]
        found = [(await EventLog(user).after(place))[1] for place in (0, ids[0], ids[40], ids[98], ids[99])]
    assert ids == list(range(ids[0], ids[0] + 100))
    assert [[entry.sequence for entry in entries] for entries in found] == [ids, ids[1:], ids[41:], ids[99:], []]


async def test_the_message_and_the_end_of_a_turn_are_logged_in_one_commit() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        told = [event.kind for event in await ada.chat("hello")]
        user = UserAgents(server.memory.context, SpaceId("ada"), ServiceSettings(models=("chat:m",)), caller="test")
        head = await user.records.get((AGENTS, MAIN, "events"), "log")
    assert told == ["agent.typing", "agent.message", "agent.done"]
    assert head is not None
    assert head.version == 2


async def test_events_older_than_a_day_are_a_gap() -> None:
    clock = FrozenClock(AT, step_ms=1)
    async with served(clock=clock) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        old = await ada.chat("yesterday")
        clock.advance(24 * 3_600_000)
        new = await ada.chat("today")
        async with ada.stream("GET", "/events", Last_Event_ID=old[0].id) as events:
            gap, *rest = [await anext(events) for _ in range(len(new) + 1)]
    assert (gap.kind, gap.data) == (
        "agent.gap",
        {"first": int(old[1].id), "last": int(old[-1].id), "reason": "expired"},
    )
    assert [event.id for event in rest] == [event.id for event in new]


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 19, "٣"])
async def test_a_malformed_id_is_refused(given: str) -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        answer = await ada.call("GET", f"/events?after={given}")
    assert (answer.status_code, answer.json()["code"]) == (400, "event_id_invalid")


async def test_an_unknown_id_is_a_gap_followed_by_all_events() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        chat = await ada.chat("hello")
        async with ada.stream("GET", "/events", Last_Event_ID=str(int(chat[-1].id) + 5)) as events:
            gap, *rest = [await anext(events) for _ in range(len(chat) + 1)]
    assert (gap.kind, gap.data["reason"]) == ("agent.gap", "unknown")
    assert [event.id for event in rest] == [event.id for event in chat]


async def test_an_erasure_empties_the_log() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        chat = await ada.chat("the code is seven")
        (turn,) = (await server.memory.replay("main", user_id="ada")).turns
        await server.memory.erase(turn.id, user_id="ada")
        async with ada.stream("GET", "/events?after=0") as events:
            seen = [await anext(events) for _ in chat]
    (message,) = [event for event in seen if event.kind == "agent.message"]
    assert message.data["is_erased"] is True
    assert "message" not in message.data
    assert "seven" not in str(seen)


async def test_two_servers_over_one_store_show_one_order(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/m.db"
    async with served(store=store) as one, served(store=store) as other:
        ada = await one.user("ada")
        elsewhere = ServedUser(other.client, ada.key)
        await ada.made("POST", "/init")
        async with ada.stream("GET", "/events") as here, elsewhere.stream("GET", "/events") as there:
            await asyncio.gather(*(user.chat(f"{n}") for n, user in enumerate((ada, elsewhere, ada, elsewhere))))
            seen = [await until_done(events, 4) for events in (here, there)]
    assert seen[0] == seen[1]
    ids = [int(event.id) for event in seen[0]]
    assert ids == sorted(set(ids))


async def test_another_user_receives_no_events() -> None:
    async with served() as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        await ada.made("POST", "/init")
        await bob.made("POST", "/init")
        chat = await ada.chat("the code is seven")
        async with bob.stream("GET", f"/events?after={chat[0].id}") as events:
            await bob.chat("hello")
            seen = await until_done(events)
    assert seen[0].kind == "agent.gap"
    assert {event.data["agent_id"] for event in seen[1:]}.isdisjoint({chat[0].data["agent_id"]})
    assert "seven" not in str(seen)


async def test_events_missed_by_a_killed_process_are_logged_at_the_next_read() -> None:
    clock = FrozenClock(AT, step_ms=1)
    async with served(clock=clock) as server:
        ada = await server.user("ada")
        agent = await ada.made("POST", "/init")
        run = await _half_logged(server, agent["id"])
        clock.advance(10_000)
        async with ada.stream("GET", "/events?after=0") as events:
            seen = await until_done(events)
        again = await ada.items()
    assert shape(seen) == [("agent.typing", None), ("agent.message", "Hello."), ("agent.done", None)]
    assert {event.data["run_id"] for event in seen} == {run}
    assert len(again["data"]) == 2


async def _half_logged(server: ServedAgents, agent_id: str) -> str:
    """Run a turn of which only the start is logged, and return its run."""
    context = server.memory.context
    user = UserAgents(context, SpaceId("ada"), ServiceSettings(models=("chat:m",)), caller="test")
    run = context.ids.new()
    begin = FeedEvent(AgentEventKind.TYPING, AgentEventData(agent_id=agent_id, run_id=run, step=1))
    await EventLog(user).add(begin, thread="main")
    memory: MemoryRuntime = user.memory
    await Agent(memory, ScriptedChat(text("Hello.")), clock=context.clock).say("Are you there?", run_id=run)
    return run


async def test_a_reaction_reaches_other_devices_and_keepalives_are_sent() -> None:
    async with served(heartbeat_s=0.01) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        chat = await ada.chat("hello")
        item = next(event.data["message_id"] for event in chat if event.kind == "agent.message")
        headers = {"Authorization": f"Bearer {ada.key}"}
        async with server.client.stream("GET", "/v1/agent/events", headers=headers) as response:
            lines = response.aiter_lines()
            while await anext(lines) != ": keep-alive":
                pass
            await ada.made("POST", f"/items/{item}/reaction", {"emoji": "👍"})
            while await anext(lines) != "event: agent.reaction":
                pass
            assert "👍" in await anext(lines)
