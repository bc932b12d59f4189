"""The client of a model server: one request over HTTP, and its answer as a stream of events."""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra
from elytron_core.ports.chat import (
    Failed,
    FailureReason,
    InputMessage,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Opaque,
    Reply,
    Role,
    TextPart,
)
from elytron_models.address import ModelAddress, address_of, checked_key, key_of
from elytron_models.dialect import EVENT_STREAM, JSON_LINES, Dialect, Target
from elytron_models.dialects import CHAT, MESSAGES, OLLAMA, RESPONSES
from elytron_models.failures import refusal_of
from elytron_models.fields import json_text
from elytron_models.structured_answer import told_schema

if TYPE_CHECKING:
    import httpx

DIALECTS: Final[Mapping[str, Dialect]] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "messages": MESSAGES,
    "ollama": OLLAMA,
}
_OK: Final = 200
_NO_STREAM: Final = {
    EVENT_STREAM: frozenset({"text/html", "application/json"}),
    JSON_LINES: frozenset({"text/html"}),
}
"""What answers under a wrong address; other types are read, because servers differ in what they call a stream."""
_HEADERS: Final = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
Pause = Callable[[float], Awaitable[None]]


class Structuring(StrEnum):
    """How a server is told the shape of an answer."""

    JSON_SCHEMA = "json_schema"
    """By the schema itself, which the server holds the model to."""
    PROMPT = "prompt"
    """By the schema in the prompt, for servers that hold a model to none."""


@dataclass(slots=True)
class _Progress:
    """How far an attempt came: once a byte of the answer is there, nothing is sent again."""

    has_begun: bool = False


class ModelClient:
    """A chat model on a server, in any dialect. Needs the extra `llm`.

    `key` is sent to the server and stands in no message and no representation. A request is sent up to `attempts`
    times, and again only if nothing of an answer came; an answer is not waited for beyond a silence of `silence_s`.
    `context_tokens` is how much the model reads, where that is known. One client serves one event loop at a time;
    `close` lets go of its connections.
    """

    def __init__(
        self,
        address: ModelAddress,
        /,
        *,
        key: str = "",
        silence_s: float = limits.MODEL_SILENCE_S,
        attempts: int = limits.MODEL_ATTEMPTS,
        context_tokens: int | None = None,
        structuring: Structuring = Structuring.JSON_SCHEMA,
        pause: Pause = asyncio.sleep,
    ) -> None:
        if not 1 <= attempts <= limits.MODEL_ATTEMPTS * 3:
            raise InvalidInput(field="attempts", problem=f"is not 1 to {limits.MODEL_ATTEMPTS * 3}")
        if not 0 < silence_s <= limits.MODEL_STREAM_S:
            raise InvalidInput(field="silence_s", problem=f"is not above 0 and up to {limits.MODEL_STREAM_S:.0f}")
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra(extra="llm", purpose="a model on a server") from error
        self._timeout = httpx.Timeout(silence_s, connect=min(silence_s, limits.MODEL_CONNECT_S))
        self._address = address
        self._dialect = DIALECTS[address.vendor.dialect]
        self._target = Target(address.model, address.issuer, address.is_official, context_tokens)
        self._structuring = structuring
        self._key = checked_key(key, field="key")
        self._attempts = attempts
        self._pause = pause
        self._opened: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"ModelClient({str(self._address)!r})"

    @property
    def info(self) -> ModelInfo:
        """Return what is known of the model."""
        return ModelInfo(
            name=str(self._address),
            context_tokens=self._target.context_tokens,
            holds_schema=self._structuring is Structuring.JSON_SCHEMA,
        )

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        """Yield the events of the answer, the last of which, and no other, is a Finished or a Failed.

        Opaque items that the server does not take back are left out, once. Raises InvalidInput for a request that the
        dialect cannot express.
        """
        if self._structuring is Structuring.PROMPT:
            request = _with_schema_told(request)
        attempt = 0
        while True:
            attempt += 1
            failed, progress = None, _Progress()
            async with aclosing(self._attempt(request, progress)) as events:
                async for event in events:
                    if isinstance(event, Failed) and not progress.has_begun:
                        failed = event
                        break
                    yield event
            if failed is None:
                return
            if failed.reason is FailureReason.OPAQUE_REFUSED and (bare := _without_opaque(request)) != request:
                request, attempt = bare, attempt - 1
                continue
            wait_s = pause_s(failed, attempt=attempt, attempts=self._attempts, jitter=random.random())  # noqa: S311
            if wait_s is None:
                yield failed
                return
            await self._pause(wait_s)

    async def close(self) -> None:
        """Let go of the connections; the next call opens them again."""
        client, self._opened = self._opened, None
        if client is not None:
            await client.aclose()

    async def _attempt(self, request: ModelRequest, progress: _Progress) -> AsyncGenerator[ModelEvent]:
        """Yield the events of one request; what keeps it from being answered is a Failed."""
        import httpx

        body = json_text(self._dialect.body(request, self._target)).encode("utf-8", "replace")
        asked = self._client().build_request("POST", self._address.url + self._dialect.path, content=body)
        try:
            response = await self._client().send(asked, stream=True)
        except httpx.TimeoutException:
            yield Failed(reason=FailureReason.TIMEOUT)
            return
        except (httpx.TransportError, httpx.InvalidURL):
            yield Failed(reason=FailureReason.UNREACHABLE)
            return
        try:
            if response.status_code != _OK:
                yield await _refusal(response)
                return
            if _media_type(response) in _NO_STREAM[self._dialect.media_type]:
                yield Failed(reason=FailureReason.MALFORMED)
                return
            async with aclosing(self._events(response, progress)) as events:
                async for event in events:
                    yield event
        finally:
            await response.aclose()

    async def _events(self, response: "httpx.Response", progress: _Progress) -> AsyncGenerator[ModelEvent]:
        import httpx

        parser = self._dialect.parser(self._address.issuer)
        clock = asyncio.get_running_loop().time
        ends_at = clock() + limits.MODEL_STREAM_S
        broken = None
        try:
            async with aclosing(_chunks(response)) as chunks:
                async for chunk in chunks:
                    progress.has_begun = True
                    for event in parser.feed(chunk):
                        yield event
                    if parser.is_over:
                        return
                    if clock() > ends_at:
                        broken = FailureReason.TIMEOUT
                        break
        except httpx.TimeoutException:
            broken = FailureReason.TIMEOUT
        except (httpx.TransportError, httpx.StreamError, httpx.DecodingError):
            broken = FailureReason.CUT
        if broken is FailureReason.TIMEOUT:
            yield Failed(reason=broken)
            return
        for event in parser.end():
            yield event

    def _client(self) -> "httpx.AsyncClient":
        """Return the client, opened where there is none for this loop."""
        import httpx

        loop = asyncio.get_running_loop()
        if self._opened is None or self._loop is not loop:
            is_here = _is_here(self._address.url)
            self._opened = httpx.AsyncClient(
                headers={**_HEADERS, "Accept": self._dialect.media_type, **self._dialect.headers(self._key)},
                timeout=self._timeout,
                # What runs on this machine is reached without the proxy that the environment names for the rest.
                trust_env=not is_here,
                # Where nothing is encrypted, the system's certificates need not be read.
                verify=not self._address.url.startswith("http://"),
            )
            self._loop = loop
        return self._opened


def open_model(
    text: str,
    /,
    *,
    key: str | None = None,
    environment: Mapping[str, str] | None = None,
    context_tokens: int | None = None,
    structuring: Structuring = Structuring.JSON_SCHEMA,
) -> ModelClient:
    """Return the model that `text` writes as `dialect:name[@url]`; nothing is asked of it yet.

    Without `key` it is the one in ELYTRON_MODEL_KEY, else in the vendor's variable, of `environment` (else of the
    process). Raises InvalidInput, MissingExtra.
    """
    address = address_of(text)
    if key is None:
        key = key_of(address, os.environ if environment is None else environment)
    return ModelClient(address, key=key, context_tokens=context_tokens, structuring=structuring)


def pause_s(failed: Failed, /, *, attempt: int, attempts: int, jitter: float) -> float | None:
    """Return how long to wait before the next attempt, or None where `failed` is the answer.

    A silence is not waited for again. A server that names a time is given it, up to the bound.
    """
    if attempt >= attempts or not failed.is_passing or failed.reason is FailureReason.TIMEOUT:
        return None
    if failed.retry_after_s > limits.MODEL_RETRY_AFTER_S:
        return None
    backoff = min(limits.MODEL_BACKOFF_S * 2 ** (attempt - 1), limits.MODEL_BACKOFF_MAX_S)
    return max(float(failed.retry_after_s), backoff * (0.5 + jitter / 2))


def _with_schema_told(request: ModelRequest) -> ModelRequest:
    if request.answer_schema is None:
        return request
    told = InputMessage(role=Role.SYSTEM, parts=(TextPart(text=told_schema(request.answer_schema)),))
    return request.model_copy(update={"answer_schema": None, "messages": (told, *request.messages)})


async def _refusal(response: "httpx.Response") -> Failed:
    """Return the failure that an answer with another status than 200 tells."""
    import httpx

    told = bytearray()
    try:
        async with aclosing(_chunks(response)) as chunks:
            async for chunk in chunks:
                told += chunk[: limits.MODEL_REFUSAL_BYTES - len(told)]
                if len(told) == limits.MODEL_REFUSAL_BYTES:
                    break
    except httpx.HTTPError:
        told.clear()
    return refusal_of(response.status_code, bytes(told), retry_after_s=_retry_after_s(response.headers))


def _media_type(response: "httpx.Response") -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _chunks(response: "httpx.Response") -> AsyncGenerator[bytes]:
    # It is a generator, and left early it is to be closed, which its declared type does not say.
    return cast("AsyncGenerator[bytes]", response.aiter_bytes())


def _without_opaque(request: ModelRequest) -> ModelRequest:
    messages = tuple(
        Reply(items=tuple(item for item in message.items if not isinstance(item, Opaque)))
        if isinstance(message, Reply)
        else message
        for message in request.messages
    )
    return request.model_copy(update={"messages": messages})


def _retry_after_s(headers: Mapping[str, str]) -> int:
    told = headers.get("retry-after", "")
    return int(told) if told.isdecimal() and len(told) <= 6 else 0


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
