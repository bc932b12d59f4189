"""Search inside one memory space: a fold over its journal. `elytron_index.space_index` holds the index itself."""

from elytron_index.query import (
    METADATA,
    Bm25,
    Candidate,
    Candidates,
    Context,
    Filters,
    IndexQuery,
    Place,
    Signals,
    UnitView,
)
from elytron_index.units import Change, Embedded, Unit

__all__ = [
    "METADATA",
    "Bm25",
    "Candidate",
    "Candidates",
    "Change",
    "Context",
    "Embedded",
    "Filters",
    "IndexQuery",
    "Place",
    "Signals",
    "Unit",
    "UnitView",
]
