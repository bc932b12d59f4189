"""Strict JSON: parsed strictly from outside, and written canonically, so equal values give equal bytes."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from elytron_core import limits
from elytron_core.errors import InvalidJson, PayloadTooLarge

JSON_KEYS: Final = 10_000
JSON_VALUES: Final = 500_000
"""Keys of one object, and values of a document; where more than `limits.JSON_BYTES` are allowed, one for each 16 of
them."""


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""A value of a JSON document."""

_LARGEST = 2**63
_SURROGATE_ESCAPE = b"\\ud"
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<lone>\\u[dD][89a-fA-F](?:[0-9a-fA-F]{2})?)|\\.")
"""Every escape of a valid document, from left to right: a surrogate pair, a lone surrogate, any other."""
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def parse_json(
    data: bytes, /, *, limit: int = limits.JSON_BYTES, depth: int = limits.JSON_DEPTH, has_many_keys: bool = False
) -> Json:
    """Return the value of the JSON document `data`. Raises PayloadTooLarge, InvalidJson.

    With `has_many_keys`, only the number of values in the document limits the keys of an object.
    """
    # The byte limits come first, because they need no memory.
    if len(data) > limit:
        raise PayloadTooLarge(limit=limit, what="the JSON")
    _require_few(data, JSON_VALUES if limit <= limits.JSON_BYTES else limit // 16)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidJson(problem="is not UTF-8") from None
    try:
        value: Json = (_large_decoder if has_many_keys else _decoder).decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJson(problem=f"cannot be parsed at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidJson(problem=f"is nested deeper than {depth}") from None
    # A document cannot be deeper than it has opening brackets, so few have to be walked.
    if data.count(b"{") + data.count(b"[") > depth:
        _require_depth(value, depth)
    # The decoder accepts a lone surrogate, which cannot be written back as UTF-8.
    if _SURROGATE_ESCAPE in data.lower():
        _require_pairs(data)
    return value


def _require_few(data: bytes, max_values: int) -> None:
    """Raise InvalidJson for more than `max_values` values, before memory is spent on them."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= max_values:
        return
    # Separators inside strings separate no values.
    data_without_texts = _TEXT.sub(b"", data)
    if data_without_texts.count(b",") + data_without_texts.count(b"[") + data_without_texts.count(b"{") > max_values:
        raise InvalidJson(problem=f"has more than {max_values} values")


_HALF_ENCODED = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def mend_surrogates(data: bytes, /) -> bytes:
    """Return a JSON document or text in which U+FFFD replaces each lone surrogate, escaped or encoded."""
    data = _HALF_ENCODED.sub("\ufffd".encode(), data) if b"\xed" in data else data
    if _SURROGATE_ESCAPE not in data.lower():
        return data
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match.lastgroup == "lone" else match[0], data)


def _require_pairs(data: bytes) -> None:
    for match in _ESCAPE.finditer(data):
        if match.lastgroup == "lone":
            line, column = data.count(b"\n", 0, match.start()) + 1, match.start() - data.rfind(b"\n", 0, match.start())
            raise InvalidJson(problem=f"has a lone surrogate at line {line}, byte {column}")


def _require_depth(value: Json, depth: int) -> None:
    level_nodes = [value]
    for _ in range(depth):
        level_nodes = [child for node in level_nodes for child in _child_nodes(node) if isinstance(child, dict | list)]
        if not level_nodes:
            return
    raise InvalidJson(problem=f"is nested deeper than {depth}")


def _child_nodes(node: Json) -> Iterable[Json]:
    match node:
        case dict():
            return node.values()
        case list():
            return node
        case _:
            return ()


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > JSON_KEYS:
        raise InvalidJson(problem=f"has an object with more than {JSON_KEYS} keys")
    return _build_large_object(pairs)


def _build_large_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    # For a repeated key one parser takes the first value and another the last.
    if len(members) != len(pairs):
        raise InvalidJson(problem="has an object with a duplicate key")
    return members


def _parse_integer(text: str) -> int:
    # Counted before parsing: the interpreter rejects thousands of digits with an error of its own.
    if len(text) > 20 or not -_LARGEST <= (number := int(text)) < _LARGEST:
        raise InvalidJson(problem="has an integer beyond 64 bits")
    return number


def _parse_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidJson(problem="has a number that does not fit into a float")
    return number


def _refuse_constant(name: str) -> float:
    raise InvalidJson(problem=f"has {name}, which is not a JSON number")


def _strict_decoder(build: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=build, parse_int=_parse_integer, parse_float=_parse_number, parse_constant=_refuse_constant
    )


_decoder, _large_decoder = _strict_decoder(_build_object), _strict_decoder(_build_large_object)


def canonical_bytes(value: Any, /) -> bytes:
    """Return the canonical JSON of `value`: keys sorted, no spaces, UTF-8, no NaN, None-valued fields kept.

    Models are dumped by their field names. Raises ValueError for NaN, infinities and lone surrogates.
    """
    plain_value = value.model_dump(mode="json") if isinstance(value, BaseModel) else to_jsonable_python(value)
    text = json.dumps(plain_value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8")


def sha256_digest(data: bytes, /) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def frame_checksum(*parts: bytes | memoryview) -> bytes:
    """Return eight bytes that change if any part is changed, moved or cut (BLAKE2b over lengths and bytes)."""
    running_digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        running_digest.update(len(part).to_bytes(8, "big"))
        running_digest.update(part)
    return running_digest.digest()


def keyed_tag(secret: bytes, purpose: str, /, *parts: str, size: int = 32) -> str:
    """Return `size` hex digits, an even number, that name `parts` to holders of `secret` alone (keyed BLAKE2b).

    Equal parts give equal tags; the tag of a short or guessable name reveals nothing to an outsider.
    """
    encoded_parts = [part.encode() for part in (purpose, *parts)]
    # Each length precedes its part, so that parts divided differently give another message.
    framed_message = b"".join([piece for part in encoded_parts for piece in (len(part).to_bytes(8, "big"), part)])
    return hashlib.blake2b(framed_message, key=secret, digest_size=size // 2).hexdigest()


def keyed_digest(secret: bytes, data: bytes, /) -> str:
    """Return a digest of `data` that only holders of `secret` can verify or guess (keyed BLAKE2b, 32 hex digits)."""
    return hashlib.blake2b(data, key=secret, digest_size=16).hexdigest()


def keyed_chain(secret: bytes, purpose: bytes, /, *, size: int) -> "hashlib.blake2b":
    """Return a running digest of `size` bytes; only holders of `secret` can compute or verify it.

    `purpose`, up to 16 bytes, keeps digests of one kind from being taken for another's.
    """
    return hashlib.blake2b(key=secret, person=purpose, digest_size=size)
