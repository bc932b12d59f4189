"""Records of LangGraph threads: heads, an entry per checkpoint, and the state and writes of each checkpoint.

Heads repeat the entry of each namespace's newest checkpoint. Entries are small, so a thread can be listed without
reading its states. Values too large for one record are split over several, which are committed together.
"""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from elytron.runtime_records import RecordDraft, RecordName, RuntimeRecords
from elytron_core.errors import PreconditionFailed
from elytron_core.lru_cache import LruCache
from elytron_core.planes.records import Record
from elytron_integrations.conversation_items import CHANGE_ATTEMPTS, settle_change
from elytron_integrations.opaque_parts import fields_of, joined_data, part_drafts, part_number

_HEADS_CACHED: Final = 1_000
_HEADS: Final = "elytron:langgraph:heads"
_ENTRIES: Final = "elytron:langgraph:entries"
_STATES: Final = "elytron:langgraph:states"
_STATE: Final = "state"


class TypedBytes(NamedTuple):
    """A value from LangGraph's serializer: the name of its format, and the bytes."""

    form: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A checkpoint without its state."""

    thread: str
    namespace: str
    id: str
    parent: str | None
    metadata: TypedBytes


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """What a task wrote to a channel during a checkpoint's step."""

    task: str
    path: str
    index: int
    channel: str
    value: TypedBytes


class ThreadRecords:
    """The records of LangGraph threads in one space."""

    def __init__(self, records: RuntimeRecords, /) -> None:
        self._records = records
        self._heads: LruCache[RecordName, Record] = LruCache(_HEADS_CACHED)
        """Heads as this object stored them. One that another writer changed is read once a commit is refused."""

    async def find_entry(self, thread: str, namespace: str, checkpoint: str | None) -> CheckpointEntry | None:
        """Return the entry of a checkpoint, or of the newest one."""
        name = _head_name(thread, namespace) if checkpoint is None else _entry_name(thread, namespace, checkpoint)
        record = await self._records.get(*name)
        return _entry_of(record) if record is not None else None

    async def list_entries(self, thread: str | None, namespace: str | None) -> list[CheckpointEntry]:
        """Return the entries of a namespace in a thread, of a whole thread, or of all threads."""
        if thread is None:
            entries = [_entry_of(record) async for record in self._records.below((_ENTRIES,))]
            return [entry for entry in entries if namespace in {None, entry.namespace}]
        namespaces = [namespace] if namespace is not None else await self._namespaces_of(thread)
        places = [_entry_name(thread, each, "")[0] for each in namespaces]
        return [_entry_of(record) async for record in self._records.within(*places)]

    async def read_state(self, entry: CheckpointEntry) -> tuple[TypedBytes | None, list[StoredWrite]]:
        """Return a checkpoint's state, or None without one, and its writes."""
        parts: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        async for record in self._records.within(_state_place(entry.thread, entry.namespace, entry.id)):
            name, number = part_number(record)
            parts[name][number] = fields_of(record)
        state = parts.pop(_STATE, None)
        writes = [_write_of(fields) for fields in parts.values()]
        return TypedBytes(state[0]["form"], joined_data(state)) if state is not None else None, writes

    async def put_checkpoint(self, entry: CheckpointEntry, state: TypedBytes) -> None:
        """Store a checkpoint, and make it the head unless a newer one exists."""
        fields = _entry_fields(entry)
        name = _head_name(entry.thread, entry.namespace)
        drafts = [
            RecordDraft(*_entry_name(entry.thread, entry.namespace, entry.id), fields, is_opaque=True),
            *part_drafts(
                _state_place(entry.thread, entry.namespace, entry.id), _STATE, {"form": state.form}, state.data
            ),
        ]

        async def put() -> None:
            head = self._heads.pop(name, None)
            if head is None or _entry_of(head).id > entry.id:
                head = await self._records.get(*name)
            is_newest = head is None or _entry_of(head).id <= entry.id
            version = head.version if head is not None else 0
            # Refused if another writer changed or erased the head. A newer head is put again unchanged.
            value = fields if head is None or is_newest else head.value
            head_draft = RecordDraft(*name, value, expected_version=version, is_opaque=True)
            *_, self._heads[name] = await self._records.put_all([*drafts, head_draft])

        await settle_change(put)

    async def put_writes(self, thread: str, namespace: str, checkpoint: str, writes: Sequence[StoredWrite]) -> None:
        """Store writes. Special channels replace earlier writes; other writes are stored only if they are new."""
        place = _state_place(thread, namespace, checkpoint)
        by_key = {f"write.{_text_digest(write.task)}.{write.index}": write for write in writes}
        drafts = {key: part_drafts(place, key, _write_fields(write), write.value.data) for key, write in by_key.items()}
        new = [replace(draft, expected_version=0) for parts in drafts.values() for draft in parts]
        try:
            # Most writes are new, so try to store them without reading first.
            if new:
                await self._records.put_all(new)
            return
        except PreconditionFailed:
            stored = await self._records.get_all([(place, f"{key}.0") for key in by_key])
        rest = [
            draft
            for (key, write), record in zip(by_key.items(), stored, strict=True)
            if record is None or write.index < 0
            for draft in drafts[key]
        ]
        if rest:
            await self._records.put_all(rest)

    async def erase_thread(self, thread: str) -> None:
        """Erase all checkpoints and writes of a thread, including writes of checkpoints that were never stored."""
        heads_place = _head_name(thread, "")[0]
        for name in [name for name in self._heads if name[0] == heads_place]:
            del self._heads[name]
        # Repeated, because another writer may store a checkpoint while the records are read.
        for _ in range(CHANGE_ATTEMPTS):
            states = [record async for record in self._records.below(_state_place(thread, "", "")[:1])]
            # Every entry has a state in the same namespace, even if its head is missing.
            places = {(*_entry_name(thread, "", "")[0][:2], state.namespace[1]) for state in states}
            others = [record async for record in self._records.within(heads_place, *places)]
            if not await self._records.erase([*states, *others]):
                return

    async def erase_entries(self, entries: Sequence[CheckpointEntry]) -> None:
        """Erase checkpoints with their writes, and move heads to the newest remaining checkpoints."""
        erased_ids: dict[tuple[str, str], set[str]] = defaultdict(set)
        for entry in entries:
            erased_ids[entry.thread, entry.namespace].add(entry.id)
        for (thread, namespace), ids in erased_ids.items():
            await self._move_head(thread, namespace, ids)
        names = [_entry_name(entry.thread, entry.namespace, entry.id) for entry in entries]
        records = [record for record in await self._records.get_all(names) if record is not None]
        places = [_state_place(entry.thread, entry.namespace, entry.id) for entry in entries]
        await self._records.erase([*records, *[record async for record in self._records.within(*places)]])

    async def copy_thread(self, source: str, target: str) -> None:
        """Copy every checkpoint and write of a thread, oldest first. Newer checkpoints of the target stay its heads."""
        for entry in sorted(await self.list_entries(source, None), key=lambda entry: entry.id):
            state, writes = await self.read_state(entry)
            if state is not None:
                await self.put_checkpoint(replace(entry, thread=target), state)
                await self.put_writes(target, entry.namespace, entry.id, writes)

    async def _move_head(self, thread: str, namespace: str, erased_ids: set[str]) -> None:
        """Point the head to the newest checkpoint that is not being erased, or erase the head."""
        name = _head_name(thread, namespace)
        self._heads.pop(name, None)
        head = await self._records.get(*name)
        if head is None or _entry_of(head).id not in erased_ids:
            return
        entries = await self.list_entries(thread, namespace)
        remaining = [entry for entry in entries if entry.id not in erased_ids]
        if not remaining:
            await self._records.erase([head])
            return
        fields = _entry_fields(max(remaining, key=lambda entry: entry.id))
        draft = RecordDraft(head.namespace, head.key, fields, expected_version=head.version, is_opaque=True)
        await self._records.put_all([draft])

    async def _namespaces_of(self, thread: str) -> list[str]:
        heads = self._records.within(_head_name(thread, "")[0])
        return [_entry_of(record).namespace async for record in heads]


def _text_digest(text: str) -> str:
    """Return a fixed-length name for a text of any length."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _head_name(thread: str, namespace: str) -> tuple[tuple[str, ...], str]:
    return (_HEADS, _text_digest(thread)), _text_digest(namespace)


def _entry_name(thread: str, namespace: str, checkpoint: str) -> tuple[tuple[str, ...], str]:
    return (_ENTRIES, _text_digest(thread), _text_digest(namespace)), _text_digest(checkpoint)


def _state_place(thread: str, namespace: str, checkpoint: str) -> tuple[str, ...]:
    return f"{_STATES}:{_text_digest(thread)}", _text_digest(namespace), _text_digest(checkpoint)


def _entry_fields(entry: CheckpointEntry) -> dict[str, Any]:
    return {
        "thread": entry.thread,
        "namespace": entry.namespace,
        "id": entry.id,
        "parent": entry.parent,
        "form": entry.metadata.form,
        "metadata": base64.b64encode(entry.metadata.data).decode(),
    }


def _entry_of(record: Record) -> CheckpointEntry:
    fields = fields_of(record)
    metadata = TypedBytes(fields["form"], base64.b64decode(fields["metadata"]))
    return CheckpointEntry(fields["thread"], fields["namespace"], fields["id"], fields["parent"], metadata)


def _write_fields(write: StoredWrite) -> dict[str, Any]:
    return {
        "task": write.task,
        "path": write.path,
        "index": write.index,
        "channel": write.channel,
        "form": write.value.form,
    }


def _write_of(parts: Mapping[int, Mapping[str, Any]]) -> StoredWrite:
    fields = parts[0]
    value = TypedBytes(fields["form"], joined_data(parts))
    return StoredWrite(fields["task"], fields["path"], fields["index"], fields["channel"], value)
