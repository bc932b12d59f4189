"""Whether anything that was found answers a query, or nothing relevant is stored.

A judgement of the nearest memory by three measures: the share of the query's words, by rarity, that it holds with what
was said beside it; how like it is to the query where vectors were compared; and how many of the query's words nobody
here ever said, nor anything alike: of such a matter more has to be there. What is found in vain costs a reader a glance
and what is held back costs an answer, so the bounds are set where nearly nothing that answers is held back.
"""

from enum import StrEnum
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
    gist: float = 0.0
    """How like one of them is to the query as a whole, by what their words mean; 0 where no assistant speaks."""
    unheard: int = 0
    """How many of the query's words nobody here said, nor any of the words known to be alike."""
    is_paired: bool = False
    """Whether the query is written without spaces, so that most of its terms are pairs that straddle two words."""
    wants_guess: bool = False
    """Whether the query asks for what may be concluded."""
    is_heeded: bool = False
    """Whether the query heeds what is to hold from now on, and somebody said such a thing."""
    is_retold: bool = False
    """Whether the query wants told again what was said."""
    wants_several: bool = False
    """Whether the answer is likely to stand in several places."""


class Answer(StrEnum):
    """How far what was found answers."""

    FULL = "full"
    HEEDED = "heeded"
    """Nothing tells of the matter, but somebody said what is to hold whatever it is about."""
    NONE = "none"


class Relevance(Value):
    """Where relevance begins."""

    share: float = 0.42
    share_loose: float = 0.38
    """For queries of pairs of characters, of which those that straddle two words are found by chance alone, and for
    those that ask for a guess, which shares few words with what it rests on."""
    named: float = 0.08
    """So much less for queries that name somebody of the space: the name says something too."""
    unheard_each: float = 0.15
    """So much more is asked for each word that nobody here said, nor anything alike,"""
    unheard_terms: int = 6
    """less in proportion where the query has more terms than these: a long one has words that nobody needs."""
    matched_each: float = 0.1
    """What each of the query's terms in one text adds to its share,"""
    matched_most: int = 3
    """up to so many."""
    likeness: float = 0.56
    """With vectors, likeness, half of the share and `likeness_matched` for each term must come to this,"""
    likeness_matched: float = 0.05
    share_retold: float = 0.15
    """Who asks for a summary knows that there is something; few of its words are those that it was said in."""
    share_several: float = 0.3
    """What answers in several places holds a part of the query in each."""
    gist: float = 0.5
    """A text as like as a whole as this is about the matter, however few words it shares."""
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
    heeded: float = 0.3
    """What holds whatever the query is about is worth this beside hits of other planes, where nothing else answers."""
    least: float = 0.05
    """The best is worth this at least, where it holds no word of the query and what stands beside it does."""
    others: float = 1.4
    """Others said it where a message of theirs holds so many times the share of the query that his do."""


STANDARD: Final = Relevance()


def answer_of(nearest: Nearest, bounds: Relevance = STANDARD, /) -> Answer:
    """Tell how far what is nearest answers the query."""
    if _is_relevant(nearest, bounds):
        return Answer.FULL
    return Answer.HEEDED if nearest.is_heeded else Answer.NONE


def is_said_by_others(of_named: float, of_others: float, bounds: Relevance = STANDARD, /) -> bool:
    """Tell whether it was others than the one whom a query names who said what it asks for.

    Given are the shares of the query that the best message of either holds.
    """
    return of_others > bounds.others * of_named


def _is_relevant(nearest: Nearest, bounds: Relevance) -> bool:
    """Tell whether what is nearest tells of the matter.

    Where only names were asked for, whoever is so called does; at a time that was asked for, a word is enough.
    """
    if nearest.is_named and nearest.terms == nearest.names:
        return True
    if nearest.is_of_time and nearest.matched:
        return True
    if nearest.is_retold and nearest.share >= bounds.share_retold:
        return True
    if nearest.wants_several and nearest.share >= bounds.share_several:
        return True
    if nearest.gist >= bounds.gist:
        return True
    is_few = nearest.searched < bounds.few
    if is_few and nearest.terms and nearest.matched / nearest.terms >= bounds.counted:
        return True
    more = 0.0 if is_few or nearest.wants_guess else _more(nearest, bounds)
    matched = min(nearest.matched, bounds.matched_most)
    if nearest.cosine:
        # Models differ in where unlike texts lie; the way from the least like to the same text is what counts.
        lowest = min(nearest.lowest, 0.0) if is_few else nearest.lowest
        likeness = (nearest.cosine - lowest) / (1.0 - lowest) if lowest < 1.0 else 1.0
        both = likeness + nearest.share / 2 + bounds.likeness_matched * matched
        return both >= bounds.likeness + more or nearest.share >= bounds.share_alone + more
    return nearest.share + bounds.matched_each * matched >= _least(nearest, bounds) + more


def _more(nearest: Nearest, bounds: Relevance) -> float:
    """Return how much more than usual has to be there, for the words that nobody said."""
    return bounds.unheard_each * nearest.unheard * min(1.0, bounds.unheard_terms / max(nearest.terms, 1))


def _least(nearest: Nearest, bounds: Relevance) -> float:
    if nearest.searched < bounds.few:
        return bounds.share_few
    least = bounds.share_loose if nearest.is_paired or nearest.wants_guess else bounds.share
    return least - bounds.named if nearest.is_named else least
