"""Compare step reports: readable differences, and partial expectations that ignore omitted fields."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from elytron_core.clock import instant
from elytron_core.errors import InvalidInput

ABSENT = "(absent)"
SHOWN_CHARS = 160
CONTEXT_CHARS = 24


class JsonDifference(NamedTuple):
    """A path and the values on both sides as text, shortened to the part that differs."""

    path: str
    left: str
    right: str


def json_differences(left: JsonValue, right: JsonValue, /, *, path: str = "") -> Iterator[JsonDifference]:
    """Yield every path at which `left` and `right` differ, as deep as possible."""
    match left, right:
        case dict(), dict():
            for key in sorted(left.keys() | right.keys()):
                if key in left and key in right:
                    yield from json_differences(left[key], right[key], path=path_below(path, key))
                else:
                    shown_sides = (shown_json(side[key]) if key in side else ABSENT for side in (left, right))
                    yield JsonDifference(path_below(path, key), *shown_sides)
        case list(), list():
            for index, (left_item, right_item) in enumerate(zip_longest(left, right, fillvalue=_END)):
                if left_item is _END:
                    yield JsonDifference(path_below(path, index), ABSENT, shown_json(right_item))
                elif right_item is _END:
                    yield JsonDifference(path_below(path, index), shown_json(left_item), ABSENT)
                else:
                    yield from json_differences(left_item, right_item, path=path_below(path, index))
        # Python treats True and 1 as equal; JSON does not.
        case _ if left != right or isinstance(left, bool) != isinstance(right, bool):
            yield cut_difference(path, left, right)
        case _:
            return


def cut_difference(path: str, left: JsonValue, right: JsonValue, /) -> JsonDifference:
    """Return the difference at `path`. Long texts are shortened to the passage around the first differing character."""
    left_text, right_text = _written_json(left), _written_json(right)
    if max(len(left_text), len(right_text)) <= SHOWN_CHARS:
        return JsonDifference(path, left_text, right_text)
    start = max(0, _first_difference(left_text, right_text) - CONTEXT_CHARS)
    return JsonDifference(path, _text_window(left_text, start), _text_window(right_text, start))


def shown_json(value: JsonValue, /) -> str:
    """Return `value` as one line of JSON, truncated if it is long."""
    return _text_window(_written_json(value), 0)


def path_below(path: str, part: str | int, /) -> str:
    """Return the path of `part` inside the value at `path`."""
    return f"{path}.{part}" if path else str(part)


# A mutable sentinel equals no other value and can be recognised with `is`.
_END: dict[str, JsonValue] = {}


def _written_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _first_difference(one: str, other: str) -> int:
    return next(
        (
            index
            for index, (left_character, right_character) in enumerate(zip(one, other, strict=False))
            if left_character != right_character
        ),
        min(len(one), len(other)),
    )


def _text_window(text: str, start: int) -> str:
    window = text[start : start + SHOWN_CHARS]
    return f"{'…' if start else ''}{window}{'…' if start + SHOWN_CHARS < len(text) else ''}"


MAY_DIFFER: Mapping[str, str] = {
    "engine": "the store's own name (inspect)",
    "store": "the store's guarantees (inspect)",
    "size_bytes": "an archive's size on disk (export)",
    "index_bytes": "the parts of the index in memory (inspect)",
    "checkpoints_written": "a reopened store writes them again (recover, close)",
    "capabilities.capacity": "the store's limits (inspect)",
    "capacity": "the same (capabilities)",
    "store_check.blobs": "index checkpoints, which a store may or may not have at that moment (inspect, recover)",
}
"""Report fields that must be present but whose values are not compared, with the reason for each."""

LEFT_OUT = "(differs by nature)"
TMP = "tmp"
"""Name of the reference to the fixture's temporary folder, used for archives."""


def normalise_report(report: JsonValue, /, *, folder: Path) -> JsonValue:
    """Return `report` without values that differ between runs; paths in the fixture's folder begin with `${tmp}`."""
    return _normalise_value(report, path="", folder=str(folder))


def _normalise_value(value: JsonValue, *, path: str, folder: str) -> JsonValue:
    if path in MAY_DIFFER:
        return LEFT_OUT
    match value:
        case dict():
            return {
                key: _normalise_value(part, path=path_below(path, key), folder=folder) for key, part in value.items()
            }
        case list():
            return [
                _normalise_value(part, path=path_below(path, index), folder=folder) for index, part in enumerate(value)
            ]
        case str():
            return value.replace(folder, f"${{{TMP}}}")
        case _:
            return value


NAME_PATTERN = r"^[a-z][a-z0-9_]{0,39}$"
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_TIME = "time "


def used_names(value: JsonValue, /) -> set[str]:
    """Return the names that `value` refers to, except `tmp` and times, which are always available."""
    return {name for text in _value_texts(value) for name in _REFERENCE.findall(text) if not _is_given(name)}


def resolve_references(value: JsonValue, values: Mapping[str, JsonValue], /) -> JsonValue:
    """Return `value` with every reference replaced by its value.

    A text that consists of one reference becomes the referenced value, of any type. Inside a longer text, only texts
    and whole numbers can be inserted. Raises InvalidInput for an unknown name, an invalid time or any other type.
    """
    match value:
        case dict():
            return {key: resolve_references(part, values) for key, part in value.items()}
        case list():
            return [resolve_references(part, values) for part in value]
        case str():
            reference_match = _REFERENCE.fullmatch(value)
            if reference_match is not None:
                return _named_value(reference_match[1], values)
            return _REFERENCE.sub(lambda match: _written_text(match[1], values), value)
        case _:
            return value


def pick_value(report: JsonValue, path: str, /) -> JsonValue:
    """Return the value at the dotted `path` of `report`. Raises KeyError if there is none."""
    value = report
    for part in path.split("."):
        match value:
            case dict() if part in value:
                value = value[part]
            case list() if part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            case _:
                raise KeyError(path)
    return value


def _is_given(name: str) -> bool:
    return name == TMP or name.startswith(_TIME)


def _value_texts(value: JsonValue) -> Iterator[str]:
    match value:
        case dict():
            for part in value.values():
                yield from _value_texts(part)
        case list():
            for part in value:
                yield from _value_texts(part)
        case str():
            yield value
        case _:
            return


def _named_value(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if name.startswith(_TIME):
        return instant(name.removeprefix(_TIME), field=f"${{{name}}}")
    if name not in values:
        raise InvalidInput(field=f"${{{name}}}", problem="is not saved by an earlier step")
    return values[name]


def _written_text(name: str, values: Mapping[str, JsonValue]) -> str:
    value = _named_value(name, values)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(field=f"${{{name}}}", problem="cannot be inserted into a text: use a text or whole number")
    return str(value)


class _ExpectationOperator(NamedTuple):
    """A `$word` of an expectation. `faults` yields each part of its argument that fails, with the actual value."""

    faults: Callable[[JsonValue, JsonValue], Iterator[tuple[JsonValue, JsonValue]]]
    takes: Callable[[JsonValue], bool]


def find_mismatches(expected: JsonValue, actual: JsonValue, /, *, path: str = "") -> Iterator[JsonDifference]:
    """Yield each place where `actual` does not meet `expected`.

    An object requires its own keys and ignores others. A list requires these items in this order, each compared
    partially. An object of `$words` applies those operators (see OPERATORS). Anything else requires equality.
    """
    match expected, actual:
        case dict(), _ if any(key.startswith("$") for key in expected):
            for operator, argument in expected.items():
                for part, actual_part in OPERATORS[operator].faults(argument, actual):
                    yield cut_difference(path, {operator: part}, actual_part)
        case dict(), dict():
            for key, part in expected.items():
                if key in actual:
                    yield from find_mismatches(part, actual[key], path=path_below(path, key))
                else:
                    yield JsonDifference(path_below(path, key), shown_json(part), ABSENT)
        case list(), list() if len(expected) == len(actual):
            for index, (part, actual_part) in enumerate(zip(expected, actual, strict=True)):
                yield from find_mismatches(part, actual_part, path=path_below(path, index))
        # JSON distinguishes true from 1; Python does not.
        case _ if expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
            yield cut_difference(path, expected, actual)
        case _:
            return


def find_shortfalls(minimum: Mapping[str, float], report: JsonValue, /) -> Iterator[JsonDifference]:
    """Yield each path of `minimum` where the report has a smaller number, or fewer items or characters."""
    for path, minimum_size in minimum.items():
        try:
            value = pick_value(report, path)
        except KeyError:
            yield JsonDifference(path, f"at least {minimum_size:g}", ABSENT)
            continue
        size = _value_size(value)
        if size is None or size < minimum_size:
            yield JsonDifference(path, f"at least {minimum_size:g}", shown_json(value) if size is None else f"{size:g}")


def require_known(expected: JsonValue, /) -> None:
    """Raise ValueError for an unknown `$word`, an invalid argument, or operators mixed with plain keys."""
    match expected:
        case dict():
            operators = [key for key in expected if key.startswith("$")]
            for operator in operators:
                if operator not in OPERATORS:
                    raise ValueError(f"{operator!r} is not an operator; choose from {', '.join(OPERATORS)}")
                if not OPERATORS[operator].takes(expected[operator]):
                    raise ValueError(f"{operator!r} does not accept this argument")
            if operators and len(operators) < len(expected):
                raise ValueError(f"{operators[0]!r} is mixed with plain keys: an object has either operators or keys")
            for part in expected.values():
                require_known(part)
        case list():
            for part in expected:
                require_known(part)
        case _:
            return


def _is_match(expected: JsonValue, actual: JsonValue) -> bool:
    return next(find_mismatches(expected, actual), None) is None


def _argument_parts(argument: JsonValue) -> Sequence[JsonValue]:
    return argument if isinstance(argument, list) else [argument]


def _matching_items(part: JsonValue, actual: JsonValue) -> Iterator[JsonValue]:
    """Yield what matches `part` in `actual`: the matching items, the key, or the text from its first occurrence."""
    match actual:
        case str() if isinstance(part, str) and part in actual:
            yield actual[actual.index(part) :]
        case dict() if isinstance(part, str) and part in actual:
            yield {part: actual[part]}
        case list():
            yield from (item for item in actual if _is_match(part, item))
        case _:
            return


def _contains_faults(argument: JsonValue, actual: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    for part in _argument_parts(argument):
        if next(_matching_items(part, actual), None) is None:
            yield part, actual


def _lacks_faults(argument: JsonValue, actual: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    # A number or null contains nothing, so the expectation would hold, but a wrong path is more likely.
    if not isinstance(actual, str | list | dict):
        yield argument, actual
        return
    for part in _argument_parts(argument):
        for item in _matching_items(part, actual):
            yield part, item


def _first_faults(argument: JsonValue, actual: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    match argument, actual:
        case str(), str() if actual.startswith(argument):
            return
        case list(), list() if _is_match(argument, actual[: len(argument)]):
            return
        case _:
            yield argument, actual


def _count_faults(argument: JsonValue, actual: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    size = _value_size(actual) if isinstance(actual, str | list | dict) else None
    if size != argument:
        yield argument, actual if size is None else size


def _at_most(argument: JsonValue, actual: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    size = _value_size(actual)
    assert isinstance(argument, int | float)
    if size is None or size > argument:
        yield argument, actual if size is None else size


def _value_size(value: JsonValue) -> float | None:
    match value:
        case bool() | None:
            return None
        case int() | float():
            return value
        case str() | list() | dict():
            return len(value)


def _is_number(argument: JsonValue) -> bool:
    return isinstance(argument, int | float) and not isinstance(argument, bool)


def _is_text_or_list(argument: JsonValue) -> bool:
    return isinstance(argument, str | list)


def _is_something(argument: JsonValue) -> bool:
    return argument is not None


OPERATORS: Mapping[str, _ExpectationOperator] = {
    "$contains": _ExpectationOperator(_contains_faults, _is_something),
    "$lacks": _ExpectationOperator(_lacks_faults, _is_something),
    "$first": _ExpectationOperator(_first_faults, _is_text_or_list),
    "$count": _ExpectationOperator(_count_faults, _is_number),
    "$at_most": _ExpectationOperator(_at_most, _is_number),
}
"""Operators that expectations may use instead of plain values; docs/reference/fixtures.md describes each one."""
