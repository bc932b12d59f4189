"""A run's time budget applies to silent models and tools, but not to a person's answers."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.agent.chat_script import ScriptedChat, calls, results, text
from tests.agent.jumping_loop import JUMPING, LoopClock

import elytron
from elytron_agent import Agent, AgentSettings, ApprovalRequest, CallKey, RunBudget, StopReason, Tool
from elytron_core.ports.chat import ModelEvent, ModelInfo, ModelRequest, TextDelta

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object"}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return JUMPING


class SilentChat:
    """A model that starts to answer and then falls silent; deaf ones do not end when cancelled."""

    info = ModelInfo(name="silent")

    def __init__(self, *, is_deaf: bool) -> None:
        self._is_deaf = is_deaf

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        yield TextDelta(text="Well,")
        await silence(is_deaf=self._is_deaf)


async def silence(*, is_deaf: bool) -> None:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        if not is_deaf:
            raise
        await asyncio.sleep(3_600)


async def took(model: Any, *tools: Tool, seconds: float, **more: Any) -> tuple[StopReason, float]:
    """Return why a run ended, and after how many seconds."""
    loop = asyncio.get_running_loop()
    async with elytron.open("memory:", space="ada", clock=LoopClock()) as memory:
        settings = AgentSettings(enabled=True, budget=RunBudget(seconds=seconds), recall_deadline_s=0)
        agent = Agent(memory, model, tools, settings=settings, clock=LoopClock(), **more)
        at = loop.time()
        end = await agent.say("How are you?")
        return end.reason, loop.time() - at


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_a_silent_model_does_not_extend_a_run_beyond_its_time_limit(*, is_deaf: bool) -> None:
    reason, seconds = await took(SilentChat(is_deaf=is_deaf), seconds=5)
    assert reason is StopReason.SECONDS
    assert 5 <= seconds <= 7


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_a_silent_tool_does_not_extend_a_run_beyond_its_time_limit(*, is_deaf: bool) -> None:
    async def act(_given: object, _key: CallKey, /) -> str:
        await silence(is_deaf=is_deaf)
        return "at last"

    tool = Tool("look", "Look.", SCHEMA, act)
    reason, seconds = await took(ScriptedChat(calls(("look", {}))), tool, seconds=5)
    assert reason is StopReason.SECONDS
    assert 5 <= seconds <= 7


async def test_silent_summaries_and_image_descriptions_do_not_delay_a_run() -> None:
    loop = asyncio.get_running_loop()
    async with elytron.open("memory:", space="ada", clock=LoopClock()) as memory:
        settings = AgentSettings(
            enabled=True, budget=RunBudget(seconds=5), recall_deadline_s=0, max_context_tokens=1_000
        )
        silent = SilentChat(is_deaf=False)
        agent = Agent(
            memory,
            ScriptedChat(text("Yes. " * 100)),
            settings=settings,
            summary_model=silent,
            vision_model=silent,
            clock=LoopClock(),
        )
        for _ in range(4):
            at = loop.time()
            await agent.say("Well? " * 100)
            assert loop.time() - at <= 7
        at = loop.time()
        async for _event in agent.run("What is this?", images=["https://pictures.example/1.png"]):
            pass
        assert loop.time() - at <= 7


async def test_the_time_a_person_takes_to_answer_does_not_count() -> None:
    async def act(_given: object, _key: CallKey, /) -> str:
        return "sent"

    async def approve(_request: ApprovalRequest) -> bool:
        await asyncio.sleep(600)
        return True

    model = ScriptedChat(calls(("mail", {})), text("Sent."))
    reason, seconds = await took(model, Tool("mail", "Mail.", SCHEMA, act), seconds=5, approve=approve)
    assert (reason, results(model.last)) == (StopReason.ANSWERED, ["sent"])
    assert seconds >= 600
