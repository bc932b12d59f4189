"""Pydantic AI conversations in runtime records: each entry is stored once, and a record points to the last one.

A message is stored under its run's turn, so erasing what the run left in memory also erases the message.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from typing_extensions import override

from elytron.api import MemoryFace
from elytron.runtime_records import RecordDraft, RecordName, RuntimeRecords, records_of
from elytron_core.errors import PreconditionFailed
from elytron_core.planes.records import Record, copies_of_turn
from elytron_integrations.conversation_items import clean_json, host_name, text_pieces
from elytron_integrations.user_memory import user_memory

_HEADS: Final = ("elytron:pydantic-ai", "conversations")
_ENTRIES: Final = ("elytron:pydantic-ai", "entries")
_MESSAGES: Final = ("elytron:pydantic-ai", "messages")
"""Namespace of messages without a run."""
_DELETED: Final[JsonValue] = {"deleted": True}
_RECORD: Final = TypeAdapter(ConversationRecord)


@dataclass(frozen=True, slots=True)
class _EntryPlace:
    """Where an entry's message is stored, and the preceding entry."""

    parent_id: str | None
    pieces: tuple[RecordName, ...]


class ElytronConversationStore(ConversationStore):
    """Conversation store in one memory space: `space`, or the memory's own. The memory must be opened in this process.

    A save is one commit. `delete` erases the record and the entries that no other conversation reaches.
    """

    def __init__(self, memory: MemoryFace, *, space: str | None = None) -> None:
        owner = user_memory(memory, space, operation="the conversation store")
        self._records: RuntimeRecords = records_of(memory, scope=owner.scope)

    @override
    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return a conversation's record, or None."""
        head = await self._records.get(_HEADS, host_name(conversation_id))
        return _record_of(head)

    @override
    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records of this scope, or of all scopes, latest first."""
        records = [record async for head in self._records.below(_HEADS) if (record := _record_of(head)) is not None]
        records_in_scope = [record for record in records if scope is None or record.scope == scope]
        return sorted(records_in_scope, key=lambda record: record.updated_at, reverse=True)[:limit]

    @override
    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries in one commit. Raises ConversationConflict."""
        key = host_name(record.conversation_id)
        head = await self._records.get(_HEADS, key)
        stored = _record_of(head)
        if (stored.revision if stored is not None else None) != expected_revision:
            raise ConversationConflict(record.conversation_id)
        drafts = [draft for entry in new_entries for draft in _entry_drafts(entry, record.conversation_id)]
        if record.head_id is not None and all(entry.id != record.head_id for entry in new_entries):
            last = await self._records.get(_ENTRIES, record.head_id)
            if last is None:
                raise ConversationConflict(record.conversation_id)
            # Write the last entry again unchanged, so that the commit fails if it is erased concurrently.
            drafts.append(RecordDraft(_ENTRIES, record.head_id, last.value, expected_version=last.version))
        value = _RECORD.dump_python(record, mode="json")
        drafts.append(RecordDraft(_HEADS, key, value, expected_version=head.version if head is not None else 0))
        try:
            await self._records.put_all(drafts)
        except PreconditionFailed:
            raise ConversationConflict(record.conversation_id) from None

    @override
    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a record and the entries that no other record reaches. Raises ConversationConflict."""
        key = host_name(conversation_id)
        head = await self._records.get(_HEADS, key)
        stored = _record_of(head)
        if head is None or stored is None or stored.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        try:
            # Replace the record with a marker first, so that a concurrent save conflicts and is not lost.
            await self._records.put(_HEADS, key, _DELETED, expected_version=head.version)
        except PreconditionFailed:
            raise ConversationConflict(conversation_id) from None
        orphans = await self._chain_ids((stored.head_id, *stored.branches))
        for other in await self.read_records():
            orphans -= await self._chain_ids((other.head_id, *other.branches))
        places = await self._records.get_all([(_ENTRIES, entry_id) for entry_id in orphans])
        names = [name for place in places if place is not None for name in _place_of(place).pieces]
        pieces = await self._records.get_all(names)
        heads = await self._records.get_all([(_HEADS, key)])
        await self._records.erase(record for record in (*heads, *places, *pieces) if record is not None)

    @override
    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry. Raises LookupError if it is not stored or its message was erased from memory."""
        (entry,) = await self._entries((await self._required_place(entry_id),), (entry_id,))
        if entry is None:
            raise LookupError(f"the message of entry {entry_id!r} was erased")
        return entry

    @override
    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return up to `limit` entries that end with `head_id`, oldest first, without messages erased from memory."""
        ids: list[str] = []
        places: list[_EntryPlace] = []
        entry_id = head_id
        while entry_id is not None and (limit is None or len(ids) < limit):
            place = await self._required_place(entry_id)
            ids.append(entry_id)
            places.append(place)
            entry_id = place.parent_id
        entries = await self._entries(places, ids)
        return [entry for entry in reversed(entries) if entry is not None]

    async def _entries(self, places: Sequence[_EntryPlace], ids: Sequence[str]) -> list[ConversationEntry | None]:
        """Return the entries at these places with a single read, and None for each entry whose message was erased."""
        names = [name for place in places for name in place.pieces]
        pieces = dict(zip(names, await self._records.get_all(names), strict=True))
        entries: list[ConversationEntry | None] = []
        for entry_id, place in zip(ids, places, strict=True):
            values = [record.value for name in place.pieces if (record := pieces[name]) is not None]
            message = _message_of("".join(map(str, values))) if len(values) == len(place.pieces) else None
            entries.append(
                ConversationEntry(id=entry_id, parent_id=place.parent_id, message=message) if message else None
            )
        return entries

    async def _required_place(self, entry_id: str) -> _EntryPlace:
        record = await self._records.get(_ENTRIES, entry_id)
        if record is None:
            raise LookupError(f"there is no entry {entry_id!r}")
        return _place_of(record)

    async def _chain_ids(self, tips: Sequence[str | None]) -> set[str]:
        """Return the ids of these entries and all their ancestors."""
        ids: set[str] = set()
        for tip in tips:
            entry_id = tip
            while entry_id is not None and entry_id not in ids:
                ids.add(entry_id)
                entry_id = (await self._required_place(entry_id)).parent_id
        return ids


def _record_of(head: Record | None) -> ConversationRecord | None:
    return _RECORD.validate_python(head.value) if head is not None and head.value != _DELETED else None


def _entry_drafts(entry: ConversationEntry, conversation_id: str) -> list[RecordDraft]:
    """Return an entry's records: its message in pieces, and the record that locates them."""
    run_id = entry.message.run_id
    conversation = host_name(entry.message.conversation_id or conversation_id)
    namespace = copies_of_turn(host_name(run_id), conversation) if run_id is not None else _MESSAGES
    messages = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    pieces = text_pieces(clean_json(messages))
    names = [f"{entry.id}:{place}" for place in range(len(pieces))]
    place: dict[str, Any] = {"parent_id": entry.parent_id, "namespace": list(namespace), "names": names}
    drafts = [RecordDraft(namespace, name, piece, is_opaque=True) for name, piece in zip(names, pieces, strict=True)]
    return [*drafts, RecordDraft(_ENTRIES, entry.id, place)]


def _place_of(record: Record) -> _EntryPlace:
    value: Any = record.value
    namespace = tuple(value["namespace"])
    return _EntryPlace(value["parent_id"], tuple((namespace, name) for name in value["names"]))


def _message_of(body: str) -> ModelMessage:
    (message,) = ModelMessagesTypeAdapter.validate_python(json.loads(body))
    return message
