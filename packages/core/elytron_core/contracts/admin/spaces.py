"""The spaces of a store, for those who run the machine."""

from pydantic import Field

from elytron_core.clock import Instant
from elytron_core.contracts.scope_fields import Cursor, PageLimit, ScopedRequest
from elytron_core.model import Value


class MemorySpacesRequest(ScopedRequest):
    """List the spaces of the store by name, a page at a time; of the scope nothing is read."""

    limit: PageLimit = 100
    cursor: Cursor | None = Field(default=None, min_length=1)


class SpaceSummary(Value):
    """One space. Of a space that is damaged or sealed with another key only the name is given."""

    space: str
    readable: bool = True
    conversations: int = 0
    turns: int = 0
    first_at: Instant | None = None
    last_at: Instant | None = None


class MemorySpacesReport(Value):
    """A page of spaces, in the order of their names."""

    spaces: tuple[SpaceSummary, ...]
    next_cursor: str | None = None
    has_more: bool = False
