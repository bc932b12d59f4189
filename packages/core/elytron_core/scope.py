"""Where something happens: whose memory, and which part of the host's world."""

from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.text.names import require_name

DEFAULT_CHANNEL = "default"
DEFAULT_CONVERSATION = "default"


def _space(name: str) -> str:
    require_name(name, field="space", limit=limits.SPACE_CHARS)
    return name


def _part(name: str) -> str:
    require_name(name, field="scope part", limit=limits.NAME_CHARS)
    return name


Name = Annotated[str, AfterValidator(_part)]
"""One to `limits.NAME_CHARS` printable characters without outer white space."""

Space = Annotated[SpaceId, AfterValidator(_space)]


class ConversationKey(NamedTuple):
    """What a conversation is known by inside its space."""

    channel: str
    conversation: str


class Scope(Value):
    """The space is the wall; the other parts say where in it a turn happens.

    `chat` is a host's older alias of a conversation. Reads see the whole space unless filters narrow them; writes go
    to `conversation`, or to the one named "default".
    """

    space: Space
    agent: Name | None = None
    app: Name | None = None
    project: Name | None = None
    channel: Name = DEFAULT_CHANNEL
    chat: Name | None = None
    conversation: Name | None = None

    @property
    def conversation_key(self) -> ConversationKey:
        """Return the conversation that writes go to: `conversation`, else the chat alias, else the default one."""
        return ConversationKey(self.channel, self.conversation or self.chat or DEFAULT_CONVERSATION)
