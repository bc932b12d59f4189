"""Insights: what the history of facts shows, that one changed and is now so, or was said again and stayed.

They are a fold over the versions of facts and are stored nowhere: the same history gives the same insights with the
same ids.
"""

import hashlib
import json
from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby

from elytron_agent.hooks.facts.extraction import fact_of
from elytron_core.clock import Instant, iso
from elytron_core.contracts.knowledge.facts import FactEntry
from elytron_core.model import Value
from elytron_core.planes.knowledge.long_term import Kind, State, topic_key
from elytron_core.text import similarity


class InsightType(StrEnum):
    """Kind of an insight."""

    EVOLUTION = "fact_evolution"
    STABILITY = "fact_stability"


CONFIDENCE = {InsightType.EVOLUTION: 0.84, InsightType.STABILITY: 0.78}


class Insight(Value):
    """Insight from several versions of a fact, or several words for it."""

    id: str
    type: InsightType
    summary: str
    confidence: float
    fact_ids: tuple[str, ...]
    """The ids of the versions that it rests on, oldest first."""


def insights_of(entries: Iterable[FactEntry], /, *, at: Instant) -> tuple[Insight, ...]:
    """Return the insights of facts that hold at `at`, by type and then by summary."""
    listed = sorted(entries, key=lambda entry: (*_slot(entry), entry.recorded_at, entry.id))
    found = (_insight(tuple(versions), at) for _, versions in groupby(listed, key=_slot))
    return tuple(sorted((one for one in found if one is not None), key=lambda one: (one.type, one.summary)))


def holds(entry: FactEntry, at: Instant, /) -> bool:
    """Return whether a fact is current, and its time is not over."""
    return entry.state is State.ACTIVE and (entry.valid_to is None or at < entry.valid_to)


def _slot(entry: FactEntry) -> tuple[Kind, str]:
    return entry.kind, topic_key(entry.topic)


def _insight(versions: tuple[FactEntry, ...], at: Instant) -> Insight | None:
    latest = versions[-1]
    if not holds(latest, at):
        return None
    values = {similarity.plain(version.content) for version in versions}
    said = sum(version.evidence_count for version in versions)
    if len(values) == 1 and said < 2:
        return None
    fact = fact_of(latest.topic, latest.content, tier=latest.tier, certainty=1.0)
    kind = InsightType.EVOLUTION if len(values) > 1 else InsightType.STABILITY
    told = "changed, and is now" if kind is InsightType.EVOLUTION else "was said more than once, and stayed"
    summary = f"{fact.key} {told}: {fact.value}"
    basis = json.dumps([fact.topic, kind.value, iso(latest.observed_at), summary])
    return Insight(
        id=f"insight-{hashlib.sha256(basis.encode()).hexdigest()[:16]}",
        type=kind,
        summary=summary,
        confidence=CONFIDENCE[kind],
        fact_ids=tuple(version.id for version in versions),
    )
