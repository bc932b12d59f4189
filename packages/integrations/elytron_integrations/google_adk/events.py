"""Events of an app's sessions: where they are stored, and what memory is told of them.

Both services store an event in the same way, so that one which went through both is stored once.
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
from elytron_integrations.conversation_items import ConversationItem, host_name, joined_text
from elytron_integrations.user_memory import UserMemory, memory_of_caller, narrowed_scope

ISSUER: Final = "google-adk"
NAMESPACE: Final = "elytron:google-adk"
"""First part of the namespaces of what is stored besides events."""
APPS_SPACE: Final = "google-adk-apps"
"""The space of what belongs to an app and to no user."""


def caller_memory(memory: MemoryFace, user_id: str | None, /, *, operation: str) -> UserMemory:
    """Return the memory of the user that a call names. Raises ScopeMissing without one, InvalidInput."""
    if not user_id:
        raise ScopeMissing(operation=operation, way_out="pass the user_id")
    if user_id == APPS_SPACE:
        raise InvalidInput(field="user_id", problem="is the name of what belongs to no user: choose another")
    return memory_of_caller(memory, user_id)


def channel_of(app_name: str, /) -> str:
    """Return the channel of an app's conversations."""
    return host_name(f"{ISSUER}:{app_name}")


def session_scope(scope: Scope, app_name: str, session_id: str, /) -> Scope:
    """Return where a session's events are."""
    return narrowed_scope(scope, channel=channel_of(app_name), conversation=host_name(session_id))


def event_item(event: Event, /) -> ConversationItem:
    """Return an event as it is stored: whole, beside the words that were said in it."""
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
    """Return the words of a content, without a model's thoughts."""
    parts = (content.parts if content is not None else None) or ()
    return joined_text(part.text for part in parts if not part.thought)[: limits.MESSAGE_CHARS]
