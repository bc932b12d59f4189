"""Documents of the system space: access keys with their quotas and use, browser sessions, and transport switches."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name, Space

ACCESS_KEYS: Final = "access_keys"


ACCESS_USAGE: Final = "access_usage"


SESSIONS: Final = "sessions"


TRANSPORTS: Final = "transports"


class BrowserSession(Value):
    """A browser session as stored. `holder` is a tag, `masked` a credential masked by the cookie."""

    cookie: Name
    holder: str
    masked: str
    until: Instant


class ClosedTransports(Value):
    """Transports that an operator disabled, by name. The system space has one document of them."""

    names: tuple[Name, ...] = ()


class TransportEndpoints(Value):
    """Addresses at which clients reach transports, by name, as an operator set them."""

    endpoints: dict[Name, str] = {}


class PrincipalKind(StrEnum):
    """Kind of a principal."""

    OPERATOR = "operator"
    """Operates the server: every space, every operation, users and keys."""
    USER = "user"
    """Has one space, and every member operation in it."""
    DEVICE = "device"
    """Acts for a user: the user's space and member operations, but no erasure of the whole space."""
    DEVELOPER = "developer"
    """The caller of a server in loopback development mode: an operator without a credential."""


QuotaLimit = Annotated[int, Field(ge=1, le=10**12)]


class KeyQuota(Value):
    """Limits on the calls with one access key. A quantity without a limit is not bounded by it.

    A day begins at midnight UTC. Bytes are those of the bodies of requests.
    """

    calls_per_minute: QuotaLimit | None = None
    calls_per_day: QuotaLimit | None = None
    bytes_per_day: QuotaLimit | None = None

    @property
    def is_daily(self) -> bool:
        """Return whether the quota has a daily limit."""
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
