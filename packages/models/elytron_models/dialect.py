"""A dialect of model APIs, as data: where and how a request is written, and how its answer is read."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.ports import chat
from elytron_models.stream_parser import EventFrames, Fields, LineFrames, StreamParser, UnfinishedAnswer, fields_of

EVENT_STREAM: Final = "text/event-stream"
JSON_LINES: Final = "application/x-ndjson"
_DATA: Final = "data:"
PARTED: Final = "Understood."
"""Word of the model between reference data and words, as templates want its turn there."""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """The model that a request is for. `issuer` is what its opaque items are marked with."""

    model: str
    issuer: str
    is_official: bool = False
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The way to have a family of servers count the tokens of a request: a path, and its body without some fields."""

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
    """None if servers of the family count nothing."""

    @property
    def media_type(self) -> str:
        return JSON_LINES if self.has_lines else EVENT_STREAM

    def parser(self, issuer: str, /) -> StreamParser:
        """Return a parser of one answer, whose opaque items are of `issuer`."""
        return StreamParser(LineFrames() if self.has_lines else EventFrames(), self.answer(issuer))


def bearer_header(key: str, /) -> dict[str, str]:
    """Return the header that shows `key`, none if it is empty."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def parse_object(json: str, /, *, field: str) -> Fields:
    """Return the object that `json` is. Raises InvalidInput."""
    found = fields_of(json)
    if found is None:
        raise InvalidInput(field=field, problem="is no JSON object")
    return found


def arguments_of(call: chat.ToolCall, /) -> Fields:
    """Return the arguments of a call as an object, also where the model wrote none."""
    found = fields_of(call.arguments or "{}")
    return found if found is not None else {"arguments": call.arguments}


def returned_item(item: chat.OpaquePart, target: ModelTarget, /) -> Fields | None:
    """Return an opaque item for the one who issued it, None for any other."""
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
    head, comma, data = image.url.partition(",")
    if not (head.startswith(_DATA) and head.endswith(";base64") and comma):
        raise InvalidInput(field="image", problem="is neither an https: address nor a data: URL in base64")
    return head.removeprefix(_DATA).removesuffix(";base64"), data


def join_roles(messages: tuple[chat.Message, ...], /) -> list[chat.Message]:
    """Return `messages` with neighbours of one role as one: templates of many models refuse two in a row.

    Reference data and words stay apart, with a word of the model between them: a rule about the one is never a rule
    about the other.
    """
    found: list[chat.Message] = []
    for message in messages:
        last = found[-1] if found else None
        if isinstance(message, chat.InputMessage) and isinstance(last, chat.InputMessage) and last.role == message.role:
            if last.is_reference == message.is_reference:
                found[-1] = last.model_copy(update={"parts": (*last.parts, *message.parts)})
                continue
            found.append(chat.ModelReply(items=(chat.TextPart(text=PARTED),)))
        found.append(message)
    return found


def output_tokens(request: chat.ModelRequest, /) -> int:
    """Return how much may be written where a number must stand."""
    return request.max_tokens if request.max_tokens is not None else limits.MODEL_OUTPUT_TOKENS


def require_effort(request: chat.ModelRequest, known: Collection[str], /) -> str | None:
    """Return the effort of a request, None for none. Raises InvalidInput for one that is not among the `known`."""
    effort = request.reasoning_effort
    if effort is not None and effort not in known:
        there = ", ".join(sorted(known))
        raise InvalidInput(field="reasoning.effort", problem=f"is none that this model's dialect has: {there}")
    return effort


def present_fields(**fields: object) -> dict[str, object]:
    """Return the fields that are given: neither None nor empty."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {}, ())}
