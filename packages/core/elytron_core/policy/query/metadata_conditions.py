"""Conditions of a filter on metadata, and the check whether they hold."""

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Final, assert_never

from elytron_core.contracts.conditions import Comparison, Condition, Scalar, Where

_ORDERS: Final[Mapping[Comparison, Callable[[int, int], bool]]] = {
    Comparison.GT: gt,
    Comparison.GTE: ge,
    Comparison.LT: lt,
    Comparison.LTE: le,
}


def hold(where: Where, fields: Mapping[str, Scalar], /) -> bool:
    """Return whether each group of `where` holds for `fields`."""
    return all(any(_holds(condition, fields) for condition in group.conditions) for group in where)


def _holds(condition: Condition, fields: Mapping[str, Scalar]) -> bool:
    if condition.field not in fields:
        met = condition.comparison in {Comparison.NE, Comparison.NIN}
    else:
        met = _meets(fields[condition.field], condition.comparison, condition.values)
    return met is not condition.negated


def _meets(value: Scalar, comparison: Comparison, wanted: tuple[Scalar, ...]) -> bool:
    match comparison:
        case Comparison.EXISTS:
            return True
        case Comparison.EQ | Comparison.IN:
            return any(_are_equal(value, other) for other in wanted)
        case Comparison.NE | Comparison.NIN:
            return not any(_are_equal(value, other) for other in wanted)
        case Comparison.GT | Comparison.GTE | Comparison.LT | Comparison.LTE:
            return any(_is_ordered(value, comparison, other) for other in wanted)
        case Comparison.CONTAINS:
            return any(isinstance(value, str) and isinstance(other, str) and other in value for other in wanted)
        case Comparison.ICONTAINS:
            folded = value.casefold() if isinstance(value, str) else ""
            return any(isinstance(other, str) and bool(folded) and other.casefold() in folded for other in wanted)
        case _:
            assert_never(comparison)


def _are_equal(value: Scalar, other: Scalar) -> bool:
    return _kind(value) is _kind(other) and value == other


def _is_ordered(value: Scalar, comparison: Comparison, other: Scalar) -> bool:
    if isinstance(value, str) and isinstance(other, str):
        return _ORDERS[comparison]((value > other) - (value < other), 0)
    if isinstance(value, int | float) and isinstance(other, int | float) and _kind(value) is _kind(other) is float:
        return _ORDERS[comparison]((value > other) - (value < other), 0)
    return False


def _kind(value: Scalar) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)
