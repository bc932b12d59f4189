"""Exchanges through the proxy: what is sent upstream, returned, and stored."""

from typing import Any

import pytest
from tests.models.fake_server import refusal
from tests.models.streams import RECORDED, TEXTS
from tests.proxy.proxy_setup import BOAT, KEY, PATHS, asked, knowing, proxying, recorded

from elytron_proxy import MemoryUse
from elytron_proxy.figures import ProxyFigure

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
EACH = pytest.mark.parametrize("dialect", PATHS)
STREAM = pytest.mark.parametrize("name", RECORDED)


async def know(memory: Any, text: str, space: str = "default") -> None:
    await memory.add(text, user_id=space)


@STREAM
async def test_with_memory_off_every_byte_passes_unchanged(name: str) -> None:
    dialect = RECORDED[name].dialect
    async with proxying(recorded(name), memory=MemoryUse.OFF) as proxied:
        body = b'{"model" : "m",\n "messages": [ {"role":"user","content":"Hi \\u00e9"} ], "x": 1.50}'
        answer = await proxied.client.post(f"{proxied.url}{PATHS[dialect]}", content=body)
        assert (answer.status_code, answer.content) == (200, RECORDED[name].data)
        assert answer.headers["x-elytron-memory"] == "off"
        assert proxied.upstream.asked[0].raw == body
        assert await proxied.kept() == []


@STREAM
async def test_a_complete_answer_is_stored_with_its_question(name: str) -> None:
    dialect = RECORDED[name].dialect
    async with proxying(recorded(name)) as proxied:
        answer = await proxied.post(PATHS[dialect], asked(dialect, "I live in Porto."))
        assert (answer.status_code, answer.content) == (200, RECORDED[name].data)
        assert await proxied.kept() == ["I live in Porto.", *(() if name.endswith("-tools") else (TEXT,))]


@EACH
async def test_memories_of_one_conversation_are_shown_in_another(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        await proxied.post(PATHS[dialect], asked(dialect, "My boat is called Petrel."))
        answer = await proxied.post(PATHS[dialect], asked(dialect, "What is my boat called?"))
        assert answer.headers["x-elytron-memory"] == "on"
        assert int(answer.headers["x-elytron-recalled"]) >= 1
        assert answer.headers["server-timing"].startswith("recall;dur=")
        where = "input" if dialect == "responses" else "messages"
        content = proxied.upstream.asked[1].body[where][-1]["content"]
        assert content.startswith("What is my boat called?\n\n<elytron-memory version=")
        assert "My boat is called Petrel." in content
        assert await proxied.kept() == ["My boat is called Petrel.", TEXT, "What is my boat called?", TEXT]


@EACH
async def test_keys_of_both_sides_stay_on_their_side(dialect: str) -> None:
    async with proxying(recorded(dialect), has_keys=True) as proxied:
        key = await proxied.key("ada")
        shown = {"x_api_key": key} if dialect == "messages" else {"Authorization": f"Bearer {key}"}
        answer = await proxied.post(PATHS[dialect], asked(dialect, "Hello"), **shown)
        assert answer.status_code == 200
        up = proxied.upstream.asked[0].headers
        assert key not in str(up)
        assert (up.get("x-api-key") or up["authorization"].removeprefix("Bearer ")) == KEY
        assert KEY not in str(answer.headers)
        assert await proxied.kept("ada") == ["Hello", TEXT]


@EACH
async def test_without_a_key_nothing_goes_upstream(dialect: str) -> None:
    async with proxying(recorded(dialect), has_keys=True) as proxied:
        answer = await proxied.post(PATHS[dialect], asked(dialect, "Hello"), Authorization="Bearer sk-other")
        assert answer.status_code == 401
        told = answer.json()["error"]
        assert "sk-other" not in str(told)
        assert proxied.upstream.asked == []


async def test_a_refusal_passes_unchanged() -> None:
    sent = refusal(429, {"code": "rate_limit_exceeded"}, retry_after="7")
    async with proxying(sent) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (429, sent.chunks[0], "7")
        assert await proxied.kept() == []


async def test_a_repeat_of_a_named_call_is_stored_once() -> None:
    async with proxying(recorded("chat")) as proxied:
        for _ in range(2):
            await proxied.post(PATHS["chat"], asked("chat", "Hello"), X_Client_Request_Id="one")
        assert await proxied.kept() == ["Hello", TEXT]
        assert (proxied.app.figures[ProxyFigure.COMMITTED], proxied.app.figures[ProxyFigure.DUPLICATE]) == (1, 1)


@EACH
async def test_an_answer_started_by_the_request_is_stored_completely(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        await knowing(proxied)
        answer = await proxied.post(PATHS[dialect], asked(dialect, BOAT, "It is called "))
        assert (answer.headers["X-Elytron-Memory"], answer.headers["X-Elytron-Recalled"]) == ("on", "1")
        assert "Petrel" in str(proxied.upstream.asked[0].body)
        kept = await proxied.kept()
        assert BOAT in kept
        assert f"It is called {TEXT}" in kept
