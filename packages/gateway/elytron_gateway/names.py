"""The ids of the gateway: users, apps, projects, and sessions in their three formats."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from elytron_core.errors import InvalidInput, LimitExceeded, PermissionRefused
from elytron_core.ids import SpaceId, is_reserved, require_name
from elytron_core.scope import Name

ID_CHARS: Final = 128
"""A user's, app's or project's id."""
SESSION_CHARS: Final = 180


ID_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9_.@-]*$"
"""Letters, digits and `_.@-`, not beginning with a dot, so that none resembles a path or contains a separator."""
Id = Annotated[str, Field(min_length=1, max_length=ID_CHARS, pattern=ID_PATTERN)]
SessionId = Annotated[Name, Field(min_length=3, max_length=SESSION_CHARS)]
ConversationId = Annotated[Name, Field(max_length=SESSION_CHARS - len("chat:"))]
"""Pattern of the part after `chat:` in a session's id, the same for writing and searching."""
DEFAULT = "default"
FOREIGN = "this session is not owned by the user"
_ID = re.compile(ID_PATTERN)
_RESOURCE_ID = re.compile(r"r_[0-9a-f]{32}")
_RESOURCE_NAME = re.compile(r"r_[A-Za-z0-9_-]{1,64}")
"""Pattern of a resource in a session's id: its owner is checked before its existence."""


@dataclass(frozen=True, slots=True)
class MemoryOwner:
    """A user in one app and project. Each has its own memory space, so nothing is read across them."""

    user: str
    app: str = DEFAULT
    project: str = DEFAULT

    @property
    def space(self) -> SpaceId:
        """Return the memory space: the user's own for the default app and project."""
        if self.app == DEFAULT and self.project == DEFAULT:
            return SpaceId(self.user)
        return SpaceId(f"{self.user}/{self.app}/{self.project}")


class SessionKind(StrEnum):
    """Kind of a session's content."""

    CHAT = "chat"
    RESOURCE = "resource"
    MEMORY_EDIT = "memory_edit"


@dataclass(frozen=True, slots=True)
class SessionName:
    """A parsed session id. `user` is in the ids of resources and edits, `name` in those of chats."""

    kind: SessionKind
    name: str = ""
    user: str | None = None

    def __str__(self) -> str:
        parts = (self.kind.value, self.user, self.name)
        return ":".join(part for part in parts if part)


def is_resource_id(text: str, /) -> bool:
    """Return whether `text` is the id of a resource."""
    return _RESOURCE_ID.fullmatch(text) is not None


def chat_session(conversation: str, /) -> str:
    """Return the id of a chat's session."""
    return str(SessionName(SessionKind.CHAT, conversation))


def resource_session(user: str, resource_id: str, /) -> str:
    """Return the id of a resource's session."""
    return str(SessionName(SessionKind.RESOURCE, resource_id, user))


def memory_edit(user: str, /) -> str:
    """Return the id of the session that holds a user's corrections."""
    return str(SessionName(SessionKind.MEMORY_EDIT, user=user))


def resource_uri(user: str, resource_id: str, /) -> str:
    """Return the address of a resource."""
    return f"resource://{user}/{resource_id}"


def parse_session(session_id: str, /) -> SessionName:
    """Return the parts of a session's id. Raises InvalidInput if it has none of the three formats."""
    kind, _, rest = session_id.partition(":")
    user, _, name = rest.partition(":")
    match kind:
        case "chat" if _is_conversation(rest):
            return SessionName(SessionKind.CHAT, rest)
        case "resource" if _ID.fullmatch(user) and _RESOURCE_NAME.fullmatch(name):
            return SessionName(SessionKind.RESOURCE, name, user)
        case "memory_edit" if _ID.fullmatch(rest):
            return SessionName(SessionKind.MEMORY_EDIT, user=rest)
        case _:
            formats = "chat:{conversation_id}, resource:{user_id}:{resource_id} or memory_edit:{user_id}"
            raise InvalidInput(field="session_id", problem=f"must be {formats}")


def _is_conversation(name: str) -> bool:
    try:
        require_name(name, field="session_id", limit=SESSION_CHARS - len("chat:"))
    except (InvalidInput, LimitExceeded):
        return False
    return True


def owned_session(session_id: str, owner: MemoryOwner, /) -> SessionName:
    """Return the parts of a session of `owner`. Raises PermissionRefused if it names another user.

    A chat's id names no user: each owner has the chats that it wrote to, and no id reaches another owner's.
    """
    name = parse_session(session_id)
    if name.user is not None and name.user != owner.user:
        raise PermissionRefused(FOREIGN)
    return name


def require_user_id(user_id: str, /) -> str:
    """Return `user_id`. Raises InvalidInput if it is not an id, or is a reserved name."""
    if not _ID.fullmatch(user_id) or len(user_id) > ID_CHARS:
        problem = f"must be 1 to {ID_CHARS} letters, digits and _.@-, not beginning with .@"
        raise InvalidInput(field="user_id", problem=problem)
    if is_reserved(user_id):
        raise InvalidInput(field="user_id", problem="begins like the system's own names: choose another")
    return user_id
