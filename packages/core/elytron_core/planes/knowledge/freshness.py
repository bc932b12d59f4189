"""How far a memory may have drifted, in words: what reports and blocks say of it."""

from enum import StrEnum


class FreshnessState(StrEnum):
    """How fresh a memory is."""

    FRESH = "fresh"
    AGING = "aging"
    STALE = "stale"


class FreshnessHint(StrEnum):
    """What a reader of the memory should do first."""

    NONE = "none"
    REVIEW = "review"
    VERIFY = "verify"
