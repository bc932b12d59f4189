"""Hostile and broken model servers: no key in any answer or log, bounded buffers, nothing false stored."""

import asyncio
import json
import logging
import tracemalloc
from collections.abc import Callable

import httpx
import pytest
from tests.models.fake_server import LINES, Sent
from tests.models.streams import RECORDED, TEXTS, chat, data, lines, named
from tests.proxy.proxy_setup import KEY, PATHS, asked, proxying, recorded

from elytron_proxy import limits
from elytron_proxy.figures import ProxyFigure
from elytron_proxy.prompts import CHAT, MESSAGES, OLLAMA, RESPONSES, CallRefusal, PromptDialect
from elytron_proxy.wire.relay import EventGate, KeyMask, StreamRelay, WholeCopy
from elytron_proxy.wire.upstream import client_headers

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
REFUSAL = CallRefusal(502, "upstream_cut", "cut")


def test_a_key_is_redacted_at_any_chunk_boundary() -> None:
    told = f"before {KEY} between {KEY}{KEY} after s".encode()
    for size in range(1, len(told)):
        mask = KeyMask((KEY, ""))
        chunks = [told[at : at + size] for at in range(0, len(told), size)]
        got = b"".join([*map(mask.feed, chunks), mask.end()])
        assert got == told.replace(KEY.encode(), b"*" * len(KEY))


def test_headers_with_a_key_or_of_the_proxy_are_not_relayed() -> None:
    given = [
        ("Content-Type", "text/plain"),
        ("Connection", "X-Private, close"),
        ("X-Private", "1"),
        ("Set-Cookie", "a=b"),
        ("X-Elytron-Turn", "forged"),
        ("X-Echo", f"Bearer {KEY}"),
        ("Transfer-Encoding", "chunked"),
        ("X-Request-Id", "r"),
    ]
    assert client_headers(given, keys=(KEY,)) == [("content-type", "text/plain"), ("x-request-id", "r")]


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/embeddings"])
async def test_a_server_that_echoes_the_key_reveals_it_to_no_client(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    told = json.dumps({"error": f"your key is {KEY}", "authorization": f"Bearer {KEY}"}).encode()
    middle = told.index(KEY.encode()) + 4
    statuses = (200, 401, 500)
    sent = [Sent((told[:middle], told[middle:]), status, "application/json", {"x-echo": KEY}) for status in statuses]
    async with proxying(*sent) as proxied:
        for status in statuses:
            answer = await proxied.post(path, {"model": "m", "messages": [{"role": "user", "content": "Hello"}]})
            assert answer.status_code == status
            assert KEY not in answer.text + str(answer.headers)
            assert len(answer.content) == len(told)
        assert KEY not in caplog.text
        assert KEY not in str(await proxied.kept())


async def test_a_stream_that_contains_the_key_stores_it_in_no_memory() -> None:
    async with proxying(Sent((chat((f"It is {KEY}.",)),))) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Which key?"))
        assert KEY not in answer.text
        assert KEY not in str(await proxied.kept())


def test_an_event_is_buffered_to_its_end_unless_it_is_oversized() -> None:
    gate = EventGate(has_lines=False, limit=64)
    assert gate.feed(b"data: 1\n") == b""
    assert gate.feed(b"\ndata: 2\r\n\r") == b"data: 1\n\n"
    assert gate.feed(b"\ndata: 3\r\r") == b"data: 2\r\n\r\ndata: 3\r\r"
    assert gate.feed(b"x" * 64) == b""
    assert gate.is_between
    assert gate.feed(b"x") == b"x" * 65
    assert not gate.is_between
    assert gate.feed(b"y\n\n") == b"y\n\n"
    assert gate.is_between


@pytest.mark.parametrize(("dialect", "start"), [(CHAT, b"data: "), (OLLAMA, b'{"message":{"content":"')])
def test_a_line_of_64_mib_stays_within_the_limits(dialect: object, start: bytes) -> None:
    relay = StreamRelay(dialect, (KEY,))  # pyright: ignore[reportArgumentType] - one of two dialects
    chunk = b"x" * 65_536
    passed = 0
    tracemalloc.start()
    try:
        passed += len(relay.feed(start))
        for _ in range(1_024):
            passed += len(relay.feed(chunk))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert relay.answer.failed == "too_large"
    assert relay.answer.text == ""
    assert held < limits.RELAY_BYTES
    # Waiting data is forwarded: nothing is held beyond the relay's limit.
    assert passed >= 1_024 * 65_536 + len(start) - limits.RELAY_BYTES
    # The copy has its own limit per event, and a growing buffer exists twice while it moves.
    assert peak < 2 * 8 * 1024 * 1024 + 4 * limits.RELAY_BYTES
    assert relay.end(REFUSAL, is_broken=True) is None


async def test_an_endless_stream_passes_until_its_client_disconnects() -> None:
    event = data({"choices": [{"index": 0, "delta": {"content": "x" * 40_000}}]})
    async with proxying(Sent((event,) * 60, hangs=True)) as proxied:
        url = f"{proxied.url}{PATHS['chat']}"
        got = 0
        async with proxied.client.stream("POST", url, json=asked("chat", "Hello")) as answer:
            async for chunk in answer.aiter_bytes():
                got += len(chunk)
                if got >= 60 * len(event):
                    break
        while not proxied.app.figures[ProxyFigure.GONE]:
            await asyncio.sleep(0)
        assert await proxied.kept() == []


async def test_text_beyond_the_memory_limit_passes_and_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_proxy.limits.ANSWER_CHARS", 10)
    async with proxying(Sent((chat(("many ",) * 9),))) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert answer.content == chat(("many ",) * 9)
        assert await proxied.kept() == []
        assert proxied.app.figures[ProxyFigure.TOO_LARGE] == 1


def test_an_oversized_unstreamed_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_proxy.wire.relay.WHOLE_BYTES", 10)
    copy = WholeCopy(CHAT)
    copy.feed(b"{" * 11)
    copy.feed(b"}")
    copy.end()
    assert (copy.answer.failed, copy.answer.is_whole) == ("too_large", False)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
BROKEN: dict[str, Callable[[], Sent]] = {
    "dies in the middle": lambda: Sent((chat()[:300],), dies=True),
    "ends in the middle": lambda: Sent((chat()[:300],)),
    "less than it declares": lambda: Sent((), raw=HEAD + b"Content-Length: 9999\r\n\r\n" + chat()[:300]),
    "a page": lambda: Sent((b"<html>busy</html>",), media_type="text/html"),
    "no JSON": lambda: Sent((b"{nothing",), media_type="application/json"),
    "no events": lambda: Sent((b"data: nothing\n\n",)),
    "an error": lambda: Sent((data({"error": {"message": "busy"}}),)),
    "a marker of nothing": lambda: Sent((data("[DONE]"),)),
    "nothing": lambda: Sent(()),
    "an empty list": lambda: Sent((b"[]",), media_type="application/json"),
    "zeros": lambda: Sent((b"\0" * 99,)),
    "no text": lambda: Sent((b'data: {"choices":[{"index":0,"delta":{"content":"\xff\xfe"}}]}\n\n',)),
    "a well of brackets": lambda: Sent((b"data: " + b'{"choices":' * 900 + b"{}" + b"}" * 900 + b"\n\n",)),
    "a redirect": lambda: Sent((b"",), 307, headers={"location": "http://169.254.169.254/"}),
    "another dialect": lambda: recorded("messages"),
}
"""Fifteen failures of a server that started to answer. Silence, disclosed keys, and endless streams are separate."""


@pytest.mark.parametrize("name", BROKEN)
async def test_an_invalid_answer_leaves_nothing(name: str) -> None:
    async with proxying(BROKEN[name]()) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert answer.status_code in {200, 307}
        assert await proxied.kept() == []
        assert len(proxied.upstream.asked) == 1
        # The next call is answered as if nothing had happened.
        proxied.upstream.answers.append(recorded("chat"))
        assert (await proxied.post(PATHS["chat"], asked("chat", "Hello"))).content == RECORDED["chat"].data


@pytest.mark.parametrize("raw", [b"no HTTP at all\r\n\r\n", HEAD + b"X: " + b"x" * 200_000 + b"\r\n\r\n"])
async def test_a_non_http_answer_is_an_error_in_the_dialect(raw: bytes) -> None:
    async with proxying(Sent((), raw=raw)) as proxied:
        answer = await proxied.post(PATHS["messages"], asked("messages", "Hello"))
        assert (answer.status_code, answer.json()["type"]) == (502, "error")
        assert await proxied.kept() == []


async def test_data_after_the_end_marker_is_not_part_of_the_answer() -> None:
    async with proxying(Sent((chat(("One.",)), chat(("Two.",))))) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert answer.content == chat(("One.",)) + chat(("Two.",))
        assert await proxied.kept() == ["Hello", "One."]


def _delta(**delta: object) -> bytes:
    return data({"choices": [{"index": 0, "delta": delta}]})


def _block(number: int, **delta: object) -> bytes:
    return named({"type": "content_block_delta", "index": number, "delta": delta})


def _began(number: int, **block: object) -> bytes:
    return named({"type": "content_block_start", "index": number, "content_block": block})


LONG = "x" * 20_000
SLACK = 300_000
FED = 3_000_000
ENDLESS: dict[str, tuple[PromptDialect, Callable[[int], bytes]]] = {
    "text": (CHAT, lambda _: _delta(content=LONG)),
    "thoughts": (OLLAMA, lambda _: lines({"message": {"thinking": LONG}, "done": False})),
    "thoughts in a block": (MESSAGES, lambda _: _block(0, type="thinking_delta", thinking=LONG)),
    "a seal": (MESSAGES, lambda _: _block(0, type="signature_delta", signature=LONG)),
    "arguments": (CHAT, lambda _: _delta(tool_calls=[{"index": 0, "function": {"arguments": LONG}}])),
    "arguments in a block": (MESSAGES, lambda _: _block(0, type="input_json_delta", partial_json=LONG)),
    "a call's name": (CHAT, lambda _: _delta(tool_calls=[{"index": 0, "function": {"name": LONG}}])),
    "blocks": (MESSAGES, lambda number: _began(number, type="x", data=LONG)),
    "choices": (CHAT, lambda number: data({"choices": [{"index": number, "delta": {}}], "pad": LONG[:900]})),
    "items": (
        RESPONSES,
        lambda number: named({"type": "response.output_item.done", "output_index": number, "item": {"type": LONG}}),
    ),
    "usage": (MESSAGES, lambda number: named({"type": "message_delta", "usage": {f"{number}{LONG}": 1}})),
    "beginnings": (RESPONSES, lambda _: named({"type": "response.created", "response": {"instructions": LONG}})),
    "comments": (CHAT, lambda _: b": " + LONG.encode() + b"\n\n"),
    "empty lines of one event": (CHAT, lambda _: b"data:\n" * 3_000),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_stream_uses_little_memory(name: str) -> None:
    dialect, piece = ENDLESS[name]
    relay = StreamRelay(dialect, (KEY,))
    if dialect is MESSAGES:
        relay.feed(_began(0, type="thinking", thinking=""))
    passed = fed = 0
    tracemalloc.start()
    try:
        for number in range(min(600, FED // len(piece(0)))):
            chunk = piece(number)
            fed += len(chunk)
            passed += len(relay.feed(chunk))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Of an unfinished event, as much waits as a relay may hold; of text, as much is stored as fits in one message.
    assert fed - passed <= limits.RELAY_BYTES
    assert held < 2 * (fed - passed) + (limits.ANSWER_CHARS if name == "text" else 0) + SLACK
    assert peak < 4 * limits.RELAY_BYTES


@pytest.mark.parametrize("path", [*PATHS.values(), "/api/generate"])
async def test_an_unreadable_request_passes_unchanged(path: str) -> None:
    async with proxying(Sent((b"{}",), 400, media_type="application/json")) as proxied:
        for body in (b"", b"{", b"[]", b"null", b'{"messages": 7}', b'{"messages": [7]}', b"\xff"):
            answer = await proxied.client.post(f"{proxied.url}{path}", content=body)
            assert (answer.status_code, answer.headers["x-elytron-memory"]) == (400, "off")
            assert proxied.upstream.asked[-1].raw == body


async def test_an_encoding_that_prevents_redaction_is_refused() -> None:
    sent = Sent((b"\x1f\x8b",), headers={"content-encoding": "br"})
    async with proxying(sent) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_encoded")
        assert proxied.upstream.asked[0].headers["accept-encoding"] == "identity"


async def test_an_oversized_request_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_proxy.app.REQUEST_BYTES", 100)
    async with proxying(recorded("chat")) as proxied:
        long = asked("chat", "x" * 200)
        assert (await proxied.post(PATHS["chat"], long)).status_code == 413

        async def pieces():
            yield json.dumps(long).encode()

        answer = await proxied.client.post(f"{proxied.url}{PATHS['chat']}", content=pieces())
        assert (answer.status_code, proxied.upstream.asked) == (413, [])


async def test_a_long_request_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_proxy.exchange.READ_AT_ONCE_BYTES", 10)
    async with proxying(recorded("ollama")) as proxied:
        await proxied.memory.add("My boat is called Petrel.", user_id="default")
        body = json.dumps(asked("ollama", "What is my boat called? \ud83d"))
        await proxied.client.post(f"{proxied.url}{PATHS['ollama']}", content=body)
        assert "Petrel" in str(proxied.upstream.asked[0].body)


async def test_a_silent_server_ends_the_call_in_its_dialect() -> None:
    async with proxying(Sent((), hangs=True), silence_s=0.2) as proxied:
        body = asked("messages", "Hello")
        answer = await proxied.post(PATHS["messages"], body)
        assert answer.content == b"" or b"error" in answer.content
        assert await proxied.kept() == []


async def test_requests_for_another_host_name_are_refused() -> None:
    async with proxying(recorded("chat"), hosts=frozenset({"127.0.0.1"})) as proxied:
        url = f"{proxied.url}{PATHS['chat']}"
        body = asked("chat", "Hello")
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Host": "[::2]:80"}):
            assert (await proxied.client.post(url, json=body, headers=headers)).status_code == 403
        assert (await proxied.client.post(url, json=body, headers={"Origin": proxied.url})).status_code == 200


async def test_wrong_keys_are_counted() -> None:
    async with proxying(recorded("chat"), has_keys=True, hosts=frozenset({"127.0.0.1"})) as proxied:
        statuses: list[int] = []
        for _ in range(62):
            answer = await proxied.post(PATHS["chat"], {}, Authorization="Bearer wrong")
            statuses.append(answer.status_code)
        assert (statuses[0], statuses[-1]) == (401, 429)


async def test_websockets_are_not_supported() -> None:
    told: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        told.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    async with proxying(recorded("chat")) as proxied:
        await proxied.app({"type": "websocket", "path": "/v1"}, receive, send)  # pyright: ignore[reportArgumentType]
    assert told[0]["type"] == "websocket.close"


async def test_with_memory_off_a_broken_stream_breaks_for_the_client() -> None:
    async with proxying(Sent((chat()[:200],), dies=True)) as proxied:
        with pytest.raises(httpx.RemoteProtocolError):
            await proxied.post(PATHS["chat"], asked("chat", "Hello"), X_Elytron_Memory="off")
        assert LINES
