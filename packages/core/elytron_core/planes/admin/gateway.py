"""What a Memory Gateway keeps beside the memories: users, sessions, edits, resources and attachments."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes.conversation import transcript
from elytron_core.scope import Name

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
"""The collections that lie in a user's own spaces; users, and whose upstream is behind, stand in the gateway's."""
WITH_BLOBS = frozenset({RESOURCES, ATTACHMENTS})
"""The collections whose documents may have bytes beside them, in the blob of their key."""


class Quantity(StrEnum):
    """What a user may hold only so much of."""

    MESSAGES = "messages"
    RESOURCE_BYTES = "resource_bytes"


class Allotment(Value):
    """How much of a quantity one of a user's spaces may hold.

    More is set aside while it may still be taken in by somebody who has not seen that less may be held now.
    """

    space: str
    of: Quantity
    may_hold: int
    set_aside: int


class User(Value):
    """A user of the gateway. The key is derived from `salt` and a secret, and is stored nowhere."""

    user_id: Name
    created_at: Instant
    salt: str
    """Random, and new with each key: a key that ended is never derived again, whatever the user's name."""
    revoked_at: Instant | None = None
    spaces: tuple[str, ...] = ()
    """Every memory space that he has written to."""
    allotted: tuple[Allotment, ...] = ()
    """The parts of his quota, all that is set aside together no more than it."""


class KeyName(Value):
    """Whose key a tag stands for, so that a key alone tells its user."""

    user_id: Name


class Counts(Value):
    """How much a space holds, changed in the one batch with what is counted, so that nothing has to be gone through."""

    messages: int = 0
    resources: int = 0
    resource_bytes: int = 0
    edits: int = 0
    waiting: int = 0
    """Additions that an upstream was not told yet."""
    refused: int = 0
    """Those that it would not take."""


class Session(Value):
    """A session that its user writes to. `flushed` of its `messages` were handed to extraction."""

    session_id: Name
    messages: int = 0
    flushed: int = 0
    created_at: Instant
    updated_at: Instant


class EditKind(StrEnum):
    """How a memory was edited."""

    OVERRIDE = "override"
    TOMBSTONE = "tombstone"


class Edit(Value):
    """What stands over a memory: another text, or that it is not to be shown. The memory itself stays as it was."""

    kind: EditKind
    memory_id: Name
    session_id: Name
    text: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)] = ""
    told_by: str | None = None
    """The memory that holds an override's text, so that search finds it by its own words."""
    reason: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    at: Instant


class ResourceStatus(StrEnum):
    """How far a resource has come."""

    PENDING = "pending"
    """Recorded; its bytes or its text are not in yet."""
    EXTRACTED = "extracted"
    FAILED = "failed"
    """The record stands, its text could not be taken in; sending it again tries once more."""


class Resource(Value):
    """A file or document that a user gave. Its text lies in its session, its bytes in the blob of its key."""

    resource_id: Name
    title: Annotated[str, Field(max_length=limits.TOPIC_CHARS)] = ""
    description: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""
    file_name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    mime: Annotated[str, Field(max_length=limits.NAME_CHARS)]
    size: int = 0
    source: Annotated[str, Field(max_length=limits.URI_CHARS)] = ""
    """Where an external resource was read from."""
    status: ResourceStatus = ResourceStatus.PENDING
    problem: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    chunks: int = 0
    twin: str = ""
    """The key of the look-up that finds equal content."""
    created_at: Instant
    updated_at: Instant

    @property
    def is_extracted(self) -> bool:
        """Tell whether its text can be found."""
        return self.status is ResourceStatus.EXTRACTED


class Twin(Value):
    """Which resource has a content, so that equal content is kept once."""

    resource_id: Name


class MessageItem(Value):
    """A part of a message as its host sent it: words, or a file, whose bytes lie with the attachment of that key."""

    type: Name
    text: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)] = ""
    attachment: str = ""
    name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    ext: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""


class WaitingMessage(Value):
    """A message that its upstream was not told yet."""

    message: transcript.Message
    items: tuple[MessageItem, ...] = ()
    """What it is made of, where there are files among it."""
    key: Name | None = None
    tags: tuple[Name, ...] = ()
    metadata: transcript.Metadata = {}


class Waiting(Value):
    """An addition that its upstream was not told yet."""

    user: Name
    app: Name
    project: Name
    session_id: Name
    messages: tuple[WaitingMessage, ...]
    at: Instant
    problem: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    """Why the upstream would not take it; it is told again when somebody asks for it."""


class Behind(Value):
    """That an upstream was not told everything of a space, and who tells it just now: nobody else does until then."""

    user: Name
    app: Name
    project: Name
    holder: str = ""
    held_until: Instant = Instant(0)


class Attachment(Value):
    """A file that came with a message. `memory_id` is the message; the bytes lie in the blob of its key."""

    memory_id: Name
    session_id: Name
    upload_id: Name | None = None
    kind: Name
    name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    ext: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    mime: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    size: int = 0
    uri: Annotated[str, Field(max_length=limits.URI_CHARS)] = ""
    at: Instant
