"""mem0: its JSON export, its history and messages (SQLite), and its local vector store (a Qdrant folder)."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final
from urllib.parse import parse_qs

from elytron.importers import message_shape
from elytron.importers.memories import foreign_memory, pickled_values
from elytron.importers.memories.foreign_memory import ForeignMemory
from elytron.importers.memories.foreign_tables import ForeignDatabase, TableRow
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

SYSTEM: Final = "mem0"
LISTS: Final = ("results", "memories", "items")
_TEXTS: Final = ("memory", "data", "text", "content")
_DETAILS: Final = ("user_id", "agent_id", "run_id", "app_id", "actor_id", "role", "attributed_to")
_PARTS: Final = frozenset(
    (*_TEXTS, *_DETAILS, "id", "hash", "categories", "metadata", "created_at", "updated_at", "expiration_date", "score")
) | {"text_lemmatized", "structured_attributes", "immutable", "is_deleted", "deleted_at", "type", "org_id"}
_POINT: Final = ("qdrant_client.http.models.models", "PointStruct")


def looks_exported(document: Json, /) -> bool:
    """Return whether a JSON document is a list of memories exported by mem0."""
    match document:
        case [{"memory": str()}, *_] | {"results": [{"memory": str()}, *_]} | {"memories": [{"memory": str()}, *_]}:
            return True
        case {"results": [{"id": _, "data": str()}, *_]} | {"items": [{"memory": str()}, *_]}:
            return True
        case _:
            return False


def looks_like_line(record: dict[str, Json], /) -> bool:
    """Return whether a line is a mem0 memory."""
    return isinstance(record.get("memory"), str) and "id" in record


def read_export(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the memories of a JSON export. Deleted and expired ones are history.

    Raises InvalidInput for records that may also be messages.
    """
    match document:
        case [{"memory": _, "role": _, "content": _}, *_]:
            problem = "could be memories (`memory`) or messages (`role` and `content`): remove `memory` or `content`"
            raise InvalidInput(field="export", problem=problem)
        case _:
            pass
    return foreign_memory.each_record(foreign_memory.record_list(document, *LISTS), "memory", place, read_record, home)


def read_record(record: dict[str, Json], _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield one memory in the form used by mem0's API, exports and vector store payloads."""
    text = foreign_memory.own_text(record, _TEXTS)
    dated = "updated_at" if record.get("updated_at") else "created_at"
    at = place.moment(record.get(dated), what=dated)
    ended = record.get("deleted_at") or record.get("expiration_date")
    ended_at = place.moment(ended, what="expiration_date")
    if record.get("is_deleted") and ended_at is None:
        ended_at = at
    metadata = record.get("metadata")
    details = dict(metadata) if isinstance(metadata, dict) else {}
    yield foreign_memory.memory_item(
        place,
        ForeignMemory(
            system=SYSTEM,
            id=foreign_memory.own_id(record, text, "id"),
            text=text,
            owner=message_shape.optional_title(record.get("user_id")),
            at=at,
            ended_at=ended_at,
            tags=foreign_memory.text_list(record.get("categories")),
            details={name: record.get(name) for name in _DETAILS} | details,
            unknown=foreign_memory.unknown_keys(record, _PARTS),
        ),
    )


def read_history(database: ForeignDatabase, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield each memory's versions, then messages.

    All versions are history except the current one of a memory that still exists.
    """
    if database.has("history", "memory_id", "new_memory", "event"):
        columns = ("memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at", "is_deleted")
        rows = database.rows("history", columns, order=("memory_id", "rowid"))
        for memory_id, changes in groupby(rows, key=_memory_id):
            if isinstance(memory_id, SkippedRecord):
                yield memory_id
                continue
            place.now(f"memory {memory_id[:40]}", 0)
            yield from _version_items(memory_id, changes, place)
    if database.has("messages", "session_scope", "role", "content"):
        columns = ("id", "session_scope", "role", "content", "name", "created_at")
        for row in database.rows("messages", columns, order=("rowid",)):
            place.now(f"message {row.number}", 0)
            yield place.attempt(_raw_message, row, place)


def _memory_id(row: TableRow) -> str | SkippedRecord:
    try:
        return row.text("memory_id")
    except InvalidInput as error:
        return SkippedRecord(f"change {row.number}", error.message)


def _version_items(memory_id: str, changes: Iterator[TableRow], place: ReaderPlace) -> Iterator[ReadItem]:
    """Yield a memory's successive texts, each ended by the next change. The last one has the memory's own id."""
    pending: tuple[TableRow, TableRow | None] | None = None
    number = 0
    for row in changes:
        is_gone = place.attempt(_is_deletion, row)
        if isinstance(is_gone, SkippedRecord):
            yield is_gone
            continue
        if is_gone:
            pending = (pending[0], pending[1] or row) if pending is not None else None
            continue
        if pending is not None:
            number += 1
            yield place.attempt(_version_item, f"{memory_id}/{number}", pending[0], pending[1] or row, place)
        pending = row, None
    if pending is not None:
        yield place.attempt(_version_item, memory_id, *pending, place)


def _is_deletion(row: TableRow) -> bool:
    return row.text("event").upper() == "DELETE" or row.value("is_deleted") in {1, "1"}


def _version_item(version_id: str, row: TableRow, following: TableRow | None, place: ReaderPlace) -> ReadItem:
    at = place.moment(row.value("updated_at") or row.value("created_at"), what="created_at")
    ended_at = None
    if following is not None:
        ended_at = place.moment(following.value("updated_at") or following.value("created_at"), what="created_at") or at
    if following is not None and ended_at is None:
        raise InvalidInput(field="created_at", problem="is missing in a version that was replaced")
    memory = ForeignMemory(system=SYSTEM, id=version_id, text=row.text("new_memory"), at=at, ended_at=ended_at)
    return foreign_memory.memory_item(place, memory)


def _raw_message(row: TableRow, place: ReaderPlace) -> ReadItem:
    words = row.text("content")
    if similarity.is_blank(words):
        return LeftOut(OmissionReason.NO_WORDS)
    scope = row.text("session_scope")
    owner = (parse_qs(scope).get("user_id") or [""])[0]
    key = ConversationKey(SYSTEM, message_shape.optional_title(scope) or "messages")
    role = message_shape.named_role(row.value("role"))
    draft = message_shape.message_turn(
        words,
        role=role,
        speaker=message_shape.optional_title(row.value("name")) if role is EvidenceRole.USER else None,
        at=place.moment(row.value("created_at"), what="created_at"),
        own_id=foreign_memory.host_name(SYSTEM, row.text("id") or str(row.number)),
    )
    return place.make_message(key, draft, owner=message_shape.optional_title(owner))


def read_points(database: ForeignDatabase, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the memories in a local Qdrant collection, whose pickled points are read as data."""
    for row in database.rows("points", ("id", "point"), order=("rowid",)):
        place.now(f"point {row.number}", 0)
        record = place.attempt(_payload_of, row)
        if isinstance(record, dict):
            yield from foreign_memory.attempt_record(place, read_record, record, home)
        else:
            yield record


def _payload_of(row: TableRow) -> dict[str, Json]:
    point = pickled_values.read_object(row.data("point"), _POINT)
    payload = point.get("payload")
    if not isinstance(payload, dict):
        raise InvalidInput(field="point", problem="has no payload")
    # A pickle can share a nested value many times over, so only scalars are accepted.
    members = {name: value for name, value in payload.items() if isinstance(value, str | int | float | bool)}
    record: dict[str, Json] = {name: value for name, value in members.items() if name in _PARTS}
    metadata: Json = {name: value for name, value in members.items() if name not in _PARTS}
    return record | {"id": str(point.get("id")), "metadata": metadata}
