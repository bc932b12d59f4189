"""Memory in a request and after an answer: placement, tool loops, conversations, and what is never evidence."""

import asyncio
import base64
from typing import Any

import pytest
from tests.models.fake_server import Sent
from tests.models.streams import RECORDED, TEXTS, chat
from tests.proxy.proxy_setup import BOAT, EACH, PATHS, asked, knowing, messages_of, proxying, recorded

from elytron.runtime_records import records_of
from elytron_core.planes.records import Record
from elytron_core.scope import Scope
from elytron_proxy import BlockPlacement, MemoryUse
from elytron_proxy.figures import ProxyFigure

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)


def block_in(value: Any) -> str:
    return base64.b64decode(value["block"]).decode()


@EACH
@pytest.mark.parametrize("placement", BlockPlacement)
async def test_the_block_is_placed_as_configured(dialect: str, placement: BlockPlacement) -> None:
    async with proxying(recorded(dialect), placement=placement) as proxied:
        await knowing(proxied)
        body = asked(dialect, "Hello", "Hi", BOAT)
        if dialect in {"chat", "ollama"}:
            body["messages"].insert(0, {"role": "system", "content": "Be brief."})
        elif dialect == "messages":
            body["system"] = "Be brief."
        else:
            body["instructions"] = "Be brief."
        await proxied.post(PATHS[dialect], body)
        sent = proxied.upstream.asked[0].body
        turns = [one["content"] for one in messages_of(dialect, sent) if one["role"] != "system"]
        policy = sent.get("system") or sent.get("instructions") or messages_of(dialect, sent)[0]["content"]
        match placement:
            case BlockPlacement.TAIL:
                assert (turns[:2], policy) == (["Hello", "Hi"], "Be brief.")
                assert turns[2].startswith(f"{BOAT}\n\n<elytron-memory")
            case BlockPlacement.SYSTEM:
                assert turns == ["Hello", "Hi", BOAT]
                assert policy.startswith("Be brief.\n\n<elytron-memory")
            case BlockPlacement.BEFORE:
                assert (turns[1:], policy) == (["Hi", BOAT], "Be brief.")
                assert turns[0].startswith("<elytron-memory")
                assert turns[0].endswith("Hello")
        assert "Petrel" in str(sent)


@EACH
async def test_a_message_with_parts_gets_one_more_part(dialect: str) -> None:
    kind = "input_text" if dialect == "responses" else "text"
    part = {"type": kind, "text": BOAT, "cache_control": {"type": "ephemeral"}}
    async with proxying(recorded(dialect)) as proxied:
        await knowing(proxied)
        body = asked(dialect)
        messages_of(dialect, body).append({"role": "user", "content": [part]})
        await proxied.post(PATHS[dialect], body)
        first, last = messages_of(dialect, proxied.upstream.asked[0].body)[-1]["content"]
        assert first == part
        assert (last["type"], "Petrel" in last["text"]) == (kind, True)


async def test_non_text_instructions_cannot_hold_the_block() -> None:
    async with proxying(recorded("responses"), placement=BlockPlacement.SYSTEM) as proxied:
        await knowing(proxied)
        answer = await proxied.post(PATHS["responses"], asked("responses", BOAT, instructions=["Be brief."]))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
        assert proxied.upstream.asked == []


@EACH
async def test_messages_continue_branch_or_start_a_conversation(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:

        async def conversation_of(*said: str) -> str | None:
            await proxied.post(PATHS[dialect], asked(dialect, *said))
            return (await proxied.questions())[said[-1].strip()]

        began = await conversation_of("One")
        assert await conversation_of("One", TEXT, "Two") == began
        # A client may write white space differently.
        assert await conversation_of("One ", f"{TEXT}\n", "Two", TEXT, "Three") == began
        branch = await conversation_of("One", TEXT, "Another two")
        assert branch != began
        assert await conversation_of("One", TEXT, "Another two", TEXT, "Its three") == branch
        assert await conversation_of("Something else") not in {began, branch}
        assert await conversation_of("Never", "heard", "of") not in {began, branch}
        assert len(await proxied.questions()) == 7


@EACH
async def test_repeated_requests_are_stored_once(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        await proxied.post(PATHS[dialect], asked(dialect, "One"))
        for _ in range(2):
            await proxied.post(PATHS[dialect], asked(dialect, "One", TEXT, "Two"))
        assert await proxied.kept() == ["One", TEXT, "Two", TEXT]
        assert proxied.app.figures[ProxyFigure.DUPLICATE] == 1


async def test_content_of_the_request_is_not_recalled_again() -> None:
    async with proxying(recorded("chat")) as proxied:
        await proxied.post(PATHS["chat"], asked("chat", "My boat is called Petrel."))
        answer = await proxied.post(PATHS["chat"], asked("chat", "My boat is called Petrel.", TEXT, BOAT))
        assert answer.headers["x-elytron-recalled"] == "0"
        assert proxied.upstream.asked[1].raw == answer.request.content


async def test_the_header_names_the_conversation() -> None:
    async with proxying(recorded("chat")) as proxied:
        for said in ("One", "Two"):
            await proxied.post(PATHS["chat"], asked("chat", said), X_Elytron_Conversation="mine")
        assert await proxied.questions() == {"One": "mine", "Two": "mine"}


async def test_thoughts_and_system_texts_are_not_evidence() -> None:
    data = chat(("<think>A secret thought.</think>", "Hello."))
    async with proxying(Sent((data,))) as proxied:
        body = asked("chat", "Good morning")
        body["messages"].insert(0, {"role": "system", "content": "SYSTEM WORDS"})
        await proxied.post(PATHS["chat"], body)
        assert await proxied.kept() == ["Good morning", "Hello."]


@pytest.mark.parametrize("ending", ["</elytron-memory>", ""], ids=["whole", "begun"])
async def test_a_block_repeated_by_a_model_is_not_evidence(ending: str) -> None:
    block = f'<elytron-memory version="1">\nThe user likes tea.{ending}'
    async with proxying(Sent((chat(("I heard: ", block)),)), recorded("chat")) as proxied:
        await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert await proxied.kept() == ["Hello", "I heard:"]
        # The client sends the earlier answer back, and continues.
        await proxied.post(PATHS["chat"], asked("chat", "Hello", f"I heard: {block}", "Goodbye"))
        assert len(set((await proxied.questions()).values())) == 1


async def test_a_block_of_an_upstream_proxy_is_not_evidence() -> None:
    async with proxying(recorded("chat")) as proxied:
        block = '<elytron-memory version="1">\nThe user likes tea.\n</elytron-memory>'
        await proxied.post(PATHS["chat"], asked("chat", f"Hello\n\n{block}"))
        assert await proxied.kept() == ["Hello", TEXT]
        assert block in proxied.upstream.asked[0].body["messages"][0]["content"]
        assert (await proxied.post(PATHS["chat"], asked("chat", block))).headers["x-elytron-memory"] == "off"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("partial", [False, True])
async def test_a_partial_answer_is_stored_only_on_request(finish: str, partial: bool) -> None:
    async with proxying(Sent((chat(("Half of",), finish=finish),)), partial=partial) as proxied:
        await proxied.post(PATHS["chat"], asked("chat", "Tell me"))
        assert await proxied.kept() == (["Tell me", "Half of"] if partial else [])


@pytest.mark.parametrize(("use", "recalled", "kept"), [("read", True, False), ("write", False, True)])
async def test_a_call_states_its_use_of_memory(use: str, recalled: bool, kept: bool) -> None:
    async with proxying(recorded("chat")) as proxied:
        await knowing(proxied)
        answer = await proxied.post(PATHS["chat"], asked("chat", BOAT), X_Elytron_Memory=use)
        assert answer.headers["x-elytron-memory"] == use
        assert ("Petrel" in str(proxied.upstream.asked[0].body)) == recalled
        assert (BOAT in await proxied.kept()) == kept


async def test_an_unknown_memory_mode_is_rejected() -> None:
    async with proxying(recorded("chat")) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", BOAT), X_Elytron_Memory="perhaps")
        assert (answer.status_code, proxied.upstream.asked) == (400, [])


@EACH
async def test_memory_that_is_down_fails_only_calls_that_require_it(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        await knowing(proxied)
        await proxied.memory.close()
        body = asked(dialect, BOAT)
        answer = await proxied.post(PATHS[dialect], body)
        assert (answer.status_code, answer.content) == (200, RECORDED[dialect].data)
        assert answer.headers["x-elytron-memory"] == "degraded"
        if dialect != "responses":
            assert proxied.upstream.asked[0].raw == answer.request.content
        refused = await proxied.post(PATHS[dialect], body, X_Elytron_Memory="required")
        assert (refused.status_code, len(proxied.upstream.asked)) == (503, 1)
        assert "error" in refused.json()


async def test_multiple_choices_are_not_stored() -> None:
    async with proxying(recorded("chat")) as proxied:
        await proxied.post(PATHS["chat"], asked("chat", "Hello", n=2))
        assert await proxied.kept() == []


async def test_the_audit_stores_only_the_last_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_proxy.exchange.MAX_AUDITS", 2)
    async with proxying(recorded("chat"), audit=True) as proxied:
        await knowing(proxied)
        for said in (BOAT, f"{BOAT} Really?", f"{BOAT} Say it."):
            await proxied.post(PATHS["chat"], asked("chat", said))
        await proxied.app.idle()
        records = records_of(proxied.memory, scope=Scope(space="default"))

        async def shown() -> list[Record]:
            return [each async for each in records.below(("elytron:shown", "llm-proxy"))]

        assert len(found := await shown()) == 2
        assert all("Petrel" in block_in(item.value) for item in found)
        (known,) = [hit for hit in (await proxied.memory.list(user_id="default")).items if "Petrel" in hit.text][:1]
        await proxied.memory.erase(known.id, user_id="default")
        assert await shown() == []


def test_memory_modes_that_read_are_listed() -> None:
    assert [use for use in MemoryUse if use.reads] == [MemoryUse.ON, MemoryUse.READ, MemoryUse.REQUIRED]


async def test_one_of_two_concurrent_continuations_becomes_a_branch() -> None:
    async with proxying(recorded("chat")) as proxied:
        await proxied.post(PATHS["chat"], asked("chat", "One"))
        await proxied.app.idle()
        both = [asked("chat", "One", TEXT, said) for said in ("Two", "Another two")]
        await asyncio.gather(*(proxied.post(PATHS["chat"], body) for body in both))
        found = await proxied.questions()
        assert len(set(found.values())) == 2
        assert found["One"] in {found["Two"], found["Another two"]}


async def test_a_system_prompt_of_blocks_gets_one_more_block() -> None:
    async with proxying(recorded("messages"), placement=BlockPlacement.SYSTEM) as proxied:
        await knowing(proxied)
        policy = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
        await proxied.post(PATHS["messages"], asked("messages", BOAT, system=[policy]))
        first, last = proxied.upstream.asked[0].body["system"]
        assert (first, "Petrel" in last["text"]) == (policy, True)
        await proxied.post(PATHS["messages"], asked("messages", f"{BOAT} Now."))
        assert "Petrel" in proxied.upstream.asked[1].body["system"]
        refused = await proxied.post(PATHS["messages"], asked("messages", f"{BOAT} Well?", system=7))
        assert (refused.status_code, refused.json()["type"]) == (400, "error")


async def test_an_unstreamed_error_is_not_evidence() -> None:
    told = b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'
    async with proxying(Sent((told,), media_type="application/json")) as proxied:
        answer = await proxied.post(PATHS["messages"], asked("messages", "Hello") | {"stream": False})
        assert answer.content == told
        assert await proxied.kept() == []
        assert proxied.app.figures[ProxyFigure.FAILED] == 1
