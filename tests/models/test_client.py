"""Clients of model servers over real HTTP: what is sent, returned, retried, and never disclosed."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.models.fake_server import LINES, FakeServer, Sent, refusal, serving, serving_apart
from tests.models.requests import full, hello, said
from tests.models.streams import RECORDED, chat

from elytron_core.errors import InvalidInput, ModelRefused, ModelUnavailable
from elytron_core.ports.chat import (
    ChatRole,
    FailureReason,
    FinishReason,
    ImagePart,
    InputMessage,
    ModelEvent,
    ModelRequest,
    ModelTool,
    OpaquePart,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
    ToolChoice,
)
from elytron_models import ModelClient, StructuredOutput, address_of, ask, error_of

pytestmark = pytest.mark.anyio
KEY = "sk-test-canary-4f9c2d71"
DIALECTS = ("chat", "responses", "messages", "ollama")
EACH = pytest.mark.parametrize("dialect", DIALECTS)


def good(name: str = "chat") -> Sent:
    return Sent((RECORDED[name].data,), media_type=LINES if name.startswith("ollama") else "text/event-stream")


class Pauses(list[float]):
    """Waits that take no time."""

    async def __call__(self, seconds: float, /) -> None:
        self.append(seconds)


@asynccontextmanager
async def client_of(
    dialect: str, *answers: Sent | None, pauses: Pauses | None = None, **settings: Any
) -> AsyncGenerator[tuple[ModelClient, FakeServer]]:
    async with serving(*answers) as server:
        address = address_of(f"{dialect}:m@{server.url}/v1")
        client = ModelClient(address, key=KEY, pause=pauses if pauses is not None else Pauses(), **settings)
        try:
            yield client, server
        finally:
            await client.close()


async def events_of(client: ModelClient, request: ModelRequest | None = None) -> list[ModelEvent]:
    return [event async for event in client.stream(request or hello())]


@EACH
async def test_an_answer_arrives_as_its_events(dialect: str) -> None:
    async with client_of(dialect, good(f"{dialect}-tools")) as (client, server):
        events = await events_of(client)
        issuer = f"{dialect}:m@{server.url}/v1"
    assert [
        event.model_copy(update={"issuer": "me"}) if isinstance(event, OpaquePart) else event for event in events
    ] == list(RECORDED[f"{dialect}-tools"].events)
    assert {event.issuer for event in events if isinstance(event, OpaquePart)} <= {issuer}


@EACH
async def test_a_clean_end_without_the_marker_is_a_failure(dialect: str) -> None:
    recorded = RECORDED[dialect]
    half = Sent((recorded.data[: recorded.whole_at - 1],), media_type=good(dialect).media_type)
    async with client_of(dialect, half) as (client, server):
        assert (await events_of(client))[-1] == ReplyFailed(reason=FailureReason.CUT)
    assert len(server.asked) == 1


@EACH
async def test_a_connection_that_dies_within_an_answer_is_not_retried(dialect: str) -> None:
    data = RECORDED[dialect].data
    async with client_of(dialect, Sent((data[:1], data[1 : len(data) // 2]), dies=True)) as (client, server):
        assert (await events_of(client))[-1] == ReplyFailed(reason=FailureReason.CUT)
    assert len(server.asked) == 1


async def test_a_request_is_not_retried_after_one_byte_of_an_answer() -> None:
    async with client_of("chat", Sent((b":",), dies=True), good()) as (client, server):
        assert await events_of(client) == [ReplyFailed(reason=FailureReason.CUT)]
    assert len(server.asked) == 1


@pytest.mark.parametrize("broken", [None, Sent((), dies=True), Sent(()), refusal(503, "x"), refusal(529, "x")])
async def test_failures_before_the_first_byte_are_retried(broken: Sent | None) -> None:
    pauses = Pauses()
    async with client_of("chat", broken, broken, good(), pauses=pauses) as (client, server):
        assert (await events_of(client))[-1] == ReplyFinished(reason=FinishReason.STOP)
    assert len(server.asked) == 3
    assert pauses[0] < pauses[1] <= 1.0


async def test_a_servers_retry_time_is_respected_up_to_a_limit() -> None:
    pauses = Pauses()
    async with client_of("chat", refusal(429, "x", retry_after="7"), good(), pauses=pauses) as (client, _):
        await events_of(client)
    assert pauses == [7.0]
    async with client_of("chat", refusal(429, "x", retry_after="3600")) as (client, server):
        failed = ReplyFailed(reason=FailureReason.RATE_LIMITED, status=429, retry_after_s=3600)
        assert await events_of(client) == [failed]
        error = error_of(failed, name="m")
    assert isinstance(error, ModelUnavailable)
    assert (error.retry_after_s, len(server.asked)) == (3600, 1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(400, {"code": "context_length_exceeded"}), FailureReason.CONTEXT_TOO_LONG),
        (
            refusal(400, {"type": "invalid_request_error", "message": "prompt is too long: 9 > 5"}),
            FailureReason.CONTEXT_TOO_LONG,
        ),
        (refusal(401, {"message": f"Incorrect API key provided: {KEY}"}), FailureReason.UNAUTHORIZED),
        (refusal(404, "model 'm' not found"), FailureReason.REFUSED),
        (refusal(413, {"type": "request_too_large"}), FailureReason.CONTEXT_TOO_LONG),
        (refusal(429, {"code": "insufficient_quota"}), FailureReason.REFUSED),
        (Sent((b"<html>" + b"x" * 200_000,), status=404), FailureReason.REFUSED),
        (Sent((), status=302, headers={"location": "http://127.0.0.1:1/"}), FailureReason.REFUSED),
    ],
)
async def test_a_refusal_is_reported_with_its_reason_and_not_retried(answer: Sent, reason: FailureReason) -> None:
    async with client_of("chat", answer) as (client, server):
        assert await events_of(client) == [ReplyFailed(reason=reason, status=answer.status)]
        with pytest.raises(ModelRefused) as caught:
            await ask(client, hello())
    assert len(server.asked) == 2
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (399, FailureReason.UNAVAILABLE),
        (400, FailureReason.REFUSED),
        (401, FailureReason.UNAUTHORIZED),
        (599, FailureReason.UNAVAILABLE),
        (600, FailureReason.UNAVAILABLE),
    ],
)
async def test_a_status_within_a_stream_is_one_from_400_to_599(code: int, reason: FailureReason) -> None:
    broken = Sent((f'data: {{"error": {{"code": {code}, "message": "no"}}}}\n\n'.encode(),))
    async with client_of("chat", broken) as (client, _):
        (failed,) = await events_of(client)
    assert isinstance(failed, ReplyFailed)
    assert failed.reason is reason


@EACH
async def test_the_key_goes_to_the_server_and_nowhere_else(dialect: str) -> None:
    async with client_of(dialect, good(dialect)) as (client, server):
        await events_of(client)
        assert KEY not in repr(client) + repr(client.info)
        assert repr(client) == f"ModelClient('{dialect}:m@{server.url}/v1')"
    headers = server.asked[0].headers
    named = {name for name, value in headers.items() if KEY in value}
    assert named == {"x-api-key" if dialect == "messages" else "authorization"}


async def test_without_a_key_no_authorization_header_is_sent() -> None:
    async with serving(good()) as server:
        client = ModelClient(address_of(f"chat:m@{server.url}"))
        await events_of(client)
        await client.close()
    assert not {"authorization", "x-api-key"} & server.asked[0].headers.keys()


async def test_a_silent_server_is_not_awaited() -> None:
    half = Sent((chat()[:200],), hangs=True)
    async with client_of("chat", half, timeout_s=0.1) as (client, server):
        assert (await events_of(client))[-1] == ReplyFailed(reason=FailureReason.TIMEOUT)
        assert len(server.asked) == 1


async def test_without_a_listening_server_the_model_is_unreachable() -> None:
    async with serving() as server:
        pass
    pauses = Pauses()
    client = ModelClient(address_of(f"chat:m@{server.url}"), pause=pauses)
    assert await events_of(client) == [ReplyFailed(reason=FailureReason.UNREACHABLE)]
    assert len(pauses) == 2
    await client.close()


async def test_a_rejected_opaque_item_is_omitted_and_the_request_retried_once() -> None:
    refused = refusal(400, {"code": "invalid_encrypted_content"})
    async with client_of("responses", refused, good("responses")) as (client, server):
        events = await events_of(client, full(f"responses:m@{server.url}/v1"))
    assert events[-1] == ReplyFinished(reason=FinishReason.STOP)
    sent = ["thinking" in json.dumps(asked.body["input"]) for asked in server.asked]
    assert sent == [True, False]


async def test_an_item_rejected_twice_is_a_failure() -> None:
    refused = refusal(400, {"code": "invalid_encrypted_content"})
    async with client_of("responses", refused) as (client, server):
        events = await events_of(client, full(f"responses:m@{server.url}/v1"))
    assert events == [ReplyFailed(reason=FailureReason.OPAQUE_REFUSED, status=400)]
    assert len(server.asked) == 2


async def test_an_abandoned_stream_releases_its_connection() -> None:
    async with client_of("chat", Sent((chat()[:400],), hangs=True)) as (client, _):
        stream = client.stream(hello())
        assert await anext(stream)
        await stream.aclose()


async def test_a_whole_answer_has_its_items_in_order() -> None:
    async with client_of("messages", good("messages-tools")) as (client, _):
        answer = await ask(client, hello())
    assert [item.kind for item in answer.reply.items] == ["opaque", "text", "tool_call"]
    assert (answer.reason, answer.usage.output_tokens) == (FinishReason.TOOLS, 5)
    assert answer.text == "Grüße aus Lissabon 🦜."
    assert [call.name for call in answer.calls] == ["weather"]


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_an_image_that_is_neither_an_address_nor_data_is_rejected(dialect: str) -> None:
    image = InputMessage(role=ChatRole.USER, parts=(ImagePart(url="file:///x.png"),))
    async with client_of(dialect, good(dialect)) as (client, server):
        with pytest.raises(InvalidInput, match="image"):
            await events_of(client, ModelRequest(messages=(image,)))
    assert server.asked == []


async def test_ollama_accepts_no_image_address() -> None:
    image = InputMessage(role=ChatRole.USER, parts=(ImagePart(url="https://example.org/x.png"),))
    async with client_of("ollama", good("ollama")) as (client, _):
        with pytest.raises(InvalidInput, match="data: URL"):
            await events_of(client, ModelRequest(messages=(image,)))


async def test_invalid_tool_schemas_are_reported_with_the_tools_name() -> None:
    request = ModelRequest(messages=(said("Hi"),), tools=(ModelTool(name="bad", parameters="[]"),))
    async with client_of("chat", good()) as (client, _):
        with pytest.raises(InvalidInput, match="'bad'"):
            await events_of(client, request)


@pytest.mark.parametrize(
    ("dialect", "told"),
    [("chat", "required"), ("responses", "required"), ("messages", {"type": "any"}), ("ollama", None)],
)
async def test_the_tool_choice_is_encoded_in_each_dialect(dialect: str, told: object) -> None:
    async with client_of(dialect, good(dialect)) as (client, server):
        await events_of(client, full("").model_copy(update={"tool_choice": ToolChoice.REQUIRED}))
    assert server.asked[0].body.get("tool_choice") == told


async def test_a_text_stream_can_be_read_incrementally() -> None:
    async with client_of("chat", good()) as (client, _):
        said_so_far = [event.text async for event in client.stream(hello()) if isinstance(event, TextDelta)]
    assert said_so_far == ["Grüße", " aus Lissabon 🦜", "."]


def test_limits_of_settings_are_reported() -> None:
    address = address_of("chat:m@http://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="attempts"):
        ModelClient(address, attempts=0)
    with pytest.raises(InvalidInput, match="timeout_s"):
        ModelClient(address, timeout_s=0)
    with pytest.raises(InvalidInput, match="is not a valid key"):
        ModelClient(address, key="two words")


def test_a_request_without_messages_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="messages"):
        ModelRequest(messages=())


@pytest.mark.parametrize("media_type", ["text/html; charset=utf-8", "application/json"])
async def test_an_answer_that_is_not_a_stream_is_malformed(media_type: str) -> None:
    page = Sent((f"<html>{KEY}</html>".encode(),), media_type=media_type)
    async with client_of("chat", page) as (client, server):
        assert await events_of(client) == [ReplyFailed(reason=FailureReason.MALFORMED)]
    assert len(server.asked) == 1


async def test_a_server_on_this_machine_is_reached_without_the_environments_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with client_of("chat", good()) as (client, _):
        assert (await events_of(client))[-1] == ReplyFinished(reason=FinishReason.STOP)


def test_a_client_serves_one_loop_after_another() -> None:
    # Connections belong to a loop: the next one opens new ones.
    with serving_apart(good()) as server:
        client = ModelClient(address_of(f"chat:m@{server.url}"))

        async def once() -> list[ModelEvent]:
            try:
                return await events_of(client)
            finally:
                await client.close()

        for _ in range(2):
            assert asyncio.run(once())[-1] == ReplyFinished(reason=FinishReason.STOP)


@pytest.mark.parametrize(
    ("dialect", "path", "left_out"),
    [
        ("messages", "/v1/messages/count_tokens", {"stream", "max_tokens"}),
        ("responses", "/v1/responses/input_tokens", {"stream", "store", "include", "max_output_tokens"}),
    ],
)
async def test_tokens_are_counted_by_a_server_that_supports_it(dialect: str, path: str, left_out: set[str]) -> None:
    counted = Sent((b'{"input_tokens": 42}',), media_type="application/json")
    async with client_of(dialect, counted, good(dialect)) as (client, server):
        assert await client.count(hello()) == 42
        await events_of(client)
    asked, streamed = server.asked
    assert asked.path == path
    assert asked.body == {name: part for name, part in streamed.body.items() if name not in left_out}


async def test_a_server_without_counting_is_queried_once_and_a_busy_one_again() -> None:
    async with client_of("messages", refusal(503, "busy"), refusal(404, "no such path")) as (client, server):
        assert [await client.count(hello()) for _ in range(3)] == [None, None, None]
    assert len(server.asked) == 2


@pytest.mark.parametrize("dialect", ["chat", "ollama"])
async def test_a_dialect_without_counting_is_not_queried(dialect: str) -> None:
    async with client_of(dialect, good(dialect)) as (client, server):
        assert await client.count(hello()) is None
    assert server.asked == []


async def test_a_count_includes_the_answer_schema_like_a_request() -> None:
    counted = Sent((b'{"input_tokens": 0}',), media_type="application/json")
    async with client_of("messages", counted, structuring=StructuredOutput.PROMPT) as (client, server):
        assert await client.count(hello().model_copy(update={"answer_schema": "{}"})) is None
    assert "JSON" in json.dumps(server.asked[0].body)


@EACH
async def test_one_connection_serves_consecutive_requests(dialect: str) -> None:
    async with client_of(dialect, good(dialect)) as (client, server):
        for _ in range(3):
            assert (await events_of(client))[-1] == ReplyFinished(reason=FinishReason.STOP)
    assert server.connections == 1


async def test_data_after_the_end_of_an_answer_is_not_read() -> None:
    done = RECORDED["chat"].data
    more = Sent((done, *(b":" + b"x" * 65_536 + b"\n\n" for _ in range(40))))
    async with client_of("chat", more, good()) as (client, server):
        for _ in range(2):
            assert (await events_of(client))[-1] == ReplyFinished(reason=FinishReason.STOP)
    assert server.connections == 2
