"""A dialect as a proxy needs it: how requests are read and given a block, how answers are read, how it errs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from elytron_models.fields import Fields, count, inner, text
from elytron_models.frames import EventFrames, LineFrames
from elytron_models.stream_parser import Answer, Events, StreamParser
from elytron_proxy.dialects.content import Body
from elytron_proxy.dialects.prompt import Prompt
from elytron_proxy.settings import Placement

_ENDS = frozenset({"response.completed", "response.incomplete"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a call is refused with. `code` is stable; no message repeats what was sent."""

    status: int
    code: str
    message: str


@dataclass(slots=True)
class Witness:
    """What an answer says beside its events: the response that began, the one that ended, and the last number."""

    begun: Fields = field(default_factory=dict[str, object])
    ended: Fields = field(default_factory=dict[str, object])
    number: int = -1

    def see(self, event: Fields, /) -> None:
        """Look at one event of the stream."""
        self.number = max(self.number, count(event, "sequence_number"))
        kind = text(event, "type")
        if kind == "response.created":
            self.begun = inner(event, "response")
        elif kind in _ENDS:
            self.ended = inner(event, "response")
        elif event.get("done") is True:
            self.ended = event


class _Seen:
    """An answer whose events a witness sees too."""

    def __init__(self, answer: Answer, witness: Witness, /) -> None:
        self._answer = answer
        self._witness = witness

    def take(self, event: Fields, /) -> Events:
        self._witness.see(event)
        return self._answer.take(event)

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
