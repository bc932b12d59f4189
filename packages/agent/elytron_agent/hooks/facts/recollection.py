"""Recollection: which facts, insights and messages a turn is reminded of, and in which order."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.hooks.facts.extraction import TurnFact, fact_of
from elytron_agent.hooks.facts.insights import Insight, holds, insights_of
from elytron_agent.hooks.reference import ChunkLine, FactLine, InsightLine
from elytron_agent.hooks.settings import HookSettings
from elytron_core.clock import Instant, iso
from elytron_core.contracts.knowledge.facts import FactEntry, FactListRequest
from elytron_core.contracts.knowledge.recall import MemoryRecallRequest, Plane, RecallFilters, RecallHit, RecallOutcome
from elytron_core.limits import PAGE_MAX, PROJECTED_SCORE, QUERY_CHARS, QUERY_TERMS, RECALL_MAX
from elytron_core.model import Value
from elytron_core.planes.evidence import Trust
from elytron_core.planes.knowledge.long_term import Confidence, State, Tier
from elytron_core.policy.ranking import answer_score
from elytron_core.policy.ranking.excerpts import BETWEEN, passages_of
from elytron_core.scope import Scope
from elytron_core.text import similarity
from elytron_core.text.stopwords import ENGLISH

HOUR_MS: Final = 3_600_000
SURENESS: Final = {Confidence.LOW: 0.4, Confidence.MEDIUM: 0.6, Confidence.HIGH: 0.9}
"""The confidence of facts whose writer said no number."""
LEAST_SHARE: Final = 0.05
"""A message of a smaller share of the best one's score is not worth its place in a context."""


_TIER: Final = {Tier.L0: 0.35, Tier.L1: 0.10, Tier.L2: 0.20}
_RECENCY, _RECENCY_HOURS = 0.25, 240
"""Points of a fresh fact, and the number of hours in which it would lose one point."""
_MATCHED, _TERM, _INSIGHT_TERM = 0.25, 0.15, 0.30


def points_of(fact: TurnFact, terms: Collection[str], /, *, age_ms: int) -> float:
    """Return what a fact of that age is worth for a query of these terms."""
    count = _matched(f"{fact.key} {fact.value} {fact.fact_id}", terms)
    recency = max(0.0, _RECENCY - max(age_ms, 0) / HOUR_MS / _RECENCY_HOURS)
    return fact.confidence + _TIER[fact.tier] + recency + (_MATCHED + _TERM * count if count else 0.0)


class RankedFact(Value):
    """A current fact as it is stored and as a turn has it, and its score for that turn."""

    entry: FactEntry
    fact: TurnFact
    score: float


class Recollection(Value):
    """Facts for a turn, best first."""

    facts: tuple[RankedFact, ...] = ()
    insights: tuple[Insight, ...] = ()
    chunks: tuple[ChunkLine, ...] = ()

    @property
    def fact_lines(self) -> tuple[FactLine, ...]:
        return tuple(
            FactLine(
                id=one.entry.id,
                tier=one.entry.tier or "",
                key=one.fact.key,
                value=one.fact.value,
                confidence=f"{one.fact.confidence:.2f}",
                from_outside=one.entry.trust is Trust.OUTSIDE,
            )
            for one in self.facts
        )

    @property
    def insight_lines(self) -> tuple[InsightLine, ...]:
        return tuple(
            InsightLine(id=one.id, type=one.type, summary=one.summary, confidence=f"{one.confidence:.2f}")
            for one in self.insights
        )


async def fact_entries(memory: MemoryFace, scope: Scope, /) -> tuple[FactEntry, ...]:
    """Return the current and superseded facts of a session, oldest first, up to the bound for one turn."""
    found: list[FactEntry] = []
    cursor: str | None = None
    while len(found) < limits.FACTS_READ:
        request = FactListRequest(scope=scope, states=(State.ACTIVE, State.SUPERSEDED), limit=PAGE_MAX, cursor=cursor)
        page = await memory.list_facts(request)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    here = scope.conversation_key
    return tuple(entry for entry in found if entry.chat is None or (entry.channel, entry.chat) == here)


def ranked(entries: Sequence[FactEntry], query: str, /, *, at: Instant) -> tuple[RankedFact, ...]:
    """Return the facts that hold at `at`, those first that are worth most for the query; of two alike, the newer."""
    terms = terms_of(query)
    found: list[RankedFact] = []
    for entry in entries:
        if not holds(entry, at):
            continue
        certainty = entry.certainty if entry.certainty is not None else SURENESS[entry.confidence]
        fact = fact_of(entry.topic, entry.content, tier=entry.tier, certainty=certainty)
        score = points_of(fact, terms, age_ms=at - entry.observed_at)
        found.append(RankedFact(entry=entry, fact=fact, score=score))
    order = sorted(found, key=lambda one: (-one.score, -one.entry.observed_at, -one.fact.confidence, one.entry.id))
    return tuple(order)


def telling(entries: Sequence[FactEntry], query: str, /, *, at: Instant) -> tuple[Insight, ...]:
    """Return the insights that hold a word of the query, those first that are worth most for it."""
    terms = terms_of(query)
    counts = {one: _matched(one.summary, terms) for one in insights_of(entries, at=at)}
    found = [one for one, count in counts.items() if count]
    return tuple(sorted(found, key=lambda one: (-one.confidence - _INSIGHT_TERM * counts[one], one.id)))


async def recollect(
    memory: MemoryFace, scope: Scope, query: str, /, *, settings: HookSettings, at: Instant, seen: Collection[str]
) -> Recollection:
    """Return the reference of a turn; messages whose text is in `seen` are in its context already."""
    entries, chunks = await asyncio.gather(
        fact_entries(memory, scope), _chunks(memory, scope, query, limit=settings.search_hits, seen=seen)
    )
    return Recollection(
        facts=ranked(entries, query, at=at)[: settings.recall_facts],
        insights=telling(entries, query, at=at)[: settings.recall_insights],
        chunks=chunks,
    )


def terms_of(query: str, /) -> tuple[str, ...]:
    """Return the words of a query that say what it is about."""
    words = similarity.normalise(query[:QUERY_CHARS]).split()
    return tuple(dict.fromkeys(word for word in words if len(word) > 1 and word not in ENGLISH))[:QUERY_TERMS]


async def _chunks(
    memory: MemoryFace, scope: Scope, query: str, /, *, limit: int, seen: Collection[str]
) -> tuple[ChunkLine, ...]:
    """Return the messages that answer the query well enough for a projected block to show them."""
    if limit == 0 or similarity.is_blank(query):
        return ()
    asked = MemoryRecallRequest(
        scope=scope,
        query=query[:QUERY_CHARS],
        limit=min(limit + len(seen), RECALL_MAX),
        filters=RecallFilters(planes=(Plane.TRANSCRIPT,)),
    )
    report = await memory.recall(asked)
    hits = [hit for hit in report.hits if similarity.plain(hit.text) not in seen]
    if report.outcome is RecallOutcome.NOTHING or answer_score.of_any(hit.score for hit in hits) < PROJECTED_SCORE:
        return ()
    terms, least = terms_of(query), hits[0].score * LEAST_SHARE
    return tuple(_chunk(hit, terms) for hit in hits[:limit] if hit.score >= least)


def _chunk(hit: RecallHit, terms: Sequence[str]) -> ChunkLine:
    spans = passages_of(hit.text, terms, limits.CHUNK_CHARS)
    return ChunkLine(
        id=hit.id,
        text=BETWEEN.join(hit.text[start:end].strip() for start, end in spans),
        speaker=hit.speaker or hit.role or "",
        at=iso(hit.at) if hit.at is not None else "",
        from_outside=hit.trust is Trust.OUTSIDE,
    )


def _matched(text: str, terms: Collection[str]) -> int:
    told = similarity.normalise(text)
    return sum(similarity.holds(told, term) for term in terms)
