"""Extraction by a model: which turns may be read, and what its answer proposes.

A model's answer is never believed: each item becomes a candidate, which admission judges, and an item that rests on no
words of the turn becomes nothing at all.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, assert_never

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes import candidates, transcript
from elytron_core.planes.candidates import OriginTag
from elytron_core.planes.facts import FactConfidence, FactKind, FactOperation
from elytron_core.policy.admission.own_output import own_words
from elytron_core.policy.extraction import rule_facts
from elytron_core.policy.extraction.rule_facts import FactReader
from elytron_core.text import similarity

SAID_OUTRIGHT: Final = "said outright"
READ_BY_A_MODEL: Final = "read by a model"
QUOTE_CHARS: Final = 12
"""A shorter quote proves nothing by itself, unless it is a whole message."""


class ReadingGate(StrEnum):
    """Answer to whether a turn may be read: OPEN, or the reason why not."""

    OPEN = "open"
    NOT_USER_INGRESS = "not_user_ingress"
    SCHEDULED_RUN = "scheduled_run"
    EXTERNAL_CONTENT = "external_content"
    PRESSURE = "pressure"
    ONE_SIDED = "one_sided"
    """One of the two sides said nothing."""
    NOT_RECALLABLE = "not_recallable"
    """It was forgotten, erased or put away."""


_USER: Final = frozenset({"user", "human", "subject", "human_user", "person", "owner", "chat", "host", "console"})
_MACHINE_INGRESS: Final = frozenset({"scheduler", "schedule", "scheduled", "cron", "timer", "heartbeat", "automation"})


class ItemPlane(StrEnum):
    """Kind of an item, as a model names it."""

    FACTUAL = "factual"
    SKILL = "skill"
    IGNORE = "ignore"


class ExtractedItem(Value, extra="ignore"):
    """One thing that a model read in a turn. `quote` are words of the turn on which it rests."""

    plane: ItemPlane
    op: FactOperation
    kind: FactKind
    topic: str
    content: str
    confidence: FactConfidence
    quote: str


class ExtractedItems(Value, extra="ignore"):
    """A model's whole answer."""

    items: tuple[ExtractedItem, ...]


class ProposedCandidates(Value):
    """Candidates from an answer, and the number of items that were left out, by reason."""

    drafts: tuple[candidates.CandidateDraft, ...]
    dropped: dict[str, int] = {}


def gate_for_rules(turn: transcript.Turn, /) -> ReadingGate:
    """Return OPEN if a user said the turn here in person and it has no words of others; else why rules may not read."""
    if turn.uses_external_content:
        return ReadingGate.EXTERNAL_CONTENT
    if turn.actor is not None and _plain_word(turn.actor.triggered_by) in _MACHINE_INGRESS:
        return ReadingGate.SCHEDULED_RUN
    if turn.source is not None and _plain_word(turn.source.ingress) in _MACHINE_INGRESS:
        return ReadingGate.SCHEDULED_RUN
    kind = _plain_word(turn.actor.speaker_kind) if turn.actor is not None else ""
    if kind and kind not in _USER:
        return ReadingGate.NOT_USER_INGRESS
    if turn.lifecycle is not transcript.TurnLifecycle.ACTIVE:
        return ReadingGate.NOT_RECALLABLE
    if not any(message.role is EvidenceRole.USER for message in turn.messages):
        return ReadingGate.NOT_USER_INGRESS
    return ReadingGate.OPEN if user_parts(turn) else ReadingGate.NOT_RECALLABLE


def gate_for_model(turn: transcript.Turn, *, is_pressed: bool, following: transcript.Turn | None = None) -> ReadingGate:
    """Return OPEN if rules may read the turn, both sides spoke, and there is room to spare; else why a model may not.

    If each message was kept as a turn of its own, the other side is the turn that follows.
    """
    if is_pressed:
        return ReadingGate.PRESSURE
    gate = gate_for_rules(turn)
    if gate is not ReadingGate.OPEN:
        return gate
    return (
        ReadingGate.OPEN
        if _is_answer_turn(turn) or (following is not None and _is_answer_turn(following))
        else ReadingGate.ONE_SIDED
    )


def _is_answer_turn(turn: transcript.Turn) -> bool:
    return any(
        message.role is EvidenceRole.ASSISTANT and not similarity.is_blank(message.text) and turn.is_recallable(part)
        for part, message in enumerate(turn.messages)
    )


def user_parts(turn: transcript.Turn, /) -> tuple[int, ...]:
    """Return the places of the messages that the user said in person and that may be recalled."""
    return tuple(
        part
        for part, message in enumerate(turn.messages)
        if message.role is EvidenceRole.USER
        and message.stands_on is EvidenceAuthority.USER_ASSERTED
        and turn.is_recallable(part)
        and not similarity.is_blank(message.text)
    )


def rule_candidates(
    turn_id: str, turn: transcript.Turn, /, *, more: Sequence[FactReader] = ()
) -> tuple[candidates.CandidateDraft, ...]:
    """Return what rules read in a turn's user messages, as candidates that the user vouches for.

    `more` are readers of languages that do not ship.
    """
    found: list[candidates.CandidateDraft] = []
    for part in user_parts(turn):
        message = turn.messages[part]
        for fact in rule_facts.read_stated_facts(own_words(message.text), speaker=message.speaker, more=more):
            proposal = candidates.FactProposal(
                target=candidates.CandidateTarget.LONG_TERM,
                operation=fact.operation,
                fact_kind=fact.kind,
                topic=fact.topic,
                content=fact.content,
                confidence=fact.confidence,
                observed_at=transcript.said_at(turn, message),
            )
            citation = transcript.message_id(TurnId(turn_id), part)
            found.append(
                _candidate_draft(proposal, EvidenceAuthority.USER_ASSERTED, citation, OriginTag.USER, SAID_OUTRIGHT)
            )
    return tuple(found)


def propose_candidates(turn_id: str, turn: transcript.Turn, answer: ExtractedItems, /) -> ProposedCandidates:
    """Return what a model's answer about a turn proposes: up to four items that rest on words of the turn."""
    drafts: list[candidates.CandidateDraft] = []
    dropped: dict[str, int] = {}
    for item in answer.items:
        reason = _item_flaw(item) or ("" if len(drafts) < limits.EXTRACTION_ITEMS else "too_many")
        part = _quoted_part(item, turn) if not reason else None
        if part is None:
            dropped[reason or "rests_on_no_words"] = dropped.get(reason or "rests_on_no_words", 0) + 1
            continue
        message = turn.messages[part]
        origin = OriginTag.USER if message.role is EvidenceRole.USER else OriginTag.ASSISTANT
        proposal = _item_proposal(item, transcript.said_at(turn, message))
        citation = transcript.message_id(TurnId(turn_id), part)
        drafts.append(_candidate_draft(proposal, EvidenceAuthority.ARCHIVE_EVIDENCE, citation, origin, READ_BY_A_MODEL))
    return ProposedCandidates(drafts=tuple(drafts), dropped=dropped)


def _item_flaw(item: ExtractedItem) -> str:
    """Return why an item is not even proposed; empty if it is."""
    if item.plane is ItemPlane.IGNORE:
        return "ignored"
    if similarity.is_blank(item.topic) or (similarity.is_blank(item.content) and item.op is FactOperation.UPSERT):
        return "empty"
    too_long = limits.FACT_CHARS if item.plane is ItemPlane.FACTUAL else limits.SKILL_CHARS
    return "too_long" if len(item.content) > too_long else ""


def _quoted_part(item: ExtractedItem, turn: transcript.Turn) -> int | None:
    """Return the place of the message that has the item's quote: the user's own for facts, either side's for skills."""
    quote = similarity.normalise_text(item.quote)
    if not quote:
        return None
    own = user_parts(turn)
    spoken = range(len(turn.messages)) if item.plane is ItemPlane.SKILL else own
    for part in spoken:
        text = similarity.normalise_text(own_words(turn.messages[part].text))
        if turn.is_recallable(part) and quote in text and (len(quote) >= min(QUOTE_CHARS, len(text))):
            return part
    return None


def _item_proposal(item: ExtractedItem, at: Instant) -> candidates.FactProposal | candidates.SkillProposal:
    topic = " ".join(item.topic.split())[: limits.CANDIDATE_TOPIC_CHARS]
    match item.plane:
        case ItemPlane.FACTUAL:
            return candidates.FactProposal(
                target=candidates.CandidateTarget.LONG_TERM,
                operation=item.op,
                fact_kind=item.kind,
                topic=topic,
                content=item.content.strip(),
                confidence=item.confidence,
                observed_at=at,
            )
        case ItemPlane.SKILL:
            name = similarity.normalise_text(topic).replace(" ", "_")[: limits.NAME_CHARS - 20] or "procedure"
            return candidates.SkillProposal(
                target=candidates.CandidateTarget.PROCEDURAL,
                name=name,
                topic=topic,
                title=topic,
                summary=topic,
                content=item.content.strip(),
                observed_at=at,
            )
        case ItemPlane.IGNORE:
            raise AssertionError("what is ignored is not proposed")
        case _:
            assert_never(item.plane)


def _candidate_draft(
    proposal: candidates.FactProposal | candidates.SkillProposal,
    authority: EvidenceAuthority,
    citation: str,
    origin: OriginTag,
    reason: str,
) -> candidates.CandidateDraft:
    return candidates.CandidateDraft(
        proposal=proposal,
        authority=authority,
        citations=(citation,),
        origins=(origin,),
        judgement=candidates.CandidateJudgement(verdict=candidates.AdmissionVerdict.ACCEPT, reason=reason),
    )


def _plain_word(text: str | None) -> str:
    return text.strip().casefold() if text is not None else ""
