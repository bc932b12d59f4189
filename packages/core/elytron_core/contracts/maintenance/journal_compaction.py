"""Compaction of the journal of a space."""

from elytron_core.model import Value
from elytron_core.scope import ScopedRequest

__all__ = [
    "JournalCompactReport",
    "JournalCompactRequest",
]


class JournalCompactRequest(ScopedRequest["JournalCompactReport"]):
    """Compact the journal of the space as much as possible.

    This drops the names of erased memories: save them first (`keep_erasures`).
    """


class JournalCompactReport(Value):
    """The number of removed entries, and the journal's sequence, which is unchanged."""

    space: str
    removed: int
    changed: bool
    sequence: int
