"""Does a report say what a fixture demands? Partial: what the fixture does not mention may be anything."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from elytron_replay.comparison import references
from elytron_replay.comparison.json_diff import ABSENT, Difference, below, differing, shown


class _Operator(NamedTuple):
    """A `$word` of an expectation: `faults` yields each part of its argument that fails, and the value there."""

    faults: Callable[[JsonValue, JsonValue], Iterator[tuple[JsonValue, JsonValue]]]
    takes: Callable[[JsonValue], bool]


def mismatches(expected: JsonValue, found: JsonValue, /, *, path: str = "") -> Iterator[Difference]:
    """Yield each place where `found` is not what `expected` demands.

    An object demands its own keys and no others; a list demands these items in this order, each partially; an object
    of `$words` demands what they say (see OPERATORS); anything else demands equality.
    """
    match expected, found:
        case dict(), _ if any(key.startswith("$") for key in expected):
            for word, argument in expected.items():
                for part, there in OPERATORS[word].faults(argument, found):
                    yield differing(path, {word: part}, there)
        case dict(), dict():
            for key, part in expected.items():
                if key in found:
                    yield from mismatches(part, found[key], path=below(path, key))
                else:
                    yield Difference(below(path, key), shown(part), ABSENT)
        case list(), list() if len(expected) == len(found):
            for place, (part, there) in enumerate(zip(expected, found, strict=True)):
                yield from mismatches(part, there, path=below(path, place))
        # JSON knows true and 1 apart; Python does not.
        case _ if expected != found or isinstance(expected, bool) != isinstance(found, bool):
            yield differing(path, expected, found)
        case _:
            return


def shortfalls(minimum: Mapping[str, float], report: JsonValue, /) -> Iterator[Difference]:
    """Yield each path of `minimum` where the report has less: a smaller number, or fewer items or characters."""
    for path, least in minimum.items():
        try:
            found = references.pick(report, path)
        except KeyError:
            yield Difference(path, f"at least {least:g}", ABSENT)
            continue
        size = _size(found)
        if size is None or size < least:
            yield Difference(path, f"at least {least:g}", shown(found) if size is None else f"{size:g}")


def require_known(expected: JsonValue, /) -> None:
    """Raise ValueError for an unknown `$word`, a wrong argument, or one beside plain keys."""
    match expected:
        case dict():
            words = [key for key in expected if key.startswith("$")]
            for word in words:
                if word not in OPERATORS:
                    raise ValueError(f"{word!r} is no operator; there are {', '.join(OPERATORS)}")
                if not OPERATORS[word].takes(expected[word]):
                    raise ValueError(f"{word!r} does not take such an argument")
            if words and len(words) < len(expected):
                raise ValueError(f"{words[0]!r} is beside plain keys: an object holds either")
            for part in expected.values():
                require_known(part)
        case list():
            for part in expected:
                require_known(part)
        case _:
            return


def _matches(expected: JsonValue, found: JsonValue) -> bool:
    return next(mismatches(expected, found), None) is None


def _each(argument: JsonValue) -> Sequence[JsonValue]:
    return argument if isinstance(argument, list) else [argument]


def _among(part: JsonValue, found: JsonValue) -> Iterator[JsonValue]:
    """Yield what in `found` is `part`: the items it matches, the key, or the stretch of text that begins with it."""
    match found:
        case str() if isinstance(part, str) and part in found:
            yield found[found.index(part) :]
        case dict() if isinstance(part, str) and part in found:
            yield {part: found[part]}
        case list():
            yield from (there for there in found if _matches(part, there))
        case _:
            return


def _contains(argument: JsonValue, found: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    for part in _each(argument):
        if next(_among(part, found), None) is None:
            yield part, found


def _lacks(argument: JsonValue, found: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    # A number or null lacks everything, but a demand on it is more likely a wrong path.
    if not isinstance(found, str | list | dict):
        yield argument, found
        return
    for part in _each(argument):
        for there in _among(part, found):
            yield part, there


def _first(argument: JsonValue, found: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    match argument, found:
        case str(), str() if found.startswith(argument):
            return
        case list(), list() if _matches(argument, found[: len(argument)]):
            return
        case _:
            yield argument, found


def _count(argument: JsonValue, found: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    size = _size(found) if isinstance(found, str | list | dict) else None
    if size != argument:
        yield argument, found if size is None else size


def _at_most(argument: JsonValue, found: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    size = _size(found)
    assert isinstance(argument, int | float)
    if size is None or size > argument:
        yield argument, found if size is None else size


def _size(found: JsonValue) -> float | None:
    match found:
        case bool() | None:
            return None
        case int() | float():
            return found
        case str() | list() | dict():
            return len(found)


def _is_number(argument: JsonValue) -> bool:
    return isinstance(argument, int | float) and not isinstance(argument, bool)


def _is_text_or_list(argument: JsonValue) -> bool:
    return isinstance(argument, str | list)


def _is_something(argument: JsonValue) -> bool:
    return argument is not None


OPERATORS: Mapping[str, _Operator] = {
    "$contains": _Operator(_contains, _is_something),
    "$lacks": _Operator(_lacks, _is_something),
    "$first": _Operator(_first, _is_text_or_list),
    "$count": _Operator(_count, _is_number),
    "$at_most": _Operator(_at_most, _is_number),
}
"""Words of expectations beside plain values; docs/fixtures.md has a line for each."""
