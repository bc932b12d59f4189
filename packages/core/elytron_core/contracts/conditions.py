"""Conditions on metadata, as filters carry them: groups of which each must hold by one of its conditions.

Every expression of and, or and not has this form; `elytron.api.metadata_filters` makes it of mem0's nested one.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from elytron_core import limits
from elytron_core.model import Value
from elytron_core.scope import Name

Scalar = StrictBool | StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=limits.CONDITION_CHARS)] | None


class Comparison(StrEnum):
    """Comparison of a value."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NIN = "nin"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    EXISTS = "exists"


class Condition(Value):
    """One comparison of the metadata under `field` with `values`: one of them, for `in` and `nin` any number.

    What has no such field passes `ne` and `nin` alone; `negated` turns the outcome round. Values of different kinds are
    never equal and in no order, but whole and broken numbers are one kind.
    """

    field: Name
    comparison: Comparison = Comparison.EQ
    values: Annotated[tuple[Scalar, ...], Field(max_length=limits.FILTER_VALUES)] = ()
    negated: bool = False


class AnyOf(Value):
    """Conditions of which one must hold."""

    conditions: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=limits.CONDITION_TESTS)]


Where = Annotated[tuple[AnyOf, ...], Field(max_length=limits.CONDITION_TESTS)]
