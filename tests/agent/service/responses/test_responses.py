"""`/v1/responses` as the official client asks it."""

import asyncio
import json
from binascii import b2a_base64
from typing import Any

import httpx
import pytest
from openai import BadRequestError, NotFoundError, UnprocessableEntityError
from pydantic import BaseModel
from tests.agent.service.responses.clients import client_of, served_client
from tests.agent.service.served import called, echo, last_words, said
from tests.models.fake_server import Asked, Sent

from elytron_agent.service.companion import AgentPart
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def texts(asked: Asked) -> list[str]:
    """Return the conversation in a request to the model, without times and reference data."""
    found: list[str] = []
    for message in asked.body["messages"]:
        content = message["content"] if isinstance(message.get("content"), str) else ""
        is_ours = content == "Understood." or content.startswith("Now: ") or "<memory-" in content
        if message["role"] in {"user", "assistant", "tool"} and not is_ours:
            words = content.rpartition("]\n")[2]
            found.append(f"{message['role']}: {words}")
    return found


async def test_a_response_is_answered_shown_and_deleted() -> None:
    async with served_client() as ada:
        made = await ada.openai.responses.create(model="scripted", input="Hello", metadata={"app": "notes"})
        shown = await ada.openai.responses.retrieve(made.id)
        assert (made.status, made.output_text, made.metadata) == ("completed", "You said: Hello", {"app": "notes"})
        assert shown == made
        items = await ada.openai.responses.input_items.list(made.id)
        assert [item.content[0].text for item in items.data] == ["Hello"]  # type: ignore[union-attr]
        await ada.openai.responses.delete(made.id)
        with pytest.raises(NotFoundError):
            await ada.openai.responses.retrieve(made.id)


async def test_a_previous_response_is_a_branch_point() -> None:
    async with served_client() as ada:
        first = await ada.openai.responses.create(model="scripted", input="One")
        second = await ada.openai.responses.create(model="scripted", input="Two", previous_response_id=first.id)
        other = await ada.openai.responses.create(model="scripted", input="Three", previous_response_id=first.id)
        await ada.openai.responses.create(model="scripted", input="Four", previous_response_id=other.id)
        assert texts(ada.server.model.asked[-1]) == [
            *("user: One", "assistant: You said: One"),
            *("user: Three", "assistant: You said: Three"),
            "user: Four",
        ]
        await ada.openai.responses.create(model="scripted", input="Five", previous_response_id=second.id)
        assert texts(ada.server.model.asked[-1])[-3:] == ["user: Two", "assistant: You said: Two", "user: Five"]


async def test_concurrent_responses_to_the_same_one_are_two_branches() -> None:
    async with served_client() as ada:
        first = await ada.openai.responses.create(model="scripted", input="One")
        await asyncio.gather(
            *(
                ada.openai.responses.create(model="scripted", input=word, previous_response_id=first.id)
                for word in ("Left", "Right")
            )
        )
        assert sorted(texts(asked)[-1] for asked in ada.server.model.asked[-2:]) == ["user: Left", "user: Right"]
        assert {len(texts(asked)) for asked in ada.server.model.asked[-2:]} == {3}


async def test_a_stream_has_the_same_answer_as_the_response() -> None:
    async with served_client() as ada:
        async with ada.openai.responses.stream(model="scripted", input="Hello") as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        shown = await ada.openai.responses.retrieve(final.id)
        assert (final.output_text, shown.output_text) == ("You said: Hello", "You said: Hello")
        assert [event.type for event in events] == [
            *("response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"),
            *("response.output_text.delta", "response.output_text.done", "response.content_part.done"),
            *("response.output_item.done", "response.completed"),
        ]
        assert [event.sequence_number for event in events] == list(range(9))


def weather(asked: Asked) -> Sent:
    """Call the client's tool, and repeat its result."""
    last = asked.body["messages"][-1]
    if last["role"] == "tool":
        return said(f"It is {last['content']}.")
    return called(("get_weather", {"city": "Porto"}), text="Let me look.")


async def test_tool_calls_are_passed_to_the_client() -> None:
    async with served_client(weather) as ada:
        asked = await ada.openai.responses.create(model="scripted", input="Weather in Porto?", tools=[WEATHER])
        call = next(item for item in asked.output if item.type == "function_call")
        assert (call.name, json.loads(call.arguments), asked.output_text) == (
            *("get_weather", {"city": "Porto"}),
            "Let me look.",
        )
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        answer = await ada.openai.responses.create(
            model="scripted", input=[result], previous_response_id=asked.id, tools=[WEATHER]
        )
        assert answer.output_text == "It is sunny."
        assert texts(ada.server.model.asked[-1]) == [
            "user: Weather in Porto?",
            "assistant: Let me look.",
            "tool: sunny",
        ]
        with pytest.raises(UnprocessableEntityError):
            await ada.openai.responses.create(
                model="scripted", input=[result | {"call_id": "other"}], previous_response_id=asked.id
            )


async def test_a_stream_delivers_a_tool_call() -> None:
    async with (
        served_client(weather) as ada,
        ada.openai.responses.stream(model="scripted", input="Weather?", tools=[WEATHER]) as stream,
    ):
        done = [event async for event in stream if event.type == "response.function_call_arguments.done"]
        final = await stream.get_final_response()
        assert [json.loads(event.arguments) for event in done] == [{"city": "Porto"}]
        assert [item.type for item in final.output] == ["message", "function_call"]


async def test_a_history_in_the_input_is_shown_to_the_model() -> None:
    history: Any = [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": "Weather in Porto?"},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Rain.", "annotations": []}]},
        {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ]
    async with served_client() as ada:
        answer = await ada.openai.responses.create(model="scripted", input=history, store=False)
        assert answer.output_text == "You said: And now?"
        assert texts(ada.server.model.asked[-1]) == [
            *("user: Weather in Porto?", "assistant: ", "tool: rain", "assistant: Rain.", "user: And now?"),
        ]


async def test_nothing_remains_of_an_unstored_response() -> None:
    async with served_client() as ada:
        before = await ada.server.memory.list(MemoryListRequest(scope=Scope(space=SpaceId("ada"))))
        made = await ada.openai.responses.create(model="scripted", input="My code word is Quartz", store=False)
        assert (made.output_text, (made.model_extra or {})["store"]) == ("You said: My code word is Quartz", False)
        with pytest.raises(NotFoundError):
            await ada.openai.responses.retrieve(made.id)
        assert await ada.server.memory.list(MemoryListRequest(scope=Scope(space=SpaceId("ada")))) == before


class City(BaseModel):
    """A structured answer."""

    name: str
    people: int


async def test_an_answer_matches_its_schema() -> None:
    async with served_client(lambda _: said('{"name": "Porto", "people": 231800}')) as ada:
        answer = await ada.openai.responses.parse(model="scripted", input="A city?", text_format=City)
        assert answer.output_parsed == City(name="Porto", people=231_800)
        schema = ada.server.model.asked[-1].body["response_format"]
        assert "people" in json.dumps(schema)


async def test_a_response_in_the_background_is_polled_and_cancelled() -> None:
    async with served_client() as ada:
        ada.server.model.gate = asyncio.Event()
        made = await ada.openai.responses.create(model="scripted", input="Take your time", background=True)
        other = await ada.openai.responses.create(model="scripted", input="Never mind", background=True)
        assert {made.status, other.status} <= {"queued", "in_progress"}
        cancelled = await ada.openai.responses.cancel(other.id)
        ada.server.model.gate.set()
        while (shown := await ada.openai.responses.retrieve(made.id)).status != "completed":
            await asyncio.sleep(0.01)
        assert (shown.output_text, cancelled.status) == ("You said: Take your time", "cancelled")
        assert (await ada.openai.responses.retrieve(other.id)).status == "cancelled"
        events = await ada.openai.responses.retrieve(made.id, stream=True, starting_after=4)
        assert [event.type async for event in events][-1] == "response.completed"


async def test_an_image_is_described_for_the_model() -> None:
    def reply(asked: Asked) -> Sent:
        return said("a red dot") if "image_url" in json.dumps(asked.body["messages"][-1]) else echo(asked)

    png = f"data:image/png;base64,{b2a_base64(PNG, newline=False).decode()}"
    content: Any = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": png}]
    async with served_client(reply) as ada:
        made = await ada.openai.responses.create(model="scripted", input=[{"role": "user", "content": content}])
        assert "a red dot" in made.output_text
        items = await ada.openai.responses.input_items.list(made.id)
        assert png not in items.model_dump_json()


REQUIRED = (
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id"),
    *("instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p"),
    *("presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "store"),
    *("max_output_tokens", "max_tool_calls", "background", "service_tier", "metadata", "safety_identifier"),
    "prompt_cache_key",
)
"""Fields that Open Responses requires in each response, even without a value."""


async def test_a_response_has_every_field_of_open_responses() -> None:
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        body = {"model": "scripted", "input": [{"type": "message", "role": "user", "content": "Hello"}]}
        answer = (await ada.server.client.post("/v1/responses", headers=headers, json=body)).json()
        assert [name for name in REQUIRED if name not in answer] == []
        (message,) = answer["output"]
        assert (message["role"], message["status"]) == ("assistant", "completed")
        assert message["content"] == [
            {"type": "output_text", "text": "You said: Hello", "annotations": [], "logprobs": []}
        ]


async def test_a_repeated_request_is_answered_once() -> None:
    async with served_client() as ada:
        key = {"Idempotency-Key": "k1"}
        first = await ada.openai.responses.create(model="scripted", input="Hello", extra_headers=key)
        second = await ada.openai.responses.create(model="scripted", input="Hello", extra_headers=key)
        assert (first, len(ada.server.model.asked)) == (second, 1)


async def test_responses_can_be_switched_off() -> None:
    async with served_client(off=frozenset({AgentPart.RESPONSES})) as ada:
        with pytest.raises(NotFoundError) as refused:
            await ada.openai.responses.create(model="scripted", input="Hello")
        assert refused.value.code == "agent_disabled"
        await ada.user.made("POST", "/init")


async def test_a_model_that_fails_fails_the_response() -> None:
    async with served_client(lambda _: Sent((), status=503)) as ada:
        made = await ada.openai.responses.create(model="scripted", input="Hello")
        assert (made.status, made.error is not None) == ("failed", True)
        assert (await ada.openai.responses.retrieve(made.id)).status == "failed"


async def test_instructions_and_choices_reach_the_model() -> None:
    async with served_client(weather) as ada:
        await ada.openai.responses.create(
            model="chat:scripted",
            input="Weather?",
            instructions="Speak like a sailor.",
            temperature=0.1,
            max_output_tokens=99,
            tools=[WEATHER],
            tool_choice={"type": "function", "name": "get_weather"},
        )
        body = ada.server.model.asked[-1].body
        assert "Speak like a sailor." in body["messages"][0]["content"]
        assert (body["temperature"], body["max_tokens"], body["tool_choice"]) == (0.1, 99, "required")
        assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]


async def test_an_input_is_compacted_and_returned() -> None:
    def reply(asked: Asked) -> Sent:
        is_summary = "quotes" in json.dumps(asked.body.get("response_format", asked.body["messages"][0]))
        return said("no JSON at all") if is_summary else echo(asked)

    async with served_client(reply) as ada:
        first = await ada.openai.responses.create(model="scripted", input="My dog is called Basalt")
        summed = await ada.openai.responses.compact(model="scripted", previous_response_id=first.id)
        item: Any = summed.output[0].model_dump(exclude_none=True)
        assert "Basalt" not in json.dumps(item)
        question: Any = {"role": "user", "content": "What is my dog called?"}
        await ada.openai.responses.create(model="scripted", input=[item, question], store=False)
        assert "My dog is called Basalt" in json.dumps(ada.server.model.asked[-1].body)
        item["encrypted_content"] = "AAAA" + item["encrypted_content"]
        with pytest.raises(UnprocessableEntityError):
            await ada.openai.responses.create(model="scripted", input=[item, question])


async def test_another_users_ids_are_as_unknown_as_missing_ids() -> None:
    async with served_client() as ada:
        made = await ada.openai.responses.create(model="scripted", input="Secret")
        talk = await ada.openai.conversations.create(items=[{"type": "message", "role": "user", "content": "Mine"}])
        items = await ada.openai.conversations.items.list(talk.id)
        eve = await ada.server.user("eve")
        ways = [
            ("GET", "/v1/responses/{}", made.id),
            ("DELETE", "/v1/responses/{}", made.id),
            ("POST", "/v1/responses/{}/cancel", made.id),
            ("GET", "/v1/responses/{}/input_items", made.id),
            ("GET", "/v1/conversations/{}", talk.id),
            ("POST", "/v1/conversations/{}", talk.id),
            ("DELETE", "/v1/conversations/{}", talk.id),
            ("GET", "/v1/conversations/{}/items", talk.id),
            ("GET", f"/v1/conversations/{talk.id}/items/{{}}", items.data[0].id or ""),
            ("DELETE", f"/v1/conversations/{talk.id}/items/{{}}", items.data[0].id or ""),
        ]
        for method, path, known in ways:
            answers: list[httpx.Response] = []
            for name in (known, known[:-4] + "0000"):
                headers = {"Authorization": f"Bearer {eve.key}"}
                body: Any = {} if method == "POST" else None
                answers.append(await ada.server.client.request(method, path.format(name), headers=headers, json=body))
            assert [answer.status_code for answer in answers] == [404, 404], path
            first, second = (answer.json() | {"instance": "", "request_id": ""} for answer in answers)
            assert first == second
        async with client_of(ada.server.url, eve.key) as openai:
            ways_in: list[Any] = [{"previous_response_id": made.id}, {"conversation": talk.id}]
            for asked in ways_in:
                with pytest.raises(NotFoundError):
                    await openai.responses.create(model="scripted", input="Go on", **asked)
        assert (await ada.openai.responses.retrieve(made.id)).output_text == "You said: Secret"


async def test_an_unknown_model_and_a_foreign_tool_are_rejected() -> None:
    async with served_client() as ada:
        wrong: list[Any] = [
            {"model": "gpt-9"},
            {"tools": [{"type": "web_search"}]},
            {"tools": [WEATHER, WEATHER]},
            {"input": [{"type": "message", "role": "user"}]},
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x.org/a.png"}]}]},
            {"previous_response_id": "resp_1", "conversation": "conv_1"},
        ]
        for change in wrong:
            with pytest.raises((UnprocessableEntityError, BadRequestError)):
                await ada.openai.responses.create(**({"model": "scripted", "input": "Hello"} | change))


async def test_the_agent_finds_content_of_a_response() -> None:
    def reply(asked: Asked) -> Sent:
        if asked.body["messages"][-1]["role"] == "tool":
            return said(asked.body["messages"][-1]["content"][:200])
        if last_words(asked) == "Where is the spare key?":
            return called(("conversation_search", {"query": "spare key"}))
        return said("Noted.")

    async with served_client(reply) as ada:
        await ada.openai.responses.create(model="scripted", input="The spare key is under the fern")
        await ada.user.made("POST", "/init")
        events = await ada.user.chat("Where is the spare key?")
        assert any("under the fern" in (event.data.get("message") or "") for event in events)
        threads = await ada.user.made("GET", "/conversations")
        assert len(threads["data"]) == 1
