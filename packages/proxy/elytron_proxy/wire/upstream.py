"""Connections to model servers: which one a request goes to, and how often it is retried."""

import asyncio
import hashlib
import hmac
import re
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from elytron_outbound.clients import ClientSettings, http_client
from elytron_proxy.prompts import CallRefusal
from elytron_proxy.settings import ModelUpstream, ProxySettings

if TYPE_CHECKING:
    import httpx

CONNECT_S: Final = 10.0
MAX_ATTEMPTS: Final = 2
"""Number of times that a request is sent without a byte of an answer."""
RETRY_PAUSE_S: Final = 0.1
KEEPALIVE_CONNECTIONS: Final = 128
KEEPALIVE_S: Final = 4.0
"""Idle time of a connection to an upstream: less than servers allow."""
DECODED_BYTES: Final = 256 * 1024 * 1024
"""An answer without its encoding."""
DECODED_PIECE_BYTES: Final = 64 * 1024


MEMORY: Final = "X-Elytron-Memory"
TURN: Final = "X-Elytron-Turn"
RECALLED: Final = "X-Elytron-Recalled"
CONVERSATION: Final = "X-Elytron-Conversation"
USER: Final = "X-Elytron-User"
TIMING: Final = "Server-Timing"
SCOPES: Final = {"X-Elytron-Agent": "agent", "X-Elytron-App": "app", "X-Elytron-Project": "project"}
USERS: Final = (USER, "X-OpenWebUI-User-Id")
"""Headers with which a peer names the user."""
CONVERSATIONS: Final = (CONVERSATION, "X-OpenWebUI-Chat-Id")
REQUEST_IDS: Final = ("X-Client-Request-Id", "Idempotency-Key", "X-Request-ID")
"""Headers in which a client names a call of its own, so that a repeat is recognised."""

Pairs = list[tuple[str, str]]

_UP: Final = frozenset(
    {
        "accept",
        "content-type",
        "user-agent",
        "anthropic-version",
        "anthropic-beta",
        "openai-beta",
        "idempotency-key",
        "x-client-request-id",
        "traceparent",
        "tracestate",
    }
)
"""Headers forwarded upstream. No credential is among them."""
_CALL_NAMES: Final = frozenset({"idempotency-key", "x-client-request-id"})
"""Those by which a vendor recognises a repeat."""
_DOWN: Final = frozenset(
    {
        "cache-control",
        "content-encoding",
        "content-length",
        "content-type",
        "retry-after",
        "retry-after-ms",
        "request-id",
        "x-request-id",
        "x-should-retry",
        "cf-ray",
    }
)
"""Headers of an answer forwarded to the client. All others could act on our own origin."""
_DOWN_PREFIXES: Final = ("anthropic-", "openai-", "x-ratelimit-", "ratelimit-")
_MEDIA: Final = re.compile(
    r"(?:application/(?:json|x-ndjson|jsonl|octet-stream|[a-z0-9.+-]{1,60}\+json)|text/(?:event-stream|plain)"
    r"|audio/[a-z0-9.+-]{1,60}|image/(?:png|jpeg|webp|gif)|video/mp4)(?:;[ -~]{0,200})?",
    re.IGNORECASE,
)
"""Media types of model APIs; a page or a script is sent to the client as plain text."""
_VALUE: Final = re.compile("[\t -~\x80-\xff]{0,4096}")
_STATUSES: Final = range(200, 600)
_VERSION: Final = "2023-06-01"


def upstream_headers(
    client_headers: Iterable[tuple[str, str]], upstream: ModelUpstream, /, *, path: str, space: str, length: int | None
) -> Pairs:
    """Return the headers for `upstream`, with its key in its dialect's form.

    What names a call goes as a digest under `space`: equal names of two users are two calls for the vendor.
    """
    headers = [
        (name, _call_digest(value, space) if name.lower() in _CALL_NAMES else value)
        for name, value in client_headers
        if name.lower() in _UP
    ]
    # In compressed bytes neither a key nor an answer could be seen.
    headers.append(("Accept-Encoding", "identity"))
    if length is not None:
        headers.append(("Content-Length", str(length)))
    if path.startswith("/v1/messages"):
        if all(name.lower() != "anthropic-version" for name, _ in headers):
            headers.append(("anthropic-version", _VERSION))
        return [*headers, ("x-api-key", upstream.key)] if upstream.key else headers
    return [*headers, ("Authorization", f"Bearer {upstream.key}")] if upstream.key else headers


def _call_digest(name: str, space: str) -> str:
    return hmac.new(space.encode(), name.encode("latin-1", "replace"), hashlib.sha256).hexdigest()


def client_headers(pairs: Iterable[tuple[str, str]], /, *, keys: Iterable[str], without: Iterable[str] = ()) -> Pairs:
    """Return the headers of an answer for the client, each once: those of model APIs, and none with a key."""
    secrets = [key for key in keys if key]
    allowed_headers: dict[str, str] = {}
    for name, value in pairs:
        lower_name = name.lower()
        text = "text/plain; charset=utf-8" if lower_name == "content-type" and not _MEDIA.fullmatch(value) else value
        has_secret = any(secret in name or secret in text for secret in secrets)
        is_allowed = lower_name in _DOWN or lower_name.startswith(_DOWN_PREFIXES)
        if is_allowed and not has_secret and _VALUE.fullmatch(text):
            allowed_headers.setdefault(lower_name, text)
    return [(name, value) for name, value in allowed_headers.items() if name not in without]


def credential_of(authorization: str | None, api_key: str | None, /) -> str | None:
    """Return the caller's credential: `Authorization`, else Anthropic's `x-api-key` in that form."""
    if authorization is not None:
        return authorization
    return f"Bearer {api_key}" if api_key is not None else None


def unpack_body(body: bytes, encodings: str, /, *, limit: int) -> bytes | None:
    """Return `body` decoded by its `Content-Encoding`, up to `limit` bytes plus one; None if that fails.

    Coded as RFC 9110 has it: gzip, deflate (with the header of zlib or without), identity, the last one first.
    """
    for encoding in reversed([part.strip().lower() for part in encodings.split(",") if part.strip()]):
        match encoding:
            case "identity":
                continue
            case "gzip" | "x-gzip":
                unpacked_body = _inflate_body(body, zlib.MAX_WBITS | 16, limit)
            case "deflate":
                unpacked_body = _inflate_body(body, zlib.MAX_WBITS, limit) or _inflate_body(
                    body, -zlib.MAX_WBITS, limit
                )
            case _:
                return None
        if unpacked_body is None:
            return None
        body = unpacked_body
    return body


def _inflate_body(body: bytes, bits: int, limit: int) -> bytes | None:
    """Return the first `limit` bytes plus one of a compressed body; None for an invalid or truncated one."""
    reader = zlib.decompressobj(bits)
    try:
        unpacked_body = reader.decompress(body, limit + 1)
    except zlib.error:
        return None
    return unpacked_body if reader.eof or len(unpacked_body) > limit else None


Pause = Callable[[float], Awaitable[None]]
_UNREACHABLE: Final = CallRefusal(502, "upstream_unreachable", "the model server is unreachable: check --upstream")
_TIMEOUT: Final = CallRefusal(504, "upstream_timeout", "the model server did not respond in time")
_ENCODED: Final = CallRefusal(
    502, "upstream_encoded", "the model server sent an encoding that was not requested and cannot be read"
)
UNDECODED: Final = CallRefusal(502, "upstream_encoded", "the model server's packed answer is damaged, or too long")
_STATUS: Final = CallRefusal(502, "upstream_invalid", "the model server answered with an invalid HTTP status")


class RefusedCall(Exception):
    """A call was refused before anything was sent to its client."""

    def __init__(self, refusal: CallRefusal, /) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class UpstreamClients:
    """The model servers of a proxy, for one event loop. `close` closes their connections."""

    def __init__(self, settings: ProxySettings, /, *, pause: Pause = asyncio.sleep) -> None:
        self.all: Final = settings.upstreams
        self._silence_s = settings.silence_s
        self._pause = pause
        self._clients: dict[str, httpx.AsyncClient] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of all servers, which must not be relayed."""
        return tuple(upstream.key for upstream in self.all if upstream.key)

    def of_model(self, model: str, /) -> ModelUpstream:
        """Return the server of a model: the one with the longest matching prefix, else the first without one."""
        fitting_upstreams = [upstream for upstream in self.all if upstream.prefix and model.startswith(upstream.prefix)]
        if fitting_upstreams:
            return max(fitting_upstreams, key=lambda upstream: len(upstream.prefix))
        return next((upstream for upstream in self.all if not upstream.prefix), self.all[0])

    async def send(
        self,
        upstream: ModelUpstream,
        method: str,
        path: str,
        /,
        *,
        query: str,
        headers: Pairs,
        space: str,
        body: bytes | None,
    ) -> "httpx.Response":
        """Return the answer, whose body is not read yet and which the caller closes. Raises RefusedCall.

        What fails before a byte of an answer came is sent again; what was waited for too long is not.
        """
        import httpx

        client = self._client(upstream)
        url = url_of(upstream, path, query)
        body_bytes = len(body) if body is not None else None
        sent_headers = upstream_headers(headers, upstream, path=path, space=space, length=body_bytes)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await client.send(
                    client.build_request(method, url, headers=sent_headers, content=body), stream=True
                )
                break
            except httpx.TimeoutException:
                raise RefusedCall(_TIMEOUT) from None
            except (httpx.TransportError, httpx.InvalidURL):
                if attempt >= MAX_ATTEMPTS:
                    raise RefusedCall(_UNREACHABLE) from None
            await self._pause(RETRY_PAUSE_S)
        refusal = None
        if response.status_code not in _STATUSES:
            refusal = _STATUS
        # In bytes that cannot be decoded, a key that the server repeats could not be redacted.
        elif upstream.key and not is_readable(response):
            refusal = _ENCODED
        if refusal is not None:
            await response.aclose()
            raise RefusedCall(refusal)
        return response

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def _client(self, upstream: ModelUpstream) -> "httpx.AsyncClient":
        client = self._clients.get(upstream.url)
        if client is None:
            settings = ClientSettings(
                extra="proxy",
                purpose="the memory proxy",
                url=upstream.url,
                headers={"Accept": "*/*"},
                timeout_s=self._silence_s,
                connect_s=CONNECT_S,
                uses_environment=True,
                connections=None,
                idle_connections=KEEPALIVE_CONNECTIONS,
                idle_s=KEEPALIVE_S,
            )
            client = self._clients[upstream.url] = http_client(settings)
            # The client's own goes upstream, or none.
            client.headers.pop("user-agent", None)
        return client


def url_of(upstream: ModelUpstream, path: str, query: str) -> "httpx.URL":
    """Return the URL of a request, always with the scheme, host and port of the upstream."""
    import httpx

    assert path.startswith("/")
    base_url = httpx.URL(upstream.url)
    # Ollama's own base may include the first part of its paths.
    root_path = base_url.raw_path.rstrip(b"/")
    root_path = root_path.removesuffix(b"/api") if path.startswith("/api/") else root_path
    raw_path = root_path + path.encode("latin-1") + (b"?" + query.encode("latin-1") if query else b"")
    return base_url.copy_with(raw_path=raw_path)


def is_readable(response: "httpx.Response", /) -> bool:
    """Return whether the encoding of an answer can be decoded here."""
    return set(_encodings_of(response)) <= {"gzip", "x-gzip", "deflate"}


def dropped_headers(response: "httpx.Response", /) -> frozenset[str]:
    """Return the headers that no longer apply to an answer relayed without its encoding."""
    encodings = _encodings_of(response)
    return frozenset({"content-encoding", "content-length"}) if encodings and is_readable(response) else frozenset()


async def chunks_of(response: "httpx.Response", /) -> AsyncGenerator[bytes]:
    """Yield the body as it comes, without an encoding that nobody requested; if left early, it must be closed.

    What cannot be decoded is yielded as it is. Raises httpx.DecodingError for damaged bytes, and for more decoded bytes
    than an answer has.
    """
    import httpx

    decoders = (
        [BodyDecoder(encoding) for encoding in reversed(_encodings_of(response))] if is_readable(response) else []
    )
    # It is a generator, which its declared type does not say.
    async with aclosing(cast("AsyncGenerator[bytes]", response.aiter_raw())) as chunks:
        async for chunk in chunks:
            pieces: Iterable[bytes] = (chunk,)
            for decoder in decoders:
                pieces = _decode_pieces(decoder, pieces)
            try:
                for piece in pieces:
                    yield piece
            except zlib.error:
                raise httpx.DecodingError(UNDECODED.message) from None


def _decode_pieces(decoder: "BodyDecoder", pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from decoder.feed(piece)


def _encodings_of(response: "httpx.Response") -> list[str]:
    parts = response.headers.get("content-encoding", "").lower().split(",")
    return [encoding for part in parts if (encoding := part.strip()) not in {"", "identity"}]


class BodyDecoder:
    """Decodes gzip and deflate in pieces, up to a limit, so that a small body costs little memory and time.

    Each decoder has the limit, because the output of one may be empty for the next.
    """

    def __init__(self, encoding: str, /) -> None:
        self._is_gzip = encoding != "deflate"
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16 if self._is_gzip else zlib.MAX_WBITS)
        self._is_first = True
        self._remaining_bytes = DECODED_BYTES

    def feed(self, data: bytes, /) -> Iterator[bytes]:
        """Yield the decoded `data`. Raises zlib.error, also beyond the limit."""
        is_full = False
        while data or is_full:
            try:
                piece = self._inflater.decompress(data, DECODED_PIECE_BYTES)
            except zlib.error:
                if self._is_gzip or not self._is_first:
                    raise
                # Servers differ in whether deflate has the header of zlib.
                self._inflater, self._is_first = zlib.decompressobj(-zlib.MAX_WBITS), False
                continue
            self._is_first = False
            self._remaining_bytes -= len(piece)
            if self._remaining_bytes < 0:
                raise zlib.error("too long")
            if piece:
                yield piece
            # After all input was read, output may still be pending.
            is_full, data = len(piece) == DECODED_PIECE_BYTES, self._inflater.unconsumed_tail
            if self._inflater.eof:
                unused_data = self._inflater.unused_data
                is_full, data = False, unused_data if unused_data.startswith(b"\x1f\x8b") else b""
                self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
