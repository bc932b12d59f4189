"""What of a search tells how far its answer is to be trusted."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from elytron_core.contracts.recalling import Doubt, Plane
from elytron_core.policy import relevance
from elytron_core.policy.query_types import Question
from elytron_core.text.telling import Trait
from elytron_index import Candidates
from elytron_index.space import SpaceIndex


class Judged(NamedTuple):
    """What is to be told of a query beside the hits."""

    terms: tuple[str, ...] = ()
    """What it was looked for by."""
    unheard: tuple[str, ...] = ()
    """Its words that nobody here says, nor anything alike, as they were asked."""
    doubts: tuple[Doubt, ...] = ()


UNJUDGED: Final = Judged()


def judged(index: SpaceIndex, query: str, found: Mapping[Plane, Candidates], /, *, has_hits: bool) -> Judged:
    """Return what is to be told of `query`, whose search in each plane came to `found`."""
    of_any = next(iter(found.values()), None)
    if of_any is None:
        return UNJUDGED
    unheard = index.spelt(query, of_any.unheard.words) if of_any.unheard.words else ()
    return Judged(of_any.terms, unheard, _doubts(found) if has_hits else ())


def nearest_of(found: Candidates, question: Question, /) -> relevance.Nearest:
    """Return what the best of all messages weighed come to."""
    highs, lows = found.highs, found.lows
    return relevance.Nearest(
        share=highs.context,
        matched=highs.matched,
        terms=len(found.terms),
        names=len(found.name_terms),
        is_named=bool(highs.speaker or highs.name),
        is_of_time=highs.date == 1.0,
        cosine=highs.vector,
        lowest=lows.vector,
        gist=highs.gist,
        searched=found.searched,
        unheard=found.unheard.known,
        is_paired=2 * sum(map(str.isascii, found.terms)) < len(found.terms),
        wants_guess=question.wants_guess,
        is_heeded=bool(highs.standing) and Trait.STANDING in question.heeds,
        is_retold=question.retells,
        wants_several=question.wants_several,
    )


def _doubts(found: Mapping[Plane, Candidates], /) -> tuple[Doubt, ...]:
    """Return why what was found may not answer."""
    doubts: list[Doubt] = []
    if any(part.unheard.words for part in found.values()):
        doubts.append(Doubt.UNHEARD)
    turns = found.get(Plane.TRANSCRIPT)
    if turns is not None and len(turns.named) == 1:
        his = others = 0.0
        for _, signals, _ in turns.found:
            if signals.speaker == 1.0:
                his = max(his, signals.coverage)
            else:
                others = max(others, signals.coverage)
        if relevance.is_said_by_others(his, others):
            doubts.append(Doubt.SAID_BY_OTHERS)
    return tuple(doubts)
