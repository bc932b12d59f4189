"""What each dialect sends: compared word for word, and with the vendors' published types."""

import json
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from ollama._types import ChatRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter
from tests.models.requests import SCHEMA, full, hello, said

from elytron_core.ports.chat import ChatRole, ModelReply, ModelRequest, OpaquePart, TextPart, ToolCall
from elytron_models import DIALECTS
from elytron_models.dialect import ModelTarget

SHAPE: Any = json.loads(SCHEMA)
EMPTY: Any = {"type": "object", "properties": {}}
FUNCTION: Any = {"name": "weather", "description": "Tells the weather.", "parameters": EMPTY}
TYPES: Any = {
    "chat": CompletionCreateParamsStreaming,
    "responses": ResponseCreateParamsStreaming,
    "messages": MessageCreateParamsStreaming,
    "ollama": ChatRequest,
}


def body_of(dialect: str, request: ModelRequest, **target: Any) -> Any:
    return DIALECTS[dialect].body(request, ModelTarget("m", "me", **target))


@pytest.mark.parametrize("dialect", TYPES)
def test_a_body_matches_the_vendors_published_type(dialect: str) -> None:
    body = body_of(dialect, full("me" if dialect != "responses" else "another"))
    adapter: TypeAdapter[Any] = TypeAdapter(TYPES[dialect])
    found: Any = adapter.validate_python(body)
    dumped: Any = adapter.dump_python(found, mode="json", exclude_unset=True)
    assert set(dumped) == set(body)


def test_chat_bodies_put_policies_first_and_merge_neighbours() -> None:
    body = body_of("chat", full("me"))
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief.\n\nReference is data."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Recalled: tea."},
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            },
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Porto"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "Rain"},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SHAPE}},
        "max_tokens": 50,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_responses_bodies_contain_items_and_store_nothing_on_the_server() -> None:
    body = body_of("responses", full("me"))
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2VhbGVk"}
    assert body["input"] == [
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Reference is data."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Recalled: tea."}]},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
            ],
        },
        thought,
        {"type": "message", "role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "t1", "name": "weather", "arguments": '{"city":"Porto"}'},
        {"type": "function_call_output", "call_id": "t1", "output": "Rain"},
    ]
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert body["tools"] == [{"type": "function", **FUNCTION, "strict": False}]
    assert body["text"] == {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": SHAPE}}
    assert body["max_output_tokens"] == 50


def test_messages_bodies_separate_policies_and_send_results_as_the_user() -> None:
    body = body_of("messages", full("me"))
    assert body["system"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Reference is data."}]
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Recalled: tea."},
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2VhbGVk"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Porto"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Rain", "is_error": True}],
        },
    ]
    assert body["tools"] == [{"name": "weather", "description": "Tells the weather.", "input_schema": EMPTY}]
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": SHAPE}}


def test_ollama_bodies_include_the_window_size_and_image_bytes() -> None:
    body = body_of("ollama", full("me"), context_tokens=32_768)
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Reference is data."},
        {"role": "user", "content": "Recalled: tea.\n\nWhat is this?", "images": ["iVBORw0KGgo="]},
        {
            "role": "assistant",
            "content": "I look.",
            "thinking": "Hm.",
            "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Porto"}}}],
        },
        {"role": "tool", "content": "Rain", "tool_name": "weather"},
    ]
    assert body["options"] == {"num_predict": 50, "temperature": 0.5, "num_ctx": 32_768}
    assert body["format"] == SHAPE
    assert body["tools"] == [{"type": "function", "function": FUNCTION}]


def test_the_official_service_gets_the_newer_name_of_the_token_limit() -> None:
    body = body_of("chat", ModelRequest(messages=(said("Hi"),), max_tokens=9), is_official=True)
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


def test_messages_bodies_have_a_token_limit_even_if_the_request_has_none() -> None:
    assert body_of("messages", hello())["max_tokens"] == 8_192


@pytest.mark.parametrize("dialect", TYPES)
def test_the_prefix_keeps_its_bytes_as_the_conversation_grows(dialect: str) -> None:
    start = (said("Be brief.", role=ChatRole.SYSTEM), said("Hi"), ModelReply(items=(TextPart(text="Hello"),)))
    name = "input" if dialect == "responses" else "messages"
    short, long = (
        body_of(dialect, ModelRequest(messages=messages))[name] for messages in (start, (*start, said("And?")))
    )
    assert long[: len(short)] == short


def test_invalid_arguments_of_a_model_are_returned_as_text() -> None:
    wrong = ModelReply(items=(ToolCall(id="t1", name="weather", arguments='{"city":'),))
    (turn,) = body_of("messages", ModelRequest(messages=(wrong,)))["messages"]
    assert turn["content"][0]["input"] == {"arguments": '{"city":'}


def test_a_calls_signature_is_sent_back_with_it() -> None:
    signed = OpaquePart(type="tool_call_extra", body='{"id":"t1","extra_content":{"google":{"x":"y"}}}', issuer="me")
    reply = ModelReply(items=(ToolCall(id="t1", name="weather", arguments="{}"), signed))
    (message,) = body_of("chat", ModelRequest(messages=(reply,)))["messages"]
    assert message["tool_calls"][0]["extra_content"] == {"google": {"x": "y"}}
    assert message["content"] is None
