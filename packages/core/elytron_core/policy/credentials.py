"""Formats of the credentials that the product issues.

Everything that opens, signs or seals something has a row here. Redaction reads the rows, and a test issues one
credential of each kind and says it in a message. `issued_token` creates those without a prefix of their own.
"""

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

TOKEN_BYTES: Final = 28
"""Bytes of a token that are random or derived; four more are a checksum."""
_CHECK_BYTES: Final = 4


def issued_token(body: bytes, /) -> str:
    """Return a token of 64 hex digits for `body`, ending in a checksum that distinguishes it from other hex numbers."""
    assert len(body) == TOKEN_BYTES
    return (body + _token_check(body)).hex()


def is_issued_token(text: str, /) -> bool:
    """Return whether `text` is a token from `issued_token`; a false positive has a chance of 1 in 2^32."""
    token_bytes = bytes.fromhex(text)
    return _token_check(token_bytes[:TOKEN_BYTES]) == token_bytes[TOKEN_BYTES:]


def _token_check(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECK_BYTES, person=b"elytron token").digest()


class CredentialFormat(NamedTuple):
    """A format, and the credentials that have it. `holds` checks a match of `pattern`."""

    kind: str
    """Names the credential in the mark that replaces it."""
    credentials: tuple[str, ...]
    hints: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    holds: Callable[[str], bool] = bool


SEAL_PREFIX: Final = "elyc_"
"""Beginning of a sealed summary."""
USER_KEY_PREFIX: Final = "uk_"
"""Beginning of a gateway user's key."""
WORDS_KIND: Final = "recovery_words"

CREDENTIAL_FORMATS: Final = (
    CredentialFormat(
        "api_key",
        ("access key",),
        ("ely_",),
        re.compile(r"ely_(?:operator|user|device)_[0-9a-f]{16}_[0-9a-f]{64}"),
    ),
    CredentialFormat(
        "api_key",
        ("gateway user key",),
        (USER_KEY_PREFIX,),
        re.compile(rf"{USER_KEY_PREFIX}[A-Za-z0-9_-]{{32}}"),
    ),
    CredentialFormat(
        "token",
        ("webhook secret", "push key", "push secret", "session cookie"),
        tuple("0123456789"),
        re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])"),
        is_issued_token,
    ),
    CredentialFormat(
        "token",
        ("sealed summary",),
        (SEAL_PREFIX,),
        re.compile(rf"{SEAL_PREFIX}[A-Za-z0-9_-]{{36,}}+={{0,2}}"),
    ),
    CredentialFormat(WORDS_KIND, ("words of a secret",)),
)
