"""Language models: one behind OpenAI's protocol, spoken over a real socket, scripted ones, recorded ones."""

import json
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from elytron.models import Cassette, OpenAIModel, RecordedModel, RecordingModel, ScriptedModel, Structuring, call_key
from elytron_core.errors import InvalidInput, ModelError, ModelRefused, ModelUnavailable
from elytron_core.ports.models import Completion, LanguageModel, Said, Speaker

KEY = "sk-test-canary-4f9c2d71"
PROMPT = (Said(Speaker.SYSTEM, "Be brief."), Said(Speaker.USER, "Where is Lisbon?"))
SCHEMA = '{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'


def chat(text: str | None, *, finish: str = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
        **more,
    }


@dataclass
class Server:
    """A server that speaks the protocol: gives its answers one after the other, the last one for ever."""

    answers: list[Response] = field(default_factory=list[Response])
    seen: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    url: str = ""

    async def complete(self, request: Request) -> Response:
        self.seen.append({"body": await request.json(), "headers": dict(request.headers)})
        return self.answers[min(len(self.seen), len(self.answers)) - 1]


@contextmanager
def serving(server: Server) -> Generator[Server]:
    app = Starlette(routes=[Route("/v1/chat/completions", server.complete, methods=["POST"])])
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        thread.join(0.002)
        assert thread.is_alive()
    server.url = f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        running.should_exit = True
        thread.join(timeout=100)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.fixture
async def model(endpoint: Server) -> AsyncIterator[OpenAIModel]:
    endpoint.seen.clear()
    model = OpenAIModel(
        "m", base_url=endpoint.url, api_key=KEY, attempts=2, timeout_s=100, prompt_price=2.0, completion_price=10.0
    )
    yield model
    await model.close()


@pytest.mark.anyio
async def test_an_answer_comes_with_what_it_cost(model: OpenAIModel, endpoint: Server) -> None:
    endpoint.answers = [JSONResponse(chat("In Portugal."))]
    answer = await model.complete(PROMPT, max_tokens=50)
    assert answer == Completion("In Portugal.", "m", prompt_tokens=11, completion_tokens=5, cost=72)
    (seen,) = endpoint.seen
    assert seen["headers"]["authorization"] == f"Bearer {KEY}"
    assert seen["body"] == {
        "model": "m",
        "max_tokens": 50,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is Lisbon?"}],
    }


@pytest.mark.anyio
async def test_a_schema_is_sent_strictly(model: OpenAIModel, endpoint: Server) -> None:
    endpoint.answers = [JSONResponse(chat('{"a":"b"}'))]
    await model.complete(PROMPT, schema=SCHEMA, max_tokens=50)
    shape = endpoint.seen[0]["body"]["response_format"]
    assert shape == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": json.loads(SCHEMA)},
    }


@pytest.mark.anyio
@pytest.mark.parametrize("structuring", [Structuring.JSON_OBJECT, Structuring.PROMPT])
async def test_a_server_without_schemas_is_told_in_words(
    endpoint: Server, structuring: Structuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # which a server on this machine is reached without
    endpoint.answers, endpoint.seen = [JSONResponse(chat("{}"))], []
    model = OpenAIModel("m", base_url=endpoint.url, structuring=structuring, temperature=0.0)
    await model.complete(PROMPT, schema=SCHEMA, max_tokens=50)
    await model.close()
    body = endpoint.seen[0]["body"]
    assert SCHEMA in body["messages"][0]["content"]
    assert body["temperature"] == 0.0
    assert ("response_format" in body) is (structuring is Structuring.JSON_OBJECT)


@pytest.mark.anyio
async def test_an_answer_that_ran_out_of_room_says_so(model: OpenAIModel, endpoint: Server) -> None:
    endpoint.answers = [JSONResponse(chat('{"a":"b', finish="length"))]
    assert (await model.complete(PROMPT, max_tokens=5)).is_cut


@pytest.mark.anyio
async def test_a_fault_that_may_pass_is_tried_again(model: OpenAIModel, endpoint: Server) -> None:
    busy = JSONResponse({"error": {"message": "busy"}}, status_code=503, headers={"retry-after-ms": "1"})
    endpoint.answers = [busy, JSONResponse(chat("Yes."))]
    assert (await model.complete(PROMPT, max_tokens=5)).text == "Yes."
    assert len(endpoint.seen) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "error", "tries"),
    [
        (
            JSONResponse({"error": {"message": KEY}}, status_code=500, headers={"retry-after-ms": "1"}),
            ModelUnavailable,
            2,
        ),
        (
            JSONResponse({"error": {"message": KEY}}, status_code=429, headers={"retry-after-ms": "1"}),
            ModelUnavailable,
            2,
        ),
        (JSONResponse({"error": {"message": KEY}}, status_code=401), ModelRefused, 1),
        (JSONResponse({"error": {"message": KEY}}, status_code=400), ModelRefused, 1),
        (PlainTextResponse(f"<html>{KEY}</html>"), ModelRefused, 1),
        (JSONResponse({"object": "list", "data": []}), ModelRefused, 1),
        (JSONResponse(chat(None)), ModelRefused, 1),
        (JSONResponse(chat("x", choices=[])), ModelRefused, 1),
    ],
)
async def test_a_fault_has_a_type_and_no_message_holds_the_key(
    model: OpenAIModel, endpoint: Server, answer: Response, error: type[ModelError], tries: int
) -> None:
    endpoint.answers = [answer]
    with pytest.raises(error) as raised:
        await model.complete(PROMPT, max_tokens=5)
    assert len(endpoint.seen) == tries
    shown = f"{raised.value!r} {raised.value.__cause__!r} {model!r} {vars(raised.value)}"
    assert KEY not in shown
    assert raised.value.__context__ is None or raised.value.__suppress_context__


@pytest.mark.anyio
async def test_a_server_that_is_not_there_is_unavailable() -> None:
    model = OpenAIModel("m", base_url="http://127.0.0.1:9/v1", api_key=KEY, attempts=1, timeout_s=2)
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await model.complete(PROMPT, max_tokens=5)
    await model.close()


def test_bounds_of_a_model_are_named() -> None:
    with pytest.raises(InvalidInput, match="attempts"):
        OpenAIModel("m", attempts=0)
    with pytest.raises(InvalidInput, match="timeout_s"):
        OpenAIModel("m", timeout_s=0)


@pytest.mark.anyio
async def test_a_scripted_model_says_its_lines_and_then_no_more() -> None:
    model = ScriptedModel(["one", Completion("two", "x"), ModelUnavailable("off")])
    assert (await model.complete(PROMPT, max_tokens=1)).text == "one"
    assert (await model.complete(PROMPT, max_tokens=1)).model == "x"
    with pytest.raises(ModelUnavailable):
        await model.complete(PROMPT, max_tokens=1)
    with pytest.raises(ModelRefused, match="no answer left"):
        await model.complete(PROMPT, max_tokens=1)
    assert model.prompts[0] == PROMPT


@pytest.mark.anyio
async def test_a_recorded_call_gets_the_same_answer_and_another_none() -> None:
    live = ScriptedModel(lambda prompt: f"heard {len(prompt)}", name="m")
    recording = RecordingModel(live)
    first = await recording.complete(PROMPT, schema=SCHEMA, max_tokens=9)
    assert await recording.complete(PROMPT, schema=SCHEMA, max_tokens=9) == first
    assert len(live.prompts) == 1
    cassette = Cassette.from_bytes(recording.cassette.to_bytes())
    recorded: LanguageModel = RecordedModel(cassette)
    assert recorded.name == "m"
    assert await recorded.complete(PROMPT, schema=SCHEMA, max_tokens=9) == first
    with pytest.raises(ModelRefused, match="record it again"):
        await recorded.complete(PROMPT, max_tokens=9)


@pytest.mark.anyio
async def test_recording_again_asks_only_what_is_new_and_drops_what_is_asked_no_more() -> None:
    old = RecordingModel(ScriptedModel(["a", "b"], name="m"))
    await old.complete(PROMPT, max_tokens=1)
    await old.complete(PROMPT[:1], max_tokens=1)
    live = ScriptedModel(["c"], name="m")
    new = RecordingModel(live, cassette=old.cassette)
    assert (await new.complete(PROMPT, max_tokens=1)).text == "a"
    assert (await new.complete(PROMPT[1:], max_tokens=1)).text == "c"
    assert {call.key for call in new.cassette.calls} == {call_key("m", PROMPT, None), call_key("m", PROMPT[1:], None)}
