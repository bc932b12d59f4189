"""The key that credentials are derived from. No copy of the store contains it."""

import hashlib
from typing import Final

from elytron_core.errors import InvalidInput, Unsupported
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.credentials import TOKEN_BYTES, issued_token
from elytron_core.ports.store import Store
from elytron_core.strict_json import keyed_tag

SECRET_CHARS: Final = 32
"""Minimum characters of a secret."""
WAY_OUT: Final = (
    f"set ELYTRON_GATEWAY_SECRET to at least {SECRET_CHARS} random characters (`credential_secret=` of "
    "`open`), or seal the store"
)
_KEY_BYTES: Final = 64


class CredentialKey:
    """Provides the key for a space's credentials, if there is one that a copy of the store does not contain.

    It is the secret that the runtime was opened with. Without one, the space's own secret is used where nobody can copy
    it: in a store that is sealed, or only in memory. Raises InvalidInput for a short secret.
    """

    def __init__(self, store: Store, secret: str | None = None, /) -> None:
        if secret is not None and len(secret) < SECRET_CHARS:
            problem = f"is shorter than {SECRET_CHARS} characters: choose a longer one"
            raise InvalidInput(field="credential_secret", problem=problem)
        self._own_key = None if secret is None else _fit_key(secret.encode("utf-8", "surrogatepass"))
        self._store = store

    @property
    def is_store_readable(self) -> bool:
        """True if anyone with a copy of the store can read the secrets of its spaces."""
        return self._store.capabilities.durable and not self._store.capabilities.sealed

    def find(self, record: SpaceRecord, /) -> bytes | None:
        """Return the key for credentials of the space of `record`, or None."""
        if self._own_key is not None:
            return self._own_key
        return None if self.is_store_readable else bytes.fromhex(record.secret)

    def require(self, record: SpaceRecord, /, *, needed_for: str, is_own: bool = False) -> bytes:
        """Return the key, the space's own only if it `is_own`. Raises Unsupported, which names the ways to provide
        one."""
        key = self.find(record)
        if is_own and self._own_key is not None:
            return bytes.fromhex(keyed_tag(self._own_key, "space", record.secret, size=2 * _KEY_BYTES))
        if key is None:
            raise Unsupported(f"{needed_for} could be computed from a copy of this store: {WAY_OUT}")
        return key


def _fit_key(secret: bytes, /) -> bytes:
    """Return a secret as a key of the keyed hash, to which every one of its bytes contributes."""
    return secret if len(secret) <= _KEY_BYTES else hashlib.blake2b(secret, digest_size=_KEY_BYTES).digest()


def derived_token(key: bytes, purpose: str, /, *parts: str) -> str:
    """Return the token of `parts` under a key: 64 hex digits, which redaction recognises."""
    return issued_token(bytes.fromhex(keyed_tag(key, purpose, *parts, size=2 * TOKEN_BYTES)))
