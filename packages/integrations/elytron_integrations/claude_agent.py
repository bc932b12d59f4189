"""Session transcripts of the Claude Agent SDK: complete entries in order, and recallable text."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from elytron.api import MemoryFace
from elytron.runtime_records import RecordName, records_of
from elytron_assistants.foreign_json import ForeignObject
from elytron_core import limits
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.records import Record
from elytron_core.scope import Scope
from elytron_core.strict_json import mend_surrogates
from elytron_core.text.program_parts import is_program_entry, typed_text
from elytron_integrations.conversation_items import (
    ConversationItem,
    ConversationItems,
    host_name,
    mended_text,
    settle_change,
)
from elytron_integrations.integration_table import require_framework
from elytron_integrations.user_memory import narrowed_scope, user_memory

require_framework(__name__)

from claude_agent_sdk import (  # noqa: E402
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

_ISSUER: Final = "claude-agent"
_NAMESPACE: Final = "elytron:claude-agent"
_ROLES: Final = {"user": EvidenceRole.USER, "assistant": EvidenceRole.ASSISTANT}


class ElytronSessionStore(SessionStore):
    """Session store in one memory space: `space`, or the memory's own. The memory must be opened in this process.

    What the person and the assistant say in a session can be recalled. Tool calls, their results and subagents'
    messages are stored but not found by recall.
    """

    def __init__(self, memory: MemoryFace, *, space: str | None = None) -> None:
        self._memory = memory
        self._scope = user_memory(memory, space, operation="the session store").scope
        self._records = records_of(memory, scope=self._scope)
        self._order = asyncio.Lock()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries. An entry whose `uuid` is already stored is left out."""
        if not entries:
            return
        is_main = not key.get("subpath")
        items = [_entry_item(entry, has_words=is_main) for entry in entries]
        async with self._order:
            await self._items(key).append(items)
            await settle_change(lambda: self._note_entries(key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a session or subagent, or None if nothing is stored."""
        return [item.value for item in await self._items(key).read()] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return a project's sessions with the time of their last change."""
        heads = await self._heads(_NAMESPACE, host_name(project_key))
        return [
            SessionStoreListEntry(session_id=str(value["session_id"]), mtime=int(head.updated_at))
            for head, value in heads
            if not value["subpath"]
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of a project's sessions."""
        heads = await self._heads(_NAMESPACE, host_name(project_key))
        return [_summary_of(head) for head, value in heads if not value["subpath"]]

    async def delete(self, key: SessionKey) -> None:
        """Erase a session and its subagents, or only the subagent at `subpath`, and what memory derived from them."""
        project, session = host_name(key["project_key"]), host_name(key["session_id"])
        heads = await self._heads(_NAMESPACE, project, session)
        subpath = key.get("subpath") or ""
        for head, value in heads:
            if not subpath or value["subpath"] == subpath:
                await self._items({**key, "subpath": value["subpath"]}).erase()
                await self._records.erase((head,))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's subagents."""
        heads = await self._heads(_NAMESPACE, host_name(key["project_key"]), host_name(key["session_id"]))
        return [value["subpath"] for _, value in heads if value["subpath"]]

    async def _note_entries(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Store the number of entries, which also sets the time of change, and a session's summary."""
        name = _head_name(key)
        head = await self._records.get(*name)
        subpath = key.get("subpath") or ""
        earlier: Any = head.value if head is not None else {"entries": 0}
        value: dict[str, Any] = {
            "session_id": key["session_id"],
            "subpath": subpath,
            "entries": earlier["entries"] + len(entries),
        }
        if not subpath:
            summary = fold_session_summary(_summary_of(head) if head is not None else None, key, list(entries))
            # Half a surrogate pair in a prompt could not be stored as UTF-8.
            value["summary"] = json.loads(mend_surrogates(json.dumps(summary["data"]).encode()))
        await self._records.put(*name, value, expected_version=head.version if head is not None else 0)

    async def _heads(self, *namespace: str) -> list[tuple[Record, Any]]:
        return [(head, head.value) async for head in self._records.below(namespace)]

    def _items(self, key: SessionKey) -> ConversationItems:
        return ConversationItems(self._memory, _entries_scope(self._scope, key), issuer=_ISSUER)


def _entries_scope(scope: Scope, key: SessionKey) -> Scope:
    """Return the scope of the entries. Subagents' entries have a separate channel."""
    subpath = key.get("subpath")
    channel = f"{_ISSUER}:{key['project_key']}" if not subpath else f"{_ISSUER}-subagents:{key['project_key']}"
    conversation = key["session_id"] if not subpath else f"{key['session_id']}/{subpath}"
    return narrowed_scope(scope, channel=host_name(channel), conversation=host_name(conversation))


def _head_name(key: SessionKey) -> RecordName:
    namespace = (_NAMESPACE, host_name(key["project_key"]), host_name(key["session_id"]))
    subpath = key.get("subpath")
    return namespace, host_name(f"subagent:{subpath}") if subpath else "session"


def _summary_of(head: Record) -> SessionSummaryEntry:
    value: Any = head.value
    return SessionSummaryEntry(session_id=value["session_id"], mtime=int(head.updated_at), data=value["summary"])


def _entry_item(entry: SessionStoreEntry, *, has_words: bool) -> ConversationItem:
    fields: dict[str, Any] = {**entry}
    role = _ROLES.get(entry["type"], EvidenceRole.SYSTEM)
    text = _spoken_text(fields, role) if has_words and role is not EvidenceRole.SYSTEM else ""
    return ConversationItem(fields, "entry", role=role, text=text, host_id=entry.get("uuid"))


def _spoken_text(fields: Mapping[str, Any], role: EvidenceRole) -> str:
    """Return what a person or the assistant says in an entry, without program text in their role."""
    message = ForeignObject(fields).part("message")
    if is_program_entry(fields) or any(part.text("type") == "tool_result" for part in message.parts("content")):
        return ""
    words = mended_text(message.words("content"))[: limits.MESSAGE_CHARS]
    return typed_text(words) if role is EvidenceRole.USER else words
