"""The seven cases of Open Responses' compliance test, through the proxy: the client gets the server's answer."""

import json
from typing import Any

import pytest
from openai.types.responses import Response
from tests.models.fake_server import EVENTS, Sent
from tests.models.streams import TEXTS, responses
from tests.proxy.proxy_setup import PATHS, asked, proxying

pytestmark = pytest.mark.anyio
PIXEL = "data:image/png;base64,iVBORw0KGgo="
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


CASES: dict[str, dict[str, Any]] = {
    "basic text": {"input": [said("Say hello in exactly 3 words.")]},
    "streaming": {"input": [said("Count from 1 to 5.")], "stream": True},
    "system prompt": {"input": [said("You are a pirate. Always speak so.", "system"), said("Say hello.")]},
    "tools": {"input": [said("What is the weather like in San Francisco?")], "tools": [WEATHER]},
    "streamed tools": {"input": [said("How is the weather in Porto?")], "tools": [WEATHER], "stream": True},
    "image": {
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What do you see in this image? Answer in one sentence."},
                    {"type": "input_image", "image_url": PIXEL},
                ],
            }
        ]
    },
    "several turns": {
        "input": [said("My name is Alice."), said("Hello Alice!", "assistant"), said("What is my name?")]
    },
}


def answer_to(case: dict[str, Any]) -> Sent:
    """Return the server's answer: a stream, or its final response."""
    stream = responses(with_tool="tools" in case)
    if case.get("stream"):
        return Sent((stream,), media_type=EVENTS)
    last = json.loads(stream.rstrip().rpartition(b"data: ")[2])
    return Sent((json.dumps(last["response"]).encode(),), media_type="application/json")


@pytest.mark.parametrize("knows", [False, True], ids=["knows nothing", "knows something"])
@pytest.mark.parametrize("name", CASES)
async def test_a_case_gets_the_servers_own_answer(name: str, knows: bool) -> None:
    case: dict[str, Any] = {"model": "m", **CASES[name]}
    sent = answer_to(case)
    async with proxying(sent) as proxied:
        if knows:
            for fact in (
                "My name is Alice.",
                "An image: count to 5.",
                "The weather in San Francisco, Porto.",
                "Say hello.",
            ):
                await proxied.memory.add(fact, user_id="default")
        answer = await proxied.post(PATHS["responses"], case)
        assert (answer.status_code, answer.content) == (200, b"".join(sent.chunks))
        if not case.get("stream"):
            told = Response.model_validate(answer.json())
            assert (told.status, told.output_text) == ("completed", "".join(TEXTS))
        up = proxied.upstream.asked[0].body
        # Everything but the last user message and the storage option is what the client sent.
        assert [*up["input"][:-1]] == [*case["input"][:-1]]
        rest = {key: value for key, value in up.items() if key not in {"input", "store", "include"}}
        assert rest == {key: value for key, value in case.items() if key != "input"}
        last = up["input"][-1]["content"]
        first = case["input"][-1]["content"]
        assert last[: len(first)] == first
        assert ("elytron-memory" in str(last)) == (int(answer.headers["x-elytron-recalled"]) > 0)
        if knows:
            assert "elytron-memory" in str(last)


async def test_a_response_does_not_mention_memory() -> None:
    async with proxying(Sent((responses(),))) as proxied:
        await proxied.memory.add("My boat is called Petrel.", user_id="default")
        answer = await proxied.post(PATHS["responses"], asked("responses", "What is my boat called?"))
        assert "elytron" not in answer.text
