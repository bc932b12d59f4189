"""A dialect as a proxy needs it: how requests are read and given a block, how answers are read, how it errs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from elytron_models.fields import Fields, count, fields, inner, text
from elytron_models.frames import EventFrames, LineFrames
from elytron_models.stream_parser import Answer, Events, StreamParser
from elytron_proxy.dialects.content import Body
from elytron_proxy.dialects.prompt import Prompt
from elytron_proxy.settings import Placement

_ENDS = frozenset({"response.completed", "response.incomplete"})
_HEAVY = frozenset({
    "arguments", "encrypted_content", "extra_content", "partial_json", "reasoning", "reasoning_content", "signature",
    "thinking", "usage",
})  # fmt: skip
"""Parts that are left out of the copy of an answer."""
_DEPTH = 12
"""Below this nothing is read: no dialect has a text so deep."""
_NAMES = ("type", "id", "name", "text")
"""Fields that are read at the start of a block."""
_BEGUN = (
    "id",
    "object",
    "created_at",
    "model",
    "parallel_tool_calls",
    "tool_choice",
    "temperature",
    "top_p",
    "metadata",
)
"""Fields of a started response, used to report its failure."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a call. `code` is stable; no message repeats the request."""

    status: int
    code: str
    message: str


@dataclass(slots=True)
class Witness:
    """State of an answer beside its events: the started response, the ended one, and the last number."""

    begun: Fields = field(default_factory=dict[str, object])
    ended: Fields = field(default_factory=dict[str, object])
    number: int = -1
    seen: int = 0
    """Number of events."""

    def see(self, event: Fields, /) -> None:
        """Look at one event of the stream."""
        self.seen += 1
        self.number = max(self.number, count(event, "sequence_number"))
        kind = text(event, "type")
        if kind == "response.created":
            begun = inner(event, "response")
            self.begun = {name: begun[name] for name in _BEGUN if name in begun}
        elif kind in _ENDS:
            self.ended = inner(event, "response")
        elif event.get("done") is True:
            self.ended = event


def _light(event: Fields, depth: int = 0, /) -> Fields:
    """Return an event without what a parser gathers and memory does not read: thoughts, arguments of calls, results."""
    return {name: _lightened(name, told, depth) for name, told in event.items() if name not in _HEAVY}


def _lightened(name: str, told: object, depth: int) -> object:
    if depth > _DEPTH:
        return None
    inside = fields(told)
    if inside:
        if name == "content_block":
            return {key: inside[key] for key in _NAMES if key in inside}
        return _light(inside, depth + 1)
    if isinstance(told, list):
        return [_lightened(name, one, depth + 1) for one in cast("list[object]", told)]
    return told


class _Seen:
    """An answer whose events a witness sees too. Of what is no text, it holds little."""

    def __init__(self, answer: Answer, witness: Witness, /) -> None:
        self._answer = answer
        self._witness = witness

    def take(self, event: Fields, /) -> Events:
        self._witness.see(event)
        return self._answer.take(_light(event))

    def done(self) -> Events:
        return self._answer.done()


@dataclass(frozen=True, slots=True)
class PromptDialect:
    """One dialect of model APIs, as functions over its JSON."""

    name: str
    read: Callable[[Fields], Prompt | None]
    place: Callable[[Body, Prompt, str, Placement], Body]
    """Raises InvalidInput where the request has no place for the block."""
    answer: Callable[[], Answer]
    streamed: Callable[[Fields], bytes]
    """Returns a whole answer as the stream that it could have been."""
    refused: Callable[[Refusal], Fields]
    cut: Callable[[Refusal, Witness], bytes]
    """Returns the event that ends a stream which broke off."""
    has_lines: bool = False

    def parser(self, witness: Witness, /) -> StreamParser:
        """Return a parser of one answer, whose events `witness` sees."""
        return StreamParser(LineFrames() if self.has_lines else EventFrames(), _Seen(self.answer(), witness))
