"""Conditions on metadata."""

import pytest

from elytron_core.contracts.recall import AnyOf, ComparisonOperator, FieldCondition, Scalar
from elytron_core.policy.ranking.filters import filters_hold

FIELDS: dict[str, Scalar] = {"team": "Red", "size": 3, "share": 0.5, "open": True, "note": None}
C = ComparisonOperator


def one(field: str, comparison: ComparisonOperator, *values: Scalar, negated: bool = False) -> bool:
    test = FieldCondition(field=field, comparison=comparison, values=values, negated=negated)
    return filters_hold((AnyOf(conditions=(test,)),), FIELDS)


@pytest.mark.parametrize(
    ("field", "comparison", "values", "met"),
    [
        ("team", C.EQ, ("Red",), True),
        ("team", C.EQ, ("red",), False),
        ("team", C.NE, ("Blue",), True),
        ("team", C.NE, ("Red",), False),
        ("team", C.CONTAINS, ("ed",), True),
        ("team", C.CONTAINS, ("ED",), False),
        ("team", C.ICONTAINS, ("ED",), True),
        ("size", C.ICONTAINS, ("3",), False),
        ("size", C.CONTAINS, ("3",), False),
        ("team", C.GT, ("Pink",), True),
        ("team", C.LT, (3,), False),
        ("size", C.EQ, (3.0,), True),
        ("size", C.GT, (2,), True),
        ("size", C.GT, (3,), False),
        ("size", C.GTE, (3,), True),
        ("size", C.LT, (3.5,), True),
        ("size", C.LTE, (2,), False),
        ("size", C.GT, ("2",), False),
        ("share", C.LTE, (0.5,), True),
        ("open", C.EQ, (True,), True),
        ("open", C.EQ, (1,), False),
        ("open", C.GT, (0,), False),
        ("note", C.EQ, (None,), True),
        ("note", C.GT, (None,), False),
        ("size", C.IN, (1, 2, 3), True),
        ("size", C.IN, (), False),
        ("size", C.NIN, (1, 2), True),
        ("size", C.NIN, (3,), False),
        ("team", C.EXISTS, (), True),
        ("gone", C.EXISTS, (), False),
        ("gone", C.EQ, (None,), False),
        ("gone", C.NE, (1,), True),
        ("gone", C.NIN, (1,), True),
        ("gone", C.LT, (1,), False),
    ],
)
def test_each_comparison_works_as_documented(
    field: str, comparison: ComparisonOperator, values: tuple[Scalar, ...], met: bool
) -> None:
    assert one(field, comparison, *values) is met
    assert one(field, comparison, *values, negated=True) is not met


def test_every_group_needs_one_matching_comparison() -> None:
    red, large = (
        FieldCondition(field="team", values=("Red",)),
        FieldCondition(field="size", comparison=C.GT, values=(10,)),
    )
    assert filters_hold((), FIELDS)
    assert filters_hold((AnyOf(conditions=(large, red)),), FIELDS)
    assert not filters_hold((AnyOf(conditions=(red,)), AnyOf(conditions=(large,))), FIELDS)
