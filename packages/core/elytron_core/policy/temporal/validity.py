"""Validity: whether a fact holds at one time, as it was believed at another."""

from elytron_core.clock import Instant
from elytron_core.planes.knowledge import long_term


def holds(fact: long_term.Fact, /, *, as_of: Instant, known_at: Instant | None = None) -> bool:
    """Return whether a fact is valid at `as_of`, and was believed at `known_at` (without one, is believed)."""
    valid_to = fact.valid_to
    if known_at is None:
        believed = fact.is_believed
    else:
        is_gone = not fact.is_believed and fact.closed_at is not None and fact.closed_at <= known_at
        believed = fact.recorded_at <= known_at and not is_gone
        if fact.end_known_at is not None and known_at < fact.end_known_at:
            valid_to = None
    return believed and (fact.valid_from or as_of) <= as_of and (valid_to is None or as_of < valid_to)


def is_replaceable(fact: long_term.Fact, /, *, at: Instant) -> bool:
    """Return whether a new value of its slot takes the place of a fact.

    That is the current one, or an earlier one that still holds at `at`, because the one that follows has not begun.
    """
    return fact.is_current or (fact.is_believed and fact.valid_to is not None and at < fact.valid_to)
