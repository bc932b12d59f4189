"""Requests and responses of the agent's routes."""

import re
from binascii import a2b_base64
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from elytron_agent import limits
from elytron_agent.blocks.block_repository import Cap, MemoryBlock
from elytron_agent.loop.tools import MemoryMode, SubagentCreator
from elytron_agent.runs.settings import RunUsage, UserPreferences, locale_of
from elytron_agent.tool import ToolArguments
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.model import Request, Value
from elytron_core.scope import Name, OpaqueId
from elytron_core.tags import Tags
from elytron_turn import limits as turn_limits
from elytron_turn.context import zone_of

PROMPT_CHARS: Final = 40_000
"""Maximum length of a system prompt."""
SEARCH_RESULTS: Final = 5
SEARCH_RESULTS_MAX: Final = 20


_IMAGE: Final = re.compile(r"data:image/(png|jpeg|gif|webp);base64")
_BEGINNINGS: Final = {
    "png": (b"\x89PNG\r\n\x1a\n",),
    "jpeg": (b"\xff\xd8\xff",),
    "gif": (b"GIF87a", b"GIF89a"),
    "webp": (b"RIFF",),
}
"""First bytes of the accepted image formats."""

Zone = Annotated[str, AfterValidator(zone_of)]
Locale = Annotated[str, Field(max_length=limits.LOCALE_CHARS), AfterValidator(locale_of)]


class InitRequest(Request):
    """Create the user's agent, or return the existing one unchanged."""

    timezone: Zone = "UTC"
    """IANA time zone."""
    locale: Locale | None = None
    """BCP 47 language tag."""


class PreferencesChange(Request):
    """Update the user's preferences; omitted fields stay unchanged."""

    timezone: Zone | None = None
    locale: Locale | None = None


class ConfigChange(Request):
    """Update an agent's settings; omitted fields stay, and an empty text restores the server's default."""

    enabled: bool | None = None
    """If false, the user's agent is off: its routes return `agent_disabled`, and its schedules wait."""
    model: str | None = None
    """One of the server's models."""
    system_prompt: Annotated[str, Field(max_length=PROMPT_CHARS)] | None = None
    max_context_tokens: Annotated[int, Field(ge=1_000)] | None = None
    compaction_threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    tools: bool | None = None
    """If false, the agent is offered no tools."""
    compaction: bool | None = None
    """If false, old turns are not summarised."""
    optimised_prompt: bool | None = None
    """If false, the server's own prompt is not used."""


class AgentConfig(Value):
    """An agent's effective settings, with the server's defaults for what the user did not set."""

    enabled: bool
    model: str
    models: tuple[str, ...]
    """Valid values of `model`."""
    system_prompt: str | None = None
    max_context_tokens: int
    compaction_threshold: float
    tools: bool
    compaction: bool
    optimised_prompt: bool
    version: int


class ModelHealth(StrEnum):
    """State of an agent's model after its latest turn in this process."""

    UNKNOWN = "unknown"
    ANSWERS = "answers"
    FAILS = "fails"


class AgentAnswer(Value):
    """An agent. `welcome` is its greeting for a person it does not know yet."""

    id: str
    object: Literal["agent"] = "agent"
    kind: Literal["main", "subagent"]
    conversation_id: str
    """The agent's only thread, which has the agent's id."""
    name: str | None = None
    purpose: str | None = None
    created_by: SubagentCreator = SubagentCreator.USER
    memory: MemoryMode = MemoryMode.SHARED
    created_at: Instant
    preferences: UserPreferences
    is_first_time: bool = False
    welcome: tuple[str, ...] = ()
    model_health: ModelHealth = ModelHealth.UNKNOWN


class DeletionAnswer(Value):
    """Report of a deletion: the number of agents, their documents and memories that were or would be erased."""

    object: Literal["agent.deleted"] = "agent.deleted"
    deleted: bool
    dry_run: bool = False
    agents: int
    records: int
    memories: int


def _image_url(url: str) -> str:
    """Return `url` if it contains an image. Nothing is fetched, so no request leaves the server for a caller."""
    url_head, _, encoded_data = url.partition(",")
    type_match = _IMAGE.fullmatch(url_head)
    if type_match is None:
        raise ValueError("is not an image: send data:image/png;base64,... or jpeg, gif or webp")
    try:
        content = a2b_base64(encoded_data.encode("ascii"), strict_mode=True)
    except ValueError:
        raise ValueError("is not an image: its base64 is damaged") from None
    if not any(content.startswith(beginning) for beginning in _BEGINNINGS[type_match[1]]):
        raise ValueError(f"is not an image of the type {type_match[1]}")
    return url


DataUrl = Annotated[str, Field(max_length=limits.IMAGE_URL_CHARS), AfterValidator(_image_url)]


class ImageUrl(Request):
    """An image in a `data:` URL."""

    url: DataUrl


class ChatPart(Request):
    """A part of a message: text, or an image in a `data:` URL."""

    type: Literal["text", "input_text", "image_url", "input_image"]
    text: Annotated[str, Field(max_length=limits.INPUT_CHARS)] | None = None
    image_url: ImageUrl | DataUrl | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        is_text = self.type in {"text", "input_text"}
        if is_text is (self.text is None) or is_text is (self.image_url is not None):
            raise ValueError("must have a text or an image_url, matching its type")
        return self

    @property
    def image(self) -> str | None:
        """Return the image's URL, or None for a text."""
        return self.image_url.url if isinstance(self.image_url, ImageUrl) else self.image_url


class ChatRequest(Request):
    """Send a message to an agent, as one of `input`, `text` and `parts`."""

    input: Annotated[str, Field(max_length=limits.INPUT_CHARS)] | None = None
    text: Annotated[str, Field(max_length=limits.INPUT_CHARS)] | None = None
    parts: Annotated[tuple[ChatPart, ...], Field(min_length=1, max_length=limits.CHAT_PARTS)] | None = None
    store: bool = True
    """If false, nothing of the turn is stored."""

    @model_validator(mode="after")
    def _is_said_once(self) -> Self:
        if sum(content is not None for content in (self.input, self.text, self.parts)) != 1:
            raise ValueError("must have exactly one of `input`, `text` and `parts`")
        return self

    @property
    def words(self) -> str:
        """Return the text of the message."""
        if self.parts is None:
            return self.input or self.text or ""
        return "\n".join(part.text for part in self.parts if part.text)

    @property
    def images(self) -> Sequence[str]:
        """Return the images of the message."""
        return [part.image for part in self.parts or () if part.image is not None]


class ItemRole(StrEnum):
    """Author of an item."""

    USER = "user"
    ASSISTANT = "assistant"
    SCHEDULE = "schedule"
    """A schedule that was due, instead of the user."""


class ItemReaction(Value):
    """A reaction to an item."""

    emoji: str
    by: ItemRole


class ThreadItem(Value):
    """One message of an agent's thread."""

    id: str
    object: Literal["agent.item"] = "agent.item"
    type: Literal["message"] = "message"
    role: ItemRole
    text: str
    created_at: Instant
    run_id: str
    delivered_at: Instant | None = None
    """When a device first received this message of the agent; null if none has."""
    reaction: ItemReaction | None = None


class ItemList(Value):
    """A page of items; `after` with `last_id` gives the next one."""

    object: Literal["list"] = "list"
    data: tuple[ThreadItem, ...]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


class ReactionRequest(Request):
    """React to an item."""

    emoji: Annotated[Name, Field(max_length=turn_limits.REACTION_CHARS)]


class BlockChange(Request):
    """Set a block's text and description; a missing block is created."""

    value: str | None = None
    description: Annotated[str, Field(max_length=limits.BLOCK_DESCRIPTION_CHARS)] | None = None
    limit: Cap | None = None
    read_only: bool | None = None


class BlockList(Value):
    """The blocks in label order."""

    object: Literal["list"] = "list"
    data: tuple[MemoryBlock, ...]


class ArchivalRequest(Request):
    """Store something in archival memory."""

    content: Annotated[str, Field(min_length=1, max_length=core_limits.MESSAGE_CHARS)]
    tags: Tags = ()


class ArchivalAnswer(Value):
    """A stored archival memory."""

    id: str
    object: Literal["agent.archival"] = "agent.archival"


class ArchivalDeleted(Value):
    """A deleted archival memory."""

    id: str
    object: Literal["agent.archival.deleted"] = "agent.archival.deleted"
    deleted: bool = True


class ThreadDeleted(Value):
    """A thread whose messages were erased; `memories` is the number of erased memories."""

    id: str
    object: Literal["agent.conversation.deleted"] = "agent.conversation.deleted"
    deleted: bool = True
    memories: int


class SearchSource(StrEnum):
    """Source of memories to search."""

    ARCHIVAL = "archival"
    MESSAGE = "message"


class AgentSearchRequest(Request):
    """Search archival memory and past messages."""

    query: Annotated[str, Field(min_length=1, max_length=core_limits.QUERY_CHARS)]
    top_k: Annotated[int, Field(ge=1, le=SEARCH_RESULTS_MAX)] = SEARCH_RESULTS
    sources: Annotated[tuple[SearchSource, ...], Field(min_length=1, max_length=2)] = tuple(SearchSource)
    tags: Tags = ()
    """Only return archival memories with at least one of these tags."""
    conversation_id: Name | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None


class SearchHit(Value):
    """A memory that a search found."""

    id: str
    source: SearchSource
    text: str
    score: float
    created_at: Instant | None = None
    tags: tuple[str, ...] = ()


class SearchHits(Value):
    """Memories that a search found, best first."""

    object: Literal["list"] = "list"
    data: tuple[SearchHit, ...]


class AgentUsage(Value):
    """Usage of the user's agents in the last day, from the ends of their turns."""

    object: Literal["agent.usage"] = "agent.usage"
    since: Instant
    turns: int = 0
    failed: int = 0
    """Turns that ended with an error."""
    steps: int = 0
    calls: int = 0
    """Number of tool calls."""
    input_tokens: int = 0
    output_tokens: int = 0


class AgentConversation(Value):
    """The thread of an agent."""

    id: str
    object: Literal["agent.conversation"] = "agent.conversation"
    agent_id: str
    name: str | None = None
    created_at: Instant


class AgentConversations(Value):
    """The threads of the user's agents, the main agent's first."""

    object: Literal["list"] = "list"
    data: tuple[AgentConversation, ...]


class SubagentRequest(Request):
    """Create an agent with its own purpose and thread."""

    name: Annotated[Name, OpaqueId(), Field(max_length=limits.SUBAGENT_NAME_CHARS)]
    """Also the name of its thread, unchanged."""
    purpose: Annotated[str, Field(min_length=1, max_length=limits.SUBAGENT_PURPOSE_CHARS)]
    memory: MemoryMode = MemoryMode.SHARED


class SubagentList(Value):
    """The subagents by name."""

    object: Literal["list"] = "list"
    data: tuple[AgentAnswer, ...]


REACT: Final = "react"
"""Tool with which an agent reacts to the user's message."""


class ReactArguments(ToolArguments):
    """Arguments of `react`."""

    emoji: Annotated[Name, Field(max_length=turn_limits.REACTION_CHARS, description="One emoji.")]


def reaction_in(arguments: str, /) -> str | None:
    """Return the emoji in the arguments of a call of `react`, or None if there is none."""
    try:
        return ReactArguments.model_validate_json(arguments or "{}").emoji
    except ValidationError:
        return None


class AgentEventKind(StrEnum):
    """Kinds of events in a stream."""

    TYPING = "agent.typing"
    MESSAGE = "agent.message"
    REACTION = "agent.reaction"
    DONE = "agent.done"
    ERROR = "agent.error"
    GAP = "agent.gap"
    """Events between two ids are no longer available."""


class AgentEventData(Value):
    """Data of an event. Its kind determines which fields it has."""

    agent_id: str | None = None
    run_id: str | None = None
    step: int | None = None
    message_id: str | None = None
    message: str | None = None
    messages: tuple[str, ...] | None = None
    item_id: str | None = None
    emoji: str | None = None
    reason: str | None = None
    total_steps: int | None = None
    total_messages: int | None = None
    usage: RunUsage | None = None
    error: str | None = None
    code: str | None = None
    schedule_id: str | None = None
    """Schedule that started the turn."""
    created_at: Instant | None = None
    is_erased: bool | None = None
    """True if the item was forgotten or erased since."""
    first: int | None = None
    last: int | None = None
