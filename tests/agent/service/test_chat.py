"""Chat: a turn is an event stream, continues when its client disconnects, and turns of a thread keep their order."""

import asyncio
import base64
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.agent.service.served import Event, ServedUser, called, echo, last_words, said, served
from tests.models.fake_server import Asked, Sent

from elytron_agent import limits

pytestmark = pytest.mark.anyio
PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()


async def begun(user: ServedUser) -> None:
    await user.made("POST", "/init")


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind.removeprefix("agent.") for event in events]


async def until(user: ServedUser, count: int) -> list[str]:
    """Return the texts of the thread, oldest first, once there are `count`."""
    while len(found := (await user.items("?order=asc&limit=100"))["data"]) < count:
        await asyncio.sleep(0.01)
    return [item["text"] for item in found]


async def test_each_step_with_text_is_a_message_that_is_durable_before_it_is_sent() -> None:
    def reply(asked: Asked) -> Sent:
        has_result = any(message["role"] == "tool" for message in asked.body["messages"])
        if has_result:
            return said("It is noted.")
        return called(("archival_insert", {"content": "Ada sails."}), text="One moment.")

    async with served(reply) as server:
        ada = await server.user("ada")
        await begun(ada)
        async with ada.stream("POST", "/chat", {"text": "I sail."}) as events:
            found: list[Event] = []
            async for event in events:
                found.append(event)
                if event.kind == "agent.message":
                    item = await ada.made("GET", f"/items/{event.data['message_id']}")
                    assert (item["text"], item["role"]) == (event.data["message"], "assistant")
    assert kinds(found) == ["typing", "message", "typing", "message", "done"]
    assert [event.data.get("step") for event in found] == [1, 1, 2, 2, None]
    assert [event.data["messages"] for event in found if event.kind == "agent.message"] == [
        ["One moment."],
        ["It is noted."],
    ]
    done = found[-1].data
    assert (done["total_steps"], done["total_messages"], done["reason"]) == (2, 2, "answered")


async def test_a_turn_continues_when_its_client_disconnects(tmp_path: Path) -> None:
    release = asyncio.Event()
    async with served(store=f"sqlite:///{tmp_path}/m.db") as server:
        server.model.gate = release
        ada = await server.user("ada")
        await begun(ada)
        async with ada.stream("POST", "/chat", {"input": "Are you there?"}) as events:
            first = await anext(events)
        release.set()
        texts = await until(ada, 2)
    assert first.kind == "agent.typing"
    assert texts == ["Are you there?", "You said: Are you there?"]


async def test_turns_of_a_thread_keep_their_order_and_the_ninth_waiting_one_is_refused() -> None:
    async with served() as server:
        server.model.gate = asyncio.Event()
        ada = await server.user("ada")
        await begun(ada)
        async with AsyncExitStack() as stack:
            for number in range(limits.QUEUED_RUNS + 1):
                await stack.enter_async_context(ada.stream("POST", "/chat", {"input": f"message {number}"}))
            refused = await ada.call("POST", "/chat", {"input": "one too many"})
        server.model.gate.set()
        texts = await until(ada, 2 * (limits.QUEUED_RUNS + 1))
    assert (refused.status_code, refused.json()["code"]) == (409, "thread_busy")
    assert texts[::2] == [f"message {number}" for number in range(limits.QUEUED_RUNS + 1)]


async def test_an_unavailable_model_is_an_error_and_the_message_is_stored() -> None:
    async with served(lambda _: None) as server:
        ada = await server.user("ada")
        await begun(ada)
        events = await ada.chat("Remember the mast.")
        items = await ada.items()
        shown = await ada.made("GET", "")
    assert kinds(events) == ["typing", "error"]
    assert (events[-1].data["code"], bool(events[-1].data["error"])) == ("failed", True)
    assert [item["text"] for item in items["data"]] == ["Remember the mast."]
    assert shown["model_health"] == "fails"


async def test_the_same_idempotency_key_is_one_turn() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await begun(ada)
        first = await ada.chat("Hello", Idempotency_Key="k1")
        again = await ada.chat("Hello", Idempotency_Key="k1")
        other = await ada.chat("Goodbye", Idempotency_Key="k1")
        items = await ada.items()
    messages = [
        [event.data["message_id"] for event in events if event.kind == "agent.message"] for events in (first, again)
    ]
    assert messages[0] == messages[1]
    assert len(messages[0]) == 1
    assert (other[-1].kind, other[-1].data["code"]) == ("agent.error", "idempotency_conflict")
    assert len(items["data"]) == 2


@pytest.mark.parametrize("way", ["erase", "forget"])
async def test_an_erased_answer_is_not_repeated_for_its_key(way: str) -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.chat("The boiler code is 4417", Idempotency_Key="k1")
        stored = (await server.memory.list(user_id="ada")).items
        ids = [item.id for item in stored if "4417" in item.text]
        assert ids
        change = server.memory.erase if way == "erase" else server.memory.forget
        assert (await change(ids, user_id="ada")).changed
        asked = len(server.model.asked)
        again = await ada.chat("The boiler code is 4417", Idempotency_Key="k1")
        assert len(server.model.asked) == asked
        assert [item.text for item in (await server.memory.list(user_id="ada")).items if "4417" in item.text] == []
        if way == "erase":
            assert (again[-1].kind, again[-1].data["code"]) == ("agent.error", "already_exists")
        await ada.chat("The boiler code is 12", Idempotency_Key="k2")
        assert len(server.model.asked) == asked + 1


async def test_the_agents_reaction_is_attached_to_the_users_message() -> None:
    def reply(asked: Asked) -> Sent:
        if any(message["role"] == "tool" for message in asked.body["messages"]):
            return said("Congratulations!")
        return called(("react", {"emoji": "🎉"}))

    async with served(reply) as server:
        ada = await server.user("ada")
        await begun(ada)
        events = await ada.chat("I passed!")
        (mine,) = [item for item in (await ada.items())["data"] if item["role"] == "user"]
    (reaction,) = [event for event in events if event.kind == "agent.reaction"]
    assert (reaction.data["item_id"], reaction.data["emoji"]) == (mine["id"], "🎉")
    assert mine["reaction"] == {"emoji": "🎉", "by": "assistant"}


async def test_an_image_parts_description_is_the_items_text() -> None:
    def reply(asked: Asked) -> Sent:
        return said("A red boat.") if "image_url" in str(asked.body["messages"]) else echo(asked)

    async with served(reply) as server:
        ada = await server.user("ada")
        await begun(ada)
        parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PNG}}]
        async with ada.stream("POST", "/chat", {"parts": parts}) as events:
            found = [event async for event in events]
        items = await ada.items("?order=asc")
    assert found[-1].kind == "agent.done"
    assert items["data"][0]["text"] == "What is this?\n[image: A red boat.]"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": ""},
        {"input": "a", "text": "b"},
        {"parts": []},
        {"parts": [{"type": "text", "text": "x"}] * 33},
        {"parts": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
        {"parts": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/secret.png"}}]},
        {"parts": [{"type": "image_url", "image_url": "data:image/gif;base64,%%%"}]},
        {"parts": [{"type": "text"}]},
        {"input": "x" * 40_001},
        {"input": 5},
        {"message": "x"},
    ],
)
async def test_invalid_messages_are_rejected_before_the_turn(body: dict[str, Any]) -> None:
    async with served() as server:
        ada = await server.user("ada")
        await begun(ada)
        answer = await ada.call("POST", "/chat", body)
        items = await ada.items()
    assert (answer.status_code, items["data"], server.model.asked) == (422, [], [])


async def test_nothing_remains_of_a_turn_without_store() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await begun(ada)
        async with ada.stream("POST", "/chat", {"input": "The code is 7.", "store": False}) as events:
            found = [event async for event in events]
        items = await ada.items()
        left = (await server.memory.list(user_id="ada", include_private=True)).items
    assert found[-2].data["message"] == "You said: The code is 7."
    assert (items["data"], left) == ([], ())


async def test_two_servers_over_one_store_take_turns_and_show_one_thread(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/m.db"
    async with served(store=store) as one, served(store=store) as other:
        ada = await one.user("ada")
        elsewhere = ServedUser(other.client, ada.key)
        await begun(ada)
        await asyncio.gather(ada.chat("from the phone"), elsewhere.chat("from the laptop"))
        here, there = await ada.items(), await elsewhere.items()
    assert here == there
    assert {item["text"] for item in here["data"] if item["role"] == "user"} == {"from the phone", "from the laptop"}


async def test_comments_keep_a_silent_stream_alive() -> None:
    async with served(keep_alive_s=0.01) as server:
        server.model.gate = asyncio.Event()
        ada = await server.user("ada")
        await begun(ada)
        headers = {"Authorization": f"Bearer {ada.key}"}
        async with server.client.stream("POST", "/v1/agent/chat", json={"input": "hi"}, headers=headers) as response:
            lines = response.aiter_lines()
            while (line := await anext(lines)) != ": keep-alive":
                assert line.split(":")[0] in {"", "event", "data", "id"}
            server.model.gate.set()
            rest = [line async for line in lines]
    assert "event: agent.done" in rest


def test_the_text_after_the_time_is_the_users_last_message() -> None:
    asked = Asked("/", {}, {"messages": [{"role": "user", "content": "[Mon 2026-01-05 09:00]\nhello"}]})
    assert last_words(asked) == "hello"
