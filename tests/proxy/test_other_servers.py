"""Model servers that differ from their vendors': allowed headers, endings, and addressing."""

import gzip
import json
import logging
import zlib
from typing import Any

import httpx
import openai
import pytest
from tests.models.fake_server import EVENTS, LINES, Sent
from tests.models.streams import TEXTS, chat, data, messages, ollama, responses
from tests.proxy.proxy_setup import EACH, PATHS, asked, proxying, recorded

from elytron_core.errors import InvalidInput
from elytron_proxy import ModelUpstream, upstreams_of
from elytron_proxy.figures import ProxyFigure
from elytron_proxy.settings import PASS_ROUTES, folded_path, pass_routes_of
from elytron_proxy.wire.upstream import BodyDecoder, url_of

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
WHOLE = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
}
STREAMS = {"chat": chat(), "responses": responses(), "messages": messages(), "ollama": ollama()}
UNMARKED = {
    "chat": chat().replace(b"data: [DONE]\n\n", b""),
    "messages": messages().split(b"event: message_stop")[0],
    "ollama": ollama().replace(b'"done": true, ', b""),
}
HOSTILE = {
    "access-control-allow-origin": "*",
    "clear-site-data": '"*"',
    "location": "http://169.254.169.254/",
    "content-security-policy": "default-src *",
    "elytron-error": "forged",
    "x-elytron-turn": "forged",
    "set-cookie": "session=ada",
    "refresh": "0; url=http://elsewhere.example",
    "server-timing": "forged",
    "link": "<http://elsewhere.example>; rel=preload",
    "sourcemap": "/x",
    "service-worker-allowed": "/",
    "www-authenticate": "Basic",
}
USEFUL = {
    "x-request-id": "req_1",
    "request-id": "req_2",
    "openai-processing-ms": "12",
    "anthropic-ratelimit-requests-remaining": "9",
    "x-ratelimit-remaining-tokens": "7",
    "retry-after": "3",
}


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/embeddings", "/v1/models"])
@pytest.mark.parametrize("status", [200, 429])
async def test_only_headers_of_model_apis_are_relayed(path: str, status: int) -> None:
    sent = Sent((b"<script>1</script>",), status, "text/html", HOSTILE | USEFUL)
    async with proxying(sent) as proxied:
        request: Any = {} if path == "/v1/models" else {"json": asked("chat", "Hello")}
        method = "GET" if path == "/v1/models" else "POST"
        answer = await proxied.client.request(method, f"{proxied.url}{path}", **request)
    relayed = dict(answer.headers)
    assert {name: relayed.get(name) for name in USEFUL} == USEFUL
    assert {relayed.get(name) for name in HOSTILE} & set(HOSTILE.values()) == set()
    assert relayed["content-type"] == "text/plain; charset=utf-8"
    assert relayed["content-security-policy"] == "sandbox; default-src 'none'"
    assert relayed["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [*(route.path for route in PASS_ROUTES), "/", "/v1/bm/provider-capabilities"])
async def test_every_answer_is_harmless_in_a_browser(path: str) -> None:
    async with proxying(Sent((b"{}",), media_type="application/json")) as proxied:
        answers = [await proxied.client.request(method, f"{proxied.url}{path}") for method in ("GET", "POST")]
    for answer in answers:
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_servers_cookie_for_one_user_is_sent_with_no_other_request() -> None:
    sent = Sent((chat(),), headers={"set-cookie": "session=ada; Path=/"})
    async with proxying(sent) as proxied:
        for number in range(2):
            await proxied.post(PATHS["chat"], asked("chat", f"Question {number}"))
        assert [call.headers.get("cookie") for call in proxied.upstream.asked] == [None, None]


@pytest.mark.parametrize("status", [199, 600, 999])
async def test_an_invalid_http_status_is_an_error_in_the_dialect(status: int) -> None:
    head = b"HTTP/1.1 %d Odd\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" % status
    async with proxying(Sent((), raw=head)) as proxied:
        answer = await proxied.post(PATHS["messages"], asked("messages", "Hello"))
    assert (answer.status_code, answer.json()["type"]) == (502, "error")


@pytest.mark.parametrize("value", [b"a\x01b", b"a\x7fb", b"a\xffb"])
async def test_a_header_with_an_unusual_character_breaks_no_answer(value: bytes) -> None:
    body = chat()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n"
    async with proxying(Sent((), raw=head % (value, len(body)) + body)) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
    assert answer.status_code in {200, 502}


@pytest.mark.parametrize("dialect", UNMARKED)
async def test_a_reason_and_a_clean_end_complete_an_answer(dialect: str) -> None:
    sent = Sent((UNMARKED[dialect],), media_type=LINES if dialect == "ollama" else EVENTS)
    async with proxying(sent) as proxied:
        answer = await proxied.post(PATHS[dialect], asked(dialect, "Hello"))
        assert answer.content == UNMARKED[dialect]
        assert await proxied.kept() == ["Hello", TEXT]


async def test_openais_client_completely_reads_an_answer_without_the_end_marker() -> None:
    async with proxying(Sent((UNMARKED["chat"],))) as proxied:
        client = openai.AsyncOpenAI(base_url=f"{proxied.url}/v1", api_key="none", max_retries=0)
        async with client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hello"}], stream=True
            )
            said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        assert "".join(said) == TEXT
        assert await proxied.kept() == ["Hello", TEXT]


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (json.dumps(WHOLE).encode(), "application/json"),
        (json.dumps(WHOLE, indent=2).encode(), "application/json"),
        (json.dumps(WHOLE).encode(), EVENTS),
        (chat(), "application/json"),
        (chat(), "text/plain"),
        (chat().replace(b"data: ", b"").replace(b"\n\n", b"\n").replace(b"[DONE]\n", b""), LINES),
        (chat().replace(b"data: ", b"").replace(b"\n\n", b"\n"), EVENTS),
    ],
)
async def test_an_answer_under_another_media_type_is_stored(body: bytes, media_type: str) -> None:
    async with proxying(Sent((body,), media_type=media_type)) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert answer.content == body
        assert await proxied.kept() == ["Hello", TEXT]


def encoded(body: bytes, encoding: str) -> bytes:
    match encoding:
        case "gzip":
            return gzip.compress(body)
        case "raw":
            packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            return packer.compress(body) + packer.flush()
        case _:
            return zlib.compress(body)


@EACH
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
async def test_an_unrequested_encoding_is_decoded(dialect: str, encoding: str) -> None:
    packed = encoded(STREAMS[dialect], encoding)
    pieces = tuple(packed[at : at + 7] for at in range(0, len(packed), 7))
    media_type = LINES if dialect == "ollama" else EVENTS
    headers = {"content-encoding": "deflate" if encoding == "raw" else encoding}
    async with proxying(Sent(pieces, media_type=media_type, headers=headers)) as proxied:
        answer = await proxied.post(PATHS[dialect], asked(dialect, "Hello"))
        assert (answer.content, "content-encoding" in answer.headers) == (STREAMS[dialect], False)
        assert await proxied.kept() == ["Hello", TEXT]


async def test_a_refusal_in_gzip_reaches_the_client() -> None:
    body = gzip.compress(b'{"error": {"message": "too many"}}')
    sent = Sent((body,), 429, "application/json", {"content-encoding": "gzip"})
    async with proxying(sent) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
    assert (answer.status_code, answer.json()) == (429, {"error": {"message": "too many"}})


async def test_wrongly_encoded_bytes_leave_nothing() -> None:
    sent = Sent((b"no gzip at all",), headers={"content-encoding": "gzip"})
    async with proxying(sent) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert b"upstream_encoded" in answer.content
        assert await proxied.kept() == []


def test_a_decompression_bomb_is_read_in_small_pieces() -> None:
    sizes = [len(piece) for piece in BodyDecoder("gzip").feed(gzip.compress(bytes(5_000_000)))]
    assert (sum(sizes), max(sizes) <= 65_536) == (5_000_000, True)
    both = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0"
    assert b"".join(BodyDecoder("gzip").feed(both)) == b"one two"


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (gzip.compress(bytes(100_000)), "gzip"),
        (zlib.compress(bytes(100_000)), "deflate"),
        (gzip.compress(gzip.compress(b"") * 1_000), "gzip, gzip"),  # all of it unpacks to nothing
    ],
)
async def test_an_answer_with_too_many_decoded_bytes_ends_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, body: bytes, encoding: str
) -> None:
    monkeypatch.setattr("elytron_proxy.wire.upstream.DECODED_BYTES", 1_000)
    sent = Sent((body,), headers={"content-encoding": encoding})
    async with proxying(sent) as proxied:
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"))
        assert len(answer.content) < 1_000
        assert b"upstream_encoded" in answer.content
        assert await proxied.kept() == []


async def test_undecodable_answers_pass_unchanged_without_memory() -> None:
    sent = Sent((b"\x0b\x02\x80",), headers={"content-encoding": "br"})
    async with (
        proxying(sent, key="") as proxied,
        proxied.client.stream("POST", f"{proxied.url}{PATHS['chat']}", json=asked("chat", "Hello")) as answer,
    ):
        raw = b"".join([chunk async for chunk in answer.aiter_raw()])
        assert (raw, answer.headers["content-encoding"]) == (b"\x0b\x02\x80", "br")
        assert answer.headers["x-elytron-memory"] == "read"
        assert "x-elytron-turn" not in answer.headers


async def test_a_server_whose_answers_never_end_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="elytron.proxy")
    endless = Sent((data({"choices": [{"index": 0, "delta": {"content": "x"}}]}),))
    async with proxying(*[endless] * 5, recorded("chat"), recorded("chat")) as proxied:
        uses: list[str] = []
        for number in range(7):
            answer = await proxied.post(PATHS["chat"], asked("chat", f"Question {number}"))
            uses.append(answer.headers["x-elytron-memory"])
        assert uses == ["on", "on", "on", "read", "read", "read", "on"]
        shown = {figure.name: figure.value for figure in proxied.app.figures.prometheus_figures()}
        assert shown["elytron_proxy_unstorable_upstreams"] == 0
        assert proxied.app.figures[ProxyFigure.CUT] == 5
    assert sum("are not stored" in record.message for record in caplog.records) == 1


PLAIN = {
    "/v1/chat/completions": ("/chat/completions", "/v1//chat/completions", "//v1/chat/completions",
                             "/v1/chat/completions/", "/v1/v1/chat/completions", "/api/v1/chat/completions",
                             "/v1/chat/completions/chat/completions"),
    "/v1/responses": ("/responses", "/v1/v1/responses", "/v1/responses/responses"),
    "/v1/messages": ("/messages", "/v1/v1/messages", "/v1/messages/", "/v1/messages/v1/messages"),
    "/api/chat": ("/v1/api/chat", "/api/api/chat", "/api//chat", "/api/chat/"),
    "/api/generate": ("/v1/api/generate", "//api/generate"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "odd"), [(path, odd) for path, each in PLAIN.items() for odd in each])
def test_a_base_url_with_missing_or_extra_parts_reaches_the_route(path: str, odd: str) -> None:
    assert folded_path("POST", odd, ()) == path


@pytest.mark.parametrize("route", PASS_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_tolerates_extra_slashes(route: Any) -> None:
    path = route.path.replace("{id}", "resp_1").replace("{name}", "org/model")
    assert folded_path(route.method, path.replace("/", "//") + "/", ()) == path


@pytest.mark.parametrize("path", ["/v2/chat/completions", "/x/v1/chat/completions", "/v1/files", "/", "/v1"])
def test_other_paths_are_unchanged(path: str) -> None:
    assert folded_path("POST", path, ()) == path


def test_operator_defined_routes_bypass_memory() -> None:
    passed = pass_routes_of(["POST:/chat/completions", "GET:/v1/files//{id}".replace("//", "/")])
    assert folded_path("POST", "/chat/completions", passed) == "/v1/chat/completions"
    assert folded_path("GET", "/v1/files/f1", passed) == "/v1/files/f1"


@EACH
async def test_a_call_under_an_unusual_path_has_memory(dialect: str) -> None:
    async with proxying(recorded(dialect)) as proxied:
        path = PATHS[dialect].replace("/v1", "").replace("/", "//")
        answer = await proxied.post(path, asked(dialect, "Hello"))
        assert (answer.status_code, answer.headers["x-elytron-memory"]) == (200, "on")
        assert proxied.upstream.asked[0].path == PATHS[dialect]
        assert await proxied.kept() == ["Hello", TEXT]


async def test_an_unknown_path_error_names_the_base_url() -> None:
    async with proxying(recorded("chat")) as proxied:
        answer = await proxied.post("/v2/chat/completions", asked("chat", "Hello"))
    assert (answer.status_code, "ends in /v1" in answer.text) == (404, True)


@pytest.mark.parametrize(
    ("url", "path", "expected"),
    [
        ("http://host/v1/", "/v1/models", "http://host/v1/models"),
        ("http://host//v1", "/v1/models", "http://host/v1/models"),
        ("http://host/v1/v1", "/v1/models", "http://host/v1/models"),
        ("http://host/v1/chat/completions", "/v1/models", "http://host/v1/models"),
        ("http://host/openai//v1/", "/v1/models", "http://host/openai/v1/models"),
        ("http://host/api/v1", "/v1/models", "http://host/api/v1/models"),
        ("http://host/api", "/api/chat", "http://host/api/chat"),
        ("http://host/api/chat", "/api/chat", "http://host/api/chat"),
    ],
)
def test_a_model_servers_address_is_normalized_to_its_base(url: str, path: str, expected: str) -> None:
    (upstream,) = upstreams_of([url], environment={})
    assert str(url_of(upstream, path, "")) == expected


def test_invalid_upstream_addresses_are_rejected() -> None:
    with pytest.raises(InvalidInput):
        upstreams_of(["ftp://host/v1"], environment={})
    assert isinstance(url_of(ModelUpstream("http://host"), "/v1/models", "a=b"), httpx.URL)
