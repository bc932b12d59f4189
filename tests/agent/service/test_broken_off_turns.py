"""Turns that broke off with their server: each goes on at the next look, and its events are those that were missing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.agent.service.served import AT, Event, ServedAgents, called, last_words, said, served
from tests.models.fake_server import Asked, Sent

import elytron
from elytron_agent.limits import LEASE_SECONDS
from elytron_core.clock import FrozenClock

pytestmark = pytest.mark.anyio


def noting(asked: Asked) -> Sent:
    """Say something, call a tool, and say something more."""
    if any(message["role"] == "tool" for message in asked.body["messages"]):
        return said("It is noted.")
    return called(("archival_insert", {"content": last_words(asked)}), text="One moment.")


async def until_done(events: Any) -> list[Event]:
    found: list[Event] = []
    async for event in events:
        found.append(event)
        if event.kind == "agent.done":
            break
    return found


async def asked_twice(server: ServedAgents) -> None:
    """Return when the model has the second request of a turn and returns no answer."""
    gate, free = asyncio.Event(), server.model.reply

    def reply(asked: Asked) -> Sent | None:
        if len(server.model.asked) == 1:
            server.model.gate = gate
        assert free is not None
        return free(asked)

    server.model.reply = reply
    while len(server.model.asked) < 2:
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_sub", [False, True])
async def test_a_turn_continues_after_its_last_message_when_its_server_closed(tmp_path: Path, is_sub: bool) -> None:
    clock, store = FrozenClock(AT, step_ms=1), f"sqlite:///{tmp_path}/m.db"
    async with served(noting, store=store, clock=clock) as first:
        ada = await first.user("ada")
        await ada.made("POST", "/init")
        path = ""
        if is_sub:
            path = f"/subagents/{(await ada.made('POST', '/subagents', {'name': 'chef', 'purpose': 'Cook.'}))['id']}"
        waiting = asyncio.create_task(asked_twice(first))
        async with ada.stream("POST", f"{path}/chat", {"input": "I sail."}) as events:
            begun = [await anext(events) for _ in range(2)]
            await waiting
    clock.advance(round(LEASE_SECONDS * 1000) + 1)
    async with served(noting, store=store, clock=clock) as second:
        again = type(ada)(second.client, ada.key)
        async with again.stream("GET", "/events?after=0") as events:
            seen = await until_done(events)
        items = (await again.items("?order=asc", thread=path))["data"]
        archived = await again.made("POST", "/memory/search", {"query": "sail"})
    assert [event.kind for event in begun] == ["agent.typing", "agent.message"]
    assert [event.data["message"] for event in seen if event.kind == "agent.message"] == ["One moment.", "It is noted."]
    assert [item["text"] for item in items] == ["I sail.", "One moment.", "It is noted."]
    assert len({event.id for event in seen}) == len(seen)
    assert archived["data"]


async def test_imported_items_are_shown_and_accept_no_notes() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        scope = elytron.Scope(space="ada", agent="main", conversation="main")
        messages = (
            elytron.Message(role=elytron.EvidenceRole.USER, text="An old question."),
            elytron.Message(role=elytron.EvidenceRole.ASSISTANT, text="An old answer."),
        )
        write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
        await server.memory.write(elytron.MemoryWriteRequest(scope=scope, write=write))
        await ada.chat("And a new one.")
        items = (await ada.items("?order=asc"))["data"]
        old = items[1]["id"].replace("#", "%23")
        shown = await ada.made("GET", f"/items/{old}")
        behind = (await ada.items(f"?order=asc&after={old}"))["data"]
        refused = await ada.call("POST", f"/items/{old}/reaction", {"emoji": "👍"})
        unchanged = await ada.call("DELETE", f"/items/{old}/reaction")
    assert [item["text"] for item in items] == [
        *("An old question.", "An old answer.", "And a new one.", "You said: And a new one.")
    ]
    assert (shown["text"], [item["id"] for item in behind]) == ("An old answer.", [item["id"] for item in items[2:]])
    assert (refused.status_code, "cannot be annotated" in refused.text, unchanged.status_code) == (404, True, 200)
