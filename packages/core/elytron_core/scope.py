"""Scope of a call: whose memory it uses, which part of the host's world, and fields shared by requests and reports."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol, TypeGuard, runtime_checkable

from pydantic import AliasChoices, ConfigDict, Field, ValidationInfo, model_validator

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import NAME_PATTERN, SpaceId
from elytron_core.model import OperationRequest, ReportT_co, Value

SEQUENCE_MAX: Final = 2**53
"""Bound of a `min_sequence`."""


DEFAULT_CHANNEL = "default"
DEFAULT_CONVERSATION = "default"


class OpaqueId:
    """Marks a field as an id: it is compared and never read, so admission leaves it unchanged.

    It is written into the field's type, `Annotated[str, Opaque()]`; every other text is searched for credentials.
    """


Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS, pattern=NAME_PATTERN)]
"""One to `limits.NAME_CHARS` printable characters without outer white space."""


Space = Annotated[SpaceId, Field(min_length=1, max_length=limits.SPACE_CHARS, pattern=NAME_PATTERN)]


def _alias_field(*names: str) -> Any:
    """Return a field that is also accepted under other names."""
    return Field(validation_alias=AliasChoices(*names))


class ConversationKey(NamedTuple):
    """A conversation's channel and name within its space."""

    channel: str
    conversation: str


_OWN_SPACE = "own_space"
_SPACE_NAMES = ("space", "memory_space_id")


def own_space(space: str | None, /) -> dict[str, Any] | None:
    """Return a validation context in which a scope without a space gets `space`."""
    return None if space is None else {_OWN_SPACE: space}


def _without_required_space(schema: dict[str, Any]) -> None:
    # On the wire, `_completed` fills in the space of a caller that has only one.
    schema.pop("required", None)


class Scope(Value):
    """The space is the isolation boundary; the other parts locate a turn within it.

    `chat` is a host's older alias of a conversation. Reads see the whole space unless filters narrow them; writes go
    to `conversation`, or to the one named "default". `memory_space_id`, `agent_id`, `channel_id`, `chat_id` and
    `conversation_id`, the names of the protocol's first form, are taken too. On the wire `space` may be left out with a
    key of one space, so JSON Schemas do not require it.
    """

    model_config = ConfigDict(json_schema_extra=_without_required_space)

    space: Annotated[Space, _alias_field(*_SPACE_NAMES)]
    agent: Annotated[Name | None, _alias_field("agent", "agent_id")] = None
    app: Name | None = None
    project: Name | None = None
    channel: Annotated[Name, _alias_field("channel", "channel_id")] = DEFAULT_CHANNEL
    chat: Annotated[Name | None, _alias_field("chat", "chat_id")] = None
    conversation: Annotated[Name | None, _alias_field("conversation", "conversation_id")] = None

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, value: Any, info: ValidationInfo) -> Any:
        """Fill in the caller's own space if a scope has none (see `own_space`)."""
        context: dict[str, Any] = info.context or {}
        default_space = context.get(_OWN_SPACE)
        if default_space is None or not isinstance(value, dict) or not value.keys().isdisjoint(_SPACE_NAMES):
            return value  # pyright: ignore[reportUnknownVariableType]
        return {**value, _SPACE_NAMES[0]: default_space}  # pyright: ignore[reportUnknownVariableType]

    if TYPE_CHECKING:  # hosts identify their users by strings, and need no type of ours

        def __init__(
            self,
            *,
            space: str,
            agent: str | None = None,
            app: str | None = None,
            project: str | None = None,
            channel: str = DEFAULT_CHANNEL,
            chat: str | None = None,
            conversation: str | None = None,
        ) -> None: ...

    @property
    def conversation_key(self) -> ConversationKey:
        """Return the conversation for writes: `conversation`, else the chat alias, else the default one."""
        return ConversationKey(self.channel, self.conversation or self.chat or DEFAULT_CONVERSATION)


class ScopedRequest(OperationRequest[ReportT_co]):
    """A request about one space. Defaults to the runtime's scope; if there is none, it raises ScopeMissing.

    `min_sequence` is the `sequence` of an earlier report: the answer is of a state that has it, by whichever node it is
    given, or SequenceAhead.
    """

    scope: Scope | None = None
    min_sequence: Annotated[int, Field(ge=0, le=SEQUENCE_MAX)] = 0


def is_scoped(request: Value, /) -> TypeGuard[ScopedRequest]:
    """Return whether `request` is about one space."""
    return isinstance(request, ScopedRequest)


class ConversationReport(Value):
    """A report about one conversation."""

    space: str
    channel: str
    conversation: str


@runtime_checkable
class ChangeReport(Protocol):
    """A report that says whether anything changed; an unchanged result needs no receipt."""

    @property
    def changed(self) -> bool: ...


class ClipReason(StrEnum):
    """The limit that cut something."""

    LIMIT = "limit"
    TOKENS = "tokens"
    CHARS = "chars"
    PAGE = "page"
    PROFILE = "profile"
    PRESSURE = "pressure"
    FLOOR = "floor"
    """The host is low on memory."""
    PROVIDER = "provider"
    """The model's provider accepts no more."""


class ReportClip(Value):
    """Something that was left out, and the limit that caused it."""

    what: str
    reason: ClipReason
    limit: int
    dropped: int


class FutureClaim(Value):
    """A claimed time that is in the future by the receiving clock.

    It is stored as claimed, but the memory is ordered by its recording time.
    """

    field: str
    """Path of the field in the request."""
    claimed: Instant
    now: Instant
    """The time by the receiving clock."""


IncludePrivate = bool
"""Include private content. Models never get this unless the server was started with it."""
ScrubbedCounts = dict[str, int]
"""Number of credentials and payment numbers of each kind that were redacted before storing."""
FutureClaims = tuple[FutureClaim, ...]
"""Claimed times of the request in the future, the first `limits.FUTURE_CLAIMS` of them."""
Query = Annotated[str, Field(max_length=limits.QUERY_CHARS, validation_alias=AliasChoices("query", "user_query"))]
"""The query. Hosts of the protocol's first version call it `user_query`."""
MaxChars = Annotated[
    int,
    Field(ge=0, le=limits.PROJECTION_CHARS_MAX, validation_alias=AliasChoices("max_chars", "system_max_len")),
]
"""Maximum characters of a block. Hosts of the protocol's first version call it `system_max_len`."""
PageLimit = Annotated[int, Field(ge=1, le=limits.PAGE_MAX)]
Cursor = Annotated[str, Field(max_length=limits.KEY_CHARS)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=limits.IDEMPOTENCY_KEY_CHARS)]
Reason = Annotated[str, Field(max_length=limits.REASON_CHARS)]
