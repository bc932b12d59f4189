"""Parser of a streamed answer: chunks of bytes in, typed events out. It does no input or output of its own."""

from collections.abc import Iterable
from typing import Final, Protocol

from elytron_core import limits
from elytron_core.ports.chat import Failed, FailureReason, Finished, ModelEvent
from elytron_models.fields import Fields, fields_of
from elytron_models.frames import Frames, FrameTooLarge

_DONE: Final = b"[DONE]"
Events = Iterable[ModelEvent]


class Answer(Protocol):
    """State of a dialect's parser in an unfinished answer."""

    def take(self, event: Fields, /) -> Events:
        """Return the events of one server event of the stream."""
        ...

    def done(self) -> Events:
        """Return the events of `[DONE]`: none if it ends nothing, since some servers append it."""
        return ()


class StreamParser:
    """Reads one answer, of any dialect, however its bytes are cut.

    The last event is a Finished if the provider's end marker was seen, else a Failed; what comes after is not read.
    """

    def __init__(self, frames: Frames, answer: Answer, /, *, limit: int = limits.MODEL_STREAM_BYTES) -> None:
        self._frames = frames
        self._answer = answer
        self._left = limit
        self.is_over = False

    def feed(self, chunk: bytes, /) -> list[ModelEvent]:
        """Return the events that `chunk` completes."""
        if self.is_over:
            return []
        self._left -= len(chunk)
        try:
            frames = self._frames.feed(chunk)
        except FrameTooLarge:
            return self._fail(FailureReason.TOO_LARGE)
        found = self._taken(frames)
        if self._left < 0 and not self.is_over:
            return [*found, *self._fail(FailureReason.TOO_LARGE)]
        return found

    def end(self) -> list[ModelEvent]:
        """Return the events of the end of the bytes: a Failed, unless the answer has ended."""
        if self.is_over:
            return []
        found = self._taken(self._frames.end(), is_last=True)
        return found if self.is_over else [*found, *self._fail(FailureReason.CUT)]

    def _taken(self, frames: list[bytes], *, is_last: bool = False) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        for frame in frames:
            if frame.strip() == _DONE:
                events = self._answer.done()
            elif (event := fields_of(frame)) is not None:
                events = self._answer.take(event)
            else:
                # Half an event at the end of the bytes is a cut, and anywhere else it is no stream of the dialect.
                return [*found, *(() if is_last else self._fail(FailureReason.MALFORMED))]
            for told in events:
                found.append(told)
                if isinstance(told, Finished | Failed):
                    self.is_over = True
                    return found
        return found

    def _fail(self, reason: FailureReason) -> list[ModelEvent]:
        self.is_over = True
        return [Failed(reason=reason)]


def parse(parser: StreamParser, chunks: Iterable[bytes], /) -> list[ModelEvent]:
    """Return the events of a whole answer."""
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return [*found, *parser.end()]
