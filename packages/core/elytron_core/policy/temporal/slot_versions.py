"""Versions of a slot: which of them a new value takes the place of, and which would hold at the same time."""

from collections.abc import Iterable, Sequence

from elytron_core.clock import Instant
from elytron_core.ids import FactId
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.long_term import Fact, State
from elytron_core.policy.temporal import validity


def replaceable_versions(versions: Sequence[Fact], /, *, at: Instant) -> tuple[Fact, ...]:
    """Return the versions that a new value takes the place of at `at`, newest first; `versions` are oldest first."""
    return tuple(fact for fact in reversed(versions) if validity.is_replaceable(fact, at=at))


def replaced(fact: Fact, /, *, began: Instant, at: Instant, because: str, by: FactId) -> Fact | None:
    """Return a version as a value leaves it that holds since `began`; None if it ends before that."""
    if not fact.is_current and fact.valid_to is not None and fact.valid_to <= began:
        return None
    closed = long_term.close(fact, at=at, because=because, state=State.SUPERSEDED, by=by)
    ends = began if fact.valid_to is None else min(fact.valid_to, began)
    return closed.model_copy(update={"valid_to": ends})


def is_past(fact: Fact, /, *, at: Instant) -> bool:
    """Return whether a version held, and does not any more at `at`."""
    return fact.is_believed and not validity.is_replaceable(fact, at=at) and not _is_empty(fact)


def is_taken(fact: Fact, versions: Iterable[Fact], /) -> bool:
    """Return whether another version is believed to hold at a time at which `fact` would hold."""
    return any(version.id != fact.id and version.is_believed and _overlap(version, fact) for version in versions)


def _overlap(one: Fact, other: Fact) -> bool:
    return _begins_before_end(one, other) and _begins_before_end(other, one)


def _begins_before_end(one: Fact, other: Fact) -> bool:
    if one.valid_from is None or other.valid_to is None:
        return not _is_empty(other)
    return not _is_empty(other) and one.valid_from < other.valid_to


def _is_empty(fact: Fact) -> bool:
    """Return whether a version holds at no time: another took its place before it began."""
    return fact.valid_from is not None and fact.valid_to is not None and fact.valid_to <= fact.valid_from
