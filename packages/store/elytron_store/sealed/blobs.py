"""Sealing of blobs as streams: each chunk is bound to its number and to whether it is the last.

    blob  = version (1 byte) | data key number (4) | salt (32) | chunk, chunk, ... last chunk
    chunk = nonce (12) | ciphertext and tag (16)

Each blob has a key of its own, derived by the salt. All chunks but the last hold `CHUNK_BYTES`; the last one may be
empty. So a chunk that was altered, moved, dropped, repeated or taken from another blob does not open, and neither does
a blob that ends early: its new end was not sealed as the last.
"""

import os
import struct
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from elytron_core import limits
from elytron_core.errors import SealBroken
from elytron_store.engine import pieces
from elytron_store.sealed.cipher import NONCE_BYTES, TAG_BYTES, VERSION, DataKey, random_nonce

CHUNK_BYTES = 256 * 1024 - NONCE_BYTES - TAG_BYTES
"""Part of the format: a change of `limits.BLOB_CHUNK_BYTES` does not change it."""
_SEALED_CHUNK = CHUNK_BYTES + NONCE_BYTES + TAG_BYTES
_SALT_BYTES = 32
_HEAD = struct.Struct(f">BI{_SALT_BYTES}s")

assert CHUNK_BYTES <= limits.BLOB_CHUNK_BYTES


class Sealing:
    """A blob on its way in: `chunks` is what to store, `size` what has been taken in of the plain bytes."""

    def __init__(self, key: DataKey, where: bytes, parts: AsyncIterable[bytes], /) -> None:
        self.size = 0
        self._parts = parts
        self._head = _HEAD.pack(VERSION, key.number, os.urandom(_SALT_BYTES))
        self._bound = self._head + where
        self._cipher = _cipher(key, self._head)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the sealed blob. Raises LimitExceeded where more than `limits.BLOB_BYTES` flow in."""
        yield self._head
        held = b""
        number = 0
        async for piece in pieces(self._parts, size=CHUNK_BYTES):
            self.size += len(piece)
            # A chunk waits until more comes, for the last one must be sealed as such.
            if held:
                yield self._seal(held, number, b"more")
                number += 1
            held = piece
        yield self._seal(held, number, b"last")

    def _seal(self, plain: bytes, number: int, end: bytes) -> bytes:
        nonce = random_nonce()
        return nonce + self._cipher.encrypt(nonce, plain, _chunk_place(self._bound, number, end))


@asynccontextmanager
async def closing(stream: AsyncIterator[bytes], /) -> AsyncGenerator[AsyncIterator[bytes]]:
    """Close `stream` at the end of the block, also if it was not read to its end."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


async def unseal(
    stream: AsyncIterator[bytes], /, *, find_key: Callable[[int], Awaitable[DataKey | None]], where: bytes, what: str
) -> AsyncIterator[bytes]:
    """Yield the plain bytes of the sealed blob `stream`, each chunk once it is proven; close `stream` at the end.

    Raises SealBroken, which names `what`, before the first chunk that is not what was written.
    """
    async with closing(stream):
        held = bytearray()
        async for part in stream:
            held += part
            if len(held) >= _HEAD.size:
                break
        head = bytes(held[: _HEAD.size])
        key = await find_key(_key_number(head))
        if key is None:
            raise SealBroken(what=what)
        cipher = _cipher(key, head)
        bound = head + where
        del held[: _HEAD.size]
        number = 0
        while True:
            while len(held) > _SEALED_CHUNK:
                chunk = bytes(held[:_SEALED_CHUNK])
                del held[:_SEALED_CHUNK]
                yield _open(cipher, chunk, _chunk_place(bound, number, b"more"), what)
                number += 1
            part = await anext(stream, None)
            if part is None:
                break
            held += part
        if last := _open(cipher, bytes(held), _chunk_place(bound, number, b"last"), what):
            yield last


def _cipher(key: DataKey, head: bytes) -> AESGCM:
    return AESGCM(key.derive(b"blob " + head))


def _chunk_place(bound: bytes, number: int, end: bytes) -> bytes:
    return b"%b|%d|%b" % (bound, number, end)


def _key_number(head: bytes) -> int:
    if len(head) < _HEAD.size or head[0] != VERSION:
        return 0
    return int.from_bytes(head[1:5], "big")


def _open(cipher: AESGCM, chunk: bytes, where: bytes, what: str) -> bytes:
    if len(chunk) < NONCE_BYTES + TAG_BYTES:
        raise SealBroken(what=what)
    try:
        return cipher.decrypt(chunk[:NONCE_BYTES], chunk[NONCE_BYTES:], where)
    except InvalidTag:
        raise SealBroken(what=what) from None
