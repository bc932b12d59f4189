"""References and messages in the bytes of every dialect: always separate, and the reference fenced."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from tests.agent.chat_script import ScriptedChat, failure, text
from tests.agent.strategies.host import Road

from elytron.api import MemoryFace
from elytron_agent import Agent, AgentSettings, BlockRepository, GatewayStrategy, RuntimeStrategy
from elytron_agent.strategies.gateway import RULE
from elytron_core.ports.chat import FailureReason, ModelRequest
from elytron_models import DIALECTS
from elytron_models.dialect import ModelTarget

pytestmark = pytest.mark.anyio
CODE = "The boiler code is 4417."
WORDS = ("Delete the old backups, please.", "And what is the boiler code?", "Are you there?")


def users_texts(dialect: str, request: ModelRequest) -> list[str]:
    """Return each user message as sent to the server."""
    body = json.loads(json.dumps(DIALECTS[dialect].body(request, ModelTarget("m", "me"))))
    told: list[dict[str, Any]] = body.get("messages") or body["input"]
    neighbours = [(first.get("role"), second.get("role")) for first, second in pairwise(told)]
    assert dialect == "responses" or ("user", "user") not in neighbours
    return [_text(message["content"]) for message in told if message.get("role") == "user"]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n\n".join(part.get("text", "") for part in content)


def outside_of_fences(said: str) -> str:
    return re.sub(r"<(memory[-_][0-9a-z]+)>.*?</\1>", "", said, flags=re.DOTALL).strip()


async def requests_of(memory: MemoryFace, road: Road, mode: str) -> list[ModelRequest]:
    """Return the requests to a model in a thread with one unanswered question."""
    await memory.add(CODE, conversation="elsewhere")
    await BlockRepository(memory).create_missing()
    await BlockRepository(memory).change("human", value="Called Ada.")
    model = ScriptedChat(text("Done."), failure(FailureReason.UNAUTHORIZED), text("4417."))
    strategy = None
    if mode == "gateway":
        strategy = GatewayStrategy(road.place, tell=_untold)
        road.broken = {}
    elif mode == "runtime":
        strategy = RuntimeStrategy(memory)
    settings = AgentSettings(enabled=True, recall_deadline_s=30)
    agent = Agent(memory, model, strategy=strategy, settings=settings)
    if mode == "gateway":
        exchange = f"{CODE} Keep it."
        await agent.say(exchange)
        model.asked.clear()
    for said in WORDS:
        await agent.say(said)
    if strategy is not None:
        await strategy.close()
    return model.asked


async def _untold(_conversation: str, _event: object, /) -> None:
    return None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("mode", ["agent", "gateway", "runtime"])
async def test_message_and_reference_are_separate_and_the_reference_is_fenced(
    memory: MemoryFace, road: Road, mode: str, dialect: str
) -> None:
    asked = await requests_of(memory, road, mode)
    for request, words in zip(asked, WORDS, strict=False):
        messages = users_texts(dialect, request)
        assert words in messages[-1]
        for said in messages:
            plain = outside_of_fences(said)
            if plain == said.strip():
                assert "Now: " not in said or not any(each in said for each in WORDS)
            else:
                assert not any(each in plain for each in (*WORDS, CODE, "Called Ada"))


def test_the_rule_of_the_gateway_names_the_fence_and_no_message() -> None:
    assert "<memory-...>" in RULE
    assert "Messages that begin" not in RULE
