"""Relay of bytes from a model server to a client, with a copy for memory."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from elytron_core.ports.chat import (
    FailureReason,
    FinishReason,
    ModelEvent,
    OpaquePart,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
)
from elytron_models.dialect import Fields, StreamParser, fields_of, parse_answer
from elytron_proxy import limits
from elytron_proxy.figures import ProxyFigure, ProxyFigures
from elytron_proxy.prompts import AnswerWitness, CallRefusal, PromptDialect
from elytron_proxy.wire import upstream as names
from elytron_proxy.wire.upstream import Pairs, RefusedCall, UpstreamClients, chunks_of

if TYPE_CHECKING:
    import httpx

WHOLE_BYTES: Final = 8 * 1024 * 1024
"""An answer that comes at once is read for memory up to this size."""
CALL_NAME_CHARS: Final = 64 * 1024
"""Names of the tools that one answer calls."""
ERROR_BYTES: Final = 64 * 1024
"""An upstream's refusal is read up to this size, to see whether sealed reasoning is its reason."""


_LONGEST_END: Final = 3
_THOUGHTS: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "tool_call_extra"})


class KeyMask:
    """Redacts keys in a stream of bytes, even if a chunk boundary splits one; everything else is unchanged."""

    def __init__(self, keys: Iterable[str], /) -> None:
        # The longest first, because a key may contain a shorter one.
        self._keys = sorted({key.encode() for key in keys if key}, key=len, reverse=True)
        self._tail = b""

    def feed(self, chunk: bytes, /) -> bytes:
        """Return the bytes to forward: all except an end that could be the beginning of a key."""
        if not self._keys:
            return chunk
        data = self._masked(self._tail + chunk)
        held_bytes = max((self._key_start_bytes(data, key) for key in self._keys), default=0)
        self._tail = data[len(data) - held_bytes :]
        return data[: len(data) - held_bytes]

    def end(self) -> bytes:
        """Return the withheld bytes."""
        last_bytes, self._tail = self._tail, b""
        return last_bytes

    def _masked(self, data: bytes) -> bytes:
        for key in self._keys:
            data = data.replace(key, b"*" * len(key))
        return data

    @staticmethod
    def _key_start_bytes(data: bytes, key: bytes) -> int:
        """Return how many bytes at the end of `data` a key could begin with."""
        for prefix_bytes in range(min(len(key) - 1, len(data)), 0, -1):
            if data.endswith(key[:prefix_bytes]):
                return prefix_bytes
        return 0


class EventGate:
    """Passes whole events of a stream, so that an interrupted one can be ended between two of them.

    What waits for its end has at most `limit` bytes: a longer event passes as it comes.
    """

    def __init__(self, *, has_lines: bool, limit: int = limits.RELAY_BYTES) -> None:
        self._ends = (b"\n",) if has_lines else (b"\n\n", b"\n\r\n", b"\r\r")
        self._limit = limit
        self._partial_event = bytearray()
        self.is_between = True
        """True if only whole events were relayed."""

    def feed(self, chunk: bytes, /) -> bytes:
        """Return the bytes to forward."""
        # An end may begin within what was held.
        search_from = max(0, len(self._partial_event) - _LONGEST_END + 1)
        self._partial_event += chunk
        end_position = max(
            (
                position + len(end_mark)
                for end_mark in self._ends
                if (position := self._partial_event.rfind(end_mark, search_from)) >= 0
            ),
            default=0,
        )
        if end_position:
            self.is_between = True
        if len(self._partial_event) - end_position > self._limit:
            end_position = len(self._partial_event)
            self.is_between = False
        complete_events = bytes(self._partial_event[:end_position])
        del self._partial_event[:end_position]
        return complete_events

    def rest(self) -> bytes:
        """Return the bytes that waited for the end of their event."""
        partial_event = bytes(self._partial_event)
        self._partial_event.clear()
        return partial_event


@dataclass(slots=True)
class AnswerCopy:
    """Contents of an answer's copy: its text, and its end. `is_too_long` if it is not used as evidence."""

    texts: list[str] = field(default_factory=list[str])
    chars: int = 0
    named_chars: int = 0
    finished: FinishReason | None = None
    failed: FailureReason | None = None
    is_too_long: bool = False
    has_tools_used: bool = False
    """True if the provider used its own tools, such as a web search."""
    usage: TokenUsage | None = None
    """The tokens, if the provider names them."""
    witness: AnswerWitness = field(default_factory=AnswerWitness)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def is_whole(self) -> bool:
        """Return whether the answer's end was received: the provider's marker, or its reason before a clean end."""
        return self.finished is not None

    def take(self, events: Iterable[ModelEvent], /) -> None:
        """Add the contents of `events`."""
        for event in events:
            if self.failed is not None:
                return
            match event:
                case TextDelta():
                    self._add(event.text)
                case ToolCallDelta():
                    self._name(event.name)
                case TokenUsage():
                    self.usage = event
                case ReplyFinished():
                    self.finished = event.reason
                case ReplyFailed():
                    self.failed = event.reason
                case OpaquePart() if event.type not in _THOUGHTS:
                    self.has_tools_used = True
                case _:
                    pass

    def _name(self, name: str) -> None:
        """Count tool names: after too many, nothing more of the answer is read."""
        self.named_chars += len(name)
        if self.named_chars > CALL_NAME_CHARS:
            self.failed = FailureReason.TOO_LARGE

    def _add(self, text: str) -> None:
        self.chars += len(text)
        if self.chars > limits.ANSWER_CHARS:
            self.is_too_long = True
            # Half an answer is not used as evidence, so it need not be retained.
            self.texts.clear()
        elif not self.is_too_long:
            self.texts.append(text)


class StreamCopy:
    """Parses the copy of a stream as its bytes pass."""

    def __init__(self, dialect: PromptDialect, /) -> None:
        self.answer = AnswerCopy()
        self._parser: StreamParser | None = dialect.parser(self.answer.witness)

    def feed(self, chunk: bytes, /) -> None:
        """Parse on, until the answer ended or cannot be parsed; then release the parser's memory."""
        if self._parser is None:
            return
        self.answer.take(self._parser.feed(chunk))
        if self._parser.is_over or self.answer.failed is not None:
            self._parser = None

    def end(self, *, is_clean: bool) -> bool:
        """Parse the end of the bytes: an answer without its end is cut. Return whether the last event was whole."""
        count_before = self.answer.witness.event_count
        self.answer.take(self._parser.end(is_clean=is_clean) if self._parser is not None else ())
        self._parser = None
        return self.answer.witness.event_count > count_before


class StreamRelay:
    """A relayed stream: returns the bytes to forward, and parses a copy. No I/O."""

    def __init__(self, dialect: PromptDialect, keys: Iterable[str], /) -> None:
        self._dialect = dialect
        self._mask = KeyMask(keys)
        self._gate = EventGate(has_lines=dialect.has_lines)
        self._copy = StreamCopy(dialect)

    @property
    def answer(self) -> AnswerCopy:
        """Return the contents of the copy so far."""
        return self._copy.answer

    def feed(self, chunk: bytes, /) -> bytes:
        """Return the bytes to forward."""
        masked_chunk = self._mask.feed(chunk)
        self._copy.feed(masked_chunk)
        return self._gate.feed(masked_chunk)

    def refuse(self, refusal: CallRefusal, /) -> bytes | None:
        """Return the dialect's own error in place of the rest; None: no error can be sent within an event."""
        return self._dialect.cut(refusal, self.answer.witness) if self._gate.is_between else None

    def end(self, refusal: CallRefusal, /, *, is_broken: bool) -> bytes | None:
        """Return the last bytes; for a cut stream, the dialect's own error. None: no error can be sent.

        Half an event is not relayed, for the following bytes would be read as its other half.
        """
        masked_tail = self._mask.end()
        self._copy.feed(masked_tail)
        passed_tail = self._gate.feed(masked_tail)
        has_whole_rest = self._copy.end(is_clean=not is_broken)
        if self.answer.failed is not FailureReason.CUT:
            return passed_tail + self._gate.rest() if self.answer.is_whole or not is_broken else None
        if not self._gate.is_between:
            return None
        gate_rest = self._gate.rest()
        ending = b"\n" if self._dialect.has_lines else b"\n\n"
        return (
            passed_tail
            + (gate_rest + ending if has_whole_rest and gate_rest else b"")
            + self._dialect.cut(refusal, self.answer.witness)
        )


class WholeCopy:
    """Collects the copy of a non-streamed answer, and parses it at its end."""

    def __init__(self, dialect: PromptDialect, /) -> None:
        self.answer = AnswerCopy()
        self._dialect = dialect
        self._body = bytearray()
        self.is_over = False

    def feed(self, chunk: bytes, /) -> None:
        """Collect more; beyond the limit nothing is kept."""
        if self.is_over:
            return
        self._body += chunk
        if len(self._body) > WHOLE_BYTES:
            self._body.clear()
            self.is_over = True
            self.answer.take((ReplyFailed(reason=FailureReason.TOO_LARGE),))

    def end(self) -> None:
        """Parse the collected bytes."""
        if self.is_over:
            return
        self.is_over = True
        body = bytes(self._body)
        self._body.clear()
        answer_fields = fields_of(body)
        # Some servers send a stream under the media type of a whole answer.
        stream = body if answer_fields is None else self._dialect.streamed(answer_fields)
        self.answer.take(parse_answer(self._dialect.parser(self.answer.witness), (stream,)))


Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ProxyCall:
    """A request as received. `path` is the model API's own."""

    method: str
    path: str
    query: str
    headers: Pairs
    body: bytes
    space: str
    """The caller's space, which separates the names that clients give to their calls."""


@dataclass(slots=True)
class AnswerHeaders:
    """Memory's headers of an answer."""

    memory: str
    turn: str = ""
    recalled: int = 0
    recall_ms: float | None = None

    def pairs(self) -> Pairs:
        """Return the headers."""
        pairs = [(names.MEMORY, self.memory)]
        if self.turn:
            pairs.append((names.TURN, self.turn))
        if self.recall_ms is not None:
            pairs.append((names.RECALLED, str(self.recalled)))
            pairs.append((names.TIMING, f"recall;dur={self.recall_ms:.1f}"))
        return pairs


@dataclass(slots=True)
class PeekedAnswer:
    """An answer whose beginning was read: `data`, and the remaining `rest`."""

    rest: AsyncGenerator[bytes]
    data: bytearray = field(default_factory=bytearray)
    is_broken: bool = False

    async def look(self) -> Fields:
        """Return the object in a short answer; an empty one for any other."""
        import httpx

        try:
            async for chunk in self.rest:
                self.data += chunk
                if len(self.data) > ERROR_BYTES:
                    return {}
        except httpx.HTTPError:
            self.is_broken = True
        return fields_of(bytes(self.data)) or {}


class AnswerPassage:
    """Forwards an answer's bytes to the client unchanged, without memory."""

    def __init__(self, upstreams: UpstreamClients, figures: ProxyFigures, send: Send, /) -> None:
        self._upstreams = upstreams
        self._figures = figures
        self._send = send
        self._asked_at: float | None = time.perf_counter()
        self.is_left = False
        """True if the client left: nothing more is sent."""

    async def ask(self, call: ProxyCall, /, *, model: str) -> "httpx.Response":
        """Return the upstream's answer. Raises RefusedCall."""
        try:
            return await self._upstreams.send(
                self._upstreams.of_model(model),
                call.method,
                call.path,
                query=call.query,
                headers=call.headers,
                space=call.space,
                body=call.body if call.body or call.method not in {"GET", "HEAD"} else None,
            )
        except RefusedCall:
            self._figures.count(ProxyFigure.UNREACHABLE)
            raise

    async def begin(self, response: "httpx.Response", headers: AnswerHeaders, /, *, without: str = "") -> None:
        """Send the head of the answer, without the header of that name."""
        if self.is_left:
            return
        dropped_names = {without, *names.dropped_headers(response)}
        pairs = names.client_headers(response.headers.multi_items(), keys=self._upstreams.keys, without=dropped_names)
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status_code,
                "headers": [
                    (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
                    for name, value in ([*pairs, *headers.pairs(), ("X-Accel-Buffering", "no")])
                ],
            }
        )

    async def give(self, data: bytes, /, *, is_last: bool = False) -> None:
        """Send a piece of the body."""
        if self.is_left:
            return
        if data and self._asked_at is not None:
            self._figures.first_byte_s.add(time.perf_counter() - self._asked_at)
            self._asked_at = None
        if data or is_last:
            self._figures.count(ProxyFigure.ANSWER_BYTES, len(data))
            await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})

    async def all(
        self, response: "httpx.Response", headers: AnswerHeaders, /, *, read: PeekedAnswer | None = None
    ) -> None:
        """Send an answer as it comes, after what was already `read` of it. If it is interrupted, so is the client's."""
        import httpx

        read = read or PeekedAnswer(chunks_of(response))
        mask = KeyMask(self._upstreams.keys)
        try:
            await self.begin(response, headers)
            await self.give(mask.feed(bytes(read.data)))
            async for chunk in read.rest:
                await self.give(mask.feed(chunk))
            await self.give(mask.end(), is_last=not read.is_broken)
        except httpx.HTTPError:
            return  # without its end, the server closes the connection
        finally:
            await response.aclose()
