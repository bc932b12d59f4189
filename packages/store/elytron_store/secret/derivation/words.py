"""Words that hold a key, as in BIP-39: 12 English words for 128 random bits and a checksum."""

import hashlib
import unicodedata
from functools import cache
from importlib import resources
from typing import Final

from elytron_core.errors import WordsInvalid

ENTROPY_BYTES: Final = 16
WORD_COUNT: Final = 12
_COUNTS: Final = {12: 16, 15: 20, 18: 24, 21: 28, 24: 32}
"""Bytes of entropy by the number of words."""
_WORD_BITS: Final = 11
_SEED_ROUNDS: Final = 2048
_SEED_BYTES: Final = 64


@cache
def english_words() -> tuple[str, ...]:
    """Return the English list, in its order."""
    text = resources.files("elytron_store.secret.derivation").joinpath("english.txt").read_text(encoding="ascii")
    return tuple(text.split())


@cache
def _word_numbers() -> dict[str, int]:
    return {word: number for number, word in enumerate(english_words())}


def words_of(entropy: bytes, /) -> str:
    """Return the words for `entropy`, of 16 to 32 bytes in steps of four, separated by spaces."""
    assert len(entropy) in _COUNTS.values()
    check_bits = len(entropy) // 4
    value = int.from_bytes(entropy, "big") << check_bits | _check_value(entropy, check_bits)
    count = (len(entropy) * 8 + check_bits) // _WORD_BITS
    listed = english_words()
    return " ".join(listed[value >> _WORD_BITS * place & 0x7FF] for place in reversed(range(count)))


def entropy_of(words: str, /) -> bytes:
    """Return the entropy in `words`, which may be in any case. Raises WordsInvalid, which names no word."""
    given = normal_text(words).lower().split()
    size = _COUNTS.get(len(given))
    if size is None:
        raise WordsInvalid(problem=f"are not {WORD_COUNT}")
    numbers = [_word_numbers().get(word) for word in given]
    value = 0
    for number in numbers:
        if number is None:
            raise WordsInvalid(problem="are not all of the English list of BIP-39")
        value = value << _WORD_BITS | number
    check_bits = size // 4
    entropy = (value >> check_bits).to_bytes(size, "big")
    if value & (1 << check_bits) - 1 != _check_value(entropy, check_bits):
        raise WordsInvalid(problem="do not have the checksum that they must: one is wrong, or two changed places")
    return entropy


def seed_of(words: str, /, *, passphrase: str = "") -> bytes:
    """Return the 64 bytes of seed of `words`, which are checked. Raises WordsInvalid."""
    plain = words_of(entropy_of(words))
    salt = "mnemonic" + normal_text(passphrase)
    return hashlib.pbkdf2_hmac("sha512", plain.encode(), salt.encode("utf-8"), _SEED_ROUNDS, _SEED_BYTES)


def normal_text(text: str, /) -> str:
    """Return `text` in the form NFKD: the same for every keyboard and system."""
    return unicodedata.normalize("NFKD", text)


def _check_value(entropy: bytes, bits: int) -> int:
    return hashlib.sha256(entropy).digest()[0] >> 8 - bits
