"""Validity: whether a fact holds at one time, as it was believed at another."""

from elytron_core.clock import Instant
from elytron_core.planes.knowledge import long_term


def holds(fact: long_term.Fact, /, *, as_of: Instant, known_at: Instant | None) -> bool:
    """Return whether a fact is valid at `as_of`, and was believed at `known_at` (without one, is believed)."""
    if known_at is None:
        believed = fact.state is long_term.State.ACTIVE or fact.state in long_term.HELD
        valid_to = fact.valid_to
    else:
        closed = fact.closed_at is not None and fact.closed_at <= known_at
        believed = fact.recorded_at <= known_at and (not closed or fact.state in long_term.HELD)
        valid_to = fact.valid_to if closed or fact.state not in long_term.HELD else None
    return believed and (fact.valid_from or as_of) <= as_of and (valid_to is None or as_of < valid_to)
