"""Sealing of bytes: AES-256-GCM under keys derived from a data key, bound to their place.

    sealed = version (1 byte) | data key number (4) | salt (16) | nonce (12) | ciphertext and tag (16)

A data key never encrypts. Each sealer draws a salt, derives its own key from it (HKDF-Expand, SHA-256) and draws
the next after `SEALS_PER_KEY` messages. Random nonces are safe up to 2^32 messages under one key (NIST SP
800-38D), and this keeps to it for any number of processes without a shared counter, which a crash, a restored snapshot
or a fork could set back.

Tags that are looked up by their seals are sealed by AES-SIV (RFC 5297), without a nonce: equal tags have equal seals.
"""

import base64
import binascii
import hashlib
import os
import struct
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from elytron_core import limits
from elytron_core.errors import SealBroken
from elytron_core.ports.store import closed_stream
from elytron_store.engine import blob_pieces

SEALS_PER_KEY: Final = 2**28
"""Messages under one derived key: far below the 2^32 up to which random nonces are safe."""


KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
SALT_BYTES = 16
VERSION = 1
_HEAD = struct.Struct(f">BI{SALT_BYTES}s")
_BODY_AT = _HEAD.size + NONCE_BYTES
OVERHEAD = _BODY_AT + TAG_BYTES
_DERIVED_KEPT = 256

assert OVERHEAD <= limits.SEAL_BYTES


def bound_place(purpose: str, /, *parts: str) -> bytes:
    """Return the bytes that bind a message to its place; different places never give equal bytes."""
    encoded_parts = [part.encode("utf-8") for part in (purpose, *parts)]
    return b"".join(b"%d:%b" % (len(part), part) for part in encoded_parts)


def random_nonce() -> bytes:
    """Return a nonce from the system's random source.

    Never from the `Ids` port: fixture ids repeat from run to run, and a nonce that repeats under one key gives away
    both texts and the key that authenticates them. The system's source is also not copied by a fork.
    """
    return os.urandom(NONCE_BYTES)


def key_number(sealed_bytes: bytes, /, *, least_bytes: int = OVERHEAD) -> int:
    """Return the number of the data key in `sealed_bytes`, 0 for bytes that are not sealed."""
    if len(sealed_bytes) < least_bytes or sealed_bytes[0] != VERSION:
        return 0
    return int.from_bytes(sealed_bytes[1:5], "big")


class DataKey:
    """One version of a space's data key and the keys derived from it. Its `repr` shows no key material."""

    __slots__ = ("_derived", "_head", "_remaining_seals", "_sealing", "_seals_per_key", "_secret", "number")

    def __init__(self, number: int, secret: bytes, /, *, seals_per_key: int = SEALS_PER_KEY) -> None:
        assert len(secret) == KEY_BYTES
        self.number = number
        self._secret = secret
        self._seals_per_key = seals_per_key
        self._remaining_seals = 0
        self._derived: dict[bytes, AESGCM] = {}
        self._draw()

    def __repr__(self) -> str:
        return f"DataKey(number={self.number})"

    def seal(self, plain_bytes: bytes, place_bytes: bytes, /) -> bytes:
        """Return `plain_bytes` sealed for the place `place_bytes`."""
        if not self._remaining_seals:
            self._draw()
        self._remaining_seals -= 1
        nonce = random_nonce()
        # The head is authenticated with the place: another key number or salt does not open.
        return b"".join((self._head, nonce, self._sealing.encrypt(nonce, plain_bytes, self._head + place_bytes)))

    def open(self, sealed_bytes: bytes, place_bytes: bytes, /, *, what: str) -> bytes:
        """Return what was sealed for `place_bytes`. Raises SealBroken, which names `what`, for anything else."""
        if key_number(sealed_bytes) != self.number:
            raise SealBroken(what=what)
        head_bytes = sealed_bytes[: _HEAD.size]
        try:
            return self._opening(head_bytes).decrypt(
                sealed_bytes[_HEAD.size : _BODY_AT], sealed_bytes[_BODY_AT:], head_bytes + place_bytes
            )
        except InvalidTag:
            raise SealBroken(what=what) from None

    def sealed_under(self, key: "DataKey", place_bytes: bytes, /) -> bytes:
        """Return this data key sealed by `key` for the place `place_bytes`."""
        return key.seal(self._secret, place_bytes)

    def open_key(self, number: int, sealed_bytes: bytes, place_bytes: bytes, /, *, what: str) -> "DataKey":
        """Return the data key `number` that was sealed for the place `place_bytes`. Raises SealBroken."""
        key_secret = self.open(sealed_bytes, place_bytes, what=what)
        if len(key_secret) != KEY_BYTES:
            raise SealBroken(what=what)
        return DataKey(number, key_secret)

    def derive(self, label: bytes, /) -> bytes:
        """Return the key for another purpose that belongs to `label`."""
        return HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=b"elytron sealed 1 " + label).derive(self._secret)

    def _draw(self) -> None:
        self._head = _HEAD.pack(VERSION, self.number, os.urandom(SALT_BYTES))
        self._sealing = self._opening(self._head)
        self._remaining_seals = self._seals_per_key

    def _opening(self, head_bytes: bytes) -> AESGCM:
        cipher = self._derived.get(head_bytes)
        if cipher is None:
            if len(self._derived) >= _DERIVED_KEPT:
                self._derived.clear()
            cipher = self._derived[head_bytes] = AESGCM(self.derive(b"messages " + head_bytes))
        return cipher


CHUNK_BYTES = 256 * 1024 - NONCE_BYTES - TAG_BYTES
"""Part of the format: independent of `limits.BLOB_CHUNK_BYTES`."""
_SEALED_CHUNK = CHUNK_BYTES + NONCE_BYTES + TAG_BYTES
_SALT_BYTES = 32
_BLOB_HEAD = struct.Struct(f">BI{_SALT_BYTES}s")

assert CHUNK_BYTES <= limits.BLOB_CHUNK_BYTES


class SealingStream:
    """An incoming blob: `chunks` is what to store, `size` the number of plain bytes consumed."""

    def __init__(self, key: DataKey, place_bytes: bytes, parts: AsyncIterable[bytes], /) -> None:
        self.size = 0
        self._parts = parts
        self._head = _BLOB_HEAD.pack(VERSION, key.number, os.urandom(_SALT_BYTES))
        self._place = self._head + place_bytes
        self._cipher = _chunk_cipher(key, self._head)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the sealed blob. Raises LimitExceeded for more than `limits.BLOB_BYTES`."""
        yield self._head
        chunk = b""
        chunk_number = 0
        async for piece in blob_pieces(self._parts, size=CHUNK_BYTES):
            self.size += len(piece)
            # A chunk waits until more comes, because the last one must be sealed as such.
            if chunk:
                yield self._seal(chunk, chunk_number, b"more")
                chunk_number += 1
            chunk = piece
        # Also for an empty blob: without a chunk sealed as the last, truncation would go unnoticed.
        yield self._seal(chunk, chunk_number, b"last")

    def _seal(self, plain_bytes: bytes, chunk_number: int, end: bytes) -> bytes:
        nonce = random_nonce()
        return nonce + self._cipher.encrypt(nonce, plain_bytes, _chunk_place(self._place, chunk_number, end))


async def unseal_stream(
    stream: AsyncIterator[bytes], /, *, find_key: Callable[[int], Awaitable[DataKey | None]], where: bytes, what: str
) -> AsyncIterator[bytes]:
    """Yield the plain bytes of the sealed blob `stream`, each chunk once verified; close `stream` at the end.

    Raises SealBroken, which names `what`, before the first chunk that is not what was written.
    """
    async with closed_stream(stream):
        buffer = bytearray()
        async for part in stream:
            buffer += part
            if len(buffer) >= _BLOB_HEAD.size:
                break
        blob_head = bytes(buffer[: _BLOB_HEAD.size])
        key = await find_key(key_number(blob_head, least_bytes=_BLOB_HEAD.size))
        if key is None:
            raise SealBroken(what=what)
        cipher = _chunk_cipher(key, blob_head)
        context = blob_head + where
        del buffer[: _BLOB_HEAD.size]
        chunk_number = 0
        while True:
            # More than one chunk: the last has to be known as such when it is opened.
            while len(buffer) > _SEALED_CHUNK:
                chunk = bytes(buffer[:_SEALED_CHUNK])
                del buffer[:_SEALED_CHUNK]
                yield _open_chunk(cipher, chunk, _chunk_place(context, chunk_number, b"more"), what)
                chunk_number += 1
            part = await anext(stream, None)
            if part is None:
                break
            buffer += part
        if last_chunk := _open_chunk(cipher, bytes(buffer), _chunk_place(context, chunk_number, b"last"), what):
            yield last_chunk


def _chunk_cipher(key: DataKey, head_bytes: bytes) -> AESGCM:
    return AESGCM(key.derive(b"blob " + head_bytes))


def _chunk_place(context: bytes, chunk_number: int, end: bytes) -> bytes:
    return b"%b|%d|%b" % (context, chunk_number, end)


def _open_chunk(cipher: AESGCM, chunk: bytes, place_bytes: bytes, what: str) -> bytes:
    if len(chunk) < NONCE_BYTES + TAG_BYTES:
        raise SealBroken(what=what)
    try:
        return cipher.decrypt(chunk[:NONCE_BYTES], chunk[NONCE_BYTES:], place_bytes)
    except InvalidTag:
        raise SealBroken(what=what) from None


_TAG_WHAT: Final = "a sealed tag"
_IV_BYTES: Final = 16


class TagCipher:
    """Encrypts tags of one space. Equal tags have equal ciphertexts; those of two spaces are unrelated."""

    __slots__ = ("_cipher",)

    def __init__(self, secret: bytes, /) -> None:
        """Use a secret that nothing else uses; the 64 bytes of key are its SHA-512."""
        self._cipher = AESSIV(hashlib.sha512(secret).digest())

    def __repr__(self) -> str:
        return "TagCipher()"

    def seal(self, tag: str, /) -> str:
        """Return the seal of `tag`, trimmed and in lower case, as base64."""
        plain_tag = tag.strip().lower().encode("utf-8")
        assert plain_tag
        return base64.b64encode(self._cipher.encrypt(plain_tag, None)).decode("ascii")

    def seal_key(self, tag: str, /) -> str:
        """Return the first 16 bytes of the seal, its synthetic IV, as hex digits: short enough for a key."""
        return base64.b64decode(self.seal(tag))[:_IV_BYTES].hex()

    def open(self, sealed_text: str, /) -> str:
        """Return the tag in `sealed_text`. Raises SealBroken for anything that `seal` did not make."""
        try:
            return self._cipher.decrypt(base64.b64decode(sealed_text, validate=True), None).decode("utf-8")
        except (InvalidTag, ValueError, binascii.Error):
            raise SealBroken(what=_TAG_WHAT) from None
