"""Structured answers: enforced by the server, repaired, corrected once, or a typed failure."""

import json

import pytest
from tests.models.fake_server import Sent, serving
from tests.models.requests import WEATHER, hello, said
from tests.models.streams import RECORDED, chat, messages, responses

from elytron_core.errors import ModelRefused, ModelUnavailable
from elytron_core.model import Value
from elytron_core.policy.extraction.model_facts import schema_of
from elytron_core.ports.chat import ModelRequest
from elytron_core.ports.models import LanguageModel, PromptMessage, PromptRole, TextCompletion
from elytron_models import ModelClient, StructuredAnswer, StructuredOutput, TextModel, address_of, ask_for

pytestmark = pytest.mark.anyio


class City(Value):
    name: str
    people: int


PORTO = City(name="Porto", people=231_000)
WHOLE = '{"name":"Porto","people":231000}'


def client_of(url: str, structuring: StructuredOutput = StructuredOutput.JSON_SCHEMA) -> ModelClient:
    return ModelClient(address_of(f"chat:m@{url}"), attempts=1, structuring=structuring)


def sent(text: str, finish: str = "stop") -> Sent:
    return Sent((chat((text,), finish=finish),))


@pytest.mark.parametrize(
    "text", [WHOLE, f"```json\n{WHOLE}\n```", f"<think>Hm {{}}</think>{WHOLE}", "{name: 'Porto', people: 231000,}"]
)
async def test_nearly_valid_json_is_read_without_a_retry(text: str) -> None:
    async with serving(sent(text)) as server:
        client = client_of(server.url)
        answer = await ask_for(client, hello(), City)
        await client.close()
    assert answer.value == PORTO
    assert len(server.asked) == 1
    assert server.asked[0].body["response_format"]["json_schema"]["schema"] == json.loads(schema_of(City))


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (sent('{"name":"Porto"}'), "people"),
        (sent('{"name":"Porto","people":"many"}'), "people"),
        (sent('{"name":"Porto","peo'), "cut off"),
        (sent(WHOLE, finish="length"), "cut off"),
    ],
)
async def test_an_unreadable_answer_is_requested_once_more(first: Sent, told: str) -> None:
    async with serving(first, sent(WHOLE)) as server:
        client = client_of(server.url)
        answer = await ask_for(client, hello(), City)
        await client.close()
    assert (answer.value, answer.usage.input_tokens) == (PORTO, 22)
    question = server.asked[1].body["messages"][-1]
    assert question["role"] == "user"
    assert told in question["content"]


async def test_an_answer_unreadable_twice_is_a_failure() -> None:
    async with serving(sent("no")) as server:
        client = client_of(server.url)
        with pytest.raises(ModelRefused, match="twice returned an answer that does not match"):
            await ask_for(client, hello(), City)
        await client.close()
    assert len(server.asked) == 2


async def test_a_refusal_is_not_retried() -> None:
    async with serving(sent("I will not.", finish="content_filter")) as server:
        client = client_of(server.url)
        with pytest.raises(ModelRefused, match="refused to answer"):
            await ask_for(client, hello(), City)
        await client.close()
    assert len(server.asked) == 1


async def test_a_truncated_stream_is_not_a_structured_answer() -> None:
    whole = chat((WHOLE,))
    async with serving(Sent((whole[: whole.index(b'"finish_reason": "stop"')],))) as server:
        client = client_of(server.url)
        with pytest.raises(ModelUnavailable, match="stopped before the end"):
            await ask_for(client, hello(), City)
        await client.close()


async def test_a_server_without_schemas_gets_the_schema_in_the_prompt() -> None:
    async with serving(sent(WHOLE)) as server:
        client = client_of(server.url, StructuredOutput.PROMPT)
        assert not client.info.holds_schema
        request = ModelRequest(messages=(said("Which?"),), tools=(WEATHER,))
        assert (await ask_for(client, request, City)).value == PORTO
        await client.close()
    body = server.asked[0].body
    assert "response_format" not in body
    assert "tools" not in body
    assert schema_of(City) in body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [("chat", chat((WHOLE,))), ("responses", responses((WHOLE,))), ("messages", messages((WHOLE,)))],
)
async def test_every_dialect_returns_structured_answers(dialect: str, answer: bytes) -> None:
    async with serving(Sent((answer,))) as server:
        client = ModelClient(address_of(f"{dialect}:m@{server.url}"))
        found = await ask_for(client, hello(), City)
        await client.close()
    assert isinstance(found, StructuredAnswer)
    assert found.value == PORTO


async def test_a_chat_model_writes_text_to_a_prompt() -> None:
    async with serving(Sent((RECORDED["chat"].data,))) as server:
        client = client_of(server.url)
        model: LanguageModel = TextModel(client, prompt_price=2.0, completion_price=10.0)
        prompt = (
            PromptMessage(PromptRole.SYSTEM, "Be brief."),
            PromptMessage(PromptRole.USER, "Where?"),
            PromptMessage(PromptRole.ASSISTANT, "What?"),
            PromptMessage(PromptRole.USER, "Lisbon."),
        )
        answer = await model.complete(prompt, schema=schema_of(City), max_tokens=9)
        await client.close()
    assert answer == TextCompletion("Grüße aus Lissabon 🦜.", f"chat:m@{server.url}", 11, 5, 72)
    body = server.asked[0].body
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["max_tokens"] == 9


@pytest.mark.parametrize(
    ("answer", "is_cut"), [(sent("half", "length"), True), (sent("half", "odd"), True), (sent("whole"), False)]
)
async def test_a_text_whose_end_is_missing_is_marked(answer: Sent, is_cut: bool) -> None:
    async with serving(answer) as server:
        client = client_of(server.url)
        assert (
            await TextModel(client).complete((PromptMessage(PromptRole.USER, "Hi"),), max_tokens=9)
        ).is_cut is is_cut
        await client.close()


@pytest.mark.parametrize("answer", [sent(""), sent("I will not.", "content_filter")])
async def test_no_text_is_a_refusal(answer: Sent) -> None:
    async with serving(answer) as server:
        client = client_of(server.url)
        with pytest.raises(ModelRefused, match="returned no text"):
            await TextModel(client).complete((PromptMessage(PromptRole.USER, "Hi"),), max_tokens=9)
        await client.close()
