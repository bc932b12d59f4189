"""What spoke for a unit that was found."""

from elytron_index import Candidate, Signals

_SIGNALS = Signals._fields


def signals_of(candidate: Candidate, /) -> dict[str, float]:
    """Return the signals that spoke for a unit, to four places."""
    found = zip(_SIGNALS, candidate.signals, strict=True)
    return {name: round(float(number), 4) for name, number in found if number}
