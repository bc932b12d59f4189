"""Counts of what a proxy did. They name no one and hold no text."""

from collections import Counter
from enum import StrEnum


class Figure(StrEnum):
    """What is counted."""

    CALLS = "calls"
    RECALLED = "recalled"
    """Calls that a block was placed in."""
    COMMITTED = "committed"
    OPENED = "opened"
    """Answers that call tools: what the person said is stored, and waits for its answer."""
    DUPLICATE = "duplicate"
    """Turns that were stored already."""
    DEGRADED = "degraded"
    """Calls that went on without memory, because it could not answer."""
    UNREAD = "unread"
    """Requests and answers that no reader of their dialect could read."""
    CUT = "cut"
    """Streams that ended before their end marker."""
    GONE = "gone"
    """Calls whose client left before the end."""
    FAILED = "failed"
    """Answers that the provider itself ended with an error."""
    PARTIAL = "partial"
    """Answers that their length or a filter ended."""
    TOO_LARGE = "too_large"
    """Answers whose event or text was beyond its bound."""
    LOST = "lost"
    """Turns that memory did not take."""
    UNREACHABLE = "unreachable"


class Figures:
    """The counts of one proxy."""

    def __init__(self) -> None:
        self._counts: Counter[Figure] = Counter()

    def count(self, figure: Figure, /) -> None:
        """Count one."""
        self._counts[figure] += 1

    def __getitem__(self, figure: Figure, /) -> int:
        return self._counts[figure]

    def told(self) -> dict[str, int]:
        """Return all counts by name."""
        return {figure.value: self._counts[figure] for figure in Figure}
