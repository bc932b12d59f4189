"""The requests and answers of the gateway, field by field as its API reference writes them."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Request, Value
from elytron_core.planes.servers.gateway import EditKind, ResourceStatus
from elytron_core.scope import FutureClaims, Name
from elytron_core.time_kinds import TimeKind
from elytron_gateway import limits as gateway_limits
from elytron_gateway.names import DEFAULT, ConversationId, Id, SessionId

MAX_MESSAGES: Final = 500


Text = Annotated[str, Field(max_length=limits.MESSAGE_CHARS)]
Short = Annotated[str, Field(max_length=limits.NAME_CHARS)]
ItemType = Literal["text", "image", "audio", "doc", "pdf", "html", "email"]
Scope = Literal["current_chat", "resources", "all_user_memory"]


class CallerCredentials(Request):
    """The caller's credentials, in the body as here, or in the headers `Authorization` and `X-User-Id`."""

    user_id: Short = ""
    user_key: Annotated[str, Field(max_length=limits.NAME_CHARS, repr=False)] = ""


class PlacedRequest(CallerCredentials):
    """A request about one app and project."""

    app_id: Id = DEFAULT
    project_id: Id = DEFAULT


class UserRequest(Request):
    """Create a user, or return the key of an existing one."""

    user_id: Short


class UserAnswer(Value):
    """A user and the user's key."""

    user_id: str
    user_key: Annotated[str, Field(repr=False)]


class MessageToolCall(Value):
    """A call that an assistant made; its shape is the host's."""

    id: Short
    type: Short = "function"
    function: dict[Name, JsonValue] = {}


class ContentItem(Value):
    """One part of a message. It holds its content in exactly one of `text`, `uri`, `base64` and `upload_id`."""

    type: ItemType
    text: Text | None = None
    uri: Annotated[str, Field(min_length=1, max_length=limits.URI_CHARS)] | None = None
    base64: str | None = None
    upload_id: Name | None = None
    ext: Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,16}$")] | None = None
    name: Short = ""
    extras: dict[Name, JsonValue] = {}

    @model_validator(mode="after")
    def _holds_one(self) -> Self:
        sources = (self.text, self.uri, self.base64, self.upload_id)
        if sum(item is not None for item in sources) != 1:
            raise ValueError("must have exactly one of text, uri, base64 and upload_id")
        if self.type == "text" and self.text is None:
            raise ValueError("of type text has no text")
        if self.base64 is not None and self.ext is None:
            raise ValueError("with base64 needs ext")
        return self


Items = Annotated[tuple[ContentItem, ...], Field(min_length=1, max_length=gateway_limits.ITEMS)]


def _content_form(content: object) -> Literal["text", "items"]:
    """Tell which of its two forms a content has, so that an item's errors are reported for that item."""
    return "text" if isinstance(content, str) else "items"


class WireMessage(Value):
    """One message, as a host sends it."""

    sender_id: Name
    sender_name: Name | None = None
    role: Literal["user", "assistant", "tool"]
    timestamp: Annotated[Instant, Field(gt=0, le=limits.LATEST_MS), TimeKind.CLAIM]
    content: Annotated[Annotated[Text, Tag("text")] | Annotated[Items, Tag("items")], Discriminator(_content_form)]
    tool_calls: Annotated[tuple[MessageToolCall, ...], Field(max_length=gateway_limits.ITEMS)] | None = None
    tool_call_id: Short | None = None

    @model_validator(mode="after")
    def _tools_fit(self) -> Self:
        if self.role != "assistant" and self.tool_calls:
            raise ValueError("has tool_calls but is not from the assistant")
        return self


Messages = Annotated[tuple[WireMessage, ...], Field(min_length=1, max_length=MAX_MESSAGES)]


class GatewayAddRequest(PlacedRequest):
    """Add messages to a session."""

    session_id: SessionId
    messages: Messages
    defer_extraction: bool = False
    external_content_used: bool = False
    """True if the text rests on a page, a file or another tool's answer: it is then marked as from outside."""


class AttachmentAnswer(Value):
    """A file that came with a message, and the memory that it belongs to."""

    attachment_id: str
    memory_id: str
    upload_id: str | None = None
    type: str
    name: str = ""
    size: int = 0


class AddAnswer(Value):
    """Number of added messages. `attachments` has the outcome of files and items that are not text."""

    session_id: str
    message_count: int
    status: Literal["accumulated", "extracted", "queued"]
    attachments: tuple[AttachmentAnswer, ...] = ()
    future_claims: FutureClaims = ()


class FlushRequest(PlacedRequest):
    """Extract memories from what was added to a session."""

    session_id: SessionId


class FlushAnswer(Value):
    """True if there was anything new."""

    session_id: str
    status: Literal["extracted", "no_extraction"]
    memories: int = 0
    """Number of lasting memories drawn from it, if the upstream reports it."""


class GatewaySearchRequest(PlacedRequest):
    """Search a user's memory. Without `scope`: all of it, or with a conversation id that chat and resources."""

    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)]
    conversation_id: ConversationId | Literal[""] | None = None
    """A client without one may send null or an empty text."""
    scope: Annotated[tuple[Scope, ...], Field(max_length=3)] | None = None
    top_k: Annotated[int, Field(ge=1, le=gateway_limits.TOP_K)] = gateway_limits.TOP_K_DEFAULT

    @model_validator(mode="after")
    def _has_its_chat(self) -> Self:
        if "current_chat" in self.scopes and not self.conversation_id:
            raise ValueError("with scope current_chat needs conversation_id")
        return self

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return the scopes to search, each once."""
        if self.scope:
            return tuple(dict.fromkeys(self.scope))
        # Resources are searched under their own scope first, as hosts expect it.
        return ("current_chat", "resources") if self.conversation_id else ("resources", "all_user_memory")


class SearchResult(Value):
    """One memory found. `raw` is what the upstream said of it."""

    id: str
    text: str
    score: float
    source_scope: Scope
    session_id: str | None = None
    resource_id: str | None = None
    resource_uri: str | None = None
    title: str | None = None
    page: int | None = None
    heading: str | None = None
    overridden: bool = False
    raw: dict[str, Any] = {}


class SearchAnswer(Value):
    """The results of every scope in one order, best first."""

    results: tuple[SearchResult, ...] = ()


class EditRequest(PlacedRequest):
    """A memory in a session, as named in a search result."""

    memory_id: Name
    session_id: SessionId


class OverrideRequest(EditRequest):
    """Override the text that search shows for a memory."""

    text: Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]


class DeleteRequest(EditRequest):
    """Hide a memory from search; with `purge`, permanently erase it."""

    reason: Annotated[str, Field(max_length=limits.REASON_CHARS)] | None = None
    purge: bool = False


class EditAnswer(Value):
    """The memory's override after the call; `purged`: it is physically gone."""

    memory_id: str
    session_id: str
    kind: EditKind | None = None
    text: str = ""
    reason: str = ""
    updated_at: int = 0
    purged: bool = False


class EditsAnswer(Value):
    """Every override and tombstone of the user's app and project."""

    edits: tuple[EditAnswer, ...]


class ExternalRequest(PlacedRequest):
    """Register a resource at an address that the server may read."""

    uri: Annotated[str, Field(min_length=1, max_length=limits.URI_CHARS)]
    title: Annotated[str, Field(max_length=limits.TOPIC_CHARS)] = ""
    description: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""


class ResourceAnswer(Value):
    """A resource as its user sees it."""

    resource_id: str
    session_id: str
    uri: str
    status: ResourceStatus
    title: str = ""
    description: str = ""
    file_name: str = ""
    mime: str = ""
    size: int = 0
    source: str = ""
    chunks: int = 0
    problem: str = ""
    created_at: int = 0
    updated_at: int = 0


class ResourcesAnswer(Value):
    """Resources; empty if there are none, or if the requested one is missing or another user's."""

    resources: tuple[ResourceAnswer, ...] = ()


class DeletedAnswer(Value):
    """A resource that is gone."""

    resource_id: str
    deleted: bool = True


class HealthAnswer(Value):
    """True if the gateway answers, and if its upstream does."""

    status: Literal["ok", "degraded"]
    upstream: str
    backlog: int = 0


class DrainAnswer(Value):
    """Number of missed additions that were sent to the upstream, and of those that still wait."""

    told: int
    backlog: int


class UsersAnswer(Value):
    """Every user of the gateway."""

    users: tuple[str, ...]


class UsageAnswer(Value):
    """A user's usage, over all apps and projects."""

    user_id: str
    spaces: int
    space_names: tuple[str, ...] = ()
    """The user's own space and those of apps and projects: the archive of each is an export of the user."""
    messages: int
    resources: int
    resource_bytes: int
    revoked: bool = False
