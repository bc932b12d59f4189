"""Counters of the proxy. They name no one and contain no text."""

import logging
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, Self

from elytron_adapter.surface import SurfaceFigure, ValueHistogram

UNFINISHED_ANSWERS: Final = 3
"""Answers in a row that did not end as their dialect does, after which a server's answers count as not storable."""


logger = logging.getLogger("elytron.proxy")
_PREFIX: Final = "elytron_proxy"
_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ProxyFigure(StrEnum):
    """Counted metrics, each with its help text."""

    text: str

    def __new__(cls, name: str, text: str) -> Self:
        """Return the member of this name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.text = text
        return member

    CALLS = "calls", "Calls received."
    REFUSED = "refused", "Calls refused before anything was sent to the client."
    RECALLED = "recalled", "Calls to which a memory block was added."
    COMMITTED = "committed", "Turns stored with their answer."
    OPENED = "opened", "Answers that call tools: the user's message is stored and awaits its answer."
    DUPLICATE = "duplicate", "Turns that were already stored."
    DEGRADED = "degraded", "Calls that continued without memory because it was unavailable."
    UNREAD = "unread", "Requests and answers that could not be parsed."
    CUT = "cut", "Streams that ended early."
    GONE = "gone", "Calls whose client disconnected before the end."
    RESENT = "resent", "Requests resent without sealed reasoning."
    FAILED = "failed", "Answers that the provider ended with an error."
    PARTIAL = "partial", "Answers ended by a length limit or a filter."
    TOO_LARGE = "too_large", "Answers with an event or text that was too large."
    LOST = "lost", "Turns that memory rejected."
    UNREACHABLE = "unreachable", "Calls that no model server answered."
    REQUEST_BYTES = "request_bytes", "Bytes of requests received."
    ANSWER_BYTES = "answer_bytes", "Bytes of model servers' answers sent to clients."


class UpstreamEndings:
    """How the last answers of each model server ended: some never end in a way that allows storing them."""

    def __init__(self) -> None:
        self._unfinished: Counter[str] = Counter()

    def note(self, url: str, /, *, is_whole: bool) -> None:
        """Record how an answer of the server at `url` ended. Logs once that its answers cannot be stored."""
        if is_whole:
            self._unfinished.pop(url, None)
            return
        self._unfinished[url] += 1
        if self._unfinished[url] == UNFINISHED_ANSWERS:
            logger.warning(
                "answers of the model server %s are not stored: the last %d ended without an end marker or a finish"
                " reason, or could not be read",
                url,
                UNFINISHED_ANSWERS,
            )

    def is_storable(self, url: str, /) -> bool:
        """Return whether answers of the server at `url` can be stored, as far as is known."""
        return self._unfinished[url] < UNFINISHED_ANSWERS

    @property
    def unstorable(self) -> int:
        """Return the number of servers whose answers cannot be stored."""
        return sum(count >= UNFINISHED_ANSWERS for count in self._unfinished.values())


class ProxyFigures:
    """The counts of one proxy."""

    def __init__(self) -> None:
        self._counts: Counter[ProxyFigure] = Counter()
        self.first_byte_s: Final = ValueHistogram(_BOUNDS)
        """Seconds from the whole request to the first byte of its answer."""
        self.endings: Final = UpstreamEndings()

    def count(self, figure: ProxyFigure, by: int = 1, /) -> None:
        """Count one, or as many as `by`."""
        self._counts[figure] += by

    def __getitem__(self, figure: ProxyFigure, /) -> int:
        return self._counts[figure]

    def counts(self) -> dict[str, int]:
        """Return all counts by name."""
        return {figure.value: self._counts[figure] for figure in ProxyFigure}

    def prometheus_figures(self) -> Iterator[SurfaceFigure]:
        """Yield all metrics in Prometheus' form."""
        for figure in ProxyFigure:
            yield SurfaceFigure(f"{_PREFIX}_{figure.value}_total", figure.text, self._counts[figure])
        text = "Model servers whose answers cannot be stored."
        yield SurfaceFigure(f"{_PREFIX}_unstorable_upstreams", text, self.endings.unstorable)
        text = "Seconds from the complete request to the first byte of its answer."
        yield self.first_byte_s.figure(f"{_PREFIX}_first_byte_seconds", text)
