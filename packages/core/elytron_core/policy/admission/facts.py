"""Control of facts: how a call changes a fact."""

from typing import Final, NamedTuple, assert_never

from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactAction, FactChangeRequest
from elytron_core.errors import InvalidInput
from elytron_core.ids import FactId
from elytron_core.planes import facts
from elytron_core.planes.audit_trail import AuditAction
from elytron_core.planes.facts import (
    Fact,
    FactPrivacy,
    FactReach,
    FactState,
    is_past,
)
from elytron_core.scope import ConversationKey
from elytron_core.text import similarity

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
        is_set = getattr(request, field) is not None
        is_accepted = field in _FIELDS[request.action]
        if is_set and not is_accepted:
            raise InvalidInput(field=field, problem=f"does not apply to {request.action.value!r}: leave it out")
        if is_accepted and not is_set and field != _OPTIONAL:
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
            is_same_privacy = fact.privacy is request.privacy
            return None if is_same_privacy else FactChange(fact.model_copy(update={"privacy": request.privacy}))
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
    is_correction = request.action is FactAction.CORRECT
    state = FactState.CORRECTED if is_correction else FactState.SUPERSEDED
    closing_reason = request.reason or state.value
    end_moment = None if is_correction else _end_moment(fact, request, at)
    closed_fact = facts.close_fact(fact, at=at, because=closing_reason, state=state, by=new_id)
    if end_moment is not None:
        closed_fact = closed_fact.model_copy(update={"valid_to": end_moment})
    new_fact = fact.model_copy(
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
        | ({} if end_moment is None else _start_times(fact, end_moment, at=at))
    )
    return FactChange(closed_fact, new_fact)


def _end_fact(fact: Fact, request: FactChangeRequest, *, at: Instant) -> FactChange | None:
    if request.at is None and _has_ended(fact, at=at):
        return None
    end_moment = _end_moment(fact, request, at)
    if not fact.is_current and fact.valid_to == end_moment:
        return None
    closed_fact = facts.close_fact(fact, at=at, because=request.reason or "invalidated", state=FactState.INVALIDATED)
    return FactChange(closed_fact.model_copy(update={"valid_to": end_moment}))


def _start_times(fact: Fact, moment: Instant, *, at: Instant) -> dict[str, Instant | None]:
    """Return the times of a fact of the same tier that holds since `moment` and was observed at `at`."""
    tier_end = facts.end_of(fact.tier, at)
    if not fact.is_current and fact.valid_to is not None:
        tier_end = fact.valid_to if tier_end is None else min(tier_end, fact.valid_to)
    return {"observed_at": at, "valid_from": moment, "valid_to": tier_end}


def _has_ended(fact: Fact, *, at: Instant) -> bool:
    return not fact.is_current and fact.valid_to is not None and fact.valid_to <= at


def _end_moment(fact: Fact, request: FactChangeRequest, at: Instant) -> Instant:
    """Return when the fact ceased to hold. Raises InvalidInput if that is before it began or after it ended."""
    if request.at is None and _has_ended(fact, at=at):
        raise InvalidInput(field="id", problem=f"{ENDED}, or give a time before its end in `at`")
    end_moment = request.at if request.at is not None else at
    if fact.valid_from is not None and end_moment < fact.valid_from:
        way_out = "give a later time in `at`, or correct or delete the fact"
        if request.at is None:
            raise InvalidInput(field="id", problem=f"names a version that is not valid yet: {way_out}")
        raise InvalidInput(field="at", problem=f"is before the fact became valid: {way_out}")
    current_end = fact.valid_to if not fact.is_current else None
    if current_end is not None and (
        current_end < end_moment or (current_end == end_moment and request.content is not None)
    ):
        problem = "is after the fact ceased to be valid: give an earlier time, or change the version that follows it"
        raise InvalidInput(field="at", problem=problem)
    return end_moment


ENDED: Final = "names a version that is no longer valid: change the current one"


def _move_fact(
    fact: Fact, request: FactChangeRequest, conversation_key: ConversationKey, *, at: Instant
) -> FactChange | None:
    if is_past(fact, at=at):
        raise InvalidInput(field="id", problem=ENDED)
    is_chat = request.reach is FactReach.CHAT
    changed_fields = {
        "reach": request.reach,
        "channel": conversation_key.channel if is_chat else None,
        "chat": conversation_key.conversation if is_chat else fact.chat,
    }
    moved_fact = fact.model_copy(update=changed_fields)
    return FactChange(moved_fact) if (moved_fact.reach, moved_fact.home) != (fact.reach, fact.home) else None
