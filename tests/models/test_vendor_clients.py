"""The vendors' own clients can read the fake server and the recorded streams."""

from typing import Any

import anthropic
import ollama
import openai
import pytest
from tests.models.fake_server import EVENTS, LINES, FakeServer, Sent, refusal, serving
from tests.models.streams import ARGUMENTS, RECORDED, TEXTS

TEXT = "".join(TEXTS)
pytestmark = pytest.mark.anyio

ASKED: list[Any] = [{"role": "user", "content": "Hello"}]
TOOLED = pytest.mark.parametrize("tooled", ["", "-tools"])


def sent(name: str) -> Sent:
    recorded = RECORDED[name]
    return Sent((recorded.data,), media_type=LINES if recorded.dialect == "ollama" else EVENTS)


def openai_client(server: FakeServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def anthropic_client(server: FakeServer) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0)


@TOOLED
async def test_openai_reads_our_chat(tooled: str) -> None:
    async with serving(sent(f"chat{tooled}")) as server, openai_client(server) as client:
        options: Any = {"include_usage": True}
        async with client.chat.completions.stream(model="m", messages=ASKED, stream_options=options) as stream:
            answer = await stream.get_final_completion()
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == (TEXT, "tool_calls" if tooled else "stop")
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
    assert calls == ([("t1", "weather", "".join(ARGUMENTS))] if tooled else [])
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 5)


@TOOLED
async def test_openai_reads_our_responses(tooled: str) -> None:
    async with serving(sent(f"responses{tooled}")) as server, openai_client(server) as client:
        stream = client.responses.stream(model="m", input="Hello")
        async with stream as events:
            answer = await events.get_final_response()
    assert (answer.output_text, answer.status) == (TEXT, "completed")
    calls = [(item.call_id, item.name, item.arguments) for item in answer.output if item.type == "function_call"]
    assert calls == ([("t1", "weather", "".join(ARGUMENTS))] if tooled else [])
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 5)


@TOOLED
async def test_anthropic_reads_our_messages(tooled: str) -> None:
    async with serving(sent(f"messages{tooled}")) as server, anthropic_client(server) as client:
        stream = client.messages.stream(model="m", max_tokens=9, messages=ASKED)
        async with stream as events:
            answer = await events.get_final_message()
    assert "".join(block.text for block in answer.content if block.type == "text") == TEXT
    assert [block.signature for block in answer.content if block.type == "thinking"] == ["c2VhbGVk"]
    calls = [(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"]
    assert calls == ([("t1", "weather", {"city": "Porto"})] if tooled else [])
    assert (answer.stop_reason, answer.usage.output_tokens) == ("tool_use" if tooled else "end_turn", 5)


@TOOLED
async def test_ollama_reads_our_lines(tooled: str) -> None:
    async with serving(sent(f"ollama{tooled}")) as server:
        client: Any = ollama.AsyncClient(host=server.url)
        parts = [part async for part in await client.chat(model="m", messages=ASKED, stream=True)]
        await client.close()
    assert "".join(part.message.content or "" for part in parts) == TEXT
    calls = [(call.function.name, call.function.arguments) for part in parts for call in part.message.tool_calls or ()]
    assert calls == ([("weather", {"city": "Porto"})] if tooled else [])
    assert (parts[-1].done, parts[-1].done_reason, parts[-1].eval_count) == (True, "stop", 5)


async def test_the_clients_read_our_refusals() -> None:
    error = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "later"}
    async with serving(refusal(429, error)) as server:
        async with openai_client(server) as client:
            with pytest.raises(openai.RateLimitError):
                await client.chat.completions.create(model="m", messages=ASKED, stream=True)
        async with anthropic_client(server) as other:
            with pytest.raises(anthropic.RateLimitError):
                await other.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)
