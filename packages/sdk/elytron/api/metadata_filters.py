"""Conversion of mem0's nested filters: `{"AND": [{"team": "red"}, {"OR": [{"size": {"gte": 3}}, {"size": "*"}]}]}`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any, Final, cast

from pydantic import ValidationError

from elytron_core import limits
from elytron_core.clock import instant
from elytron_core.contracts.recall import AnyOf, ComparisonOperator, FieldCondition, RecallFilters, Scalar, Where
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.ids import is_name
from elytron_core.model import invalid_input, nearest_name

_WILDCARD: Final = "*"
_USER: Final = "user_id"
_TYPED: Final = {
    "agent_id": "agents", "app_id": "apps", "run_id": "conversations", "actor_id": "speakers", "role": "roles",
    "categories": "tags_any", "tags": "tags_any", "speaker": "speakers", "conversation": "conversations",
    "channel": "channels",
}  # fmt: skip
_OWN: Final = frozenset(RecallFilters.model_fields) - {"where"}
_MOMENTS: Final = frozenset(("created_at", "timestamp"))
_TIMES: Final = frozenset(("since", "until", "as_of", "known_at"))
_LISTS: Final = frozenset((ComparisonOperator.IN, ComparisonOperator.NIN))

Nested = Mapping[str, Any]
_Group = tuple[FieldCondition, ...]


def user_from(nested_filters: Nested, /) -> tuple[str | None, Nested]:
    """Return the user named by `user_id` at the top, under AND or an OR of one, and `nested_filters` without it.

    Raises InvalidInput if it names several users, or all.
    """
    user_values: set[Any] = set()
    remaining_filters: dict[str, Any] = {}
    for name, value in nested_filters.items():
        if name == _USER:
            user_values.update(_listed_values(name, value))
        elif name == "AND" or (name == "OR" and len(_nested_items(name, value)) == 1):
            user_splits = [user_from(item) for item in _nested_items(name, value)]
            user_values.update(user for user, _ in user_splits if user is not None)
            remaining_filters.setdefault("AND", []).extend(inner_filters for _, inner_filters in user_splits)
        else:
            remaining_filters[name] = value
    if not user_values:
        return None, remaining_filters
    user = user_values.pop()
    if user_values or not isinstance(user, str) or user == _WILDCARD:
        raise InvalidInput(field=f"filters.{_USER}", problem="does not name a single user: a call reads only one space")
    return user, remaining_filters


def filters_from(nested_filters: Nested, /) -> RecallFilters:
    """Return `nested_filters` as typed filters.

    Names that mem0 has for parts of the scope become those filters at the top level or under AND, with a plain value,
    "in" or a list; `created_at` takes gte and lt; names of `RecallFilters` are those filters, whose times may be
    datetimes or ISO 8601 text. Every other name is a metadata field, and so is each under `metadata`. Raises
    InvalidInput, also for a name that is nearly that of a filter, and LimitExceeded.
    """
    typed_values: dict[str, Any] = {}
    metadata_filters = _take_typed(nested_filters, typed_values)
    condition_groups = _all_groups(_all_of(item) for item in metadata_filters)
    try:
        return RecallFilters(**typed_values, where=tuple(AnyOf(conditions=group) for group in condition_groups))
    except ValidationError as error:
        raise invalid_input(error) from None


def where_from(nested_filters: Nested, /) -> Where:
    """Return `nested_filters`, in which all names are metadata fields, as groups of tests. Raises InvalidInput,
    LimitExceeded."""
    try:
        return tuple(AnyOf(conditions=group) for group in _all_of(nested_filters))
    except ValidationError as error:
        raise invalid_input(error) from None


def also_prefixed(where_groups: Where, prefix: str, /) -> Where:
    """Return tests that treat the field `prefix` + name like each field. Raises LimitExceeded."""
    groups = _all_groups(
        _any_groups([_twin_groups(condition, prefix) for condition in group.conditions]) for group in where_groups
    )
    return tuple(AnyOf(conditions=group) for group in groups)


def _twin_groups(condition: FieldCondition, prefix: str) -> list[_Group]:
    if not is_name(prefix + condition.field):
        return [(condition,)]
    prefixed_condition = condition.model_copy(update={"field": prefix + condition.field})
    passes_without_field = (
        condition.comparison in {ComparisonOperator.NE, ComparisonOperator.NIN}
    ) is not condition.negated
    return [(condition,), (prefixed_condition,)] if passes_without_field else [(condition, prefixed_condition)]


def _take_typed(nested: Nested, typed_values: dict[str, Any]) -> list[Nested]:
    """Move conditions with a typed filter to `typed_values`; return the rest, all of which must hold."""
    metadata_filters: list[Nested] = []
    for name, value in nested.items():
        if name == "AND":
            for item in _nested_items(name, value):
                metadata_filters += _take_typed(item, typed_values)
        elif name == "metadata" and isinstance(value, Mapping):
            metadata_filters.append(cast("Nested", value))
        elif name in _MOMENTS:
            _take_moment(name, value, typed_values)
        elif name in _TYPED:
            if _TYPED[name] in typed_values:
                raise InvalidInput(field=f"filters.{name}", problem="appears twice")
            typed_values[_TYPED[name]] = _listed_values(name, value)
        elif name in _OWN:
            if name in typed_values:
                raise InvalidInput(field=f"filters.{name}", problem="appears twice")
            is_time = name in _TIMES and isinstance(value, str | datetime)
            typed_values[name] = instant(value, field=f"filters.{name}") if is_time else value
        else:
            _require_no_typo(name)
            metadata_filters.append({name: value})
    return metadata_filters


def _require_no_typo(name: str) -> None:
    """Raise InvalidInput for a name that is nearly that of a filter, and not its singular."""
    similar_name = nearest_name(name, (*_OWN, *_TYPED, *_MOMENTS))
    if similar_name is not None and name not in {
        similar_name,
        similar_name.removesuffix("s"),
        similar_name.removesuffix("ies") + "y",
    }:
        problem = f"is not a filter: did you mean {similar_name!r}? For metadata of that name, filter by 'metadata'"
        raise InvalidInput(field=f"filters.{name}", problem=problem)


def _take_moment(name: str, value: Any, typed_values: dict[str, Any]) -> None:
    bounds: Nested = cast("Nested", value) if isinstance(value, Mapping) else {}
    if not bounds or bounds.keys() - {"gte", "lt"}:
        raise InvalidInput(field=f"filters.{name}", problem="accepts gte, lt or both")
    if "gte" in bounds:
        typed_values["since"] = instant(bounds["gte"], field=f"filters.{name}.gte")
    if "lt" in bounds:
        typed_values["until"] = instant(bounds["lt"], field=f"filters.{name}.lt")


def _listed_values(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        operand_by_comparison = cast("Nested", value)
        if len(operand_by_comparison) != 1 or not operand_by_comparison.keys() <= {"in", "eq"}:
            raise InvalidInput(field=f"filters.{name}", problem="accepts a value, a list, eq or in")
        value = next(iter(operand_by_comparison.values()))
    if isinstance(value, list | tuple):
        if not value:
            # As a filter of its own it would select everything.
            raise InvalidInput(field=f"filters.{name}", problem="is an empty list, which matches nothing: leave it out")
        return tuple(cast("Sequence[Any]", value))
    return (value,)


def _all_of(nested: Nested) -> list[_Group]:
    """Return groups equivalent to `nested`: all its conditions must hold together."""
    return _all_groups(_field_groups(name, value) for name, value in nested.items())


def _field_groups(name: str, value: Any) -> list[_Group]:
    match name:
        case "AND":
            return _all_groups(_all_of(item) for item in _nested_items(name, value))
        case "OR":
            return _any_groups([_all_of(item) for item in _nested_items(name, value)])
        case "NOT":
            return _all_groups(_negated_groups(_all_of(item)) for item in _nested_items(name, value))
        case _:
            return [(condition,) for condition in _field_tests(name, value)]


def _field_tests(name: str, value: Any) -> list[FieldCondition]:
    if name == _USER:
        problem = "names a space: allowed only at the top, under AND or an OR of one"
        raise InvalidInput(field=f"filters.{name}", problem=problem)
    if name in _TYPED or name in _MOMENTS:
        raise InvalidInput(field=f"filters.{name}", problem="is not allowed under OR or NOT: use its own filter")
    if value == _WILDCARD:
        return [_field_test(name, ComparisonOperator.EXISTS, ())]
    if not isinstance(value, Mapping):
        return [
            _field_test(
                name, ComparisonOperator.IN if isinstance(value, list | tuple) else ComparisonOperator.EQ, value
            )
        ]
    operand_by_comparison = cast("Nested", value)
    unknown_comparisons = operand_by_comparison.keys() - set(ComparisonOperator)
    if unknown_comparisons or not operand_by_comparison:
        raise InvalidInput(field=f"filters.{name}", problem=f"accepts {', '.join(ComparisonOperator)}")
    return [
        _field_test(name, ComparisonOperator(comparison), operand)
        for comparison, operand in operand_by_comparison.items()
    ]


def _field_test(name: str, comparison: ComparisonOperator, value: Any) -> FieldCondition:
    if comparison in _LISTS and not isinstance(value, list | tuple):
        raise InvalidInput(field=f"filters.{name}.{comparison}", problem="must be a list")
    values = tuple(cast("Sequence[Scalar]", value)) if isinstance(value, list | tuple) else (value,)
    try:
        return FieldCondition(
            field=name, comparison=comparison, values=values if comparison is not ComparisonOperator.EXISTS else ()
        )
    except ValidationError as error:
        raise invalid_input(error) from None


def _nested_items(name: str, value: Any) -> list[Nested]:
    items = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else [value]
    if not items or not all(isinstance(item, Mapping) for item in items):
        raise InvalidInput(field=f"filters.{name}", problem="must be a list of filters")
    return [cast("Nested", item) for item in items]


def _all_groups(group_lists: Iterable[list[_Group]]) -> list[_Group]:
    return _bound_groups(group for part in group_lists for group in part)


def _any_groups(alternatives: list[list[_Group]]) -> list[_Group]:
    return _bound_groups(
        tuple(condition for group in combination for condition in group) for combination in product(*alternatives)
    )


def _negated_groups(groups: list[_Group]) -> list[_Group]:
    # Not (a and b) is not-a or not-b; inside a group, not (a or b) is not-a and not-b.
    return _any_groups(
        [[(test.model_copy(update={"negated": not test.negated}),) for test in group] for group in groups]
    )


def _bound_groups(groups: Iterable[_Group]) -> list[_Group]:
    group_list: list[_Group] = []
    tests = 0
    for group in groups:
        tests += len(group)
        if tests > limits.CONDITION_TESTS:
            raise LimitExceeded(what="tests in a filter", limit=limits.CONDITION_TESTS)
        group_list.append(group)
    return group_list
