"""The client of a chat model: one request, and its answer as a stream of events."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from elytron_core import limits
from elytron_core.ports import chat
from elytron_models.dialect import EVENT_STREAM, JSON_LINES, ModelDialect, ModelTarget, count_field
from elytron_models.dialects import dialect_named
from elytron_models.server import (
    VENDORS,
    ModelAddress,
    ModelServer,
    Pause,
    address_of,
    checked_key,
    chunks_of,
    drain_answer,
    key_of,
)

if TYPE_CHECKING:
    import httpx

MODEL_SILENCE_S: Final = 120.0
"""The longest silence within an answer; some models think for long before they write."""


DIALECTS: Final[Mapping[str, ModelDialect]] = {
    vendor.dialect: dialect_named(vendor.dialect) for vendor in VENDORS.values()
}
_NO_STREAM: Final = {
    EVENT_STREAM: frozenset({"text/html", "application/json"}),
    JSON_LINES: frozenset({"text/html"}),
}
"""Media types that suggest a wrong address, unless the body is a stream: servers label streams differently."""


class StructuredOutput(StrEnum):
    """Ways to send a server the schema of an answer."""

    JSON_SCHEMA = "json_schema"
    """By schema, which the server enforces on the model."""
    PROMPT = "prompt"
    """By the schema in the prompt, for servers that enforce none."""


@dataclass(slots=True)
class _AttemptProgress:
    """Progress of an attempt: after the first byte of an answer nothing is resent."""

    has_begun: bool = False


class ModelClient:
    """A chat model on a server, in any dialect. Needs the extra `llm`.

    `key` is sent to the server and appears in no message or representation. A request is sent up to `attempts` times,
    and again only if no part of an answer came; a silence longer than `timeout_s` ends the wait. `context_tokens` is
    the size of the model's context, if known. One client serves one event loop at a time; `close` releases its
    connections.
    """

    def __init__(
        self,
        address: ModelAddress,
        /,
        *,
        key: str = "",
        timeout_s: float = MODEL_SILENCE_S,
        attempts: int = limits.MODEL_ATTEMPTS,
        context_tokens: int | None = None,
        structuring: StructuredOutput = StructuredOutput.JSON_SCHEMA,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._address = address
        self._dialect = DIALECTS[address.vendor.dialect]
        self._target = ModelTarget(address.model, address.issuer, address.is_official, context_tokens)
        self._structuring = structuring
        self._lacks_key = address.needs_key and not key
        self._counts_nothing = False
        self._server = ModelServer(
            address.url,
            headers={"Accept": self._dialect.media_type, **self._dialect.headers(checked_key(key, field="key"))},
            silence_s=timeout_s,
            attempts=attempts,
            pause=pause,
        )

    def __repr__(self) -> str:
        return f"ModelClient({str(self._address)!r})"

    @property
    def info(self) -> chat.ModelInfo:
        """Return what is known of the model."""
        return chat.ModelInfo(
            name=str(self._address),
            context_tokens=self._target.context_tokens,
            holds_schema=self._structuring is StructuredOutput.JSON_SCHEMA,
        )

    async def stream(self, request: chat.ModelRequest, /) -> AsyncGenerator[chat.ModelEvent]:
        """Yield the events of the answer; only the last one is a ReplyFinished or a ReplyFailed.

        Opaque items that the server rejects are left out, once. Raises InvalidInput for a request that the dialect
        cannot express.
        """
        if self._lacks_key:
            yield chat.ReplyFailed(reason=chat.FailureReason.KEY_MISSING)
            return
        if self._structuring is StructuredOutput.PROMPT:
            request = _with_schema_told(request)
        attempt = 0
        while True:
            attempt += 1
            failed, progress = None, _AttemptProgress()
            async with aclosing(self._attempt(request, progress)) as events:
                async for event in events:
                    if isinstance(event, chat.ReplyFailed) and not progress.has_begun:
                        failed = event
                        break
                    yield event
            if failed is None:
                return
            if (
                failed.reason is chat.FailureReason.OPAQUE_REFUSED
                and (bare_request := _without_opaque(request)) != request
            ):
                # A rejected item is no failed attempt, and cannot recur without such items.
                request, attempt = bare_request, attempt - 1
                continue
            if not await self._server.waits(failed, attempt=attempt):
                yield failed
                return

    async def count(self, request: chat.ModelRequest, /) -> int | None:
        """Return the server's token count of `request`; None if it does not count or does not answer.

        It is asked once: who wants a count has an estimate too. Raises InvalidInput as `stream` does.
        """
        count_call = self._dialect.count
        if count_call is None or self._counts_nothing or self._lacks_key:
            return None
        if self._structuring is StructuredOutput.PROMPT:
            request = _with_schema_told(request)
        body = self._dialect.body(request, self._target)
        bare_body = {name: part for name, part in body.items() if name not in count_call.without}
        answer = await self._server.ask(count_call.path, bare_body, attempts=1)
        if isinstance(answer, chat.ReplyFailed):
            # A server that only resembles the vendor's has no such path, and is not asked again.
            self._counts_nothing = not answer.is_passing
            return None
        return count_field(answer, "input_tokens") or None

    def require(self, request: chat.ModelRequest, /) -> None:
        """Raise InvalidInput for a request that the dialect cannot express; nothing is sent."""
        self._dialect.body(request, self._target)

    async def close(self) -> None:
        """Release the connections; the next call opens them again."""
        await self._server.close()

    async def _attempt(self, request: chat.ModelRequest, progress: _AttemptProgress) -> AsyncGenerator[chat.ModelEvent]:
        """Yield the events of one request; a failure to get an answer is a ReplyFailed."""
        response = await self._server.send(self._dialect.path, self._dialect.body(request, self._target))
        if isinstance(response, chat.ReplyFailed):
            yield response
            return
        try:
            async with aclosing(self._events(response, progress)) as events:
                async for event in events:
                    yield event
        finally:
            await response.aclose()

    async def _events(self, response: "httpx.Response", progress: _AttemptProgress) -> AsyncGenerator[chat.ModelEvent]:
        import httpx

        parser = self._dialect.parser(self._address.issuer)
        clock = asyncio.get_running_loop().time
        ends_at = clock() + limits.MODEL_STREAM_S
        # A silence has its own timeout. This one is for a stream that never ends.
        failure_reason, is_doubtful = None, _media_type(response) in _NO_STREAM[self._dialect.media_type]
        try:
            async with aclosing(chunks_of(response)) as chunks:
                async for chunk in chunks:
                    progress.has_begun = True
                    for event in parser.feed(chunk):
                        yield event
                    if parser.is_over:
                        await drain_answer(chunks)
                        return
                    if clock() > ends_at:
                        failure_reason = chat.FailureReason.TIMEOUT
                        break
        except httpx.TimeoutException:
            failure_reason = chat.FailureReason.TIMEOUT
        except (httpx.TransportError, httpx.StreamError, httpx.DecodingError):
            failure_reason = chat.FailureReason.CUT
        # A cut stream continues below: the parser knows whether the answer had ended before.
        if failure_reason is chat.FailureReason.TIMEOUT:
            yield chat.ReplyFailed(reason=failure_reason)
            return
        for event in parser.end(is_clean=failure_reason is None):
            # A body that is no stream by its media type and its bytes is some other answer.
            was_cut = isinstance(event, chat.ReplyFailed) and event.reason is chat.FailureReason.CUT
            yield chat.ReplyFailed(reason=chat.FailureReason.MALFORMED) if was_cut and is_doubtful else event


def open_model(
    text: str,
    /,
    *,
    key: str | None = None,
    environment: Mapping[str, str] | None = None,
    context_tokens: int | None = None,
    structuring: StructuredOutput = StructuredOutput.JSON_SCHEMA,
) -> ModelClient:
    """Return the model that `text` names as `dialect:name[@url]`; nothing is sent yet.

    Without `key`, it is read from ELYTRON_MODEL_KEY, else from the vendor's variable, in `environment` (default: the
    process's). Raises InvalidInput, MissingExtra.
    """
    address = address_of(text)
    if key is None:
        key = key_of(address, os.environ if environment is None else environment)
    return ModelClient(address, key=key, context_tokens=context_tokens, structuring=structuring)


def _with_schema_told(request: chat.ModelRequest) -> chat.ModelRequest:
    if request.answer_schema is None:
        return request
    text = f"Answer with one JSON object that fits this JSON Schema, and nothing else:\n{request.answer_schema}"
    schema_message = chat.InputMessage(role=chat.ChatRole.SYSTEM, parts=(chat.TextPart(text=text),))
    return request.model_copy(update={"answer_schema": None, "messages": (schema_message, *request.messages)})


def _media_type(response: "httpx.Response") -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _without_opaque(request: chat.ModelRequest) -> chat.ModelRequest:
    messages = tuple(
        chat.ModelReply(items=tuple(item for item in message.items if not isinstance(item, chat.OpaquePart)))
        if isinstance(message, chat.ModelReply)
        else message
        for message in request.messages
    )
    return request.model_copy(update={"messages": messages})
