"""The access keys of a store, as they are kept in its system space."""

from enum import StrEnum
from typing import Final

from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name, Space

ACCESS_KEYS: Final = "access_keys"


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
