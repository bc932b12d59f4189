"""A user's key: 32 bytes derived from 12 words or a passphrase."""

import hashlib
import os
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from elytron_core.errors import InvalidInput
from elytron_core.text import recovery_words
from elytron_store.secret.derivation.key_tree import PrivateNode, child_secret
from elytron_store.secret.records import SALT_BYTES, DerivationTerms, KeyDerivation

KEY_BYTES: Final = 32
PASSPHRASE_CHARS_MIN: Final = 12
PASSPHRASE_CHARS: Final = 1024
MEMORY_KIB: Final = 64 * 1024
"""Memory of a derivation: RFC 9106's second choice."""


def terms_of_words(*, index: int = 0) -> DerivationTerms:
    """Return the derivation terms of a key from words."""
    return DerivationTerms(function=KeyDerivation.BIP85, index=index)


def terms_of_passphrase(function: KeyDerivation | None = None, /) -> DerivationTerms:
    """Return new derivation terms of a key from a passphrase: Argon2id if the cipher library has it, else scrypt."""
    key_derivation = function or (KeyDerivation.ARGON2ID if _has_argon2() else KeyDerivation.SCRYPT)
    salt = os.urandom(SALT_BYTES)
    if key_derivation is KeyDerivation.ARGON2ID:
        return DerivationTerms(function=key_derivation, salt=salt, memory_kib=MEMORY_KIB, rounds=3, lanes=4)
    # With r = 8, scrypt uses one KiB per unit of cost.
    return DerivationTerms(function=key_derivation, salt=salt, memory_kib=MEMORY_KIB, rounds=1, lanes=1)


def require_passphrase(passphrase: str, /) -> None:
    """Raise InvalidInput, which echoes nothing, for a passphrase that is too short or too long."""
    if not PASSPHRASE_CHARS_MIN <= len(passphrase.strip()) <= PASSPHRASE_CHARS:
        problem = f"does not have {PASSPHRASE_CHARS_MIN} to {PASSPHRASE_CHARS} characters"
        raise InvalidInput(field="passphrase", problem=problem)


def derive_key(secret: str, terms: DerivationTerms, /) -> bytes:
    """Return the key of `secret`; a passphrase takes a fraction of a second, and `terms.memory_kib` of memory.

    Raises WordsInvalid.
    """
    match terms.function:
        case KeyDerivation.BIP85:
            return child_secret(PrivateNode.of_seed(recovery_words.seed_of(secret)), size=KEY_BYTES, index=terms.index)
        case KeyDerivation.ARGON2ID:
            return stretch_argon2(_passphrase_bytes(secret), terms)
        case KeyDerivation.SCRYPT:
            return stretch_scrypt(_passphrase_bytes(secret), terms)


def stretch_argon2(secret: bytes, terms: DerivationTerms, /) -> bytes:
    """Return the key by Argon2id (RFC 9106)."""
    return Argon2id(
        salt=terms.salt, length=KEY_BYTES, iterations=terms.rounds, lanes=terms.lanes, memory_cost=terms.memory_kib
    ).derive(secret)


def stretch_scrypt(secret: bytes, terms: DerivationTerms, /) -> bytes:
    """Return the key by scrypt (RFC 7914) with blocks of 8."""
    memory_bytes = (terms.memory_kib + 1024) * 1024 * 2
    return hashlib.scrypt(
        secret, salt=terms.salt, n=terms.memory_kib, r=8, p=terms.lanes, maxmem=memory_bytes, dklen=KEY_BYTES
    )


def _passphrase_bytes(passphrase: str) -> bytes:
    return recovery_words.normal_text(passphrase.strip()).encode("utf-8", "surrogatepass")


def _has_argon2() -> bool:
    try:
        Argon2id(salt=bytes(SALT_BYTES), length=KEY_BYTES, iterations=1, lanes=1, memory_cost=64)
    except UnsupportedAlgorithm:
        return False
    return True
