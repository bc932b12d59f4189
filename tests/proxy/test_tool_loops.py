"""Tool loops: one turn and one block for all their calls, until a memory in that block is retracted."""

import asyncio
from typing import Any

import pytest
from tests.models.fake_server import Sent
from tests.models.streams import RECORDED, TEXTS
from tests.proxy.proxy_setup import BOAT, EACH, PATHS, asked, knowing, messages_of, proxying, recorded

from elytron import FactAction, FactChangeRequest, FactPrivacy
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.contracts.tools import AgentToolRegistryListRequest
from elytron_core.evidence import TrustLevel
from elytron_core.scope import Scope
from elytron_proxy.figures import ProxyFigure

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)


def tool_loop(dialect: str) -> list[dict[str, Any]]:
    """Return what a client adds to its messages after a tool answered."""
    match dialect:
        case "responses":
            call = {"type": "function_call", "call_id": "t1", "name": "weather", "arguments": "{}"}
            return [call, {"type": "function_call_output", "call_id": "t1", "output": "TOOL SAYS rain"}]
        case "messages":
            call: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
            result = {"type": "tool_result", "tool_use_id": "t1", "content": "TOOL SAYS rain"}
            return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        case _:
            call = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            result = {"role": "tool", "tool_call_id": "t1", "content": "TOOL SAYS rain"}
            return [{"role": "assistant", "content": "", "tool_calls": [call]}, result]


def weather(dialect: str) -> dict[str, Any]:
    """Return the tool in a dialect's format."""
    shape: dict[str, Any] = {"type": "object", "properties": {}}
    match dialect:
        case "responses":
            return {"type": "function", "name": "weather", "parameters": shape}
        case "messages":
            return {"name": "weather", "input_schema": shape}
        case _:
            return {"type": "function", "function": {"name": "weather", "parameters": shape}}


@EACH
async def test_the_calls_of_a_tool_loop_share_a_block_and_form_one_turn(dialect: str) -> None:
    async with proxying(recorded(f"{dialect}-tools"), recorded(dialect)) as proxied:
        await knowing(proxied)
        first = asked(dialect, BOAT, tools=[weather(dialect)])
        await proxied.post(PATHS[dialect], first)
        await proxied.app.idle()
        # New memories do not change the block of a running turn.
        await proxied.memory.add("My boat is called Kestrel now.", user_id="default")
        second = asked(dialect, BOAT, tools=[weather(dialect)])
        messages_of(dialect, second).extend(tool_loop(dialect))
        await proxied.post(PATHS[dialect], second)
        one, two = (messages_of(dialect, sent.body)[0]["content"] for sent in proxied.upstream.asked)
        assert one == two
        kept = await proxied.kept()
        assert kept == ["My boat is called Petrel.", BOAT, TEXT, "My boat is called Kestrel now."]
        assert "TOOL SAYS" not in str(kept)
        everything = AgentToolRegistryListRequest(scope=Scope(space="default"))
        registries = await proxied.memory.list_agent_tool_registries(everything)
        assert [tool.tool_id for tool in registries.registries[0].tools] == ["weather"]


@EACH
async def test_the_block_of_a_turn_with_tools_stays_in_place_in_later_turns(dialect: str) -> None:
    async with proxying(*(recorded(name) for name in (f"{dialect}-tools", dialect, dialect))) as proxied:
        await knowing(proxied)
        body = asked(dialect, BOAT, tools=[weather(dialect)])
        await proxied.post(PATHS[dialect], body)
        await proxied.app.idle()
        messages_of(dialect, body).extend(tool_loop(dialect))
        await proxied.post(PATHS[dialect], body)
        await proxied.app.idle()
        said = [{"role": "assistant", "content": TEXT}, {"role": "user", "content": "And what of the weather?"}]
        messages_of(dialect, body).extend(said)
        await proxied.post(PATHS[dialect], body)
        first, second, third = (messages_of(dialect, sent.body) for sent in proxied.upstream.asked)
        assert third[: len(second)] == second
        assert second[: len(first)] == first
        # An erasure removes the memory from that turn's block too.
        (boat,) = (await proxied.memory.recall("Petrel", user_id="default", limit=1)).hits
        await proxied.memory.erase([boat.id], user_id="default")
        await proxied.post(PATHS[dialect], body)
        assert "called Petrel" not in str(proxied.upstream.asked[3].body)


@EACH
async def test_a_tool_loop_without_an_answer_stores_the_persons_message(dialect: str) -> None:
    async with proxying(recorded(f"{dialect}-tools"), recorded(dialect)) as proxied:
        await proxied.post(PATHS[dialect], asked(dialect, "My boat is called Petrel."))
        assert await proxied.kept() == ["My boat is called Petrel."]
        # The tool answered, and then the person spoke instead of the model: the conversation continues.
        body = asked(dialect, "My boat is called Petrel.")
        messages_of(dialect, body).extend([*tool_loop(dialect), {"role": "user", "content": "Never mind."}])
        await proxied.post(PATHS[dialect], body)
        assert await proxied.kept() == ["My boat is called Petrel.", "Never mind.", TEXT]
        assert len(set((await proxied.questions()).values())) == 1
        assert proxied.app.figures[ProxyFigure.OPENED] == 1


async def test_a_message_waiting_for_tools_has_the_persons_trust() -> None:
    async with proxying(recorded("chat-tools"), recorded("chat")) as proxied:
        body = asked("chat", BOAT)
        trusts: list[list[TrustLevel | None]] = []
        for _ in range(2):
            await proxied.post(PATHS["chat"], body)
            await proxied.app.idle()
            found = await proxied.memory.list(MemoryListRequest(scope=Scope(space="default")))
            trusts.append([hit.trust for hit in found.items])
            body["messages"].extend(tool_loop("chat"))
        assert trusts == [[TrustLevel.VOUCHED], [TrustLevel.VOUCHED, TrustLevel.OUTSIDE]]


async def test_a_repeated_tool_loop_is_one_turn(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/m.db"
    first, last = asked("chat", BOAT), asked("chat", BOAT)
    last["messages"].extend(tool_loop("chat"))
    async with proxying(recorded("chat-tools"), store=store) as proxied:
        for _ in range(2):
            await proxied.post(PATHS["chat"], first)
        assert await proxied.kept() == [BOAT]
    async with proxying(recorded("chat"), store=store) as proxied:
        for _ in range(3):
            await proxied.post(PATHS["chat"], last)
            assert await proxied.kept() == [BOAT, TEXT]


@pytest.mark.parametrize("ids", ["call", "none"])
async def test_each_call_of_a_tool_loop_names_the_same_turn(ids: str) -> None:
    async with proxying(recorded("chat-tools"), recorded("chat-tools"), recorded("chat")) as proxied:
        body = asked("chat", BOAT)
        turns: list[str] = []
        for number in range(3):
            named = {"X_Client_Request_Id": f"call {number}"} if ids == "call" else {}
            turns.append((await proxied.post(PATHS["chat"], body, **named)).headers["x-elytron-turn"])
            body["messages"].extend(tool_loop("chat"))
        assert len(set(turns)) == 1
        assert await proxied.kept() == [BOAT, TEXT]


async def test_a_restarted_proxy_knows_the_block_of_a_turn(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/m.db"
    body = asked("chat", BOAT)
    async with proxying(recorded("chat-tools"), store=store) as proxied:
        await knowing(proxied)
        await proxied.post(PATHS["chat"], body)
        await proxied.app.idle()
        before = proxied.upstream.asked[0].body["messages"][0]
    async with proxying(recorded("chat"), store=store) as proxied:
        await proxied.memory.add("My boat is called Kestrel now.", user_id="default")
        body["messages"].extend(tool_loop("chat"))
        await proxied.post(PATHS["chat"], body)
        assert proxied.upstream.asked[0].body["messages"][0] == before


@pytest.mark.parametrize(("use", "verb"), [("read", "erase"), ("on", "erase"), ("read", "hide")])
async def test_a_tool_loop_keeps_its_block_until_one_of_its_memories_is_retracted(use: str, verb: str) -> None:
    async with proxying(recorded("chat-tools")) as proxied:
        (known,) = (await proxied.memory.add_fact("boat", "My boat is called Petrel.", user_id="default")).ids
        body, blocks = asked("chat", BOAT), list[str]()

        async def step() -> None:
            await proxied.post(PATHS["chat"], body, X_Elytron_Memory=use)
            await proxied.app.idle()
            blocks.append(proxied.upstream.asked[-1].body["messages"][0]["content"])
            body["messages"].extend(tool_loop("chat"))

        await step()
        await proxied.memory.add("My boat is called Kestrel now.", user_id="default")
        await step()
        assert blocks[0] == blocks[1]
        if verb == "erase":
            await proxied.memory.erase(known, user_id="default")
        else:
            hidden = FactChangeRequest(
                scope=Scope(space="default"), id=known, action=FactAction.CHANGE_PRIVACY, privacy=FactPrivacy.PRIVATE
            )
            await proxied.memory.change_fact(hidden)
        await step()
        assert "Petrel" not in blocks[2]
        assert "Kestrel" in blocks[2]


async def test_memories_erased_during_an_answer_are_in_no_stored_block() -> None:
    of = RECORDED["chat-tools"]
    slow = Sent((of.data[: of.whole_at // 2], of.data[of.whole_at // 2 :]), waits=True)
    async with proxying(slow, recorded("chat")) as proxied:
        await knowing(proxied)
        (known,) = [hit.id for hit in (await proxied.memory.list(user_id="default")).items]
        answering = asyncio.create_task(proxied.post(PATHS["chat"], asked("chat", BOAT)))
        while not proxied.upstream.asked:
            await asyncio.sleep(0)
        assert "Petrel" in str(proxied.upstream.asked[0].body)
        await proxied.memory.erase(known, user_id="default")
        proxied.upstream.go_on.set()
        await answering
        body = asked("chat", BOAT)
        body["messages"].extend(tool_loop("chat"))
        await proxied.post(PATHS["chat"], body)
        assert "Petrel" not in str(proxied.upstream.asked[1].body)
