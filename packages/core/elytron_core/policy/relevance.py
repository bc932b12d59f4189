"""Whether anything that was found answers a query, or nothing relevant is stored.

A judgement of the nearest memory by two measures: the share of the query's words, by rarity, that it holds with what
was said beside it, and how like it is to the query where vectors were compared. What is found in vain costs a reader a
glance and what is held back costs an answer, so the bounds are set where nearly nothing that answers is held back.
"""

from typing import Final, NamedTuple

from elytron_core.model import Value


class Nearest(NamedTuple):
    """What the best of all memories weighed come to, each measure by itself."""

    share: float
    """Of the query's words, names aside, with what was said beside it."""
    matched: float
    """How many of the query's terms it holds."""
    terms: int
    """How many the query has,"""
    names: int
    """and how many of these are names of those who speak here."""
    is_named: bool
    """Whether something is by, or about, somebody whom the query names."""
    is_of_time: bool
    """Whether something was said at the time that the query speaks of."""
    cosine: float
    """The highest; 0 where none was compared,"""
    lowest: float
    """and the lowest."""
    searched: int
    """How many memories there were."""


class Relevance(Value):
    """Where relevance begins."""

    share: float = 0.38
    share_named: float = 0.3
    """For queries that name somebody of the space: the name says something too."""
    matched_each: float = 0.1
    """What each of the query's terms in one text adds to its share,"""
    matched_most: int = 3
    """up to so many."""
    likeness: float = 0.52
    """With vectors, likeness and half of the share must come to this,"""
    share_alone: float = 0.8
    """or the share alone to this: a text may have no vector yet."""
    cosine: float = 0.45
    """A fact that shares no word with the query is as like as this."""
    few: int = 32
    """Among fewer memories rarity says little:"""
    counted: float = 0.33
    """such a share of the terms is enough,"""
    share_few: float = 0.25
    """or such a share by rarity, to which kin counts."""


STANDARD: Final = Relevance()


def is_relevant(nearest: Nearest, bounds: Relevance = STANDARD, /) -> bool:
    """Tell whether what is nearest answers the query.

    Where only names were asked for, whoever is so called does; at a time that was asked for, a word is enough.
    """
    if nearest.is_named and nearest.terms == nearest.names:
        return True
    if nearest.is_of_time and nearest.matched:
        return True
    is_few = nearest.searched < bounds.few
    if is_few and nearest.terms and nearest.matched / nearest.terms >= bounds.counted:
        return True
    if nearest.cosine:
        # Models differ in where unlike texts lie; the way from the least like to the same text is what counts.
        lowest = min(nearest.lowest, 0.0) if is_few else nearest.lowest
        likeness = (nearest.cosine - lowest) / (1.0 - lowest) if lowest < 1.0 else 1.0
        return likeness + nearest.share / 2 >= bounds.likeness or nearest.share >= bounds.share_alone
    least = bounds.share_few if is_few else bounds.share_named if nearest.is_named else bounds.share
    return nearest.share + bounds.matched_each * min(nearest.matched, bounds.matched_most) >= least
