"""Fields that all requests and reports share."""

from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from pydantic import AliasChoices, Field

from elytron_core import limits
from elytron_core.model import Request, Value
from elytron_core.scope import Scope


class ScopedRequest(Request):
    """A request about one space. Without a scope, the runtime's own is used; if it has none, ScopeMissing."""

    scope: Scope | None = None


class ConversationReport(Value):
    """A report about one conversation."""

    space: str
    channel: str
    conversation: str


@runtime_checkable
class Changing(Protocol):
    """A report that says whether anything was changed; what changed nothing needs no receipt."""

    @property
    def changed(self) -> bool: ...


class ClipReason(StrEnum):
    """The bound that cut something."""

    LIMIT = "limit"
    TOKENS = "tokens"
    CHARS = "chars"
    PAGE = "page"
    PROFILE = "profile"
    PRESSURE = "pressure"
    FLOOR = "floor"
    """The host has little memory left."""
    PROVIDER = "provider"
    """The model's provider takes no more."""


class Clip(Value):
    """Something that was there and was left out, and which bound did it."""

    what: str
    reason: ClipReason
    limit: int
    dropped: int


IncludePrivate = bool
"""Also what is private. A model is never given it, unless the server was started so."""
ScrubbedCounts = dict[str, int]
"""Number of credentials and payment numbers of each kind that were blacked out before storing."""
Query = Annotated[str, Field(max_length=limits.QUERY_CHARS, validation_alias=AliasChoices("query", "user_query"))]
"""The query. Hosts of the protocol's first form call it `user_query`."""
MaxChars = Annotated[
    int,
    Field(ge=0, le=limits.PROJECTION_CHARS_MAX, validation_alias=AliasChoices("max_chars", "system_max_len")),
]
"""The most characters of a block. Hosts of the protocol's first form call it `system_max_len`."""
PageLimit = Annotated[int, Field(ge=1, le=limits.PAGE_MAX)]
Cursor = Annotated[str, Field(max_length=limits.KEY_CHARS)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=limits.IDEMPOTENCY_KEY_CHARS)]
Reason = Annotated[str, Field(max_length=limits.REASON_CHARS)]
