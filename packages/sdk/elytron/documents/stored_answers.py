"""Stored answers for repeated calls, readable only by a caller that makes the same call again.

An answer may name what the call stored, and outlives it: after an erasure it must not reveal what is gone. Its key is
made of the space's secret, the idempotency key and the whole request, of which the store keeps a digest alone.
"""

import os
from typing import Final

from elytron_core.errors import StoreCorrupt
from elytron_core.planes.space import SpaceRecord

_NONCE_BYTES: Final = 12


def sealed_answer(answer: bytes, record: SpaceRecord, key: str, request: bytes, /) -> bytes:
    """Return `answer` as it is kept under the idempotency key `key` of `request`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(record.answer_key(key, request)).encrypt(nonce, answer, None)


def opened_answer(kept: bytes, record: SpaceRecord, key: str, request: bytes, /) -> bytes:
    """Return the answer that `sealed_answer` made for the same key and request. Raises StoreCorrupt."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, sealed = kept[:_NONCE_BYTES], kept[_NONCE_BYTES:]
    try:
        return AESGCM(record.answer_key(key, request)).decrypt(nonce, sealed, None)
    except (InvalidTag, ValueError):
        raise StoreCorrupt(what="the answer kept for an idempotency key") from None
