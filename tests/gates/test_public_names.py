"""Every type that an operation takes or returns has a name in `elytron`, so documented names can be imported."""

import enum
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

import elytron
from elytron.registry import OPERATIONS


def types_in(annotation: Any) -> Iterator[type]:
    """Yield the models and enumerations in an annotation."""
    if BaseModel in (kinds := getattr(annotation, "__mro__", ())) or enum.Enum in kinds:
        yield annotation
    for part in (*get_args(annotation), getattr(annotation, "__value__", None)):
        if part is not None:
            yield from types_in(part)


def types_of_requests() -> set[type]:
    """Return every type that a caller may have to write for an operation."""
    found: set[type] = set()
    waiting: list[type] = [operation.request for operation in OPERATIONS]
    while waiting:
        kind = waiting.pop()
        if kind not in found and issubclass(kind, BaseModel):
            waiting += [part for field in kind.model_fields.values() for part in types_in(field.annotation)]
        found.add(kind)
    return found


def test_requests_parts_and_reports_are_public() -> None:
    wanted = types_of_requests() | {operation.report for operation in OPERATIONS}
    assert [kind.__name__ for kind in wanted if getattr(elytron, kind.__name__, None) is not kind] == []
