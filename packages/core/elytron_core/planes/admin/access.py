"""The access keys of a store, as they are kept in its system space."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name, Space

ACCESS_KEYS: Final = "access_keys"
ACCESS_USAGE: Final = "access_usage"


class PrincipalKind(StrEnum):
    """Kind of a principal."""

    OPERATOR = "operator"
    """Runs the server: every space, every operation, users and keys."""
    USER = "user"
    """Has one space, and every member's operation in it."""
    DEVICE = "device"
    """Acts for a user: the user's space, member's operations, no erasure of the whole space."""
    DEVELOPER = "developer"
    """The caller of a server in loopback development mode: an operator without a credential."""


QuotaLimit = Annotated[int, Field(ge=1, le=10**12)]


class KeyQuota(Value):
    """Upper limits of the calls with one access key. A quantity without a limit is not bounded by it.

    A day begins at midnight UTC. Bytes are those of the bodies of requests.
    """

    calls_per_minute: QuotaLimit | None = None
    calls_per_day: QuotaLimit | None = None
    bytes_per_day: QuotaLimit | None = None

    @property
    def is_daily(self) -> bool:
        """Return whether anything of a day is bounded."""
        return self.calls_per_day is not None or self.bytes_per_day is not None


class KeyUsage(Value):
    """Usage of one access key on one day, counted from 1970 in UTC."""

    day: int
    calls: int = 0
    size_bytes: int = 0


class AccessKey(Value):
    """A key as it is stored: its principal and the keyed digest of its secret, which reveals nothing of it."""

    id: str
    kind: PrincipalKind
    space: Space | None = None
    label: Name
    digest: str
    created_at: Instant
    rotations: int = 0
    rotated_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None
    quota: KeyQuota | None = None
