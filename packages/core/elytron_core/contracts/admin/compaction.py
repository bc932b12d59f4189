"""Compaction of a journal: entries that no longer name anything give way to one for each run of them."""

from elytron_core.contracts.scope_fields import ScopedRequest
from elytron_core.model import Value


class JournalCompactRequest(ScopedRequest):
    """Compact the journal of the space as much as possible.

    The names of what was erased go with it: keep the erasures before (`keep_erasures`).
    """


class JournalCompactReport(Value):
    """The number of entries that are gone, and the sequence of the journal, which stays."""

    space: str
    removed: int
    changed: bool
    sequence: int
