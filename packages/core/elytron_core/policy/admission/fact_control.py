"""Long-term control decided: what a control call makes of a fact, and which facts a query means."""

from typing import Final, NamedTuple, assert_never

from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.facts import FactAction, FactChangeRequest
from elytron_core.errors import InvalidInput
from elytron_core.ids import FactId
from elytron_core.planes.admin.audit import AuditAction
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.long_term import Fact, Privacy, Reach, State
from elytron_core.policy.temporal import slot_versions
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
SLOT_TAKEN: Final = "its slot has another value by now"
CANNOT_BE_HIDDEN: Final = "a memory of its plane is never hidden: erase it"
NOT_FORGOTTEN: Final = "it is not forgotten"
STAYS: Final = {
    FactAction.CORRECT: "it says that already",
    FactAction.SUPERSEDE: "it says that already",
    FactAction.INVALIDATE: "it ends then already",
    FactAction.MARK_STALE: "it is marked stale already",
    FactAction.CHANGE_PRIVACY: "it has that privacy already",
    FactAction.CHANGE_SCOPE: "it counts there already",
}
"""Why an action leaves a fact as it is."""
GONE: Final = {
    State.CORRECTED: "it was corrected: another version took its place",
    State.FORGOTTEN: "it is forgotten already",
    State.DELETED: "it was deleted",
    State.MERGED: "it was merged into another fact: merge_facts takes that back",
}
"""Why a fact that is not believed any more is not changed."""
STRICTNESS: Final = {Privacy.PUBLIC: 0, Privacy.SHARED: 1, Privacy.PRIVATE: 2}

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
    """A fact as a call leaves it, and the version that takes its place."""

    fact: Fact
    successor: Fact | None = None


def require_fields(request: FactChangeRequest, /) -> None:
    """Raise InvalidInput if a field that the action needs is missing, or one is given that it does not take."""
    for field in ("content", "privacy", "reach", "at"):
        is_given = getattr(request, field) is not None
        is_taken = field in _FIELDS[request.action]
        if is_given and not is_taken:
            raise InvalidInput(field=field, problem=f"is not for {request.action.value!r}: leave it out")
        if is_taken and not is_given and field != _OPTIONAL:
            raise InvalidInput(field=field, problem=f"is missing for {request.action.value!r}")
    if request.content is not None and similarity.is_blank(request.content):
        raise InvalidInput(field="content", problem="is blank: forget or delete the fact instead")


def require_believed(fact: Fact, /) -> None:
    """Raise InvalidInput unless `fact` is believed to hold at some time."""
    if not fact.is_believed:
        raise InvalidInput(field="id", problem=f"names a fact that no call changes: {GONE[fact.state]}")


def change(
    fact: Fact, request: FactChangeRequest, /, *, at: Instant, new_id: FactId, here: ConversationKey
) -> FactChange | None:
    """Return what `request` makes of a fact at `at`, in the conversation `here`; None if it is so already.

    Any version that is believed can be changed: one that holds, has held, or has not begun. What takes the place of a
    version that ends, ends when that did.
    """
    match request.action:
        case FactAction.CORRECT | FactAction.SUPERSEDE:
            return _replaced(fact, request, at=at, new_id=new_id)
        case FactAction.DELETE:
            return FactChange(long_term.close(fact, at=at, because=request.reason or "deleted", state=State.DELETED))
        case FactAction.INVALIDATE:
            return _ended(fact, request, at=at)
        case FactAction.MARK_STALE:
            return FactChange(fact.model_copy(update={"stale_at": at})) if fact.stale_at is None else None
        case FactAction.CHANGE_PRIVACY:
            same = fact.privacy is request.privacy
            return None if same else FactChange(fact.model_copy(update={"privacy": request.privacy}))
        case FactAction.CHANGE_SCOPE:
            return _moved(fact, request, here, at=at)
        case _:
            assert_never(request.action)


def tightened(version: Fact, privacy: Privacy, /) -> Fact | None:
    """Return an earlier version with a stricter privacy; None if its own is as strict."""
    is_stricter = STRICTNESS[privacy] > STRICTNESS[version.privacy]
    return version.model_copy(update={"privacy": privacy}) if is_stricter else None


def holds(fact: Fact, query: str, /) -> bool:
    """Return whether a fact has every word of `query` in its topic, content, keywords or entities."""
    told = similarity.normalise(" ".join((fact.topic, fact.content, *fact.keywords, *fact.entities)))
    return all(similarity.holds(told, word) for word in similarity.normalise(query).split())


def _replaced(fact: Fact, request: FactChangeRequest, *, at: Instant, new_id: FactId) -> FactChange | None:
    assert request.content is not None
    content = request.content.strip()
    if content == fact.content:
        return None
    is_wrong = request.action is FactAction.CORRECT
    state = State.CORRECTED if is_wrong else State.SUPERSEDED
    because = request.reason or state.value
    moment = None if is_wrong else _moment(fact, request, at)
    old = long_term.close(fact, at=at, because=because, state=state, by=new_id)
    if moment is not None:
        old = old.model_copy(update={"valid_to": moment})
    new = fact.model_copy(
        update={
            "id": new_id,
            "content": content,
            "authority": long_term.Authority.USER_ASSERTED,
            "confidence": long_term.Confidence.HIGH,
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
        | ({} if moment is None else _begun(fact, moment, at=at))
    )
    return FactChange(old, new)


def _ended(fact: Fact, request: FactChangeRequest, *, at: Instant) -> FactChange | None:
    moment = _moment(fact, request, at)
    if not fact.is_current and fact.valid_to == moment:
        return None
    closed = long_term.close(fact, at=at, because=request.reason or "invalidated", state=State.INVALIDATED)
    return FactChange(closed.model_copy(update={"valid_to": moment}))


def _begun(fact: Fact, moment: Instant, *, at: Instant) -> dict[str, Instant | None]:
    """Return the times of a fact of the same tier that holds since `moment` and was observed at `at`."""
    ends = long_term.end_of(fact.tier, at)
    if not fact.is_current and fact.valid_to is not None:
        ends = fact.valid_to if ends is None else min(ends, fact.valid_to)
    return {"observed_at": at, "valid_from": moment, "valid_to": ends}


def _moment(fact: Fact, request: FactChangeRequest, at: Instant) -> Instant:
    """Return when the fact ceased to hold. Raises InvalidInput before it began, and after it ended."""
    moment = request.at if request.at is not None else at
    if fact.valid_from is not None and moment < fact.valid_from:
        problem = "is before the fact began to hold: name a later time, or correct or delete it"
        raise InvalidInput(field="at", problem=problem)
    ends = fact.valid_to if not fact.is_current else None
    if ends is not None and (ends < moment or (ends == moment and request.content is not None)):
        problem = "is after the fact ceased to hold: name an earlier time, or change the version that follows it"
        raise InvalidInput(field="at", problem=problem)
    return moment


def _moved(fact: Fact, request: FactChangeRequest, here: ConversationKey, *, at: Instant) -> FactChange | None:
    if slot_versions.is_past(fact, at=at):
        raise InvalidInput(field="id", problem="names a version that has ceased to hold: move the one that holds now")
    is_chat = request.reach is Reach.CHAT
    update = {
        "reach": request.reach,
        "channel": here.channel if is_chat else None,
        "chat": here.conversation if is_chat else fact.chat,
    }
    moved = fact.model_copy(update=update)
    return FactChange(moved) if (moved.reach, moved.home) != (fact.reach, fact.home) else None
