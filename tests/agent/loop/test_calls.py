"""Calls of a reply: approval, concurrent calls, duplicate ids, and tools that cancel themselves."""

import asyncio
import json

import pytest
from tests.agent.chat_script import ScriptedChat, calls, heard, results, text
from tests.agent.places import Ended, KeptStore

import elytron
from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentEvent,
    AgentSettings,
    ApprovalRequest,
    BlockRepository,
    CallKey,
    HostApproval,
    RunEnded,
    StopReason,
    Tool,
    ToolAnswered,
    ToolCalled,
)
from elytron_core.clock import FrozenClock
from elytron_core.ports.chat import FinishReason, ModelReply, ReplyFinished, ToolCall, ToolResult

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object"}


def agent_of(memory: MemoryFace, model: ScriptedChat, *tools: Tool, **more: object) -> Agent:
    settings = AgentSettings.model_validate({"enabled": True, "recall_deadline_s": 30.0})
    return Agent(memory, model, tools, **({"settings": settings, "clock": FrozenClock(step_ms=1)} | more))  # pyright: ignore[reportArgumentType]


def answered(events: list[AgentEvent]) -> list[ToolAnswered]:
    return [event for event in events if isinstance(event, ToolAnswered)]


async def test_a_mutating_call_is_made_after_the_host_approves(memory: MemoryFace) -> None:
    order: list[str] = []

    async def act(_given: object, _key: CallKey, /) -> str:
        order.append("made")
        return "sent"

    async def approve(request: ApprovalRequest) -> bool:
        order.append(f"asked {request.tool} {request.arguments} {request.description}")
        return True

    mail = Tool("mail", "Send mail.", SCHEMA, act)
    read = Tool("read", "Read mail.", SCHEMA, act, read_only=True)
    model = ScriptedChat(
        calls(("read", {}), ("mail", {"to": "Bo"}), ("set_preference", {"locale": "pt"})), text("Sent.")
    )
    end = await agent_of(memory, model, mail, read, approve=approve).say("Mail Bo.")
    assert order == ["made", 'asked mail {"to": "Bo"} Send mail.', "made"]
    assert (end.reason, end.usage.calls) == (StopReason.ANSWERED, 3)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (False, "the user declined"),
        (HostApproval(is_granted=False, reason="not Bo"), "not Bo"),
        (None, "the host could not be reached for approval"),
    ],
)
async def test_a_refused_call_is_not_made_and_gets_a_result(
    memory: MemoryFace, answer: HostApproval | bool | None, reason: str
) -> None:
    made: list[CallKey] = []

    async def act(_given: object, key: CallKey, /) -> str:
        made.append(key)
        return "sent"

    async def approve(_request: ApprovalRequest) -> HostApproval | bool:
        if answer is None:
            raise RuntimeError("the window was closed")
        return answer

    model = ScriptedChat(calls(("mail", {})), text("I did not."))
    events = await heard(agent_of(memory, model, Tool("mail", "Mail.", SCHEMA, act), approve=approve).run("Mail Bo."))
    (result,) = answered(events)
    assert (result.is_refused, result.is_error, made) == (True, True, [])
    assert not [event for event in events if isinstance(event, ToolCalled)]
    assert reason in results(model.last)[0]


async def test_approval_is_requested_once_across_a_crash_and_an_unapproved_call_is_not_made() -> None:
    store, asked, made = KeptStore(), list[str](), list[str]()

    async def act(_given: object, key: CallKey, /) -> str:
        made.append(key.call)
        if len(made) == 1:
            raise Ended
        return "paid"

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request.tool)
        if len(asked) == 1:
            raise Ended
        return True

    pay = Tool("pay", "Pay.", SCHEMA, act, may_repeat=True)

    async def say(model: ScriptedChat) -> RunEnded:
        async with elytron.open(store, space="ada") as memory:
            return await agent_of(memory, model, pay, approve=approve).say("Pay.", run_id="r")

    for _ in range(2):
        with pytest.raises(Ended):
            await say(ScriptedChat(calls(("pay", {}))))
    end = await say(ScriptedChat(text("Paid.")))
    # The first process ended while asking, the second in the call, which was approved.
    assert (end.text, asked, made) == ("Paid.", ["pay", "pay"], ["0", "0"])


async def test_read_only_calls_run_concurrently_and_keep_their_order(memory: MemoryFace) -> None:
    begun, most = 0, 0
    together = asyncio.Event()

    async def look(given: object, _key: CallKey, /) -> str:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        if begun == 3:
            together.set()
        await together.wait()
        assert isinstance(given, dict)
        begun -= 1
        return f"saw {given['at']}"

    async def write(_given: object, _key: CallKey, /) -> str:
        return f"wrote beside {begun}"

    reader, writer = Tool("look", "Look.", SCHEMA, look, read_only=True), Tool("write", "Write.", SCHEMA, write)
    wanted = calls(*(("look", {"at": number}) for number in range(3)), ("write", {}), ("look", {"at": 3}))
    model = ScriptedChat(wanted, text("Seen."))
    events = await heard(agent_of(memory, model, reader, writer).run("Look around."))
    assert most == 3
    expected = ["saw 0", "saw 1", "saw 2", "wrote beside 0", "saw 3"]
    assert results(model.last) == expected
    assert [event.text for event in answered(events)] == expected


async def test_only_read_only_calls_are_repeated_after_a_crash() -> None:
    store, made = KeptStore(), list[str]()

    async def look(_given: object, key: CallKey, /) -> str:
        made.append(key.call)
        if len(made) == 2:
            raise Ended
        return f"saw {key.call}"

    reader = Tool("look", "Look.", SCHEMA, look, read_only=True)
    with pytest.raises(Ended):
        async with elytron.open(store, space="ada") as memory:
            await agent_of(memory, ScriptedChat(calls(("look", {}), ("look", {}))), reader).say("Look.", run_id="r")
    async with elytron.open(store, space="ada") as memory:
        model = ScriptedChat(text("Seen."))
        await agent_of(memory, model, reader).say("Look.", run_id="r")
    assert results(model.last) == ["saw 0", "saw 1"]


async def test_calls_that_share_an_id_are_each_made_and_answered(memory: MemoryFace) -> None:
    def call(line: str) -> ToolCall:
        return ToolCall(id="call_0", name="memory_append", arguments=json.dumps({"block": "human", "content": line}))

    model = ScriptedChat(
        (call("Called Ada."), call("Likes tea."), ReplyFinished(reason=FinishReason.TOOLS)), text("Noted.")
    )
    await agent_of(memory, model).say("I am Ada, and I like tea.")
    assert (await BlockRepository(memory).read("human")).value == "Called Ada.\nLikes tea."
    reply = next(message for message in model.last.messages if isinstance(message, ModelReply))
    ids = [item.id for item in reply.items if isinstance(item, ToolCall)]
    assert len(set(ids)) == 2
    assert [message.call_id for message in model.last.messages if isinstance(message, ToolResult)] == ids


async def test_a_tool_that_cancels_itself_has_failed_and_the_run_continues(memory: MemoryFace) -> None:
    async def act(_given: object, _key: CallKey, /) -> str:
        raise asyncio.CancelledError

    model = ScriptedChat(calls(("look", {})), text("It failed."))
    end = await agent_of(memory, model, Tool("look", "Look.", SCHEMA, act)).say("Look.")
    assert (end.reason, end.text) == (StopReason.ANSWERED, "It failed.")
    assert "cancelled its own work" in results(model.last)[0]


async def test_cancelling_a_run_cancels_its_running_call(memory: MemoryFace) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def act(_given: object, _key: CallKey, /) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    agent = agent_of(memory, ScriptedChat(calls(("look", {}))), Tool("look", "Look.", SCHEMA, act))
    run = asyncio.ensure_future(agent.say("Look."))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended.is_set()
    end = await agent.cancel()
    assert isinstance(end, RunEnded)
    assert end.reason is StopReason.CANCELLED
