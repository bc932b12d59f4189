"""Compaction of a journal: entries that tell of nothing any more give way to one for each run of them."""

from elytron_core.contracts.scope_fields import ScopedRequest
from elytron_core.model import Value


class JournalCompactRequest(ScopedRequest):
    """Compact the journal of the space as far as it can be.

    The names of what was erased go with it: keep the erasures before (`keep_erasures`).
    """


class JournalCompactReport(Value):
    """How many entries are gone, and where the journal ends as before."""

    space: str
    removed: int
    changed: bool
    sequence: int
