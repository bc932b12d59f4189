"""How a stored memory looks to a caller."""

from collections.abc import Mapping

from elytron_core.contracts.recalling import Plane, RecallHit
from elytron_core.ids import TurnId
from elytron_core.model import Vouched
from elytron_core.planes import long_term, procedural, transcript
from elytron_core.policy.query_types import Question, Version
from elytron_core.rounding import six
from elytron_core.text.telling import Trait
from elytron_core.text.telling import read as telling_of

_TELLING = 0.5
_COMMON = ("id", "plane", "text", "score", "at", "citations", "signals")
_TURN_HITS = Vouched(RecallHit, *_COMMON, "speaker", "role", "channel", "conversation", "tags", "metadata")
_FACT_HITS = Vouched(RecallHit, *_COMMON, "title", "kind", "reach")


def turn_hit(
    turn_id: TurnId,
    turn: transcript.Turn,
    part: int,
    /,
    *,
    score: float = 0.0,
    signals: Mapping[str, float] | None = None,
) -> RecallHit:
    """Return the hit of a turn's message."""
    message = turn.messages[part]
    return _TURN_HITS.make(
        id=transcript.message_id(turn_id, part),
        plane=Plane.TRANSCRIPT,
        text=message.text,
        score=six(score),
        at=transcript.said_at(turn, message),
        speaker=message.speaker,
        role=message.role,
        channel=turn.channel,
        conversation=turn.conversation,
        tags=turn.tags,
        metadata=dict(turn.metadata),
        citations=(turn_id,),
        signals=dict(signals or {}),
    )


def scored(hit: RecallHit, /, *, score: float, signals: dict[str, float]) -> RecallHit:
    """Return the hit that `turn_hit` made, with its score and what spoke for it."""
    return _TURN_HITS.again(hit, score=six(score), metadata=dict(hit.metadata), signals=signals)


def fact_hit(fact: long_term.Fact, /, *, score: float = 0.0, signals: Mapping[str, float] | None = None) -> RecallHit:
    """Return the hit of a fact."""
    return _FACT_HITS.make(
        id=fact.id,
        plane=Plane.LONG_TERM,
        text=fact.content,
        score=six(score),
        at=fact.observed_at,
        title=fact.topic,
        kind=fact.kind,
        reach=fact.reach,
        citations=fact.citations,
        signals={name: float(value) for name, value in (signals or {}).items()},
    )


def skill_hit(
    skill: procedural.Skill, /, *, score: float = 0.0, signals: Mapping[str, float] | None = None
) -> RecallHit:
    """Return the hit of a skill: its summary and procedure."""
    return RecallHit(
        id=skill.name,
        plane=Plane.PROCEDURAL,
        text=f"{skill.summary}\n{skill.procedure}",
        score=round(score, 6),
        at=skill.updated_at,
        title=skill.title,
        citations=skill.citations,
        signals=dict(signals or {}),
    )


def with_newer(question: Question, hits: tuple[RecallHit, ...], /) -> tuple[RecallHit, ...]:
    """Return the hits, each message with the newest one above it, later and by the same speaker, that tells a change.

    Only where the question asks what holds now. Both must hold half of the query's words, counted by rarity.
    """
    if question.version is not Version.LATEST:
        return hits
    telling = [hit for hit in hits if hit.plane is Plane.TRANSCRIPT and hit.signals.get("coverage", 0.0) >= _TELLING]
    changes = [hit for hit in telling if telling_of(hit.text).traits & Trait.CHANGE]
    newer: dict[str, str] = {}
    for place, hit in enumerate(telling):
        above = {better.id for better in telling[:place]}
        later = [
            change
            for change in changes
            if change.id in above and change.speaker == hit.speaker and (change.at or 0) > (hit.at or 0)
        ]
        if later:
            newer[hit.id] = max(later, key=lambda change: (change.at or 0, change.id)).id
    return tuple(hit.model_copy(update={"newer": newer[hit.id]}) if hit.id in newer else hit for hit in hits)
