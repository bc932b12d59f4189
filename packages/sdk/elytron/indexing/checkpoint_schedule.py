"""The moments at which an index is stored as a checkpoint: as it grows, when it is let go, and at the end."""

from enum import StrEnum

WORTH_STORING = 64
"""An index that is closed with this many entries more than its checkpoint is stored first."""
ASIDE_LEAST = 1_000
"""An open index is stored after this many entries since its checkpoint, and no fewer than it has units
by `ASIDE_UNITS`: each time all of them are stored, which so stays a small share of the entries' cost."""
ASIDE_UNITS = 2


class Storing(StrEnum):
    """When indexes are stored: as they grow too, or only when one is let go and at the end."""

    AS_THEY_GROW = "as_they_grow"
    AT_THE_END = "at_the_end"


def is_due(grown: int, /, *, units: int) -> bool:
    """Return whether an open index of `units`, `grown` by a number of entries, is to be stored while it is used."""
    return grown >= max(ASIDE_LEAST, units // ASIDE_UNITS)


def is_worth_it(grown: int, /) -> bool:
    """Return whether an index that is let go is stored first."""
    return grown >= WORTH_STORING
