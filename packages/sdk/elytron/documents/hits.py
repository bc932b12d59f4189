"""Hits: stored memories as callers see them, and the cursors that request the next page.

The cursor of recall is "place.sequence.check", where the check covers the query, its filters and the ids shown so far.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from elytron_core.clock import Instant, late_recording
from elytron_core.contracts.recall import MemoryRecallRequest, RecallHit, RecallPlane
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId, TurnId
from elytron_core.model import VouchedMaker
from elytron_core.planes import facts, skills, transcript
from elytron_core.planes.facts import fact_freshness
from elytron_core.planes.transcript import TranscriptEvidenceRef
from elytron_core.policy.ranking.latest_statements import (
    SHARED_COVERAGE,
    WINDOW,
    BestMessage,
    asks_how_things_are,
    in_succession,
    last_words,
)
from elytron_core.policy.ranking.question import AnswerVersion, ReadQuestion
from elytron_core.strict_json import frame_checksum

_COMMON = ("id", "plane", "text", "score", "at", "recorded_at", "citations", "signals")
_TURN_HITS = VouchedMaker(
    RecallHit, *_COMMON, "speaker", "role", "channel", "conversation", "trust", "tags", "metadata", "privacy"
)
_EVIDENCE = VouchedMaker(
    TranscriptEvidenceRef, "memory_space_id", "channel_id", "conversation_id", "turn_id", "message_id"
)
_FACT_HITS = VouchedMaker(RecallHit, *_COMMON, "title", "kind", "reach", "trust", "privacy", "freshness", "hint")


def turn_hit(turn_id: TurnId, turn: transcript.Turn, part: int, /) -> RecallHit:
    """Return the hit of a turn's message, without a score."""
    message = turn.messages[part]
    return _TURN_HITS.make(
        id=transcript.message_id(turn_id, part),
        plane=RecallPlane.TRANSCRIPT,
        text=message.text,
        score=0.0,
        at=transcript.said_at(turn, message),
        recorded_at=late_recording(message.at, turn.recorded_at),
        speaker=message.speaker,
        role=message.role,
        channel=turn.channel,
        conversation=turn.conversation,
        trust=turn.trust_of(part),
        tags=turn.tags,
        metadata=dict(turn.metadata),
        privacy=facts.FactPrivacy.PRIVATE if turn.is_private else None,
        citations=(turn_id,),
        signals={},
    )


def cited_hit(hit: RecallHit, space: SpaceId, /) -> RecallHit:
    """Return the hit of a message with its citation for people; any other hit unchanged."""
    if hit.plane is not RecallPlane.TRANSCRIPT or hit.channel is None or hit.conversation is None:
        return hit
    turn, _, part_number = hit.id.partition("#")
    evidence = _EVIDENCE.make(
        memory_space_id=space,
        channel_id=hit.channel,
        conversation_id=hit.conversation,
        turn_id=TurnId(turn),
        message_id=hit.id if part_number else None,
    )
    return hit.model_copy(update={"citation": evidence.citation})


def scored_hit(hit: RecallHit, /, *, score: float, signals: dict[str, float]) -> RecallHit:
    """Return the hit that `turn_hit` made, with its score and signals."""
    return _TURN_HITS.again(hit, score=round(float(score), 6), metadata=dict(hit.metadata), signals=signals)


def fact_hit(
    fact: facts.Fact,
    /,
    *,
    now: Instant | None = None,
    score: float = 0.0,
    signals: Mapping[str, float] | None = None,
) -> RecallHit:
    """Return the hit of a fact, with its freshness at `now`."""
    freshness = fact_freshness(fact, now) if now is not None else None
    return _FACT_HITS.make(
        id=fact.id,
        plane=RecallPlane.LONG_TERM,
        text=fact.content,
        score=round(float(score), 6),
        at=fact.observed_at,
        recorded_at=late_recording(fact.observed_at, fact.recorded_at),
        title=fact.topic,
        kind=fact.kind,
        reach=fact.reach,
        trust=fact.trust,
        privacy=fact.privacy,
        freshness=freshness.state if freshness is not None else None,
        hint=freshness.hint if freshness is not None else None,
        citations=fact.citations,
        signals={name: float(value) for name, value in (signals or {}).items()},
    )


def skill_hit(skill: skills.Skill, /, *, score: float = 0.0, signals: Mapping[str, float] | None = None) -> RecallHit:
    """Return the hit of a skill: its summary and procedure."""
    return RecallHit(
        id=skill.name,
        plane=RecallPlane.PROCEDURAL,
        text=f"{skill.summary}\n{skill.procedure}",
        score=round(score, 6),
        at=skill.updated_at,
        title=skill.title,
        trust=skill.trust,
        citations=skill.citations,
        signals=dict(signals or {}),
    )


def with_newer(
    question: ReadQuestion,
    query: str,
    hits: tuple[RecallHit, ...],
    places_of: Callable[[Sequence[RecallHit]], Mapping[str, int]],
    /,
) -> tuple[RecallHit, ...]:
    """Return the hits; if the question asks for the present state, with the latest statement before what it superseded.

    A replaced hit names the last word; scores stay with the places. `places_of` gives the places of hits in time.
    """
    if question.version is AnswerVersion.FIRST or (
        question.version is AnswerVersion.ANY and not asks_how_things_are(query)
    ):
        return hits
    window_hits = hits[:WINDOW]
    places_by_id = places_of(window_hits)
    statements = [_speaker_told(hit, places_by_id) for hit in window_hits]
    if sum(each is not None for each in statements) < 2:
        return hits
    newer_by_place = last_words(statements, query)
    if not newer_by_place:
        return hits
    marked_hits = [
        hit.model_copy(update={"newer": window_hits[newer_by_place[position]].id})
        if position in newer_by_place
        else hit
        for position, hit in enumerate(window_hits)
    ]
    ordered_hits = [marked_hits[position] for position in in_succession(len(window_hits), newer_by_place)]
    hits_with_scores = zip(ordered_hits, window_hits, strict=True)
    return (*(hit.model_copy(update={"score": position.score}) for hit, position in hits_with_scores), *hits[WINDOW:])


def _speaker_told(hit: RecallHit, places_by_id: Mapping[str, int]) -> BestMessage | None:
    coverage = hit.signals.get("coverage", 0.0)
    if (
        coverage < SHARED_COVERAGE
        or hit.plane is not RecallPlane.TRANSCRIPT
        or hit.role is EvidenceRole.ASSISTANT
        or hit.at is None
    ):
        return None
    return BestMessage(hit.speaker, hit.role, places_by_id[hit.id], coverage, hit.text)


_SEARCH_FIELDS = {"query", "filters", "diversity", "min_score", "extent", "recall_gate"}


class CursorForm(NamedTuple):
    """The cursors of one kind of report: a pattern with a group per part."""

    pattern: re.Pattern[str]
    giver: str

    def parts(self, cursor: str, /) -> tuple[str, ...]:
        """Return the parts of a cursor. Raises InvalidInput if it has another form."""
        match = self.pattern.fullmatch(cursor)
        if match is None:
            raise self.refusal()
        return match.groups()

    def key(self, cursor: str | None, /) -> str:
        """Return a cursor that is a whole key, "" for the first page. Raises InvalidInput."""
        if cursor is not None:
            self.parts(cursor)
        return cursor or ""

    def refusal(self) -> InvalidInput:
        """Return the error for a cursor that no report of this kind returned."""
        return InvalidInput(field="cursor", problem=f"was not issued by {self.giver}")


_RECALL = CursorForm(re.compile(r"([0-9]+)\.([0-9]+)\.([^.]*)"), "a recall report")


def cursor_of(request: MemoryRecallRequest, memory_ids: Sequence[str], sequence: int, /) -> str:
    """Return the cursor that continues after `memory_ids`, which include earlier pages."""
    return f"{len(memory_ids)}.{sequence}.{_request_check(request, memory_ids)}"


def place_in(cursor: str | None, /) -> int:
    """Return how many memories came before. Raises InvalidInput for an invalid cursor."""
    if cursor is None:
        return 0
    return int(_RECALL.parts(cursor)[0])


def require_same(request: MemoryRecallRequest, memory_ids: Sequence[str], sequence: int, /) -> None:
    """Raise InvalidInput unless the request's cursor belongs to this query with these memories before it.

    A write that leaves their order as it was does no harm.
    """
    if request.cursor is None:
        return
    _, sequence_text, expected_check = _RECALL.parts(request.cursor)
    if expected_check != _request_check(request, memory_ids):
        # In the same state of the space, only the request can differ.
        stale_cause = (
            "a different query or different filters"
            if int(sequence_text) == sequence
            else "an earlier state of the space"
        )
        raise InvalidInput(field="cursor", problem=f"belongs to {stale_cause}: request the first page again")


def _request_check(request: MemoryRecallRequest, memory_ids: Sequence[str]) -> str:
    request_json = request.__pydantic_serializer__.to_json(request, include=_SEARCH_FIELDS)
    return frame_checksum(request_json, "\n".join(memory_ids).encode()).hex()
