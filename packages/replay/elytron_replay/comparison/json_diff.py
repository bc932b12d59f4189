"""Differences of two JSON values, in a form for people."""

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

ABSENT = "(absent)"
SHOWN_CHARS = 160
CONTEXT_CHARS = 24


class JsonDifference(NamedTuple):
    """A path, and the values there on both sides, as text and cut to the difference."""

    path: str
    left: str
    right: str


def json_differences(left: JsonValue, right: JsonValue, /, *, path: str = "") -> Iterator[JsonDifference]:
    """Yield each path at which `left` and `right` differ, as deep as possible."""
    match left, right:
        case dict(), dict():
            for key in sorted(left.keys() | right.keys()):
                if key in left and key in right:
                    yield from json_differences(left[key], right[key], path=path_below(path, key))
                else:
                    there = (shown_json(side[key]) if key in side else ABSENT for side in (left, right))
                    yield JsonDifference(path_below(path, key), *there)
        case list(), list():
            for place, (one, other) in enumerate(zip_longest(left, right, fillvalue=_END)):
                if one is _END:
                    yield JsonDifference(path_below(path, place), ABSENT, shown_json(other))
                elif other is _END:
                    yield JsonDifference(path_below(path, place), shown_json(one), ABSENT)
                else:
                    yield from json_differences(one, other, path=path_below(path, place))
        case _ if left != right or isinstance(left, bool) != isinstance(right, bool):
            yield cut_difference(path, left, right)
        case _:
            return


def cut_difference(path: str, left: JsonValue, right: JsonValue, /) -> JsonDifference:
    """Return the difference at `path`; of long texts, the stretch around the first character that differs."""
    one, other = _written_json(left), _written_json(right)
    if max(len(one), len(other)) <= SHOWN_CHARS:
        return JsonDifference(path, one, other)
    start = max(0, _first_difference(one, other) - CONTEXT_CHARS)
    return JsonDifference(path, _text_window(one, start), _text_window(other, start))


def shown_json(value: JsonValue, /) -> str:
    """Return `value` as one line of JSON, cut if it is long."""
    return _text_window(_written_json(value), 0)


def path_below(path: str, part: str | int, /) -> str:
    """Return the path of `part` in the value at `path`."""
    return f"{path}.{part}" if path else str(part)


# A mutable object is equal to no other value, and `is` finds it.
_END: dict[str, JsonValue] = {}


def _written_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _first_difference(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _text_window(text: str, start: int) -> str:
    cut = text[start : start + SHOWN_CHARS]
    return f"{'…' if start else ''}{cut}{'…' if start + SHOWN_CHARS < len(text) else ''}"


MAY_DIFFER: Mapping[str, str] = {
    "engine": "the store's own name (inspect)",
    "store": "what the store can promise (inspect)",
    "size_bytes": "an archive's size on disk (export)",
    "index_bytes": "what the index happens to hold in memory (inspect)",
    "checkpoints_written": "a store that was opened again writes them again (recover, close)",
    "capabilities.capacity": "what the store may hold at most (inspect)",
    "capacity": "the same (capabilities)",
    "store_check.blobs": "index checkpoints, which a store may or may not have at that moment (inspect, recover)",
}
"""Path in a report, and why. Such a field must be there; its value is not compared."""

LEFT_OUT = "(differs by nature)"
TMP = "${tmp}"


def normalise_report(report: JsonValue, /, *, folder: Path) -> JsonValue:
    """Return `report` without what differs by nature; paths in the story's folder begin with `${tmp}`."""
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
                _normalise_value(part, path=path_below(path, place), folder=folder) for place, part in enumerate(value)
            ]
        case str():
            return value.replace(folder, TMP)
        case _:
            return value
