"""Response options: each reaches the model or is rejected by name; none is silently ignored."""

import json
from typing import Any

import pytest
from openai import UnprocessableEntityError
from tests.agent.service.responses.clients import served_client
from tests.agent.service.responses.test_responses import WEATHER
from tests.agent.service.served import echo

from elytron_agent.loop.run import TOO_LONG
from elytron_agent.runs.source import ClientPart
from elytron_agent.service.responses.response_items import client_part, require_options
from elytron_agent.service.responses.response_wire import ResponseRequest
from elytron_core.errors import InvalidInput
from elytron_core.ports.chat import ChatRole, InputMessage, ModelRequest, ModelTool, TextPart, ToolChoice
from elytron_models.client import DIALECTS, open_model
from elytron_models.dialect import ModelTarget

pytestmark = pytest.mark.anyio
WORDS = (InputMessage(role=ChatRole.USER, parts=(TextPart(text="Hello"),)),)
OPTIONS = ModelRequest(
    messages=WORDS, tools=(ModelTool(name="weather"),), top_p=0.25, reasoning_effort="low", parallel_calls=False
)


async def test_options_reach_the_model_and_are_echoed() -> None:
    async with served_client() as ada:
        made = await ada.openai.responses.create(
            model="scripted", input="Hello", top_p=0.25, reasoning={"effort": "low"}, parallel_tool_calls=False,
            tools=[WEATHER],
        )  # fmt: skip
        (asked,) = ada.server.model.asked
        usual = await ada.openai.responses.create(model="scripted", input="Hello")
        other = ada.server.model.asked[-1].body
    assert {name: asked.body[name] for name in ("top_p", "reasoning_effort", "parallel_tool_calls")} == {
        "top_p": 0.25, "reasoning_effort": "low", "parallel_tool_calls": False,
    }  # fmt: skip
    assert made.reasoning is not None
    assert (made.top_p, made.reasoning.effort, made.parallel_tool_calls) == (0.25, "low", False)
    assert not {"top_p", "reasoning_effort", "parallel_tool_calls"} & other.keys()
    assert (usual.top_p, usual.reasoning, usual.truncation) == (1.0, None, "auto")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"reasoning": {"effort": "boundless"}}, "reasoning.effort"),
        ({"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]}, "include"),
        ({"include": ["message.input_image.image_url"]}, "include"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": -0.5}, "frequency_penalty"),
    ],
)
async def test_an_impossible_option_is_rejected(change: dict[str, Any], field: str) -> None:
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        body = {"model": "scripted", "input": "Hello"} | change
        answer = await ada.server.client.post("/v1/responses", headers=headers, json=body)
    assert (answer.status_code, answer.json()["details"]["field"], ada.server.model.asked) == (422, field, [])


async def test_options_that_state_the_default_are_accepted() -> None:
    asked = {
        "include": ["reasoning.encrypted_content"], "text": {"verbosity": "medium"}, "top_logprobs": 0,
        "presence_penalty": 0, "stream_options": {"include_obfuscation": False}, "reasoning": {"summary": None},
        "truncation": "auto", "service_tier": "auto",
    }  # fmt: skip
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        body = {"model": "scripted", "input": "Hello"} | asked
        answer = await ada.server.client.post("/v1/responses", headers=headers, json=body)
    assert (answer.status_code, answer.json()["service_tier"]) == (200, "default")


async def test_without_truncation_an_input_beyond_the_window_is_rejected() -> None:
    async with served_client(context_tokens=2_000) as ada:
        long = "The tide comes and goes. " * 400
        with pytest.raises(UnprocessableEntityError) as refused:
            await ada.openai.responses.create(model="scripted", input=long, truncation="disabled")
        cut = await ada.openai.responses.create(model="scripted", input="Hello", truncation="disabled")
    assert "`truncation` is disabled" in refused.value.response.json()["detail"]
    assert (cut.status, cut.truncation) == ("completed", "disabled")


async def test_a_history_beyond_the_window_fails_the_response_unless_truncation_is_on() -> None:
    long = "The tide comes and goes. " * 140
    async with served_client(echo, context_tokens=3_000) as ada:
        first = await ada.openai.responses.create(model="scripted", input=long)
        failed = await ada.openai.responses.create(
            model="scripted", input="And now?", previous_response_id=first.id, truncation="disabled"
        )
        asked = len(ada.server.model.asked)
        again = await ada.openai.responses.create(model="scripted", input="And now?", previous_response_id=first.id)
    assert failed.error is not None
    assert (failed.status, failed.error.code, failed.error.message) == ("failed", "context_length_exceeded", TOO_LONG)
    assert (first.status, asked, again.status) == ("completed", 1, "completed")


async def test_built_in_tools_without_a_purpose_here_are_not_offered() -> None:
    async with served_client() as ada:
        await ada.openai.responses.create(model="scripted", input="Hello")
        names = {tool["function"]["name"] for tool in ada.server.model.asked[0].body["tools"]}
    assert not names & {"done", "set_preference", "spawn_subagent"}
    assert "conversation_search" in names


def test_each_dialect_encodes_the_options_in_its_own_fields() -> None:
    bodies = {name: _body(name, OPTIONS.model_copy(update={"top_p": None} if name == "messages" else {})) for name in
              ("chat", "responses", "messages")}  # fmt: skip
    ollama = _body("ollama", OPTIONS.model_copy(update={"parallel_calls": None}))
    still = _body("ollama", ModelRequest(messages=WORDS, reasoning_effort="none"))
    assert (bodies["chat"]["top_p"], bodies["chat"]["reasoning_effort"]) == (0.25, "low")
    assert (bodies["responses"]["top_p"], bodies["responses"]["reasoning"]) == (0.25, {"effort": "low"})
    assert bodies["responses"]["parallel_tool_calls"] is bodies["chat"]["parallel_tool_calls"] is False
    assert bodies["messages"]["output_config"] == {"effort": "low"}
    assert bodies["messages"]["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert (ollama["options"], ollama["think"], still["think"]) == ({"top_p": 0.25}, "low", False)


@pytest.mark.parametrize(
    ("address", "change", "field"),
    [
        ("anthropic:m", {"top_p": 0.5}, "top_p"),
        ("anthropic:m", {"reasoning": {"effort": "minimal"}}, "reasoning.effort"),
        ("ollama:m", {"reasoning": {"effort": "xhigh"}}, "reasoning.effort"),
        ("ollama:m", {"parallel_tool_calls": False}, "parallel_tool_calls"),
    ],
)
def test_options_a_dialect_lacks_are_rejected_before_the_call(address: str, change: dict[str, Any], field: str) -> None:
    asked = ResponseRequest.model_validate({"input": "Hello", **change})
    with pytest.raises(InvalidInput) as refused:
        require_options(asked, open_model(address, key="k"))
    assert refused.value.field == field


def test_a_client_part_reflects_the_requested_options() -> None:
    asked = ResponseRequest.model_validate({"input": "Hello", "reasoning": {"effort": "high"}, "tool_choice": "auto"})
    part = client_part(asked.form)
    assert (part.reasoning_effort, part.choice, part.keeps_all) == ("high", ToolChoice.AUTO, False)
    assert ClientPart().hidden == frozenset()


def _body(dialect: str, request: ModelRequest) -> dict[str, Any]:
    return json.loads(json.dumps(DIALECTS[dialect].body(request, ModelTarget("m", "issuer"))))
