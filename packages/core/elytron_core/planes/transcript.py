"""The transcript plane: what was said, by whom and when. Evidence, never silently a belief."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.model import Value
from elytron_core.scope import ConversationKey, Name

TURNS = "turns"
CONVERSATIONS = "conversations"
TURN_NAMES = "turn_names"

MessageText = Annotated[str, Field(max_length=limits.MESSAGE_CHARS)]
At = Annotated[Instant, Field(ge=limits.EARLIEST_MS, le=limits.LATEST_MS)]
Metadata = dict[Name, str | int | float | bool | None]


class Role(StrEnum):
    """In which role a message was given to a model or by one."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class Delivery(StrEnum):
    """How a turn ended; assistant text is evidence only where it was delivered."""

    DELIVERED = "delivered"
    USER_ONLY = "user_only"
    UPSTREAM_FAILED = "upstream_failed"
    CANCELLED = "cancelled"
    INCOMPLETE_STREAM = "incomplete_stream"
    REJECTED_BY_POLICY = "rejected_by_policy"


class Lifecycle(StrEnum):
    """What became of a turn's raw text."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    MASKED = "masked"
    RAW_DELETED = "raw_deleted"


class Origin(StrEnum):
    """How a turn came in."""

    HOST = "host"
    IMPORTED = "imported"


class Message(Value):
    """One utterance. `at` is the time its host says, which orders nothing."""

    role: Role
    text: MessageText
    speaker: Name | None = None
    at: At | None = None
    forgotten: bool = False


class Turn(Value):
    """Messages committed together under a conversation's sequence."""

    sequence: int
    channel: Name
    conversation: Name
    messages: tuple[Message, ...]
    recorded_at: Instant
    host_id: Name | None = None
    delivery: Delivery = Delivery.DELIVERED
    origin: Origin = Origin.HOST
    lifecycle: Lifecycle = Lifecycle.ACTIVE
    agent: Name | None = None
    app: Name | None = None
    project: Name | None = None
    tags: tuple[Name, ...] = ()
    metadata: Metadata = {}


class TurnName(Value):
    """A host's own turn id, kept so that the same turn is committed once. `digest` is keyed."""

    turn: TurnId
    digest: str


class Conversation(Value):
    """The head of a conversation: what comes next and what has been seen."""

    channel: Name
    conversation: Name
    turns: int = 0
    next_sequence: int = 1
    first_at: Instant | None = None
    last_at: Instant | None = None
    speakers: tuple[str, ...] = ()
    chat: Name | None = None
    title: str | None = None

    @property
    def key(self) -> ConversationKey:
        return ConversationKey(self.channel, self.conversation)


View = Literal["raw_owner_only"]
"""The audiences a transcript can be read for."""


def turn_id(tag: ConversationTag, sequence: int, /) -> TurnId:
    """Return the id, and document key, of a conversation's turn; ids sort in the order of the conversation."""
    return TurnId(f"{tag}.{sequence:012x}")


def tag_of(turn: TurnId, /) -> ConversationTag:
    """Return the conversation part of a turn's id."""
    return ConversationTag(turn.partition(".")[0])


def said_at(turn: Turn, message: Message, /) -> Instant:
    """Return when a message was said: its host's word, else when the turn was recorded."""
    return message.at if message.at is not None else turn.recorded_at
