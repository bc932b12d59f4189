"""Headers of both sides: which go on, which end here, and what the proxy says in its own."""

import hashlib
import hmac
import zlib
from collections.abc import Iterable
from typing import Final

from elytron_proxy.settings import Upstream

MEMORY: Final = "X-Elytron-Memory"
TURN: Final = "X-Elytron-Turn"
RECALLED: Final = "X-Elytron-Recalled"
CONVERSATION: Final = "X-Elytron-Conversation"
USER: Final = "X-Elytron-User"
TIMING: Final = "Server-Timing"
SCOPES: Final = {"X-Elytron-Agent": "agent", "X-Elytron-App": "app", "X-Elytron-Project": "project"}
USERS: Final = (USER, "X-OpenWebUI-User-Id")
"""Headers that say for which user a peer asks."""
CONVERSATIONS: Final = (CONVERSATION, "X-OpenWebUI-Chat-Id")
REQUEST_IDS: Final = ("X-Client-Request-Id", "Idempotency-Key", "X-Request-ID")
"""Headers in which a client names a call of its own, so that a repeat is known as one."""

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
"""Headers that go upstream. No credential is among them."""
_CALL_NAMES: Final = frozenset({"idempotency-key", "x-client-request-id"})
"""Those by which a vendor knows a repeat."""
_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OURS: Final = frozenset({"date", "server", "set-cookie", "alt-svc", "strict-transport-security"})
"""Headers of an upstream's own connections and sessions."""
_OWN: Final = "x-elytron-"
_VERSION: Final = "2023-06-01"


def upstream_headers(
    given: Iterable[tuple[str, str]], upstream: Upstream, /, *, path: str, space: str, length: int | None
) -> Pairs:
    """Return the headers that go to `upstream`, with its key as its dialect shows one.

    What names a call goes as a digest under `space`: equal names of two users are two calls for the vendor.
    """
    found = [
        (name, _call_digest(value, space) if name.lower() in _CALL_NAMES else value)
        for name, value in given
        if name.lower() in _UP
    ]
    found.append(("Accept-Encoding", "identity"))
    if length is not None:
        found.append(("Content-Length", str(length)))
    if path.startswith("/v1/messages"):
        if all(name.lower() != "anthropic-version" for name, _ in found):
            found.append(("anthropic-version", _VERSION))
        return [*found, ("x-api-key", upstream.key)] if upstream.key else found
    return [*found, ("Authorization", f"Bearer {upstream.key}")] if upstream.key else found


def _call_digest(name: str, space: str) -> str:
    return hmac.new(space.encode(), name.encode("latin-1", "replace"), hashlib.sha256).hexdigest()


def client_headers(given: Iterable[tuple[str, str]], /, *, keys: Iterable[str]) -> Pairs:
    """Return the headers of an answer that go to the client: none of the connection's, and none that holds a key."""
    pairs = list(given)
    named = {part.strip().lower() for name, value in pairs if name.lower() == "connection" for part in value.split(",")}
    dropped = _HOP | _OURS | named
    secrets = [key for key in keys if key]
    return [
        (name, value)
        for name, value in pairs
        if name.lower() not in dropped
        and not name.lower().startswith(_OWN)
        and not any(secret in value or secret in name for secret in secrets)
    ]


def credential_of(authorization: str | None, api_key: str | None, /) -> str | None:
    """Return what proves who calls: `Authorization`, else Anthropic's `x-api-key` as one."""
    if authorization is not None:
        return authorization
    return f"Bearer {api_key}" if api_key is not None else None


def unpacked(body: bytes, encodings: str, /, *, limit: int) -> bytes | None:
    """Return what `body` holds, packed as its `Content-Encoding` says, up to `limit` bytes and one; None if it cannot.

    Coded as RFC 9110 has it: gzip, deflate (with the header of zlib or without), identity, the last one first.
    """
    for encoding in reversed([part.strip().lower() for part in encodings.split(",") if part.strip()]):
        match encoding:
            case "identity":
                continue
            case "gzip" | "x-gzip":
                found = _inflated(body, zlib.MAX_WBITS | 16, limit)
            case "deflate":
                found = _inflated(body, zlib.MAX_WBITS, limit) or _inflated(body, -zlib.MAX_WBITS, limit)
            case _:
                return None
        if found is None:
            return None
        body = found
    return body


def _inflated(body: bytes, bits: int, limit: int) -> bytes | None:
    """Return the first `limit` bytes and one of what is packed; None for what is not packed so, or is cut off."""
    reader = zlib.decompressobj(bits)
    try:
        found = reader.decompress(body, limit + 1)
    except zlib.error:
        return None
    return found if reader.eof or len(found) > limit else None
