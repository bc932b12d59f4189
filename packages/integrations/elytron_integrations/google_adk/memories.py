"""The memory service of Google's ADK, over the messages in one user's sessions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types
from typing_extensions import override

from elytron.api import MemoryFace
from elytron.runtime_records import RecordName, records_of
from elytron_core import limits
from elytron_core.contracts.recall import RecallFilters, RecallHit, RecallOutcome
from elytron_core.errors import InvalidInput, NotFound, Unsupported
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import Scope
from elytron_integrations.conversation_items import ConversationItem, ConversationItems, host_name, mended_text
from elytron_integrations.google_adk.events import (
    ISSUER,
    NAMESPACE,
    caller_memory,
    channel_of,
    content_text,
    event_item,
    session_scope,
)
from elytron_integrations.user_memory import require_open_memory

SEARCH_HITS: Final = 10
_UNNAMED: Final = "events-without-session"
_ADDED: Final = "added-memories"


class ElytronMemoryService(BaseMemoryService):
    """Memory service for session events by user and app. Each user is a memory space.

    With `searches_all`, a search covers everything remembered about the user instead of only what this app added. The
    memory must be opened in this process; one opened for a single user serves nobody else.
    """

    def __init__(self, memory: MemoryFace, *, searches_all: bool = False) -> None:
        require_open_memory(memory)
        self._memory = memory
        self._searches_all = searches_all

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        """Store a session's events that have content, each once."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events, each once by its id. An event that was deleted from memory is not stored again."""
        _require_no_metadata(custom_metadata)
        scope = caller_memory(self._memory, user_id, operation="add_events_to_memory").scope
        items = [event_item(event) for event in events if event.content is not None and event.content.parts]
        await self._append(session_scope(scope, app_name, session_id or _UNNAMED), app_name, items)

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories unchanged; those with an id are stored once."""
        _require_no_metadata(custom_metadata)
        scope = caller_memory(self._memory, user_id, operation="add_memory").scope
        items = [_entry_item(entry) for entry in memories]
        await self._append(session_scope(scope, app_name, _ADDED), app_name, items)

    @override
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return up to ten memories that answer `query`, best first, or none if memory has no answer."""
        memory = caller_memory(self._memory, user_id, operation="search_memory")
        filters = RecallFilters() if self._searches_all else RecallFilters(channels=(channel_of(app_name),))
        report = await memory.recall(mended_text(query)[: limits.QUERY_CHARS], limit=SEARCH_HITS, filters=filters)
        hits = report.hits if report.outcome is not RecallOutcome.NOTHING else ()
        return SearchMemoryResponse(memories=[_memory_entry(hit) for hit in hits])

    @override
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Erase one of the app's memories, by the id from a search, also from the session that contains it.

        Raises NotFound, or InvalidInput without an id, because that would erase everything.
        """
        memory = caller_memory(self._memory, user_id, operation="delete_memory")
        if not memory_id:
            problem = "is missing and would erase all of the user's memories: pass an id, or erase the user's space"
            raise InvalidInput(field="memory_id", problem=problem)
        hit = await memory.get(memory_id)
        if hit.channel != channel_of(app_name) or hit.conversation is None:
            raise NotFound(what="memory", name=memory_id)
        conversation = session_scope(memory.scope, app_name, hit.conversation)
        stored = await ConversationItems(memory, conversation, issuer=ISSUER).read()
        item = next((item for item in stored if hit.id.startswith(item.turn_id)), None)
        if item is not None and isinstance(event_id := item.value.get("id"), str):
            (name,) = _deletion_names(app_name, [event_id])
            await records_of(self._memory, scope=memory.scope).put(*name, True)  # noqa: FBT003 - the stored value
        await memory.erase(hit.id)

    async def _append(self, scope: Scope, app_name: str, items: Sequence[ConversationItem]) -> None:
        names = _deletion_names(app_name, [item.host_id or "" for item in items])
        deletions = await records_of(self._memory, scope=scope).get_all(names)
        new_items = [item for item, deletion in zip(items, deletions, strict=True) if deletion is None]
        await ConversationItems(self._memory, scope, issuer=ISSUER).append(new_items)


def _deletion_names(app_name: str, ids: Iterable[str]) -> list[RecordName]:
    """Return the names of the records that mark events as deleted."""
    return [((NAMESPACE, host_name(app_name), "deleted"), host_name(event_id)) for event_id in ids]


def _require_no_metadata(custom_metadata: Mapping[str, object] | None) -> None:
    if custom_metadata:
        raise Unsupported("custom_metadata is not supported here: set it on the memories or events")


def _entry_item(entry: MemoryEntry) -> ConversationItem:
    text = content_text(entry.content)
    if not text:
        raise InvalidInput(field="memories", problem="contain a memory without words")
    role = EvidenceRole.ASSISTANT if entry.content.role == "model" else EvidenceRole.USER
    value = entry.model_dump(mode="json", by_alias=True)
    speaker = host_name(entry.author) if entry.author and entry.author != "user" else None
    return ConversationItem(value, "memory", role=role, text=text, host_id=entry.id, speaker=speaker)


def _memory_entry(hit: RecallHit) -> MemoryEntry:
    role = "model" if hit.role is EvidenceRole.ASSISTANT else "user"
    return MemoryEntry(
        id=hit.id,
        content=types.Content(role=role, parts=[types.Part(text=hit.text)]),
        author=hit.speaker or role,
        timestamp=hit.when.isoformat() if hit.when is not None else None,
        custom_metadata=dict(hit.metadata),
    )
