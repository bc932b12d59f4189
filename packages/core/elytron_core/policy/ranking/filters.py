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


def _value_meets(value: Scalar, comparison: ComparisonOperator, expected_values: tuple[Scalar, ...]) -> bool:
    match comparison:
        case ComparisonOperator.EXISTS:
            return True
        case ComparisonOperator.EQ | ComparisonOperator.IN:
            return any(_are_equal(value, expected_value) for expected_value in expected_values)
        case ComparisonOperator.NE | ComparisonOperator.NIN:
            return not any(_are_equal(value, expected_value) for expected_value in expected_values)
        case ComparisonOperator.GT | ComparisonOperator.GTE | ComparisonOperator.LT | ComparisonOperator.LTE:
            return any(_is_ordered(value, comparison, expected_value) for expected_value in expected_values)
        case ComparisonOperator.CONTAINS:
            return any(
                isinstance(value, str) and isinstance(expected_value, str) and expected_value in value
                for expected_value in expected_values
            )
        case ComparisonOperator.ICONTAINS:
            folded_value = value.casefold() if isinstance(value, str) else ""
            return any(
                isinstance(expected_value, str) and bool(folded_value) and expected_value.casefold() in folded_value
                for expected_value in expected_values
            )
        case _:
            assert_never(comparison)


def _are_equal(value: Scalar, expected_value: Scalar) -> bool:
    # In Python True equals 1, but in JSON they are different values.
    return _value_kind(value) is _value_kind(expected_value) and value == expected_value


def _is_ordered(value: Scalar, comparison: ComparisonOperator, expected_value: Scalar) -> bool:
    if isinstance(value, str) and isinstance(expected_value, str):
        return _ORDERS[comparison]((value > expected_value) - (value < expected_value), 0)
    if (
        isinstance(value, int | float)
        and isinstance(expected_value, int | float)
        and _value_kind(value) is _value_kind(expected_value) is float
    ):
        return _ORDERS[comparison]((value > expected_value) - (value < expected_value), 0)
    return False


def _value_kind(value: Scalar) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)
