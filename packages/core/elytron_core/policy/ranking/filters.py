"""Metadata filters: whether the conditions of a filter hold for fields."""

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Final, assert_never

from elytron_core.contracts.recall import ComparisonOperator, FieldCondition, Scalar, Where

_ORDERS: Final[Mapping[ComparisonOperator, Callable[[int, int], bool]]] = {
    ComparisonOperator.GT: gt,
    ComparisonOperator.GTE: ge,
    ComparisonOperator.LT: lt,
    ComparisonOperator.LTE: le,
}


def filters_hold(where: Where, fields: Mapping[str, Scalar], /) -> bool:
    """Return whether each group of `where` holds for `fields`."""
    return all(any(_condition_holds(condition, fields) for condition in group.conditions) for group in where)


def _condition_holds(condition: FieldCondition, fields: Mapping[str, Scalar]) -> bool:
    if condition.field not in fields:
        is_met = condition.comparison in {ComparisonOperator.NE, ComparisonOperator.NIN}
    else:
        is_met = _value_meets(fields[condition.field], condition.comparison, condition.values)
    return is_met is not condition.negated


def _value_meets(value: Scalar, comparison: ComparisonOperator, expected: tuple[Scalar, ...]) -> bool:
    match comparison:
        case ComparisonOperator.EXISTS:
            return True
        case ComparisonOperator.EQ | ComparisonOperator.IN:
            return any(_are_equal(value, other) for other in expected)
        case ComparisonOperator.NE | ComparisonOperator.NIN:
            return not any(_are_equal(value, other) for other in expected)
        case ComparisonOperator.GT | ComparisonOperator.GTE | ComparisonOperator.LT | ComparisonOperator.LTE:
            return any(_is_ordered(value, comparison, other) for other in expected)
        case ComparisonOperator.CONTAINS:
            return any(isinstance(value, str) and isinstance(other, str) and other in value for other in expected)
        case ComparisonOperator.ICONTAINS:
            folded_value = value.casefold() if isinstance(value, str) else ""
            return any(
                isinstance(other, str) and bool(folded_value) and other.casefold() in folded_value for other in expected
            )
        case _:
            assert_never(comparison)


def _are_equal(value: Scalar, other: Scalar) -> bool:
    # In Python True equals 1, but in JSON they are different values.
    return _value_kind(value) is _value_kind(other) and value == other


def _is_ordered(value: Scalar, comparison: ComparisonOperator, other: Scalar) -> bool:
    if isinstance(value, str) and isinstance(other, str):
        return _ORDERS[comparison]((value > other) - (value < other), 0)
    if (
        isinstance(value, int | float)
        and isinstance(other, int | float)
        and _value_kind(value) is _value_kind(other) is float
    ):
        return _ORDERS[comparison]((value > other) - (value < other), 0)
    return False


def _value_kind(value: Scalar) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)
