"""Identifiers of spaces and stored things, the source of new ones, and the names that callers choose."""

import hashlib
import os
import re
from typing import Final, NewType, Protocol, runtime_checkable

from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.errors import InvalidInput, LimitExceeded

SpaceId = NewType("SpaceId", str)
"""A memory space: the boundary of tenancy, keys, index and erasure."""

RESERVED = ("elytron:", "elytron.")
"""Reserved prefixes of names, in any case."""
SYSTEM_SPACE = SpaceId("elytron:system")
"""Space of data that belongs to no user of a server: its access keys. No request reaches it."""


def is_reserved(name: str, /) -> bool:
    """Return whether the system reserves this name of a space, user or agent."""
    return name.casefold().startswith(RESERVED)


TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
FactId = NewType("FactId", str)
SkillId = NewType("SkillId", str)
ConversationTag = NewType("ConversationTag", str)
"""The keyed digest under which a conversation's turns are stored; it reveals no name."""

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A canonical UUIDv7."""


@runtime_checkable
class IdSource(Protocol):
    """Source of new ids and random bytes."""

    def new(self, /) -> str:
        """Return a new unique id: a lower-case UUIDv7 that sorts after earlier ones."""
        ...

    def secret(self, size: int, /) -> bytes:
        """Return `size` random bytes."""
        ...


def is_id(text: str, /) -> bool:
    """Return True if `text` is a canonical UUIDv7, as `IdSource.new` makes them."""
    return ID.fullmatch(text) is not None


def make_uuid7(at_ms: int, counter: int, random_bytes: bytes, /) -> str:
    """Return the UUIDv7 of `at_ms` (48 bits), `counter` (12 bits) and eight `random_bytes` (RFC 9562, 5.7)."""
    high_bits = (at_ms & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | (counter & 0x0FFF)
    low_bits = int.from_bytes(random_bytes, "big") & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    digits = f"{high_bits:016x}{low_bits:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class RandomIds:
    """UUIDv7 from a clock and the system's random source, ascending within one process."""

    def __init__(self, clock: Clock, /) -> None:
        self._clock = clock
        self._last = 0
        self._counter = 0

    def new(self, /) -> str:
        now = self._clock.now()
        if now > self._last:
            self._last, self._counter = now, 0
        else:
            # If the clock stops or steps back, borrow from the next millisecond to keep the order.
            self._counter += 1
            if self._counter > 0x0FFF:
                self._last, self._counter = self._last + 1, 0
        # The tail is random because other processes count at the same time.
        return make_uuid7(self._last, self._counter, os.urandom(8))

    def secret(self, size: int, /) -> bytes:
        return os.urandom(size)


class SeededIds:
    """The same ids and secrets in every run: for fixtures and tests, never for real data."""

    def __init__(self, seed: str = "elytron", /) -> None:
        self._seed = seed.encode()
        self._count = 0

    def new(self, /) -> str:
        count = self._next()
        return make_uuid7(count, 0, self._bytes(b"id", count)[:8])

    def secret(self, size: int, /) -> bytes:
        secret_bytes = self._bytes(b"secret", self._next())
        while len(secret_bytes) < size:
            secret_bytes += hashlib.sha256(secret_bytes).digest()
        return secret_bytes[:size]

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _bytes(self, purpose: bytes, count: int) -> bytes:
        return hashlib.sha256(b"%b|%b|%d" % (self._seed, purpose, count)).digest()


NAME_PATTERN: Final = r"^[^\p{C}\p{Z}]+(?: +[^\p{C}\p{Z}]+)*$"
"""The rule of `require_name` as an expression for pydantic's own engine: no controls, inner spaces only."""

_ROLE_NAMES: Final = frozenset(("user", "assistant", "system", "tool", "model", "human", "ai", "agent", "developer"))


def is_role_name(name: str, /) -> bool:
    """Return whether `name` is a role of transcripts: "user" is no person's name."""
    return name.casefold() in _ROLE_NAMES


def require_name(name: str, /, *, field: str, limit: int) -> None:
    """Raise InvalidInput unless `name` has 1 to `limit` characters, none a control, separator or lone surrogate."""
    if not name:
        raise InvalidInput(field=field, problem="is empty")
    if len(name) > limit:
        raise LimitExceeded(what=f"characters in {field}", limit=limit, found=len(name))
    if not name.isprintable() or name != name.strip():
        raise InvalidInput(field=field, problem="has control characters, lone surrogates or surrounding white space")


def is_name(text: str, /) -> bool:
    """Return whether `text` may be stored as a name."""
    return 0 < len(text) <= limits.NAME_CHARS and text.isprintable() and text == text.strip()
