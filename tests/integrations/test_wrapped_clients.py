"""The vendors' clients with memory around their calls."""

import json
import logging
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from tests.models.fake_server import Sent, refusal, serving, serving_apart
from tests.models.streams import RECORDED, TEXTS

import elytron
from elytron_core.errors import ScopeMissing, Unsupported

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
BOAT = "What is my boat called?"
NAME = "My boat is called Petrel."
ASKED: list[Any] = [{"role": "user", "content": BOAT}]
WHOLE: dict[str, dict[str, Any]] = {
    "chat": {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}],
    },
    "responses": {
        "id": "r1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "tools": [],
        "parallel_tool_calls": False, "tool_choice": "auto",
        "output": [
            {
                "id": "m1", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
            }
        ],
    },
    "messages": {
        "id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": TEXT}], "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}  # fmt: skip
FAILURES = (openai.APIError, anthropic.APIError, httpx.HTTPError, httpx2.HTTPError, RuntimeError)
EACH = pytest.mark.parametrize("dialect", WHOLE)
STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


def sent(dialect: str, *, is_streamed: bool = True) -> Sent:
    """Return an answer in a dialect."""
    if is_streamed:
        return Sent((RECORDED[dialect].data,))
    return Sent((json.dumps(WHOLE[dialect]).encode(),), media_type="application/json")


def async_client(dialect: str, url: str) -> Any:
    if dialect == "messages":
        return anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def blocking_client(dialect: str, url: str) -> Any:
    if dialect == "messages":
        return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


async def ask_async(dialect: str, client: Any, *, is_streamed: bool) -> str:
    match dialect, is_streamed:
        case "chat", False:
            return (await client.chat.completions.create(model="m", messages=ASKED)).choices[0].message.content
        case "chat", True:
            stream = await client.chat.completions.create(model="m", messages=ASKED, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        case "responses", False:
            return (await client.responses.create(model="m", input=BOAT)).output_text
        case "responses", True:
            async with client.responses.stream(model="m", input=BOAT) as stream:
                return (await stream.get_final_response()).output_text
        case _, False:
            return (await client.messages.create(model="m", max_tokens=9, messages=ASKED)).content[0].text
        case _:
            async with client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream:
                return await stream.get_final_text()


def ask_blocking(dialect: str, client: Any, *, is_streamed: bool) -> str:
    match dialect, is_streamed:
        case "chat", False:
            return client.chat.completions.create(model="m", messages=ASKED).choices[0].message.content
        case "chat", True:
            stream = client.chat.completions.create(model="m", messages=ASKED, stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        case "responses", False:
            return client.responses.create(model="m", input=BOAT).output_text
        case "responses", True:
            with client.responses.stream(model="m", input=BOAT) as stream:
                return stream.get_final_response().output_text
        case _, False:
            return client.messages.create(model="m", max_tokens=9, messages=ASKED).content[0].text
        case _:
            with client.messages.stream(model="m", max_tokens=9, messages=ASKED) as stream:
                return stream.get_final_text()


async def texts_of(memory: elytron.MemoryRuntime, **place: Any) -> list[str]:
    return [hit.text for hit in await memory.list(**place)]


@EACH
@STREAMED
async def test_an_asyncio_client_recalls_and_stores(dialect: str, is_streamed: bool) -> None:
    async with serving(sent(dialect, is_streamed=is_streamed)) as server, elytron.open(space="ada") as memory:
        await memory.add(NAME)
        async with elytron.wrap(async_client(dialect, server.url), memory) as client:
            assert await ask_async(dialect, client, is_streamed=is_streamed) == TEXT
        assert NAME in str(server.asked[0].body)
        assert await texts_of(memory) == [NAME, BOAT, TEXT]


@EACH
@STREAMED
def test_a_blocking_client_recalls_and_stores(dialect: str, is_streamed: bool) -> None:
    with serving_apart(sent(dialect, is_streamed=is_streamed)) as server, elytron.open(space="ada") as memory:
        memory.add(NAME)
        with elytron.wrap(blocking_client(dialect, server.url), memory) as client:
            assert ask_blocking(dialect, client, is_streamed=is_streamed) == TEXT
        assert NAME in str(server.asked[0].body)
        assert [hit.text for hit in memory.list()] == [NAME, BOAT, TEXT]


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_turn_with_tools_is_stored_once(dialect: str) -> None:
    async with (
        serving(sent(f"{dialect}-tools"), sent(dialect)) as server,
        elytron.open(space="ada") as memory,
        elytron.wrap(async_client(dialect, server.url), memory, conversation="talk") as client,
    ):
        await memory.add(NAME)
        if dialect == "chat":
            create = client.chat.completions.create
            call = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            steps: list[Any] = [
                {"role": "assistant", "content": TEXT, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "t1", "content": "Rain."},
            ]
            more: dict[str, Any] = {}
        else:
            create, more = client.messages.create, {"max_tokens": 9}
            steps = [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Rain."}]},
            ]
        async for _ in await create(model="m", messages=ASKED, stream=True, **more):
            pass
        assert await texts_of(memory, filters={"conversation": "talk"}) == [BOAT]
        async for _ in await create(model="m", messages=[*ASKED, *steps], stream=True, **more):
            pass
        assert await texts_of(memory, filters={"conversation": "talk"}) == [BOAT, TEXT]
        first, second = (asked.body["messages"] for asked in server.asked)
        assert second[0] == first[0]
        assert NAME in str(first[0])


async def test_a_chat_is_one_conversation_that_does_not_recall_itself() -> None:
    async with (
        serving(sent("chat")) as server,
        elytron.open(space="ada") as memory,
        elytron.wrap(async_client("chat", server.url), memory) as client,
    ):
        messages: list[Any] = []
        for question in ("My boat is called Petrel.", BOAT, BOAT):
            messages.append({"role": "user", "content": question})
            answer = await client.chat.completions.create(model="m", messages=messages, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices])
            messages.append({"role": "assistant", "content": text})
        assert len({hit.conversation for hit in await memory.list()}) == 1
        assert ["elytron-memory" in str(asked.body) for asked in server.asked] == [False] * 3
        await client.chat.completions.create(model="m", messages=ASKED, stream=True)
        assert "called Petrel" in str(server.asked[-1].body)


async def test_a_caller_may_stop_at_the_end_of_the_answer() -> None:
    async with (
        serving(sent("chat")) as server,
        elytron.open(space="ada") as memory,
        elytron.wrap(async_client("chat", server.url), memory) as client,
    ):
        stream = await client.chat.completions.create(model="m", messages=ASKED, stream=True)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].finish_reason:
                break
        await stream.close()
        assert await texts_of(memory) == [BOAT, TEXT]
    with serving_apart(sent("chat")) as server, elytron.open(space="ada") as memory:
        with elytron.wrap(blocking_client("chat", server.url), memory) as client:
            for chunk in client.chat.completions.create(model="m", messages=ASKED, stream=True):
                if chunk.choices and chunk.choices[0].finish_reason:
                    break
        assert [hit.text for hit in memory.list()] == [BOAT, TEXT]


@EACH
async def test_a_truncated_answer_is_not_stored(dialect: str) -> None:
    recorded = RECORDED[dialect]
    cut = Sent((recorded.data[: recorded.whole_at // 2],), dies=True)
    async with (
        serving(cut, refusal(429, {"message": "later"})) as server,
        elytron.open(space="ada") as memory,
        elytron.wrap(async_client(dialect, server.url), memory) as client,
    ):
        with pytest.raises(FAILURES):
            await ask_async(dialect, client, is_streamed=True)
        with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)):
            await ask_async(dialect, client, is_streamed=False)
        assert await texts_of(memory) == []


@EACH
async def test_a_failing_memory_fails_no_call(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(sent(dialect)) as server, async_client(dialect, server.url) as bare:
        async with elytron.open(space="ada") as memory:
            client = elytron.wrap(bare, memory)
        with caplog.at_level(logging.WARNING):
            assert [await ask_async(dialect, client, is_streamed=True) for _ in range(2)] == [TEXT] * 2
        assert caplog.messages == ["memory failed, calls continue without it: store_closed"]
        assert await ask_async(dialect, bare, is_streamed=True) == TEXT
        assert server.asked[0].body == server.asked[2].body


def test_a_closed_memory_fails_no_blocking_call(caplog: pytest.LogCaptureFixture) -> None:
    with serving_apart(sent("chat")) as server:
        with elytron.open(space="ada") as memory:
            client = elytron.wrap(blocking_client("chat", server.url), memory)
        with client:
            assert [ask_blocking("chat", client, is_streamed=True) for _ in range(2)] == [TEXT] * 2
    assert caplog.messages == ["memory failed, calls continue without it: store_closed"]


async def test_a_second_user_sees_nothing_of_the_first() -> None:
    async with serving(sent("chat")) as server, elytron.open(space=None) as memory:
        await memory.add(NAME, user_id="ada")
        async with async_client("chat", server.url) as bare:
            for user in ("ada", "grace"):
                client = elytron.wrap(bare, memory, space=user, conversation="boats")
                assert await ask_async("chat", client, is_streamed=True) == TEXT
        assert ["Petrel" in str(asked.body) for asked in server.asked] == [True, False]
        assert await texts_of(memory, user_id="ada") == [NAME, BOAT, TEXT]
        assert await texts_of(memory, user_id="grace") == [BOAT, TEXT]


async def test_other_calls_pass_unchanged() -> None:
    models = Sent((b'{"object": "list", "data": []}',), media_type="application/json")
    async with (
        serving(models) as server,
        elytron.open(space="ada") as memory,
        elytron.wrap(async_client("chat", server.url), memory) as client,
    ):
        assert [model async for model in client.models.list()] == []
        await client.embeddings.create(model="m", input=BOAT, encoding_format="float")
        assert server.asked[1].body == {"input": BOAT, "model": "m", "encoding_format": "float"}
        assert await texts_of(memory) == []


def test_other_calls_of_a_blocking_client_pass_unchanged() -> None:
    models = Sent((b'{"object": "list", "data": []}',), media_type="application/json")
    with serving_apart(models) as server, elytron.open(space="ada") as memory:
        with elytron.wrap(blocking_client("chat", server.url), memory) as client:
            assert list(client.models.list()) == []
        assert memory.list().items == ()


@EACH
def test_a_streamed_blocking_answer_is_stored_once(dialect: str) -> None:
    data = RECORDED[dialect].data
    pieces = Sent(tuple(data[start : start + 100] for start in range(0, len(data), 100)))
    with serving_apart(pieces) as server, elytron.open(space="ada") as memory:
        with elytron.wrap(blocking_client(dialect, server.url), memory) as client:
            assert ask_blocking(dialect, client, is_streamed=True) == TEXT
        assert [hit.text for hit in memory.list()] == [BOAT, TEXT]


def test_an_abandoned_blocking_answer_is_not_stored() -> None:
    data = RECORDED["chat"].data
    pieces = Sent(tuple(data[start : start + 100] for start in range(0, len(data), 100)))
    with serving_apart(pieces) as server, elytron.open(space="ada") as memory:
        with elytron.wrap(blocking_client("chat", server.url), memory) as client:
            stream: Any = client.chat.completions.create(model="m", messages=ASKED, stream=True)
            next(iter(stream))
            stream.close()
        assert memory.list().items == ()


async def test_a_client_with_an_unknown_http_library_is_rejected() -> None:
    class Client:
        """A client of a model API with its own HTTP library."""

        _client = object()

        def copy(self) -> None:
            """Has the method that wrapping needs."""

    with elytron.open(space="ada") as memory, pytest.raises(Unsupported, match="httpx2 or httpx"):
        elytron.wrap(Client(), memory)


async def test_clients_derived_with_options_keep_the_memory() -> None:
    async with serving(sent("chat", is_streamed=False)) as server, elytron.open(space="ada") as memory:
        await memory.add(NAME)
        bare = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", default_headers={"X-Team": "red"})
        client = elytron.wrap(bare, memory).with_options(timeout=5)
        raw = await client.chat.completions.with_raw_response.create(model="m", messages=ASKED)
        assert raw.parse().choices[0].message.content == TEXT
        assert (server.asked[0].headers["x-team"], NAME in str(server.asked[0].body)) == ("red", True)
        assert await texts_of(memory) == [NAME, BOAT, TEXT]
        await client.close()
        assert bare.is_closed()


async def test_objects_that_cannot_be_wrapped_are_rejected() -> None:
    client, blocking = openai.AsyncOpenAI(api_key="none"), openai.OpenAI(api_key="none")
    async with elytron.open(space=None) as memory:
        with pytest.raises(ScopeMissing, match="pass space="):
            elytron.wrap(client, memory)
        with pytest.raises(Unsupported, match="blocking memory"):
            elytron.wrap(blocking, memory, space="ada")
        with pytest.raises(Unsupported, match="openai or anthropic"):
            elytron.wrap(object(), memory, space="ada")
    blocking_memory = elytron.open(space="ada").sync()
    with pytest.raises(Unsupported, match="async with"):
        elytron.wrap(client, blocking_memory)
    blocking_memory.close()
    blocking.close()
    await client.close()
