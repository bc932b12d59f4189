"""Session events of an app: where they are stored, and which text memory gets from them.

Both services store events in the same way, so an event that passes through both is stored once.
"""

from typing import Final

from google.adk.events.event import Event
from google.genai import types

from elytron.api import MemoryFace
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import Scope
from elytron_integrations.conversation_items import ConversationItem, host_name, joined_text, mended_text
from elytron_integrations.user_memory import UserMemory, memory_of_caller, narrowed_scope

ISSUER: Final = "google-adk"
NAMESPACE: Final = "elytron:google-adk"
"""First part of the namespaces of everything stored in addition to events."""
APPS_SPACE: Final = "google-adk-apps"
"""The space for data that belongs to an app and not to a user."""


def caller_memory(memory: MemoryFace, user_id: str | None, /, *, operation: str) -> UserMemory:
    """Return the memory of the user named in a call. Raises ScopeMissing without a user, or InvalidInput."""
    if not user_id:
        raise ScopeMissing(operation=operation, way_out="pass the user_id")
    if user_id == APPS_SPACE:
        raise InvalidInput(field="user_id", problem="is a reserved name: choose another")
    return memory_of_caller(memory, user_id)


def channel_of(app_name: str, /) -> str:
    """Return the channel of an app's conversations."""
    return host_name(f"{ISSUER}:{app_name}")


def session_scope(scope: Scope, app_name: str, session_id: str, /) -> Scope:
    """Return the scope of a session's events."""
    return narrowed_scope(scope, channel=channel_of(app_name), conversation=host_name(session_id))


def event_item(event: Event, /) -> ConversationItem:
    """Return the item that stores an event: the complete event and its text."""
    is_user = event.author == "user"
    return ConversationItem(
        value=event.model_dump(mode="json", by_alias=True),
        kind="event",
        role=EvidenceRole.USER if is_user else EvidenceRole.ASSISTANT,
        text=content_text(event.content),
        host_id=event.id,
        at=Instant(round(event.timestamp * 1000)) if event.timestamp > 0 else None,
        speaker=host_name(event.author) if event.author and not is_user else None,
    )


def content_text(content: types.Content | None, /) -> str:
    """Return a content's text, without the model's thoughts."""
    parts = (content.parts if content is not None else None) or ()
    text = joined_text(part.text for part in parts if not part.thought)
    return mended_text(text)[: limits.MESSAGE_CHARS]
