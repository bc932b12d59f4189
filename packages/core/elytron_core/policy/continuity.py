"""Continuity: which capsules are shown, their text, which are dropped when there are too many; and daily notes.

Notes are drawn from the transcript without a model: the most informative sentences of a day, verbatim. A note is
evidence, not belief: each sentence is a quoted line, and no rule reads facts from quoted lines.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant, format_instant
from elytron_core.contracts.continuity import NoteDraft, SnapshotLayer, SnapshotLayers, SnapshotMode
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import TurnId
from elytron_core.planes import continuity, transcript
from elytron_core.planes.continuity import CapsuleState, ContinuityCapsule, state_at
from elytron_core.planes.facts import Fact, FactKind, FactPrivacy
from elytron_core.policy import maintenance
from elytron_core.policy.admission.own_output import NOTE_HEADING, own_words
from elytron_core.policy.extraction import rule_facts
from elytron_core.policy.redaction import scrub_secrets
from elytron_core.text import similarity
from elytron_core.text.traits import read_traits

CAPSULES_CONSIDERED: Final = 12
CAPSULES_SELECTED: Final = 3
SNAPSHOT_FACTS_BOOTSTRAP: Final = 16


_WORTH: Final = {
    CapsuleState.ACTIVE: 3,
    CapsuleState.DONE: 2,
    CapsuleState.STALE: 1,
    CapsuleState.SUPERSEDED: 0,
}
"""Kinds that are dropped last when there are too many."""
TERM_POINTS: Final = 4.0
OPEN_POINTS: Final = 6.0
"""An active capsule is more likely to be resumed than a finished one."""


def select_capsules(
    capsules: Sequence[ContinuityCapsule], query: str, *, now: Instant
) -> tuple[ContinuityCapsule, ...]:
    """Return up to three of the twelve newest capsules that may be shown, best first; stale ones never.

    Those that share words with `query` come first, then active ones, then the newer; without a shared word an active
    one still says where things stand.
    """
    recallable_capsules = [
        capsule for capsule in capsules if capsule.is_recallable and state_at(capsule, now) is not CapsuleState.STALE
    ]
    newest_capsules = sorted(recallable_capsules, key=lambda capsule: (-capsule.updated_at, capsule.id))[
        :CAPSULES_CONSIDERED
    ]
    words = similarity.words_of(similarity.normalise_text(query), limit=limits.QUERY_TERMS)
    ranked_capsules = sorted(
        newest_capsules, key=lambda capsule: (-_capsule_points(capsule, words), -capsule.updated_at, capsule.id)
    )
    relevant_capsules = [capsule for capsule in ranked_capsules if _capsule_points(capsule, words) > 0]
    return tuple(relevant_capsules[:CAPSULES_SELECTED])


def capsule_block(capsules: Sequence[ContinuityCapsule]) -> str:
    """Return the capsules joined in at most 900 characters; those that do not fit whole are left out."""
    lines: list[str] = []
    remaining_chars = limits.CAPSULE_BLOCK_CHARS
    for capsule in capsules:
        line = f"[{capsule.kind.value}] {capsule.topic}: " + " ".join(capsule.text.split())
        if len(line) > remaining_chars:
            # A shorter one after it may still fit.
            continue
        lines.append(line)
        remaining_chars -= len(line) + 1
    return "\n".join(lines)


def giving_way(
    capsules: Sequence[ContinuityCapsule], *, fresh: frozenset[str], now: Instant
) -> tuple[ContinuityCapsule, ...]:
    """Return the capsules beyond 16 per conversation and 96 per space, least valuable first; never `fresh` ones."""
    removal_order = sorted(capsules, key=lambda c: (c.id in fresh, *_capsule_retention(c, now), c.updated_at, c.id))
    counts_by_conversation: dict[tuple[str, str], int] = {}
    for capsule in capsules:
        counts_by_conversation[capsule.channel, capsule.conversation] = (
            counts_by_conversation.get((capsule.channel, capsule.conversation), 0) + 1
        )
    remaining_count = len(capsules)
    leaving_capsules: list[ContinuityCapsule] = []
    for capsule in removal_order:
        conversation_key = (capsule.channel, capsule.conversation)
        # Fresh ones are last in this order, so that only fresh ones follow.
        if capsule.id in fresh:
            break
        if (
            counts_by_conversation[conversation_key] > limits.CAPSULES_PER_CONVERSATION
            or remaining_count > limits.CAPSULES_PER_SPACE
        ):
            leaving_capsules.append(capsule)
            counts_by_conversation[conversation_key] -= 1
            remaining_count -= 1
    return tuple(leaving_capsules)


def _capsule_retention(capsule: ContinuityCapsule, now: Instant) -> tuple[bool, int]:
    # Forgotten ones are dropped first.
    return capsule.forgotten_at is None, _WORTH[state_at(capsule, now)]


def _capsule_points(capsule: ContinuityCapsule, words: Sequence[str]) -> float:
    text = similarity.normalise_text(f"{capsule.topic} {capsule.text}")
    is_open = capsule.state is CapsuleState.ACTIVE
    return TERM_POINTS * sum(similarity.has_term(text, word) for word in words) + OPEN_POINTS * is_open


KIND_ORDER: Final = (
    FactKind.CONSTRAINT,
    FactKind.PROFILE,
    FactKind.PREFERENCE,
    FactKind.TASK,
    FactKind.PROJECT,
    FactKind.RELATIONSHIP,
    FactKind.FACT,
)
"""Facts that a resumed conversation needs first."""


def facts_limit(mode: SnapshotMode, /) -> int:
    """Return the maximum number of facts in a snapshot of this mode."""
    return SNAPSHOT_FACTS_BOOTSTRAP if mode is SnapshotMode.BOOTSTRAP else limits.SNAPSHOT_FACTS_FULL


def choose_facts(facts: Sequence[Fact], *, mode: SnapshotMode, conversation: str) -> tuple[Fact, ...]:
    """Return which current facts to include: this conversation's first, then by kind, then the latest."""
    # A snapshot leaves the space, so private facts are never in it.
    shareable_facts = [fact for fact in facts if fact.privacy is not FactPrivacy.PRIVATE]
    shareable_facts.sort(
        key=lambda fact: (fact.chat != conversation, KIND_ORDER.index(fact.kind), -fact.last_confirmed_at, fact.id)
    )
    return tuple(shareable_facts[: facts_limit(mode)])


def included_layers(layers: SnapshotLayers, /) -> tuple[SnapshotLayer, ...]:
    """Return which layers have contents."""
    presence_by_layer = {
        SnapshotLayer.FACTS: bool(layers.facts),
        SnapshotLayer.EXECUTION: layers.state is not None,
        SnapshotLayer.SUMMARY: layers.summary is not None,
        SnapshotLayer.CAPSULES: bool(layers.capsules),
    }
    return tuple(layer for layer, is_present in presence_by_layer.items() if is_present)


def layers_fingerprint(layers: SnapshotLayers, /) -> str:
    """Return the SHA-256 of the layers, which reveals a changed or damaged snapshot."""
    return hashlib.sha256(layers.to_bytes()).hexdigest()


NOTES_PER_PASS: Final = 4
SENTENCES: Final = 8
"""Sentences of a day's note; it cites at most as many messages."""


class DrawnNotes(NamedTuple):
    """The notes of the days that were read, and the last turn that needs no further look."""

    drafts: tuple[NoteDraft, ...]
    through: int


class _NoteSentence(NamedTuple):
    factuality: float
    place: int
    speaker: str
    text: str
    citation: str


def draw_notes(turns: Sequence[tuple[TurnId, transcript.Turn]], now: Instant, /, *, is_cut: bool) -> DrawnNotes:
    """Return notes of up to four days older than a week, from turns in conversation order.

    Reading ends at the first turn of the last week. If the turns are cut off at a page's end (`is_cut`), the day of the
    last one is left for the next page, unless the page has no other.
    """
    turns_by_run: list[tuple[str, list[tuple[TurnId, transcript.Turn]]]] = []
    is_last_day_cut = is_cut
    for turn_id, turn in turns:
        if _turn_instant(turn) >= now - maintenance.NOTES_AFTER_DAYS * DAY_MS:
            is_last_day_cut = False
            break
        day = _turn_day(turn)
        if not turns_by_run or turns_by_run[-1][0] != day:
            turns_by_run.append((day, []))
        turns_by_run[-1][1].append((turn_id, turn))
    if is_last_day_cut and len(turns_by_run) > 1:
        turns_by_run.pop()
    drafts: dict[str, NoteDraft] = {}
    turns_by_day: dict[str, list[tuple[TurnId, transcript.Turn]]] = {}
    last_sequence = 0
    for day, day_turns in turns_by_run:
        # A day can reappear, because hosts' clocks need not follow the order of turns.
        if len(drafts) == NOTES_PER_PASS and day not in drafts:
            break
        last_sequence = day_turns[-1][1].sequence
        turns_by_day.setdefault(day, []).extend(day_turns)
        draft = _day_note(day, turns_by_day[day])
        if draft is not None:
            drafts[day] = draft
    return DrawnNotes(tuple(drafts.values()), last_sequence)


def drawn_again(note: continuity.DailyNote, turns: Iterable[tuple[TurnId, transcript.Turn]], /) -> NoteDraft | None:
    """Return the note rewritten from its day's turns; None if there are none or it would be the same."""
    day_turns = {turn_id: turn for turn_id, turn in turns if _turn_day(turn) == note.period}
    draft = _day_note(note.period, sorted(day_turns.items()))
    if draft is None or (draft.text, draft.citations) == (note.text, note.citations):
        return None
    return draft


def _turn_day(turn: transcript.Turn) -> str:
    return format_instant(_turn_instant(turn))[: len("2026-08-03")]


def _turn_instant(turn: transcript.Turn) -> Instant:
    """Return when the first message of a turn was said."""
    return min([turn.recorded_at, *(transcript.ordered_at(turn, message) for message in turn.messages[:1])])


def _day_note(day: str, turns: Sequence[tuple[TurnId, transcript.Turn]]) -> NoteDraft | None:
    """Return the note of a day; None if no sentence of its turns is worth noting."""
    sentences = _note_sentences(turns)
    if not sentences:
        return None
    # Chosen by value, then shown in the order in which they were said.
    best_sentences = sorted(
        sorted(sentences, key=lambda sentence: (-sentence.factuality, sentence.place))[:SENTENCES],
        key=lambda sentence: sentence.place,
    )
    speakers = ", ".join(dict.fromkeys(sentence.speaker for sentence in best_sentences))
    lines = [
        f"{NOTE_HEADING} {day}: {speakers}",
        *(f"> {sentence.speaker}: {sentence.text}" for sentence in best_sentences),
    ]
    citations = tuple(dict.fromkeys(sentence.citation for sentence in best_sentences))
    return NoteDraft(period=day, text="\n".join(lines)[: limits.NOTE_CHARS], citations=citations)


def _note_sentences(turns: Sequence[tuple[TurnId, transcript.Turn]]) -> list[_NoteSentence]:
    """Return the recallable sentences of people and assistants, each once, except bare replies."""
    sentences: dict[str, _NoteSentence] = {}
    for turn_id, turn in turns:
        # The words of a page are not those of the people who talk.
        if turn.external_content_used:
            continue
        for part, message in enumerate(turn.messages):
            if message.role not in {EvidenceRole.USER, EvidenceRole.ASSISTANT}:
                continue
            if not (turn.is_recallable(part) and turn.is_readable(part)) or len(message.text) > rule_facts.READ_CHARS:
                continue
            for text in rule_facts.own_sentences(scrub_secrets(own_words(message.text)).text):
                factuality = read_traits(text).factuality
                if factuality >= 0 and text not in sentences:
                    citation = transcript.message_id(turn_id, part)
                    speaker = message.speaker or message.role.value
                    sentences[text] = _NoteSentence(factuality, len(sentences), speaker, text, citation)
    return list(sentences.values())
