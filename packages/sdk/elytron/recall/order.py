"""Memories in the order of a recall, and their hits, which are made for those alone that are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from elytron.context import OperationContext
from elytron.documents.hits import fact_hit, scored
from elytron.documents.stored_values import documents_at
from elytron.indexing.parse_cache import ReadTurn
from elytron.recall.answer_scores import answer_scores
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.ids import TurnId
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term
from elytron_core.policy.ranking import intent, weights
from elytron_core.policy.ranking.facts import ScoredFact
from elytron_core.ports.store import Document, Ref
from elytron_core.rounding import four_each
from elytron_core.scope import Scope
from elytron_index import Candidate, Candidates, Signals

EVIDENCE_SHARE = 0.5
"""Share of the best score from which on evidence comes first, if the query asks for it."""
_EVIDENCE = frozenset({Plane.TRANSCRIPT, Plane.ARCHIVE})


@dataclass(frozen=True, slots=True)
class Placed:
    """A memory in the order, whether it is shown or not."""

    id: str
    score: float
    signals: Mapping[str, float]


class Ranked(NamedTuple):
    """A memory with its place in the order; the hit of a turn or fact is made when it is known to be shown."""

    score: float
    at: int
    key: str
    part: int
    found: RecallHit | Candidate | ScoredFact


_new: Callable[..., Any] = tuple[Any, ...].__new__
in_place: Callable[[tuple[float, int, str, int, Candidate | ScoredFact]], Ranked] = partial(_new, Ranked)
"""Makes a `Ranked` of its parts, in fewer steps than the class itself: a recall does it for all that it finds."""


def ranked_facts(facts: Sequence[ScoredFact], estimates: Mapping[str, float], /) -> list[Ranked]:
    """Return facts in their places, each worth its points or the estimate of the search, whichever is more."""
    return [
        in_place(
            (
                max(round(weights.common_scale(item.match), 6), estimates[item.fact.id]),
                item.fact.observed_at,
                item.fact.id,
                0,
                item,
            )
        )
        for item in facts
    ]


def turns_of(found: Candidates, /) -> list[Ranked]:
    """Return the turns found, each with its score."""
    return [
        in_place((score, item.unit.at, item.unit.ref.key, item.unit.part, item))
        for score, item in zip(answer_scores(found), found.found, strict=True)
    ]


def in_own_order(ranked: Sequence[Ranked], /) -> list[Ranked]:
    """Return memories of one plane, best first; of equal ones the latest first."""
    return sorted(ranked, key=_order)


def _order(item: Ranked) -> tuple[float, int, str, int]:
    score, at, key, part, _ = item
    return -score, -at, key, part


def in_one_order(ranked: list[Ranked], route: intent.Route, /) -> list[Ranked]:
    """Return memories of all planes in one order, each with its plane's bonus; the slot that the query names, alone.

    Where scores are equal, the order of `ranked` stays. If the query asks who said something, messages come first.
    """
    if route.slot is not None:
        ranked = [item for item in ranked if _slot_of(item) == route.slot] or ranked
    if route.bonus:
        ranked = [_favoured(item, route) for item in ranked]
    ordered = sorted(ranked, key=attrgetter("score"), reverse=True)
    return _evidence_first(ordered) if route.intent is intent.Intent.EVIDENCE else ordered


def _slot_of(item: Ranked) -> str | None:
    if not isinstance(item.found, ScoredFact):
        return None
    fact = item.found.fact
    return f"{fact.kind.value}:{long_term.topic_key(fact.topic)}"


def _evidence_first(ordered: list[Ranked]) -> list[Ranked]:
    """Return the evidence that is at least half as good as the best, then the others; scores stay with the places."""
    if not ordered:
        return ordered
    least = ordered[0].score * EVIDENCE_SHARE
    first = [item for item in ordered if _plane_of(item) in _EVIDENCE and item.score >= least]
    if not first:
        return ordered
    others = [item for item in ordered if _plane_of(item) not in _EVIDENCE or item.score < least]
    return [_placed_at(item, place.score) for item, place in zip((*first, *others), ordered, strict=True)]


def _placed_at(item: Ranked, score: float) -> Ranked:
    found = item.found
    if isinstance(found, RecallHit):
        found = found.model_copy(update={"score": round(score, 6)})
    return item._replace(score=score, found=found)


def _favoured(item: Ranked, route: intent.Route) -> Ranked:
    """Return the memory with its plane's bonus, which its hit shows."""
    favour = route.favour(_plane_of(item))
    if not favour:
        return item
    score, found = intent.lifted(min(item.score, 1.0), favour), item.found
    if isinstance(found, RecallHit):
        signals = {**found.signals, "route": favour}
        found = found.model_copy(update={"score": round(score, 6), "signals": signals})
    elif isinstance(found, ScoredFact):
        found = found._replace(favour=favour)
    return item._replace(score=score, found=found)


def _plane_of(item: Ranked) -> Plane:
    match item.found:
        case RecallHit():
            return item.found.plane
        case ScoredFact():
            return Plane.LONG_TERM
        case Candidate():
            return Plane.TRANSCRIPT


async def hits_of(
    ctx: OperationContext, scope: Scope, ranked: Sequence[Ranked], /, *, limit: int, now: Instant
) -> tuple[RecallHit, ...]:
    """Return the hits of the best `limit`; where one vanished since it was indexed, the next takes its place."""
    hits: list[RecallHit] = []
    readings = partial(ctx.folds.readings.turn, scope.space)
    start = 0
    while len(hits) < limit and start < len(ranked):
        page = ranked[start : start + limit - len(hits)]
        start += len(page)
        refs = (item.found.unit.ref for item in page if isinstance(item.found, Candidate))
        at = await documents_at(ctx.store, scope.space, refs)
        hits += [hit for item in page if (hit := _hit(item, at, readings, now)) is not None]
    return tuple(hits)


def _hit(
    item: Ranked, at: Mapping[Ref, Document], reading: Callable[[Document], ReadTurn], now: Instant
) -> RecallHit | None:
    """Return the hit of a ranked memory; None for a message that vanished or may not be recalled any more."""
    match item.found:
        case Candidate(unit):
            document = at.get(unit.ref)
            hit = reading(document).hit(TurnId(item.key), item.part) if document is not None else None
            return scored(hit, score=item.score, signals=signals_of(item.found)) if hit is not None else None
        case ScoredFact():
            return fact_hit(item.found.fact, now=now, score=item.score, signals=item.found.signals)
        case RecallHit():
            return item.found


def placed(item: Ranked, /) -> Placed:
    """Return the explanation of a memory in the order."""
    score = round(item.score, 6)
    match item.found:
        case RecallHit():
            return Placed(item.found.id, score, item.found.signals)
        case ScoredFact():
            return Placed(item.found.fact.id, score, item.found.signals)
        case Candidate():
            return Placed(transcript.message_id(TurnId(item.key), item.part), score, signals_of(item.found))


def signals_of(candidate: Candidate, /) -> dict[str, float]:
    """Return the signals that spoke for a unit, to four places."""
    return four_each(Signals._fields, candidate.signals)
