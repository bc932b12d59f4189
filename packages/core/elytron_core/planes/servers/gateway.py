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
"""Collections in a user's own spaces; users and backlog marks are in the gateway's space."""
WITH_BLOBS = frozenset({RESOURCES, ATTACHMENTS})
"""Collections whose documents may have bytes in the blob of the same key."""


class QuotaQuantity(StrEnum):
    """A quantity that a user's quota bounds."""

    MESSAGES = "messages"
    RESOURCE_BYTES = "resource_bytes"


class QuotaShare(Value):
    """The share of a quota that one of a user's spaces may use.

    More is set aside while a call that has not read the lower limit may still add.
    """

    space: Annotated[str, OpaqueId()]
    of: QuotaQuantity
    may_hold: int
    set_aside: int


class GatewayUser(Value):
    """A user of the gateway. The key itself is not stored; `key_tag` recognises it."""

    user_id: Annotated[Name, OpaqueId()]
    created_at: Instant
    key_tag: Annotated[str, OpaqueId()] = ""
    """Location of the user's key in the collection of keys; empty without a key."""
    salt: Annotated[str, OpaqueId()] = ""
    """If set, the key is derived from this and a secret outside the store; it is new with each key."""
    is_computable: bool = False
    """True if older copies of the store contain everything that makes up the key, as an earlier build derived it."""
    revoked_at: Instant | None = None
    spaces: Annotated[tuple[str, ...], OpaqueId()] = ()
    """Every memory space that the user has written to."""
    allotted: tuple[QuotaShare, ...] = ()
    """How the user's quota is divided; the parts never add up to more than the quota."""


class KeyName(Value):
    """The user of a key's tag, so that a key alone identifies its user."""

    user_id: Annotated[Name, OpaqueId()]


class SpaceCounts(Value):
    """Size of a space, updated in the same batch as the counted data, so that no scan is needed."""

    messages: int = 0
    resources: int = 0
    resource_bytes: int = 0
    edits: int = 0
    waiting: int = 0
    """Additions not yet sent upstream."""
    refused: int = 0
    """Additions that the upstream rejected."""


class GatewaySession(Value):
    """A session that its user writes to. `flushed` of its `messages` were passed to extraction."""

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
    """An override of a memory: another text, or hidden. The memory itself is unchanged."""

    kind: EditKind
    memory_id: Annotated[Name, OpaqueId()]
    session_id: Annotated[Name, OpaqueId()]
    text: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)] = ""
    told_by: Annotated[str | None, OpaqueId()] = None
    """The memory that contains an override's text, so that search finds it by its own words."""
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    at: Instant


class ResourceStatus(StrEnum):
    """Progress of a resource."""

    PENDING = "pending"
    """Recorded; its bytes or its text have not arrived yet."""
    EXTRACTED = "extracted"
    FAILED = "failed"
    """The record is stored, but its text could not be read; sending it again retries."""


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
    """Lookup key that finds equal content."""
    created_at: Instant
    updated_at: Instant

    @property
    def is_extracted(self) -> bool:
        """Return whether its text can be found."""
        return self.status is ResourceStatus.EXTRACTED


class ContentDuplicate(Value):
    """The resource with a given content, so that equal content is stored once."""

    resource_id: Annotated[Name, OpaqueId()]


class MessageItem(Value):
    """A part of a message as its host sent it: text, or a file whose bytes are in the attachment of that key."""

    type: Name
    text: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)] = ""
    attachment: Annotated[str, OpaqueId()] = ""
    name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    ext: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""


class WaitingMessage(Value):
    """A message not yet sent upstream."""

    message: transcript.Message
    items: tuple[MessageItem, ...] = ()
    """Its items, if they include files."""
    key: Annotated[Name | None, OpaqueId()] = None
    tags: Annotated[tuple[Name, ...], OpaqueId()] = ()
    metadata: transcript.Metadata = {}


class WaitingAddition(Value):
    """An addition not yet sent upstream."""

    user: Annotated[Name, OpaqueId()]
    app: Annotated[Name, OpaqueId()]
    project: Annotated[Name, OpaqueId()]
    session_id: Annotated[Name, OpaqueId()]
    messages: tuple[WaitingMessage, ...]
    at: Instant
    problem: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    """Why the upstream rejected it; it is resent on request."""


class UpstreamLag(Value):
    """Marks that additions of a space are missing upstream, and which server is sending them."""

    user: Annotated[Name, OpaqueId()]
    app: Annotated[Name, OpaqueId()]
    project: Annotated[Name, OpaqueId()]
    holder: Annotated[str, OpaqueId()] = ""
    held_until: Instant = Instant(0)


class MessageAttachment(Value):
    """A file sent with a message. `memory_id` is the message; the bytes are in the blob of its key."""

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
