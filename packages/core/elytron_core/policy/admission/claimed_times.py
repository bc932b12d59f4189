"""Claimed times: which times in a request say when something happened, and which of them the local clock disproves.

A claim that lies in the future is stored unchanged, and `clock.order_time` orders the memory by its recording time. The
findings here are only reported.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, cast, get_args

from elytron_core import limits
from elytron_core.clock import Instant, format_instant
from elytron_core.model import Value
from elytron_core.scope import FutureClaim
from elytron_core.time_kinds import TimeKind


class ClaimFields(NamedTuple):
    """Names of a form's fields that are claimed times, and of those that may contain some deeper down."""

    claims: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()


def claimed_times(value: object, /, path: str = "") -> Iterator[tuple[str, Instant]]:
    """Yield every claimed time in `value` with the path of its field."""
    if isinstance(value, Value):
        fields = claim_fields(type(value))
        for name in fields.claims:
            yield from _stated_times(getattr(value, name), _join_path(path, name))
        for name in fields.holders:
            yield from claimed_times(getattr(value, name), _join_path(path, name))
    elif isinstance(value, tuple):
        for place, part in enumerate(cast("tuple[object, ...]", value)):
            yield from claimed_times(part, _join_path(path, str(place)))


def future_claims(claims: Iterable[tuple[str, Instant]], /, *, now: Instant) -> tuple[FutureClaim, ...]:
    """Return those of `claims` that lie in the future, beyond the tolerated clock difference."""
    ahead = (FutureClaim(field=path, claimed=at, now=now) for path, at in claims if at > now + limits.CLOCK_SKEW_MS)
    return tuple(islice(ahead, limits.FUTURE_CLAIMS))


def future_claim_text(claim: FutureClaim, /) -> str:
    """Return a human-readable line about a claim of the future."""
    claimed, now = format_instant(claim.claimed), format_instant(claim.now)
    return f"{claim.field} {claimed} is in the future (it is {now}); the memory is ordered by when it was recorded"


@cache
def claim_fields(form: type[Value], /) -> ClaimFields:
    """Return the fields of `form` that are claimed times, or may contain some."""
    parts = {name: tuple(_parts_of((field.annotation, *field.metadata))) for name, field in form.model_fields.items()}
    claims = tuple(name for name, kinds in parts.items() if TimeKind.CLAIM in kinds)
    holders = tuple(
        name
        for name, kinds in parts.items()
        if any(isinstance(part, type) and issubclass(part, Value) and _may_claim(part, (form,)) for part in kinds)
    )
    return ClaimFields(claims, holders)


def _may_claim(form: type[Value], above: tuple[type[Value], ...]) -> bool:
    """Return whether a form contains a claimed time somewhere; `above` are the forms that contain it."""
    if form in above:
        return False
    parts = [part for field in form.model_fields.values() for part in _parts_of((field.annotation, *field.metadata))]
    return TimeKind.CLAIM in parts or any(
        isinstance(part, type) and issubclass(part, Value) and _may_claim(part, (*above, form)) for part in parts
    )


def _parts_of(annotations: Iterable[Any]) -> Iterator[Any]:
    """Yield every type and marker in an annotation."""
    for annotation in annotations:
        inner = get_args(annotation)
        if inner:
            yield from _parts_of(inner)
        else:
            yield annotation


def _stated_times(value: object, path: str) -> Iterator[tuple[str, Instant]]:
    if isinstance(value, tuple):
        for place, part in enumerate(cast("tuple[object, ...]", value)):
            yield from _stated_times(part, _join_path(path, str(place)))
    elif isinstance(value, int):
        yield path, Instant(value)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
