"""Finding what answers a query: each plane's candidates, on one scale, with their texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from elytron.context import OperationContext
from elytron.hits import fact_hit, skill_hit, turn_hit
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recalling import Plane, RecallFilters, RecallHit, RecallOutcome
from elytron_core.ids import TurnId
from elytron_core.planes import long_term, procedural, transcript
from elytron_core.policy import ranking
from elytron_core.policy.fact_scoring import FactQuery, diversify, score_facts
from elytron_core.policy.skill_scoring import score_skills
from elytron_core.ports.store import Document
from elytron_core.scope import Scope
from elytron_index import Candidate, Candidates, Filters, IndexQuery
from elytron_index.space import SpaceIndex

FACTS_SCORED = 96
SKILLS_SCORED = 48
EXTRA = 16
"""Candidates beyond the limit that are read, so that erased or vanished ones leave no hole."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Hits, best first, before any limit cut them; `available` counts what passed the filters and matched."""

    outcome: RecallOutcome
    hits: tuple[RecallHit, ...] = ()
    considered: int = 0
    available: int = 0
    sequence: int = 0


async def gather(
    ctx: OperationContext, scope: Scope, query: str, filters: RecallFilters, /, *, limit: int
) -> Gathered:
    """Return at least the best `limit` hits for `query`, where there are so many."""
    if await ctx.spaces.find(scope.space) is None:
        return Gathered(RecallOutcome.EMPTY_SPACE)
    index = await ctx.folds.current(scope.space)
    if not query.strip():
        return Gathered(RecallOutcome.EMPTY_QUERY, sequence=index.watermark)
    now = ctx.clock.now()
    held = index.planes()
    planes = [plane for plane in filters.planes or tuple(Plane) if held.get(plane)]
    found = {plane: _search(index, query, filters, plane, now, limit=_wanted(plane, limit)) for plane in planes}
    documents = await _read(ctx, scope, [found[plane] for plane in planes])
    hits = [
        *_turns(found.get(Plane.TRANSCRIPT), documents),
        *_facts(found.get(Plane.LONG_TERM), documents, scope, query, now),
        *_skills(found.get(Plane.PROCEDURAL), documents, scope, query, now),
    ]
    hits.sort(key=lambda hit: (-hit.score, -(hit.at or 0), hit.id))
    return Gathered(
        RecallOutcome.FOUND if hits else RecallOutcome.NOTHING_RELEVANT,
        tuple(hits),
        considered=sum(part.searched for part in found.values()),
        available=sum(part.pool for part in found.values()),
        sequence=index.watermark,
    )


def index_filters(filters: RecallFilters, plane: Plane, now: Instant, /) -> Filters:
    """Return what the index is to let through: `filters` for one plane, else what holds and is believed now."""
    parts = (
        ("agent", filters.agents),
        ("app", filters.apps),
        ("project", filters.projects),
        ("channel", filters.channels),
        ("conversation", filters.conversations),
    )
    return Filters(
        planes=(plane,),
        scope=tuple((name, values) for name, values in parts if values),
        speakers=filters.speakers,
        roles=filters.roles,
        since=filters.since,
        until=filters.until,
        tags_any=filters.tags_any,
        tags_all=filters.tags_all,
        as_of=filters.as_of if filters.as_of is not None else now,
        known_at=filters.known_at,
    )


def _wanted(plane: Plane, limit: int) -> int:
    match plane:
        case Plane.TRANSCRIPT:
            return limit + EXTRA
        case Plane.LONG_TERM:
            return FACTS_SCORED
        case Plane.PROCEDURAL:
            return SKILLS_SCORED


def _search(
    index: SpaceIndex, query: str, filters: RecallFilters, plane: Plane, now: Instant, *, limit: int
) -> Candidates:
    return index.search(IndexQuery(text=query, limit=limit, filters=index_filters(filters, plane, now), now=now))


async def _read(
    ctx: OperationContext, scope: Scope, found: Sequence[Candidates]
) -> dict[str, Document]:
    refs = list(dict.fromkeys(candidate.unit.ref for part in found for candidate in part.found))
    documents: dict[str, Document] = {}
    for start in range(0, len(refs), limits.SCAN_MAX):
        for document in await ctx.store.get(scope.space, refs[start : start + limits.SCAN_MAX]):
            if document is not None:
                documents[document.ref.key] = document
    return documents


def _turns(found: Candidates | None, documents: dict[str, Document]) -> list[RecallHit]:
    if found is None or not found.found:
        return []
    hits: list[RecallHit] = []
    best = found.found[0]
    for candidate in found.found:
        document = documents.get(candidate.unit.ref.key)
        if document is None:
            continue
        turn = transcript.Turn.from_bytes(document.body)
        if turn.is_recallable(candidate.unit.part):
            turn_id = TurnId(document.ref.key)
            # The best turn is worth the share of the query's words it holds; the others follow in proportion.
            score = best.signals.coverage * max(candidate.score, 0.0) / best.score if best.score > 0 else 0.0
            hits.append(turn_hit(turn_id, turn, candidate.unit.part, score=score, signals=_signals(candidate)))
    return hits


def _facts(
    found: Candidates | None, documents: dict[str, Document], scope: Scope, query: str, now: Instant
) -> list[RecallHit]:
    if found is None or not found.found:
        return []
    keys = dict.fromkeys(candidate.unit.ref.key for candidate in found.found)
    facts = [long_term.Fact.from_bytes(documents[key].body) for key in keys if key in documents]
    asked = FactQuery(text=query, terms=found.terms, chat=scope.conversation_key.conversation, now=now)
    scored = [item for item in score_facts(facts, asked) if item.match > 0]
    return [
        fact_hit(item.fact, score=ranking.common_scale(item.match), signals=item.signals)
        for item in diversify(scored, FACTS_SCORED)
    ]


def _skills(
    found: Candidates | None, documents: dict[str, Document], scope: Scope, query: str, now: Instant
) -> list[RecallHit]:
    if found is None or not found.found:
        return []
    keys = dict.fromkeys(candidate.unit.ref.key for candidate in found.found)
    skills = [procedural.Skill.from_bytes(documents[key].body) for key in keys if key in documents]
    asked = FactQuery(text=query, terms=found.terms, chat=scope.conversation_key.conversation, now=now)
    return [
        skill_hit(item.skill, score=ranking.common_scale(item.match), signals=item.signals)
        for item in score_skills(skills, asked)
    ]


def _signals(candidate: Candidate) -> dict[str, float]:
    return {name: round(value, 4) for name, value in candidate.signals._asdict().items() if value}
