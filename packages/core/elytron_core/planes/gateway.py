"""Gateway documents stored next to memories: users, sessions, edits, resources and attachments."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes import transcript
from elytron_core.scope import Name, OpaqueId

USERS = "gateway_users"
KEYS = "gateway_keys"
SESSIONS = "gateway_sessions"
EDITS = "gateway_edits"
RESOURCES = "gateway_resources"
TWINS = "gateway_twins"
ATTACHMENTS = "gateway_attachments"
BACKLOG = "gateway_backlog"
COUNTS = "gateway_counts"
BEHIND = "gateway_behind"

OF_A_SPACE = (SESSIONS, EDITS, RESOURCES, TWINS, ATTACHMENTS, BACKLOG, COUNTS)
"""The collections in a user's own spaces; users and marks of backlogs are in the gateway's space."""
WITH_BLOBS = frozenset({RESOURCES, ATTACHMENTS})
"""The collections whose documents may have bytes beside them, in the blob of their key."""


class QuotaQuantity(StrEnum):
    """A quantity that a user's quota bounds."""

    MESSAGES = "messages"
    RESOURCE_BYTES = "resource_bytes"


class QuotaShare(Value):
    """The share of a quota that one of a user's spaces may hold.

    More is set aside while a call that has not read the lower limit may still add.
    """

    space: Annotated[str, OpaqueId()]
    of: QuotaQuantity
    may_hold: int
    set_aside: int


class GatewayUser(Value):
    """A user of the gateway. The key is stored nowhere, `key_tag` knows it again."""

    user_id: Annotated[Name, OpaqueId()]
    created_at: Instant
    key_tag: Annotated[str, OpaqueId()] = ""
    """The place of the user's key in the collection of keys; empty without a key."""
    salt: Annotated[str, OpaqueId()] = ""
    """From it and a secret outside the store the key is derived, if there is one; new with each key."""
    is_computable: bool = False
    """True if older copies of the store hold all that makes the key: an earlier build derived it from them."""
    revoked_at: Instant | None = None
    spaces: Annotated[tuple[str, ...], OpaqueId()] = ()
    """Every memory space that the user has written to."""
    allotted: tuple[QuotaShare, ...] = ()
    """The parts of the user's quota; together at most the quota."""


class KeyName(Value):
    """The user of a key's tag, so that a key alone identifies its user."""

    user_id: Annotated[Name, OpaqueId()]


class SpaceCounts(Value):
    """Size of a space, changed in one batch with what is counted, so that no scan is needed."""

    messages: int = 0
    resources: int = 0
    resource_bytes: int = 0
    edits: int = 0
    waiting: int = 0
    """Additions that were not sent upstream yet."""
    refused: int = 0
    """Those that it would not take."""


class GatewaySession(Value):
    """A session that its user writes to. `flushed` of its `messages` were handed to extraction."""

    session_id: Annotated[Name, OpaqueId()]
    messages: int = 0
    flushed: int = 0
    created_at: Instant
    updated_at: Instant


class EditKind(StrEnum):
    """Kind of a memory's edit."""

    OVERRIDE = "override"
    TOMBSTONE = "tombstone"


class MemoryOverride(Value):
    """An override of a memory: another text, or that it is hidden. The memory itself is unchanged."""

    kind: EditKind
    memory_id: Annotated[Name, OpaqueId()]
    session_id: Annotated[Name, OpaqueId()]
    text: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)] = ""
    told_by: Annotated[str | None, OpaqueId()] = None
    """The memory that holds an override's text, so that search finds it by its own words."""
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    at: Instant


class ResourceStatus(StrEnum):
    """Progress of a resource."""

    PENDING = "pending"
    """Recorded; its bytes or its text are not in yet."""
    EXTRACTED = "extracted"
    FAILED = "failed"
    """The record is stored, its text could not be read; sending it again tries once more."""


class UploadedResource(Value):
    """A file or document of a user. Its text is in its session, its bytes in the blob of its key."""

    resource_id: Annotated[Name, OpaqueId()]
    title: Annotated[str, Field(max_length=limits.TOPIC_CHARS)] = ""
    description: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""
    file_name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    mime: Annotated[str, Field(max_length=limits.NAME_CHARS)]
    size: int = 0
    source: Annotated[str, Field(max_length=limits.URI_CHARS)] = ""
    """Source of an external resource."""
    status: ResourceStatus = ResourceStatus.PENDING
    problem: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    chunks: int = 0
    twin: Annotated[str, OpaqueId()] = ""
    """The key of the look-up that finds equal content."""
    created_at: Instant
    updated_at: Instant

    @property
    def is_extracted(self) -> bool:
        """Return whether its text can be found."""
        return self.status is ResourceStatus.EXTRACTED


class ContentDuplicate(Value):
    """The resource with a content, so that equal content is stored once."""

    resource_id: Annotated[Name, OpaqueId()]


class MessageItem(Value):
    """A part of a message as its host sent it: words, or a file, whose bytes lie with the attachment of that key."""

    type: Name
    text: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)] = ""
    attachment: Annotated[str, OpaqueId()] = ""
    name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    ext: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""


class WaitingMessage(Value):
    """A message that was not sent upstream yet."""

    message: transcript.Message
    items: tuple[MessageItem, ...] = ()
    """Its items, if there are files among them."""
    key: Annotated[Name | None, OpaqueId()] = None
    tags: Annotated[tuple[Name, ...], OpaqueId()] = ()
    metadata: transcript.Metadata = {}


class WaitingAddition(Value):
    """An addition that was not sent upstream yet."""

    user: Annotated[Name, OpaqueId()]
    app: Annotated[Name, OpaqueId()]
    project: Annotated[Name, OpaqueId()]
    session_id: Annotated[Name, OpaqueId()]
    messages: tuple[WaitingMessage, ...]
    at: Instant
    problem: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    """Why the upstream refused it; it is sent again on request."""


class UpstreamLag(Value):
    """Mark that an upstream misses additions of a space, with the server that sends them now."""

    user: Annotated[Name, OpaqueId()]
    app: Annotated[Name, OpaqueId()]
    project: Annotated[Name, OpaqueId()]
    holder: Annotated[str, OpaqueId()] = ""
    held_until: Instant = Instant(0)


class MessageAttachment(Value):
    """A file that came with a message. `memory_id` is the message; the bytes lie in the blob of its key."""

    memory_id: Annotated[Name, OpaqueId()]
    session_id: Annotated[Name, OpaqueId()]
    upload_id: Annotated[Name | None, OpaqueId()] = None
    kind: Name
    name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    ext: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    mime: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    size: int = 0
    uri: Annotated[str, Field(max_length=limits.URI_CHARS)] = ""
    at: Instant
