"""Facts as their owner sees them: with what they are worth, how fresh they are, and their version."""

from elytron.memories.preconditions import tag_of
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.facts import FactEntry
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.temporal.freshness import freshness
from elytron_core.ports.store import Ref


def entry_of(
    record: SpaceRecord, fact: long_term.Fact, revision: int, /, *, now: Instant, used: Instant | None = None
) -> FactEntry:
    """Return the entry of a stored fact."""
    fresh = freshness(fact, now)
    home = fact.home
    return FactEntry(
        id=fact.id,
        kind=fact.kind,
        topic=fact.topic,
        content=fact.content,
        keywords=fact.keywords,
        entities=fact.entities,
        state=fact.state,
        confidence=fact.confidence,
        tier=fact.tier,
        certainty=fact.certainty,
        authority=fact.authority,
        trust=fact.trust,
        privacy=fact.privacy,
        reach=fact.reach,
        channel=home.channel if home is not None else None,
        chat=home.conversation if home is not None else None,
        evidence=fact.citations,
        evidence_count=fact.evidence_count,
        observed_at=fact.observed_at,
        recorded_at=fact.recorded_at,
        confirmed_at=fact.confirmed_at,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        last_used_at=used,
        freshness=fresh.state,
        hint=fresh.hint,
        closed_at=fact.closed_at,
        closed_because=fact.closed_because,
        supersedes=fact.supersedes,
        superseded_by=fact.superseded_by,
        version=tag_of(record, Ref(long_term.FACTS, fact.id), revision),
    )
