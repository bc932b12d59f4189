"""The cases that Open Responses publishes for servers (openresponses/openresponses, `src/lib/compliance-tests.ts`)."""

import json
from binascii import b2a_base64
from typing import Any

import pytest
from tests.agent.service.responses.clients import ServedClient, served_client
from tests.agent.service.responses.test_responses import PNG, WEATHER
from tests.agent.service.served import called, echo, said
from tests.models.fake_server import Asked, Sent

pytestmark = pytest.mark.anyio
TEXTS = ("id", "model", "service_tier", "status")
NUMBERS = ("top_p", "temperature", "presence_penalty", "frequency_penalty", "top_logprobs", "created_at")
SWITCHES = ("parallel_tool_calls", "store", "background")
MAY_BE_NONE = {
    **dict.fromkeys(("previous_response_id", "instructions", "user", "safety_identifier", "prompt_cache_key"), str),
    **dict.fromkeys(("completed_at", "max_output_tokens", "max_tool_calls"), int),
    **dict.fromkeys(("incomplete_details", "error", "reasoning", "usage"), dict),
}
STATES = {"response.created", "response.in_progress", "response.completed"}
ITEM_EVENTS = {
    *("response.output_item.added", "response.content_part.added", "response.output_text.delta"),
    *("response.output_text.done", "response.content_part.done", "response.output_item.done"),
}


def require_resource(body: dict[str, Any]) -> None:
    """Compare a response with the types of the required fields in the published schema."""
    assert body["object"] == "response"
    assert all(isinstance(body[name], str) for name in TEXTS), body
    assert all(isinstance(body[name], int | float) for name in NUMBERS), body
    assert all(isinstance(body[name], bool) for name in SWITCHES), body
    for name, kind in MAY_BE_NONE.items():
        assert body[name] is None or isinstance(body[name], kind), name
    assert body["truncation"] in {"auto", "disabled"}
    assert body["text"]["format"]["type"] in {"text", "json_object", "json_schema"}
    assert isinstance(body["tool_choice"], str | dict)
    assert isinstance(body["tools"], list)
    assert all(isinstance(value, str) for value in body["metadata"].values())
    for item in body["output"]:
        assert (isinstance(item["id"], str), item["status"]) == (True, "completed")
        for part in item.get("content", ()):
            assert (part["type"], part["annotations"], isinstance(part["text"], str)) == ("output_text", [], True)
    if body["usage"] is not None:
        assert body["usage"]["total_tokens"] == body["usage"]["input_tokens"] + body["usage"]["output_tokens"]
        assert isinstance(body["usage"]["input_tokens_details"]["cached_tokens"], int)
        assert isinstance(body["usage"]["output_tokens_details"]["reasoning_tokens"], int)


async def responded(ada: ServedClient, **body: Any) -> dict[str, Any]:
    """Return a complete response in the published format."""
    headers = {"Authorization": f"Bearer {ada.user.key}"}
    answer = await ada.server.client.post("/v1/responses", headers=headers, json={"model": "scripted", **body})
    assert answer.status_code == 200, answer.text
    made = answer.json()
    require_resource(made)
    assert (made["status"], made["output"] != []) == ("completed", True)
    return made


def words_of(made: dict[str, Any]) -> str:
    return "".join(part["text"] for item in made["output"] for part in item.get("content", ()))


def message(role: str, content: object) -> dict[str, object]:
    return {"type": "message", "role": role, "content": content}


async def test_a_message_is_answered() -> None:
    async with served_client() as ada:
        made = await responded(ada, input=[message("user", "Say three words.")])
    assert words_of(made) == "You said: Say three words."


async def test_a_stream_has_the_published_events_and_ends_with_the_whole_response() -> None:
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        body = {"model": "scripted", "input": [message("user", "Count.")], "stream": True}
        answer = await ada.server.client.post("/v1/responses", headers=headers, json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = [frame.split("\n") for frame in answer.text.strip().split("\n\n")]
    assert frames.pop() == ["data: [DONE]"]
    names = [frame[0].removeprefix("event: ") for frame in frames]
    events = [json.loads(frame[1].removeprefix("data: ")) for frame in frames]
    assert [event["type"] for event in events] == names
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert set(names) == STATES | ITEM_EVENTS
    for event in events:
        if event["type"] in STATES:
            require_resource(event["response"] | {"output": []})
        elif event["type"].startswith("response.output_item"):
            assert isinstance(event["item"], dict)
        else:
            assert (event["output_index"], event["content_index"], isinstance(event["item_id"], str)) == (0, 0, True)
    last = events[-1]["response"]
    require_resource(last)
    assert (last["status"], words_of(last)) == ("completed", "You said: Count.")


async def test_a_system_message_reaches_the_model() -> None:
    async with served_client() as ada:
        await responded(ada, input=[message("system", "Speak as a sailor does."), message("user", "Say hello.")])
        (asked,) = ada.server.model.asked
    assert "Speak as a sailor does." in [each["content"] for each in asked.body["messages"] if each["role"] == "system"]


async def test_a_tool_is_called_and_its_result_is_answered() -> None:
    def reply(asked: Asked) -> Sent:
        if asked.body["messages"][-1]["role"] == "tool":
            return said(f"It says: {asked.body['messages'][-1]['content']}")
        return called(("get_weather", {"location": "Lisbon"}))

    choice = {"type": "function", "name": "get_weather"}
    async with served_client(reply) as ada:
        asked = [message("user", "How is the weather?")]
        first = await responded(ada, input=asked, tools=[WEATHER], tool_choice=choice)
        (call,) = first["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "17 degrees, clear"}
        second = await responded(ada, previous_response_id=first["id"], input=[result])
    assert (call["type"], call["name"], json.loads(call["arguments"])) == (
        *("function_call", "get_weather"),
        {"location": "Lisbon"},
    )
    assert (words_of(second), second["previous_response_id"]) == ("It says: 17 degrees, clear", first["id"])


async def test_an_image_reaches_the_model() -> None:
    def reply(asked: Asked) -> Sent:
        return said("a heart") if "image_url" in json.dumps(asked.body["messages"][-1]) else echo(asked)

    png = f"data:image/png;base64,{b2a_base64(PNG, newline=False).decode()}"
    parts = [{"type": "input_text", "text": "What is in it?"}, {"type": "input_image", "image_url": png}]
    async with served_client(reply) as ada:
        made = await responded(ada, input=[message("user", parts)])
    assert "a heart" in words_of(made)


async def test_messages_of_a_history_reach_the_model() -> None:
    history = [message("user", "I am Ada."), message("assistant", "Hello Ada."), message("user", "Who am I?")]
    async with served_client() as ada:
        await responded(ada, input=history)
        (asked,) = ada.server.model.asked
    said_before = json.dumps(asked.body["messages"])
    assert said_before.index("I am Ada.") < said_before.index("Hello Ada.") < said_before.index("Who am I?")


async def test_a_previous_response_is_continued() -> None:
    async with served_client() as ada:
        first = await responded(ada, input="The word is papaya.")
        second = await responded(ada, previous_response_id=first["id"], input="Which word?")
        asked = json.dumps(ada.server.model.asked[-1].body["messages"])
    assert (
        asked.index("The word is papaya.") < asked.index("You said: The word is papaya.") < asked.index("Which word?")
    )
    assert second["previous_response_id"] == first["id"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        # Cases for unsupported features: each is rejected by name.
        (
            {"input": [message("user", [{"type": "input_file", "filename": "a.pdf", "file_data": "data:,"}])]},
            "input.0.content.0.file_data",
        ),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "tools.0.type"),
        ({"tools": [{"type": "web_search", "external_web_access": False}]}, "tools.0.type"),
        (
            {"input": [message("user", [{"type": "input_image", "image_url": "https://example.org/a.png"}])]},
            "input.0.content.0.image_url",
        ),
    ],
)
async def test_unsupported_fields_are_rejected_by_name(change: dict[str, Any], field: str) -> None:
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        body = {"model": "scripted", "input": "Hello"} | change
        answer = await ada.server.client.post("/v1/responses", headers=headers, json=body)
    assert (answer.status_code, answer.json()["details"]["field"], ada.server.model.asked) == (422, field, [])
