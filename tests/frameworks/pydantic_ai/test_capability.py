"""Memory around an agent's runs: recalled before requests, stored afterwards, never in the way."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import elytron
from elytron.api import MemoryFace
from elytron_core.errors import ScopeMissing
from elytron_integrations.pydantic_ai import ElytronMemory

pytestmark = pytest.mark.anyio
requests: list[str] = []


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    requests.clear()
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("My boat is called Petrel.")
        yield memory


def answer_boat(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    requests.append(str([part.content for part in messages[0].parts if isinstance(part, UserPromptPart)]))
    if info.function_tools and len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, {})])
    return ModelResponse(parts=[TextPart("It is called Petrel.")])


def agent_of(memory: MemoryFace, **fields: Any) -> Agent[Any, str]:
    return Agent(FunctionModel(answer_boat), capabilities=[ElytronMemory(memory, **fields)])


async def test_a_run_gets_memories_that_are_not_added_to_its_history(memory: MemoryFace) -> None:
    result = await agent_of(memory).run("What is my boat called?")
    assert "My boat is called Petrel." in requests[0]
    assert requests[0].index("Petrel") < requests[0].index("What is my boat called?")
    assert "Petrel" not in str(result.all_messages()[0])


async def test_a_run_is_stored_as_one_turn_of_its_conversation(memory: MemoryFace) -> None:
    result = await agent_of(memory).run("What is my boat called?")
    hits = [hit for hit in (await memory.list()).items if hit.channel == "pydantic-ai"]
    assert [(hit.role, hit.text, hit.conversation) for hit in hits] == [
        ("user", "What is my boat called?", result.conversation_id),
        ("assistant", "It is called Petrel.", result.conversation_id),
    ]


async def test_requests_after_a_tool_show_the_same_block(memory: MemoryFace) -> None:
    agent = agent_of(memory)

    @agent.tool_plain
    def look_up() -> str:
        return "nothing"

    await agent.run("What is my boat called?")
    assert len(requests) == 2
    assert requests[0] == requests[1]


async def test_the_text_parts_of_a_prompt_are_stored(memory: MemoryFace) -> None:
    await agent_of(memory).run(["What is my", TextContent(content="boat called?")])
    assert "Petrel" in requests[0]
    assert "What is my\nboat called?" in [hit.text for hit in (await memory.list()).items]


async def test_a_run_with_a_typed_result_stores_the_models_text(memory: MemoryFace) -> None:
    class Boat(BaseModel):
        name: str

    def answer_value(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        call = ToolCallPart(info.output_tools[0].name, {"name": "Petrel"})
        return ModelResponse(parts=[TextPart("Here it is."), call])

    agent = Agent(FunctionModel(answer_value), output_type=Boat, capabilities=[ElytronMemory(memory)])
    assert (await agent.run("My boat?")).output == Boat(name="Petrel")
    assert [hit.text for hit in (await memory.list()).items][1:] == ["My boat?", "Here it is."]


async def test_a_request_without_a_persons_text_passes(memory: MemoryFace) -> None:
    agent = Agent(FunctionModel(answer_boat), instructions="Say something.", capabilities=[ElytronMemory(memory)])
    await agent.run()
    await agent.run(message_history=[ModelRequest(parts=[UserPromptPart("")])])
    assert (len(requests), len((await memory.list()).items)) == (2, 1)


async def test_each_run_uses_the_memory_of_its_own_user(memory: MemoryFace) -> None:
    @dataclass
    class Deps:
        user_id: str

    capability = ElytronMemory(memory, space=lambda ctx: ctx.deps.user_id)
    agent = Agent(FunctionModel(answer_boat), deps_type=Deps, capabilities=[capability])
    await agent.run("What is my boat called?", deps=Deps("grace"))
    assert "Petrel" not in requests[0]
    assert [hit.text for hit in (await memory.list()).items] == ["My boat is called Petrel."]
    await agent.run("What is my boat called?", deps=Deps("ada"))
    assert "Petrel" in requests[1]


async def test_a_failing_memory_does_not_fail_the_run(memory: MemoryFace, caplog: pytest.LogCaptureFixture) -> None:
    agent = agent_of(memory)
    await memory.close()
    with caplog.at_level(logging.WARNING):
        assert (await agent.run("What is my boat called?")).output == "It is called Petrel."
    assert [record.getMessage() for record in caplog.records if "memory" in record.name] == [
        "memory failed, the run continues without it: store_closed"
    ] * 2


async def test_a_run_without_a_space_is_refused() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing, match="ElytronMemory"):
            await agent_of(memory).run("Hello.")


def test_no_specification_names_a_memory() -> None:
    assert ElytronMemory.get_serialization_name() is None
