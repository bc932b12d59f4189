"""What spoke for a unit that was found."""

from elytron_core.rounding import four_each
from elytron_index import Candidate, Signals

_SIGNALS = Signals._fields


def signals_of(candidate: Candidate, /) -> dict[str, float]:
    """Return the signals that spoke for a unit, to four places."""
    return four_each(_SIGNALS, candidate.signals)
