"""A dialect of model APIs, as data: how a request is written, and how its answer is parsed into typed events."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.ports import chat
from elytron_core.ports.chat import FailureReason, ModelEvent, ReplyFailed, ReplyFinished
from elytron_models.split_text import SplitCharacters

MODEL_OUTPUT_TOKENS: Final = 8_192
"""Tokens that a model may write if the dialect demands a number and the request has none."""
MODEL_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one event of an answer."""


_BOM = b"\xef\xbb\xbf"
_LINE_COST = 64
"""Size counted for a line of an event in addition to its bytes, because empty ones take memory too."""


class FrameTooLarge(Exception):
    """A line or an event exceeds its limit of bytes."""


class FrameCutter(Protocol):
    """Splits chunks of bytes into the payloads of frames."""

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the payloads that `chunk` completes. Raises FrameTooLarge."""
        ...

    def end(self) -> list[bytes]:
        """Return the payload that only lacked its last line ending. Raises FrameTooLarge."""
        ...


class LineCutter:
    """Splits into lines without their endings, which may be LF, CR LF or CR."""

    def __init__(self, limit: int = MODEL_EVENT_BYTES, /) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._after_cr = False
        self._is_first = True

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the lines that `chunk` completes. Raises FrameTooLarge."""
        # A pair of CR and LF can be split between two chunks.
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return []
        self._after_cr = chunk.endswith(b"\r")
        *lines, unfinished_line = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        lines[0] = self._take_rest() + lines[0]
        if max(map(len, lines)) > self._limit:
            raise FrameTooLarge
        self._keep(unfinished_line)
        return [self._bare(line) for line in lines]

    def end(self) -> list[bytes]:
        """Return the last line without an ending, if there is one."""
        unfinished_line = self._take_rest()
        return [self._bare(unfinished_line)] if unfinished_line else []

    def _take_rest(self) -> bytes:
        unfinished_line = bytes(self._rest)
        self._rest.clear()
        return unfinished_line

    def _bare(self, line: bytes) -> bytes:
        if self._is_first:
            self._is_first = False
            return line.removeprefix(_BOM)
        return line

    def _keep(self, unfinished_line: bytes) -> None:
        self._rest += unfinished_line
        if len(self._rest) > self._limit:
            raise FrameTooLarge


class EventFrames:
    """The data of server-sent events. Names, ids and comments are skipped, because each dialect's data identifies
    itself.

    A line that begins an object is taken as data too: some servers send bare lines of JSON under this media type.
    """

    def __init__(self, limit: int = MODEL_EVENT_BYTES, /) -> None:
        self._limit = limit
        self._lines = LineCutter(limit)
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the data of the events that `chunk` completes. Raises FrameTooLarge."""
        return [data for line in self._lines.feed(chunk) if (data := self._take(line))]

    def end(self) -> list[bytes]:
        """Return the data of an event that only lacked its empty line. Raises FrameTooLarge."""
        return [data for line in [*self._lines.end(), b""] if (data := self._take(line))]

    def _take(self, line: bytes) -> bytes:
        if not line:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            return data
        if line.startswith(b"{"):
            return line
        field, _, value = line.partition(b":")
        if field == b"data":
            self._size += len(value) + _LINE_COST
            if self._size > self._limit:
                raise FrameTooLarge
            self._data.append(value.removeprefix(b" "))
        return b""


class LineFrames:
    """Lines of JSON; empty ones are skipped."""

    def __init__(self, limit: int = MODEL_EVENT_BYTES, /) -> None:
        self._lines = LineCutter(limit)

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Return the lines that `chunk` completes. Raises FrameTooLarge."""
        return [line for line in self._lines.feed(chunk) if line.strip()]

    def end(self) -> list[bytes]:
        """Return the last line if it lacks its ending."""
        return [line for line in self._lines.end() if line.strip()]


Fields = Mapping[str, object]


def fields_of(data: bytes | str, /) -> Fields | None:
    """Return `data` parsed as a JSON object, or None."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("Fields", value) if isinstance(value, dict) else None


def object_fields(value: object, /) -> Fields:
    """Return `value` if it is an object, else an empty one."""
    return cast("Fields", value) if isinstance(value, dict) else {}


def inner_object(fields: Fields, name: str, /) -> Fields:
    """Return the object at `name`, else an empty one."""
    return object_fields(fields.get(name))


def object_list(fields: Fields, name: str, /) -> list[Fields]:
    """Return the objects in the list at `name`."""
    value = fields.get(name)
    return [object_fields(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def text_field(fields: Fields, name: str, /) -> str:
    """Return the text at `name`; a lone surrogate becomes a replacement character."""
    value = fields.get(name)
    if not isinstance(value, str):
        return ""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count_field(fields: Fields, name: str, /) -> int:
    """Return the number at `name` if it is a count, else 0."""
    value = fields.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def json_text(value: object, /) -> str:
    """Return the compact JSON text of `value`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_DONE_FRAME: Final = b"[DONE]"
Events = Iterable[ModelEvent]


class UnfinishedAnswer(Protocol):
    """State of a dialect's parser in an unfinished answer."""

    def take(self, event: Fields, /) -> Events:
        """Return the events of one server event of the stream."""
        ...

    def end_events(self) -> Events:
        """Return the events of `[DONE]`: none if it ends nothing, since some servers append it."""
        return ()

    def closed(self) -> Events:
        """Return the events of a clean end of the bytes: the answer's end if its finish reason came, else none."""
        return ()


class StreamParser:
    """Parses one answer in any dialect, however its bytes are split.

    The last event is a ReplyFinished if the provider's end marker was seen, or its finish reason and then a clean end
    of the bytes. Otherwise it is a ReplyFailed. What comes after is not read.
    """

    def __init__(
        self, frame_cutter: FrameCutter, answer: UnfinishedAnswer, /, *, limit: int = limits.MODEL_STREAM_BYTES
    ) -> None:
        self._frames = frame_cutter
        self._answer = answer
        self._characters = SplitCharacters()
        self._remaining_bytes = limit
        self.is_over = False

    def feed(self, chunk: bytes, /) -> list[ModelEvent]:
        """Return the events that `chunk` completes."""
        if self.is_over:
            return []
        self._remaining_bytes -= len(chunk)
        try:
            complete_frames = self._frames.feed(chunk)
        except FrameTooLarge:
            return self._fail(FailureReason.TOO_LARGE)
        events = self._parse_frames(complete_frames)
        # Events before the limit still count, so the failure follows them.
        if self._remaining_bytes < 0 and not self.is_over:
            return [*events, *self._fail(FailureReason.TOO_LARGE)]
        return events

    def end(self, *, is_clean: bool = True) -> list[ModelEvent]:
        """Return the events at the end of the bytes. `is_clean` is False for a broken connection."""
        if self.is_over:
            return []
        events = self._parse_frames(self._frames.end(), is_last=True, is_clean=is_clean)
        return events if self.is_over else [*events, *self._fail(FailureReason.CUT)]

    def _parse_frames(
        self, complete_frames: list[bytes], *, is_last: bool = False, is_clean: bool = False
    ) -> list[ModelEvent]:
        parsed_events: list[ModelEvent] = []
        for frame in [*complete_frames, *((None,) if is_last and is_clean else ())]:
            if frame is None:
                events = self._answer.closed()
            elif frame.strip() == _DONE_FRAME:
                events = self._answer.end_events()
            elif (event := self._characters.parse(frame)) is not None:
                events = self._answer.take(event)
            else:
                # Half an event at the end of the bytes is a truncation; elsewhere the stream is not of this dialect.
                return [*parsed_events, *(() if is_last else self._fail(FailureReason.MALFORMED))]
            for parsed_event in events:
                parsed_events.append(parsed_event)
                if isinstance(parsed_event, ReplyFinished | ReplyFailed):
                    self.is_over = True
                    return parsed_events
        return parsed_events

    def _fail(self, reason: FailureReason) -> list[ModelEvent]:
        self.is_over = True
        return [ReplyFailed(reason=reason)]


def parse_answer(parser: StreamParser, chunks: Iterable[bytes], /) -> list[ModelEvent]:
    """Return the events of a whole answer."""
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return [*events, *parser.end()]


EVENT_STREAM: Final = "text/event-stream"
JSON_LINES: Final = "application/x-ndjson"
_DATA: Final = "data:"
PARTED: Final = "Understood."
"""Model message between reference data and words, as templates require its turn there."""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """The model that a request is for. `issuer` marks its opaque items."""

    model: str
    issuer: str
    is_official: bool = False
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TokenCount:
    """How to make a family of servers count a request's tokens: a path, and its body without some fields."""

    path: str
    without: frozenset[str]


@dataclass(frozen=True, slots=True)
class ModelDialect:
    """Protocol of one family of servers. `path` is appended to the server's base URL."""

    path: str
    headers: Callable[[str], dict[str, str]]
    body: Callable[[chat.ModelRequest, ModelTarget], dict[str, object]]
    answer: Callable[[str], UnfinishedAnswer]
    """State of an answer whose opaque items are of this issuer."""
    has_lines: bool = False
    """True for an answer in lines of JSON instead of events."""
    count: TokenCount | None = None
    """None if servers of the family do not count."""

    @property
    def media_type(self) -> str:
        return JSON_LINES if self.has_lines else EVENT_STREAM

    def parser(self, issuer: str, /) -> StreamParser:
        """Return a parser of one answer, whose opaque items are of `issuer`."""
        return StreamParser(LineFrames() if self.has_lines else EventFrames(), self.answer(issuer))


def bearer_header(key: str, /) -> dict[str, str]:
    """Return the header with `key`, none if it is empty."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def parse_object(json: str, /, *, field: str) -> Fields:
    """Return the object that `json` is. Raises InvalidInput."""
    fields = fields_of(json)
    if fields is None:
        raise InvalidInput(field=field, problem="is not a JSON object")
    return fields


def arguments_of(call: chat.ToolCall, /) -> Fields:
    """Return a call's arguments as an object, even if the model wrote none."""
    # A model may write no object, but servers take nothing else back.
    arguments = fields_of(call.arguments or "{}")
    return arguments if arguments is not None else {"arguments": call.arguments}


def returned_item(item: chat.OpaquePart, target: ModelTarget, /) -> Fields | None:
    """Return an opaque item for its issuer, None for any other."""
    return fields_of(item.body) if item.issuer == target.issuer else None


def texts_of(parts: tuple[chat.Part, ...], /) -> str:
    """Return the text of a message."""
    return "\n\n".join(part.text for part in parts if isinstance(part, chat.TextPart))


def data_of(image: chat.ImagePart, /) -> tuple[str, str] | None:
    """Return the media type and the base64 of an image that is a `data:` URL, None for an address.

    Raises InvalidInput for what is neither.
    """
    if image.url.startswith(("https://", "http://")):
        return None
    url_head, comma_found, data = image.url.partition(",")
    if not (url_head.startswith(_DATA) and url_head.endswith(";base64") and comma_found):
        raise InvalidInput(field="image", problem="is neither an https: address nor a data: URL in base64")
    return url_head.removeprefix(_DATA).removesuffix(";base64"), data


def join_roles(messages: tuple[chat.Message, ...], /) -> list[chat.Message]:
    """Return `messages` with neighbours of one role merged, because many models' templates reject two in a row.

    Reference data and words stay apart, with a model message between them: a rule about the one is never a rule about
    the other.
    """
    joined_messages: list[chat.Message] = []
    for message in messages:
        last_message = joined_messages[-1] if joined_messages else None
        if (
            isinstance(message, chat.InputMessage)
            and isinstance(last_message, chat.InputMessage)
            and last_message.role == message.role
        ):
            if last_message.is_reference == message.is_reference:
                joined_messages[-1] = last_message.model_copy(update={"parts": (*last_message.parts, *message.parts)})
                continue
            joined_messages.append(chat.ModelReply(items=(chat.TextPart(text=PARTED),)))
        joined_messages.append(message)
    return joined_messages


def output_tokens(request: chat.ModelRequest, /) -> int:
    """Return the output limit for dialects that require a number."""
    return request.max_tokens if request.max_tokens is not None else MODEL_OUTPUT_TOKENS


def require_effort(request: chat.ModelRequest, supported_efforts: Collection[str], /) -> str | None:
    """Return the effort of a request, or None. Raises InvalidInput unless it is among `supported_efforts`."""
    effort = request.reasoning_effort
    if effort is not None and effort not in supported_efforts:
        supported_names = ", ".join(sorted(supported_efforts))
        raise InvalidInput(
            field="reasoning.effort", problem=f"is not supported by this model's dialect: {supported_names}"
        )
    return effort


def present_fields(**fields: object) -> dict[str, object]:
    """Return the fields that are neither None nor empty."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {}, ())}
