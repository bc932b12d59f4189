"""Freshness of a memory, in the words of reports and blocks."""

from enum import StrEnum


class FreshnessState(StrEnum):
    """Freshness of a memory."""

    FRESH = "fresh"
    AGING = "aging"
    STALE = "stale"


class FreshnessHint(StrEnum):
    """Hint on what a reader of the memory should do first."""

    NONE = "none"
    REVIEW = "review"
    VERIFY = "verify"
