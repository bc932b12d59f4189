"""Requests and answers about a space's secret. Printing one never shows the secret."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, SecretStr

from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_store import limits

SECRET_SESSION_MS: Final = 60 * 60 * 1000
"""Time for which a space that its user unlocked stays open in a process, by default."""
SECRET_GRANT_MS: Final = 8 * 60 * 60 * 1000
"""Time for which work in the background may open a space, by default."""


SECRET_CHARS: Final = 1_024
_MINUTE_MS: Final = 60_000
SecretText = Annotated[SecretStr, Field(max_length=SECRET_CHARS)]
SessionMinutes = Annotated[int, Field(ge=1, le=limits.SECRET_SESSION_MS_MAX // _MINUTE_MS)]
GrantMinutes = Annotated[int, Field(ge=1, le=limits.SECRET_GRANT_MS_MAX // _MINUTE_MS)]
SESSION_MINUTES: Final = SECRET_SESSION_MS // _MINUTE_MS
GRANT_MINUTES: Final = SECRET_GRANT_MS // _MINUTE_MS


class SecretState(StrEnum):
    """State of a space with respect to its user's secret, for this caller in this process."""

    PLAIN = "plain"
    MAKING = "making"
    LOCKED = "locked"
    UNLOCKED = "unlocked"


class SecretStatus(Value):
    """The state of a space's secret."""

    space: str
    state: SecretState
    kind: str = ""
    """`words` or `passphrase`; empty for a plain space."""
    derivation: str = ""
    """Function that derives the user's key."""
    made_at: Instant | None = None
    until: Instant | None = None
    """When this process locks the space automatically."""
    grant_until: Instant | None = None
    """When background work can no longer open it; None without a grant."""
    spaces: dict[str, SecretState] = {}
    """All spaces of a user who has several, with their states. One that is plain while the user has a secret is sealed
    by the next unlock."""


class SecretWords(Value):
    """Twelve new words, which are stored nowhere."""

    words: Annotated[str, Field(max_length=SECRET_CHARS, repr=False)]


class SecretRequest(Value):
    """A user's words or passphrase, and for how many minutes it unlocks the space in this process."""

    words: SecretText | None = None
    passphrase: SecretText | None = None
    minutes: SessionMinutes = SESSION_MINUTES


class SecretRotateRequest(Value):
    """A user's secret, for re-encrypting the space under a new data key."""

    words: SecretText | None = None
    passphrase: SecretText | None = None


class SecretChangeRequest(Value):
    """A user's secret and its replacement."""

    words: SecretText | None = None
    passphrase: SecretText | None = None
    new_words: SecretText | None = None
    new_passphrase: SecretText | None = None


class GrantRequest(Value):
    """The number of minutes for which background work may unlock the space."""

    minutes: GrantMinutes = GRANT_MINUTES
