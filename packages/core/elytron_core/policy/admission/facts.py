"""Control of facts: how a call changes a fact, which facts may be learned, and which are near-duplicates."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, assert_never

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactAction, FactChangeRequest, FactDraft
from elytron_core.errors import InvalidInput
from elytron_core.ids import FactId
from elytron_core.planes import facts
from elytron_core.planes.facts import (
    Fact,
    FactConfidence,
    FactPrivacy,
    FactReach,
    FactState,
    LearningAction,
    LearningEvent,
    LearningRule,
    LearningRules,
    LearningState,
    is_past,
)
from elytron_core.planes.space import AuditAction
from elytron_core.scope import ConversationKey
from elytron_core.text import similarity

TOMBSTONE_SENTENCES: Final = 64


AUDITED: Final = {
    FactAction.CORRECT: AuditAction.CORRECTED,
    FactAction.SUPERSEDE: AuditAction.SUPERSEDED,
    FactAction.DELETE: AuditAction.DELETED,
    FactAction.MARK_STALE: AuditAction.MARKED_STALE,
    FactAction.INVALIDATE: AuditAction.INVALIDATED,
    FactAction.CHANGE_PRIVACY: AuditAction.PRIVACY_CHANGED,
    FactAction.CHANGE_SCOPE: AuditAction.SCOPE_CHANGED,
}
SLOT_TAKEN: Final = "its topic now has another value"
CANNOT_BE_HIDDEN: Final = "memories of its plane cannot be hidden: erase it"
NOT_FORGOTTEN: Final = "it is not forgotten"
STAYS: Final = {
    FactAction.CORRECT: "it already has that content",
    FactAction.SUPERSEDE: "it already has that content",
    FactAction.INVALIDATE: "it has already ended, or ends at that time",
    FactAction.MARK_STALE: "it is already marked stale",
    FactAction.CHANGE_PRIVACY: "it already has that privacy",
    FactAction.CHANGE_SCOPE: "it already has that scope",
}
"""Why an action leaves a fact unchanged."""
CLOSED_REASONS: Final = {
    FactState.CORRECTED: "it was corrected: another version replaced it",
    FactState.FORGOTTEN: "it is already forgotten",
    FactState.DELETED: "it was deleted",
    FactState.MERGED: "it was merged into another fact: merge_facts can undo that",
}
"""Why a fact that is no longer believed is not changed."""
STRICTNESS: Final = {FactPrivacy.PUBLIC: 0, FactPrivacy.SHARED: 1, FactPrivacy.PRIVATE: 2}

_FIELDS: Final[dict[FactAction, frozenset[str]]] = {
    FactAction.CORRECT: frozenset({"content"}),
    FactAction.SUPERSEDE: frozenset({"content", "at"}),
    FactAction.DELETE: frozenset(),
    FactAction.MARK_STALE: frozenset(),
    FactAction.INVALIDATE: frozenset({"at"}),
    FactAction.CHANGE_PRIVACY: frozenset({"privacy"}),
    FactAction.CHANGE_SCOPE: frozenset({"reach"}),
}
_OPTIONAL: Final = "at"


class FactChange(NamedTuple):
    """A fact after a call, and the version that replaces it."""

    fact: Fact
    successor: Fact | None = None


def require_fields(request: FactChangeRequest, /) -> None:
    """Raise InvalidInput if a field that the action requires is missing, or one that it does not take is set."""
    for field in ("content", "privacy", "reach", "at"):
        is_given = getattr(request, field) is not None
        is_taken = field in _FIELDS[request.action]
        if is_given and not is_taken:
            raise InvalidInput(field=field, problem=f"does not apply to {request.action.value!r}: leave it out")
        if is_taken and not is_given and field != _OPTIONAL:
            raise InvalidInput(field=field, problem=f"is required for {request.action.value!r}")
    if request.content is not None and similarity.is_blank(request.content):
        raise InvalidInput(field="content", problem="is blank: forget or delete the fact instead")


def require_believed(fact: Fact, /) -> None:
    """Raise InvalidInput unless `fact` is believed to hold at some time."""
    if not fact.is_believed:
        raise InvalidInput(field="id", problem=f"names a fact that cannot be changed: {CLOSED_REASONS[fact.state]}")


def change_fact(
    fact: Fact, request: FactChangeRequest, /, *, at: Instant, new_id: FactId, here: ConversationKey
) -> FactChange | None:
    """Return the result of `request` at `at`, in the conversation `here`; None if nothing changes.

    Any version that is believed can be changed: one that holds, has held, or has not begun. What takes the place of a
    version that ends, ends when that did.
    """
    match request.action:
        case FactAction.CORRECT | FactAction.SUPERSEDE:
            return _replace_fact(fact, request, at=at, new_id=new_id)
        case FactAction.DELETE:
            return FactChange(
                facts.close_fact(fact, at=at, because=request.reason or "deleted", state=FactState.DELETED)
            )
        case FactAction.INVALIDATE:
            return _end_fact(fact, request, at=at)
        case FactAction.MARK_STALE:
            return FactChange(fact.model_copy(update={"stale_at": at})) if fact.stale_at is None else None
        case FactAction.CHANGE_PRIVACY:
            same = fact.privacy is request.privacy
            return None if same else FactChange(fact.model_copy(update={"privacy": request.privacy}))
        case FactAction.CHANGE_SCOPE:
            return _move_fact(fact, request, here, at=at)
        case _:
            assert_never(request.action)


def tighten_privacy(version: Fact, privacy: FactPrivacy, /) -> Fact | None:
    """Return an earlier version with a stricter privacy; None if its own is as strict."""
    is_stricter = STRICTNESS[privacy] > STRICTNESS[version.privacy]
    return version.model_copy(update={"privacy": privacy}) if is_stricter else None


def fact_matches(fact: Fact, query: str, /) -> bool:
    """Return whether a fact has every word of `query` in its topic, content, keywords or entities."""
    text = similarity.normalise_text(" ".join((fact.topic, fact.content, *fact.keywords, *fact.entities)))
    return all(similarity.has_term(text, word) for word in similarity.normalise_text(query).split())


def _replace_fact(fact: Fact, request: FactChangeRequest, *, at: Instant, new_id: FactId) -> FactChange | None:
    assert request.content is not None
    content = request.content.strip()
    if content == fact.content:
        return None
    is_wrong = request.action is FactAction.CORRECT
    state = FactState.CORRECTED if is_wrong else FactState.SUPERSEDED
    because = request.reason or state.value
    moment = None if is_wrong else _end_moment(fact, request, at)
    old = facts.close_fact(fact, at=at, because=because, state=state, by=new_id)
    if moment is not None:
        old = old.model_copy(update={"valid_to": moment})
    new = fact.model_copy(
        update={
            "id": new_id,
            "content": content,
            "authority": facts.FactAuthority.USER_ASSERTED,
            "confidence": facts.FactConfidence.HIGH,
            "recorded_at": at,
            "confirmed_at": at,
            "evidence_count": 1,
            "supersedes": fact.id,
            "certainty": None,
            "stale_at": None,
            # The end of the version was known before this correction of it.
            "closed_at": None if fact.is_current else at,
            "closed_before": None,
        }
        | ({} if moment is None else _start_times(fact, moment, at=at))
    )
    return FactChange(old, new)


def _end_fact(fact: Fact, request: FactChangeRequest, *, at: Instant) -> FactChange | None:
    if request.at is None and _has_ended(fact, at=at):
        return None
    moment = _end_moment(fact, request, at)
    if not fact.is_current and fact.valid_to == moment:
        return None
    closed = facts.close_fact(fact, at=at, because=request.reason or "invalidated", state=FactState.INVALIDATED)
    return FactChange(closed.model_copy(update={"valid_to": moment}))


def _start_times(fact: Fact, moment: Instant, *, at: Instant) -> dict[str, Instant | None]:
    """Return the times of a fact of the same tier that holds since `moment` and was observed at `at`."""
    ends = facts.end_of(fact.tier, at)
    if not fact.is_current and fact.valid_to is not None:
        ends = fact.valid_to if ends is None else min(ends, fact.valid_to)
    return {"observed_at": at, "valid_from": moment, "valid_to": ends}


def _has_ended(fact: Fact, *, at: Instant) -> bool:
    return not fact.is_current and fact.valid_to is not None and fact.valid_to <= at


def _end_moment(fact: Fact, request: FactChangeRequest, at: Instant) -> Instant:
    """Return when the fact ceased to hold. Raises InvalidInput if that is before it began or after it ended."""
    if request.at is None and _has_ended(fact, at=at):
        raise InvalidInput(field="id", problem=f"{ENDED}, or give a time before its end in `at`")
    moment = request.at if request.at is not None else at
    if fact.valid_from is not None and moment < fact.valid_from:
        way_out = "give a later time in `at`, or correct or delete the fact"
        if request.at is None:
            raise InvalidInput(field="id", problem=f"names a version that is not valid yet: {way_out}")
        raise InvalidInput(field="at", problem=f"is before the fact became valid: {way_out}")
    ends = fact.valid_to if not fact.is_current else None
    if ends is not None and (ends < moment or (ends == moment and request.content is not None)):
        problem = "is after the fact ceased to be valid: give an earlier time, or change the version that follows it"
        raise InvalidInput(field="at", problem=problem)
    return moment


ENDED: Final = "names a version that is no longer valid: change the current one"


def _move_fact(fact: Fact, request: FactChangeRequest, here: ConversationKey, *, at: Instant) -> FactChange | None:
    if is_past(fact, at=at):
        raise InvalidInput(field="id", problem=ENDED)
    is_chat = request.reach is FactReach.CHAT
    update = {
        "reach": request.reach,
        "channel": here.channel if is_chat else None,
        "chat": here.conversation if is_chat else fact.chat,
    }
    moved = fact.model_copy(update=update)
    return FactChange(moved) if (moved.reach, moved.home) != (fact.reach, fact.home) else None


PAUSED: Final = "learning is paused: resume it with set_learning first"
SUPPRESSED: Final = "its topic is suppressed: allow it with set_learning first"
FORGOTTEN_BEFORE: Final = "it was forgotten: allow its topic with set_learning, or undo the forgetting"

_REFUSALS: Final = {LearningState.PAUSED: PAUSED, LearningState.SUPPRESSED: SUPPRESSED}
_BEGINNINGS: Final = {
    LearningState.PAUSED: LearningAction.PAUSE,
    LearningState.SUPPRESSED: LearningAction.SUPPRESS,
}
_ENDS_OF: Final = {LearningState.PAUSED: LearningAction.RESUME, LearningState.SUPPRESSED: LearningAction.ALLOW}
_ENDING: Final = ".!。！ "
_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def learning_refusal(draft: FactDraft, learning: LearningRules, /) -> str:
    """Return why the rules prevent a proposed fact from being learned; empty if they do not."""
    text = " ".join((draft.topic, *draft.keywords, *draft.entities, draft.content))
    return next((_REFUSALS[rule.state] for rule in learning.rules if _is_about(text, rule.topic)), "")


def is_paused(learning: LearningRules, /) -> bool:
    """Return whether all learning is suppressed."""
    return any(rule.topic is None for rule in learning.rules)


def _is_about(statement: str, topic: str | None) -> bool:
    """Return whether a text has every word of `topic`, in one of the compared forms."""
    return topic is None or any(
        all(similarity.has_term(text, word) for word in words.split())
        for text, words in zip(_normal_forms(statement), _normal_forms(topic), strict=True)
    )


def _normal_forms(text: str) -> tuple[str, str]:
    """Return the normal forms of a text: with invisible characters removed, and with them as word breaks."""
    return similarity.normalise_text(similarity.visible_text(text)), similarity.normalise_text(
        similarity.visible_text(text, instead=" ")
    )


def rules_after(learning: LearningRules, event: LearningEvent, /) -> LearningRules:
    """Return the rules after a call; the same value if nothing changes."""
    is_pause = event.action in {LearningAction.PAUSE, LearningAction.RESUME}
    state = LearningState.PAUSED if is_pause else LearningState.SUPPRESSED
    begins = event.action in {LearningAction.PAUSE, LearningAction.SUPPRESS}
    same = [
        rule for rule in learning.rules if rule.state is state and _topic_key(rule.topic) == _topic_key(event.topic)
    ]
    # An existing rule is not started again, and a missing one is not ended.
    if begins is bool(same):
        return learning
    rules = tuple(rule for rule in learning.rules if rule not in same)
    if begins:
        rule = LearningRule(state=state, topic=event.topic, since=event.at, by=event.by, reason=event.reason)
        rules = (*rules, rule)
    return with_event(learning.model_copy(update={"rules": rules}), event)


def join_rules(learning: LearningRules, others: Iterable[LearningRule], /) -> LearningRules:
    """Return the rules plus those of `others` that it lacks and has not ended since, up to the limit."""
    present = {(rule.state, _topic_key(rule.topic)) for rule in learning.rules}
    new = [
        rule
        for rule in {(rule.state, _topic_key(rule.topic)): rule for rule in others}.values()
        if (rule.state, _topic_key(rule.topic)) not in present and not _is_ended_since(learning, rule)
    ][: limits.LEARNING_RULES - len(learning.rules)]
    events = [
        LearningEvent(action=_BEGINNINGS[rule.state], topic=rule.topic, at=rule.since, by=rule.by, reason=rule.reason)
        for rule in new
    ]
    # Both logs become one history, so that the limit drops the oldest of all.
    log = sorted((*learning.log, *events), key=lambda event: event.at)[-limits.AUDIT_EVENTS :]
    return learning.model_copy(update={"rules": (*learning.rules, *new), "log": tuple(log)})


def is_allowed_since(learning: LearningRules, topic: str, at: Instant, /) -> bool:
    """Return whether the facts of a topic were allowed at `at` or later."""
    return any(
        event.action is LearningAction.ALLOW and event.at >= at and _topic_key(event.topic) == _topic_key(topic)
        for event in learning.log
    )


def _is_ended_since(learning: LearningRules, rule: LearningRule) -> bool:
    return any(
        event.action is _ENDS_OF[rule.state]
        and event.at >= rule.since
        and _topic_key(event.topic) == _topic_key(rule.topic)
        for event in learning.log
    )


def with_event(learning: LearningRules, event: LearningEvent, /) -> LearningRules:
    """Return the rules with a call logged; beyond the limit the oldest is dropped."""
    return learning.model_copy(update={"log": (*learning.log, event)[-limits.AUDIT_EVENTS :]})


def _topic_key(topic: str | None) -> str | None:
    return facts.topic_key(topic) if topic is not None else None


def plain_content(content: str, /) -> str:
    """Return the form under which forgotten content is recognised."""
    return similarity.plain_text(content).rstrip(_ENDING)


def content_forms(content: str, /) -> tuple[str, ...]:
    """Return the forms under which forgotten content is tagged; that of earlier builds comes last."""
    earlier = " ".join(unicodedata.normalize("NFKC", content).casefold().split()).rstrip(_ENDING)
    return tuple(dict.fromkeys((plain_content(content), earlier)))


def message_sentences(text: str, /) -> tuple[str, ...]:
    """Return the normalised sentences of a message, each once, up to the limit."""
    forms = (form for part in _ENDS.split(text) for form in _normal_forms(part))
    return tuple(dict.fromkeys(part for part in forms if part))[:TOMBSTONE_SENTENCES]


def telling_sentences(texts: Iterable[str], content: str, /) -> tuple[str, ...]:
    """Return the sentences of cited messages that share most words with a fact's content, and at least one."""
    words = similarity.normalise_text(content).split()
    shared = {
        sentence: sum(similarity.has_term(sentence, word) for word in words)
        for text in texts
        for sentence in message_sentences(text)
    }
    most = max(shared.values(), default=0)
    return tuple(sentence for sentence, count in shared.items() if most and count == most)


ALIKE: Final = 0.9
"""Contents at least this similar say the same; a changed number or name makes short facts less similar."""
BECAUSE: Final = "merged into a fact that says nearly the same thing"
_SURENESS: Final = {FactConfidence.LOW: 0, FactConfidence.MEDIUM: 1, FactConfidence.HIGH: 2}


class SimilarFacts(NamedTuple):
    """Two facts of which one can be merged into the other."""

    surviving: Fact
    folded: Fact
    likeness: float


def most_similar_fact(content: str, kind: facts.FactKind, facts: Sequence[Fact], /) -> Fact | None:
    """Return the current fact of this kind that nearly equals `content`, None if there is none."""
    text = similarity.normalise_text(content)
    grams, numbers = similarity.text_trigrams(text), _text_numbers(text)
    best: tuple[float, Fact] | None = None
    for fact in facts:
        if fact.kind is not kind or not fact.is_current:
            continue
        other = similarity.normalise_text(fact.content)
        likeness = similarity.trigram_likeness(grams, similarity.text_trigrams(other))
        if likeness >= ALIKE and _text_numbers(other) == numbers and (best is None or likeness > best[0]):
            best = (likeness, fact)
    return best[1] if best is not None else None


def similar_pairs(facts: Sequence[Fact], /, *, limit: int) -> tuple[SimilarFacts, ...]:
    """Return up to `limit` pairs of current facts that say nearly the same; each fact is merged at most once."""
    groups: dict[tuple[object, ...], list[tuple[Fact, frozenset[str]]]] = {}
    pairs: list[SimilarFacts] = []
    # Surest first, so that a fact is only merged into a surer one.
    for fact in sorted(facts, key=_fact_worth, reverse=True):
        if not fact.is_current:
            continue
        text = similarity.normalise_text(fact.content)
        # Facts that differ in one of these are never merged, which keeps the groups small.
        alike = (fact.kind, fact.privacy, fact.reach, fact.home, fact.valid_from, fact.valid_to, _text_numbers(text))
        group = groups.setdefault(alike, [])
        grams = similarity.text_trigrams(text)
        like = max(
            ((similarity.trigram_likeness(grams, other), earlier) for earlier, other in group),
            default=None,
            key=lambda p: p[0],
        )
        if like is not None and like[0] >= ALIKE:
            pairs.append(SimilarFacts(like[1], fact, like[0]))
            if len(pairs) == limit:
                break
        else:
            group.append((fact, grams))
    return tuple(pairs)


def fold_facts(target: Fact, folded: Fact, /, *, at: Instant) -> tuple[Fact, Fact]:
    """Return `target` with the other fact's evidence added, and `folded` closed; nothing of either is lost.

    Citations are added while `target` has room for them.
    """
    # Recorded with the merged fact, so that undoing the merge removes only these.
    lent_citations = tuple(citation for citation in folded.citations if citation not in target.citations)
    room = max(0, limits.FACT_CITATIONS - len(target.citations))
    surer = target.model_copy(
        update={
            "evidence_count": target.evidence_count + folded.evidence_count,
            "citations": (*target.citations, *lent_citations[:room]),
            "confirmed_at": max(target.confirmed_at, folded.confirmed_at),
        }
    )
    closed = facts.close_fact(folded, at=at, because=BECAUSE, state=FactState.MERGED, by=target.id)
    return surer, closed.model_copy(update={"lent": lent_citations[:room], "confirmed_before": target.confirmed_at})


def unfold_facts(target: Fact, folded: Fact, /) -> tuple[Fact, Fact]:
    """Return both facts as before the merge of `folded` into `target`, plus what `target` gained since."""
    alone = target.model_copy(
        update={
            "evidence_count": max(target.evidence_count - folded.evidence_count, 1),
            "citations": tuple(citation for citation in target.citations if citation not in folded.lent),
            # A confirmation that came after the merge belongs to the remaining fact and stays.
            "confirmed_at": folded.confirmed_before
            if folded.confirmed_before is not None and target.confirmed_at == folded.confirmed_at
            else target.confirmed_at,
        }
    )
    back = {
        "state": FactState.ACTIVE,
        "closed_at": None,
        "closed_because": None,
        "superseded_by": None,
        "lent": (),
        "confirmed_before": None,
    }
    return alone, folded.model_copy(update=back)


def _text_numbers(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split() if any(sign.isdigit() for sign in word))


def _fact_worth(fact: Fact) -> tuple[int, int, int, str]:
    return _SURENESS[fact.confidence], fact.evidence_count, fact.ordered_at, fact.id
