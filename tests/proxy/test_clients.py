"""The vendors' clients through the proxy, with memory on, off, down, and required."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest
from tests.models.fake_server import Sent
from tests.models.streams import RECORDED, TEXTS
from tests.proxy.proxy_setup import Proxied, proxying, recorded

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
BOAT = "What is my boat called?"
EACH = pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "ollama"])
FAILURES = (openai.APIError, anthropic.APIError, ollama.ResponseError, RuntimeError)


def openai_client(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


async def ask_chat(url: str, said: str, headers: dict[str, str]) -> str:
    asked: list[Any] = [{"role": "user", "content": said}]
    async with (
        openai_client(url) as client,
        client.chat.completions.stream(model="m", messages=asked, extra_headers=headers) as stream,
    ):
        return (await stream.get_final_completion()).choices[0].message.content or ""


async def ask_responses(url: str, said: str, headers: dict[str, str]) -> str:
    async with (
        openai_client(url) as client,
        client.responses.stream(model="m", input=said, extra_headers=headers) as stream,
    ):
        return (await stream.get_final_response()).output_text


async def ask_messages(url: str, said: str, headers: dict[str, str]) -> str:
    asked: list[Any] = [{"role": "user", "content": said}]
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        stream = client.messages.stream(model="m", max_tokens=9, messages=asked, extra_headers=headers)
        async with stream as events:
            answer = await events.get_final_message()
    return "".join(block.text for block in answer.content if block.type == "text")


async def ask_ollama(url: str, said: str, headers: dict[str, str]) -> str:
    client: Any = ollama.AsyncClient(host=url, headers=headers)
    asked = [{"role": "user", "content": said}]
    try:
        return "".join([part.message.content or "" async for part in await client.chat("m", asked, stream=True)])
    finally:
        await client.close()


ASK: dict[str, Callable[[str, str, dict[str, str]], Awaitable[str]]] = {
    "chat": ask_chat,
    "responses": ask_responses,
    "messages": ask_messages,
    "ollama": ask_ollama,
}


async def ask(dialect: str, proxied: Proxied, said: str, use: str = "on") -> str:
    return await ASK[dialect](proxied.url, said, {"X-Elytron-Memory": use})


@EACH
@pytest.mark.parametrize("use", ["on", "off", "required"])
async def test_a_client_reads_the_same_as_without_the_proxy(dialect: str, use: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        direct = await ASK[dialect](proxied.upstream.url, BOAT, {})
        assert direct == TEXT
        await proxied.memory.add("My boat is called Petrel.", user_id="default")
        assert await ask(dialect, proxied, BOAT, use) == direct
        assert ("Petrel" in str(proxied.upstream.asked[1].body)) == (use != "off")
        assert (BOAT in await proxied.kept()) == (use != "off")


@EACH
async def test_a_client_gets_answers_while_memory_is_down(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        await proxied.memory.close()
        assert await ask(dialect, proxied, BOAT) == TEXT
        with pytest.raises(FAILURES):
            await ask(dialect, proxied, BOAT, "required")


@EACH
async def test_a_client_learns_about_a_truncated_stream(dialect: str) -> None:
    of = RECORDED[dialect]
    cut = Sent((of.data[: of.whole_at // 2],), media_type=recorded(dialect).media_type)
    async with proxying(cut) as proxied:
        with pytest.raises(FAILURES):
            await ask(dialect, proxied, BOAT)
        assert await proxied.kept() == []


@EACH
async def test_a_client_without_a_key_gets_a_readable_error(dialect: str) -> None:
    async with proxying(recorded(dialect), has_keys=True) as proxied:
        with pytest.raises(FAILURES) as refused:
            await ask(dialect, proxied, BOAT)
        assert getattr(refused.value, "status_code", None) == 401


async def test_a_clients_chat_continues_as_one_conversation() -> None:
    async with (
        proxying(recorded("chat")) as proxied,
        openai_client(proxied.url) as client,
    ):
        said: list[Any] = []
        for question in ("One", "Two", "Three"):
            said.append({"role": "user", "content": question})
            stream: Any = await client.chat.completions.create(model="m", messages=said, stream=True)
            answer = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
            said.append({"role": "assistant", "content": answer})
        assert len(set((await proxied.questions()).values())) == 1
        assert await proxied.kept() == ["One", TEXT, "Two", TEXT, "Three", TEXT]


async def test_a_client_continues_a_response() -> None:
    async with (
        proxying(recorded("responses")) as proxied,
        openai_client(proxied.url) as client,
    ):
        async with client.responses.stream(model="m", input="One") as first:
            began = await first.get_final_response()
        async with client.responses.stream(model="m", input="Two", previous_response_id=began.id) as then:
            assert (await then.get_final_response()).output_text == TEXT
        assert len(proxied.upstream.asked[1].body["input"]) == 4


def shown_on_the_page(client: str, url: str) -> str:
    """Return the documented setup of a client, with the proxy's own address."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "model-proxy.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| `{client}` \| `([^`]+)` \|$", page, re.MULTILINE)
    assert found is not None
    return found[1].replace("http://127.0.0.1:8787", url)


def answers_to(url: str) -> list[str]:
    """Return what each vendor's client reads with the documented setup; its calls block."""
    names = {"OpenAI": openai.OpenAI, "Anthropic": anthropic.Anthropic, "KEY": "none"}
    said: list[Any] = [{"role": "user", "content": BOAT}]
    chatgpt = eval(shown_on_the_page("openai", url), names)
    chunks = list(chatgpt.chat.completions.create(model="m", messages=said, stream=True))
    claude = eval(shown_on_the_page("anthropic", url), names)
    with claude.messages.stream(model="m", max_tokens=9, messages=said) as events:
        told = events.get_final_text()
    local: Any = ollama.Client(host=shown_on_the_page("ollama", url).removeprefix("OLLAMA_HOST="))
    parts = list(local.chat("m", said, stream=True))
    for client in (chatgpt, claude, local):
        client.close()
    return [
        "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        told,
        "".join(part.message.content or "" for part in parts),
    ]


async def test_the_documented_setup_is_sufficient() -> None:
    async with proxying(recorded("chat"), recorded("messages"), recorded("ollama")) as proxied:
        await proxied.memory.add("My boat is called Petrel.", user_id="default")
        assert await asyncio.to_thread(answers_to, proxied.url) == [TEXT] * 3
        assert ["Petrel" in str(asked.body) for asked in proxied.upstream.asked] == [True] * 3
