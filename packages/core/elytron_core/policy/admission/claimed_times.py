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
        for index, item in enumerate(cast("tuple[object, ...]", value)):
            yield from claimed_times(item, _join_path(path, str(index)))


def future_claims(claims: Iterable[tuple[str, Instant]], /, *, now: Instant) -> tuple[FutureClaim, ...]:
    """Return those of `claims` that lie in the future, beyond the tolerated clock difference."""
    ahead_claims = (
        FutureClaim(field=path, claimed=claim_time, now=now)
        for path, claim_time in claims
        if claim_time > now + limits.CLOCK_SKEW_MS
    )
    return tuple(islice(ahead_claims, limits.FUTURE_CLAIMS))


def future_claim_text(claim: FutureClaim, /) -> str:
    """Return a human-readable line about a claim of the future."""
    claim_time, now = format_instant(claim.claimed), format_instant(claim.now)
    return f"{claim.field} {claim_time} is in the future (it is {now}); the memory is ordered by when it was recorded"


@cache
def claim_fields(value_type: type[Value], /) -> ClaimFields:
    """Return the fields of `value_type` that are claimed times, or may contain some."""
    types_by_field = {
        name: tuple(_parts_of((field.annotation, *field.metadata))) for name, field in value_type.model_fields.items()
    }
    claims = tuple(name for name, field_types in types_by_field.items() if TimeKind.CLAIM in field_types)
    fields_with_claims = tuple(
        name
        for name, field_types in types_by_field.items()
        if any(
            isinstance(field_type, type) and issubclass(field_type, Value) and _may_claim(field_type, (value_type,))
            for field_type in field_types
        )
    )
    return ClaimFields(claims, fields_with_claims)


def _may_claim(value_type: type[Value], enclosing_types: tuple[type[Value], ...]) -> bool:
    """Return whether a value contains a claimed time somewhere; `enclosing_types` are the types that contain it."""
    if value_type in enclosing_types:
        return False
    field_types = [
        field_type
        for field in value_type.model_fields.values()
        for field_type in _parts_of((field.annotation, *field.metadata))
    ]
    return TimeKind.CLAIM in field_types or any(
        isinstance(field_type, type)
        and issubclass(field_type, Value)
        and _may_claim(field_type, (*enclosing_types, value_type))
        for field_type in field_types
    )


def _parts_of(annotations: Iterable[Any]) -> Iterator[Any]:
    """Yield every type and marker in an annotation."""
    for annotation in annotations:
        type_arguments = get_args(annotation)
        if type_arguments:
            yield from _parts_of(type_arguments)
        else:
            yield annotation


def _stated_times(value: object, path: str) -> Iterator[tuple[str, Instant]]:
    if isinstance(value, tuple):
        for index, item in enumerate(cast("tuple[object, ...]", value)):
            yield from _stated_times(item, _join_path(path, str(index)))
    elif isinstance(value, int):
        yield path, Instant(value)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
