"""JSON from outside, read strictly: what two parsers could read in two ways is refused.

Refused: more bytes than allowed, text that is not UTF-8, deep nesting, too many values, one key twice, NaN and
infinities, integers beyond 64 bits, lone surrogates. No message repeats anything of what was read.
"""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from elytron_core import limits
from elytron_core.errors import InvalidJson, PayloadTooLarge

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""The value of a JSON document."""

_LARGEST = 2**63
_SURROGATE_ESCAPE = b"\\ud"
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>\\u[dD][89a-fA-F])|\\.")
"""Every escape of a sound document, from left to right: a pair of surrogates, a lone one, any other."""
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def parse(data: bytes, /, *, limit: int = limits.JSON_BYTES, depth: int = limits.JSON_DEPTH) -> Json:
    """Return the value of the JSON document `data`. Raises PayloadTooLarge, InvalidJson."""
    if len(data) > limit:
        raise PayloadTooLarge(limit=limit, what="the JSON")
    _require_few(data, limits.JSON_VALUES if limit <= limits.JSON_BYTES else limit // 16)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidJson(problem="is not UTF-8") from None
    try:
        value: Json = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJson(problem=f"cannot be parsed at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidJson(problem=f"is nested deeper than {depth}") from None
    if data.count(b"{") + data.count(b"[") > depth:
        _require_depth(value, depth)
    if _SURROGATE_ESCAPE in data.lower():
        _require_pairs(data)
    return value


def _require_few(data: bytes, most: int) -> None:
    """Raise InvalidJson for more than `most` values, before memory is spent on them."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= most:
        return
    # Signs within texts separate no values.
    bare = _TEXT.sub(b"", data)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > most:
        raise InvalidJson(problem=f"has more than {most} values")


def _require_pairs(data: bytes) -> None:
    for found in _ESCAPE.finditer(data):
        if found.lastgroup == "lone":
            line, column = data.count(b"\n", 0, found.start()) + 1, found.start() - data.rfind(b"\n", 0, found.start())
            raise InvalidJson(problem=f"has a lone surrogate at line {line}, byte {column}")


def _require_depth(value: Json, depth: int) -> None:
    level = [value]
    for _ in range(depth):
        level = [child for node in level for child in _children(node) if isinstance(child, dict | list)]
        if not level:
            return
    raise InvalidJson(problem=f"is nested deeper than {depth}")


def _children(node: Json) -> Iterable[Json]:
    match node:
        case dict():
            return node.values()
        case list():
            return node
        case _:
            return ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > limits.JSON_KEYS:
        raise InvalidJson(problem=f"has more than {limits.JSON_KEYS} keys in an object")
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidJson(problem="has one key twice in an object")
    return found


def _integer(text: str) -> int:
    # Counted before it is read: the interpreter refuses thousands of digits with an error of its own.
    if len(text) > 20 or not -_LARGEST <= (number := int(text)) < _LARGEST:
        raise InvalidJson(problem="has an integer beyond 64 bits")
    return number


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidJson(problem="has a number beyond what a float holds")
    return number


def _constant(name: str) -> float:
    raise InvalidJson(problem=f"has {name}, which is no JSON number")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)
