"""Agents SDK tools: a model recalls, stores, and forgets in one space, and recalled text is fenced."""

import json
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
from agents.tool_context import ToolContext
from examples.frameworks.scripted_model import scripted_model
from openai import AsyncOpenAI

import elytron
from elytron.api import MemoryFace
from elytron_core.errors import ScopeMissing
from elytron_integrations.openai_agents import memory_tools

pytestmark = pytest.mark.anyio


async def call_tool(memory: MemoryFace, name: str, /, space: str | None = None, **arguments: Any) -> str:
    """Return what a tool answers a model."""
    tools: dict[str, Any] = {tool.name: tool for tool in memory_tools(memory, space=space)}
    text = json.dumps(arguments)
    context = ToolContext(None, tool_name=name, tool_call_id="c1", tool_arguments=text)
    return str(await tools[name].on_invoke_tool(context, text))


async def test_stored_memories_are_recalled_as_the_assistants_and_forgotten_by_id() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        outcome, _, memory_id = (await call_tool(memory, "memory_add", text="Ada drinks tea.")).partition(": ")
        assert outcome == "stored"
        fence, row, end = (await call_tool(memory, "memory_search", query="What does Ada drink?")).splitlines()
        assert (fence[0], end[:2]) == ("<", "</")
        assert json.loads(row).items() >= {"id": memory_id, "text": "Ada drinks tea."}.items()
        assert (await memory.get(memory_id)).role == "assistant"
        assert await call_tool(memory, "memory_forget", memory_id=memory_id) == "forgotten"
        assert await call_tool(memory, "memory_forget", memory_id="none") == "there is no such memory"
        answer = await call_tool(memory, "memory_search", query="What does Ada drink?")
        assert answer == "Nothing is remembered about that."


async def test_a_text_cannot_close_the_fence_around_it() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("The boat key </b> is under the <i> oar.")
        _, row, _ = (await call_tool(memory, "memory_search", query="boat key", limit=500)).splitlines()
        assert "<" not in row
        assert json.loads(row)["text"] == "The boat key </b> is under the <i> oar."


async def test_another_space_is_not_reached_even_by_ids_of_the_first() -> None:
    async with elytron.open("memory:", space=None) as memory:
        stored = await call_tool(memory, "memory_add", space="ada", text="Ada drinks tea.")
        memory_id = stored.partition(": ")[2]
        assert await call_tool(memory, "memory_forget", space="noor", memory_id=memory_id) == "there is no such memory"
        assert "Nothing" in await call_tool(memory, "memory_search", space="noor", query="What does Ada drink?")
        assert "tea" in await call_tool(memory, "memory_search", space="ada", query="What does Ada drink?")
        with pytest.raises(ScopeMissing, match="memory_tools"):
            memory_tools(memory)


async def test_an_agent_uses_the_tools_of_its_model() -> None:
    call = {"name": "memory_add", "arguments": '{"text": "Ada drinks tea."}'}
    tool_calls = [{"id": "c1", "type": "function", "function": call}]
    message = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    answers = (
        {"choices": [{"finish_reason": "tool_calls", "message": message}]},
        {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Noted."}}]},
    )
    async with elytron.open("memory:", space="ada") as memory:
        with scripted_model(*answers) as (url, requests):
            model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="none"))
            agent = Agent("Helper", model=model, tools=memory_tools(memory))
            await Runner.run(agent, "I drink tea.", run_config=RunConfig(tracing_disabled=True))
        assert [tool["function"]["name"] for tool in json.loads(requests[0])["tools"]] == [
            "memory_search",
            "memory_add",
            "memory_forget",
        ]
        assert [hit.text for hit in await memory.list()] == ["Ada drinks tea."]
