"""One byte form per value, and digests over it. Equal values give equal bytes on every machine and version."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python


def canonical_bytes(value: Any, /) -> bytes:
    """Return the canonical JSON of `value`: keys sorted, no spaces, UTF-8, no NaN, None-valued fields kept.

    Models are dumped by their field names. Raises ValueError for NaN, infinities and lone surrogates.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else to_jsonable_python(value)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8")


def digest(data: bytes, /) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def checksum(*parts: bytes | memoryview) -> bytes:
    """Return eight bytes that change with any changed, moved or cut part (BLAKE2b over lengths and bytes)."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def tag(secret: bytes, purpose: str, /, *parts: str, size: int = 32) -> str:
    """Return `size` hex digits, an even number, that name `parts` to holders of `secret` alone (keyed BLAKE2b).

    Equal parts give equal tags; the tag of a short or guessable name reveals nothing to an outsider.
    """
    encoded = [part.encode() for part in (purpose, *parts)]
    message = b"".join([piece for part in encoded for piece in (len(part).to_bytes(8, "big"), part)])
    return hashlib.blake2b(message, key=secret, digest_size=size // 2).hexdigest()


class Fingerprint:
    """A digest of byte strings that are added one after the other; their order does not count."""

    def __init__(self) -> None:
        self._items: list[bytes] = []

    @property
    def count(self) -> int:
        """The number of byte strings that were added."""
        return len(self._items)

    def add(self, item: bytes, /) -> None:
        self._items.append(hashlib.sha256(item).digest())

    def hexdigest(self) -> str:
        return hashlib.sha256(b"".join(sorted(self._items))).hexdigest()


def keyed_digest(secret: bytes, data: bytes, /) -> str:
    """Return a digest of `data` that only holders of `secret` can check or guess (keyed BLAKE2b, 32 hex digits)."""
    return hashlib.blake2b(data, key=secret, digest_size=16).hexdigest()


def keyed_chain(secret: bytes, purpose: bytes, /, *, size: int) -> "hashlib.blake2b":
    """Return a running digest, `size` bytes, of what it is given; only holders of `secret` can make or check it.

    `purpose`, up to 16 bytes, keeps digests of one kind from being taken for another's.
    """
    return hashlib.blake2b(key=secret, person=purpose, digest_size=size)
