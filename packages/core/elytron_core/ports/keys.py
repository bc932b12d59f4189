"""The key port: key-encryption keys live outside the store, and only wrapped data keys lie in it."""

from typing import Protocol


class KeyProvider(Protocol):
    """Wraps and unwraps data keys under key-encryption keys that it holds (file, environment, a key service)."""

    def current(self, /) -> str:
        """Return the id of the key that new data keys are wrapped under; ids are not secret."""
        ...

    async def wrap(self, data_key: bytes, /, *, key_id: str, context: bytes) -> bytes:
        """Return `data_key` sealed under `key_id` and bound to `context`. Raises KeyMissing."""
        ...

    async def unwrap(self, wrapped: bytes, /, *, key_id: str, context: bytes) -> bytes:
        """Return the data key in `wrapped`. Raises KeyMissing for an unknown id, SealBroken for altered bytes."""
        ...
