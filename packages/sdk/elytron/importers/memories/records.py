"""Records of other memory systems: LangGraph store items (SQLite or JSON), and Hindsight archives (ZIP)."""

from collections.abc import Iterator
from typing import Final

from elytron.importers import message_shape
from elytron.importers.bundles import FileBundle
from elytron.importers.memories import foreign_memory
from elytron.importers.memories.foreign_memory import ForeignMemory
from elytron.importers.memories.foreign_tables import ForeignDatabase, TableRow
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse_json

LANGGRAPH: Final = "langgraph"
HINDSIGHT: Final = "hindsight"
_ITEM_KEYS: Final = frozenset({"namespace", "key", "value", "created_at", "updated_at", "score", "expires_at"})
_TEXTS: Final = ("content", "text", "memory", "data", "fact", "summary")
_FACT_KEYS: Final = frozenset(
    {"text", "source_id", "fact_type", "context", "event_date", "occurred_start", "occurred_end", "mentioned_at"}
    | {"metadata", "tags", "observation_scopes", "chunk_index", "entities", "causal_relations", "created_at"}
    | {"consolidated_at", "consolidation_failed_at", "proof_count", "sources"}
)
_SCHEMA: Final = 1


def is_store_export(document: Json, /) -> bool:
    """Return whether a JSON document is a list of LangGraph store items."""
    match document:
        case [{"namespace": list() | str(), "key": str(), "value": dict()}, *_]:
            return True
        case {"items": [{"namespace": list() | str(), "key": str(), "value": dict()}, *_]}:
            return True
        case _:
            return False


def read_store_export(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the items that contain text."""
    return foreign_memory.each_record(foreign_memory.record_list(document, "items"), "item", place, _read_item, home)


def read_store_table(database: ForeignDatabase, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the items of a store's table. Expired ones are history."""
    columns = ("prefix", "key", "value", "created_at", "updated_at", "expires_at")
    for row in database.rows("store", columns, order=("prefix", "key")):
        place.now(f"item {row.number}", 0)
        yield place.attempt(_row_item, row, place)


def _row_item(row: TableRow, place: ReaderPlace) -> ReadItem:
    value = message_shape.object_members(parse_json(row.data("value")), what="value")
    times: dict[str, Json] = {name: row.value(name) for name in ("created_at", "updated_at", "expires_at")}
    return _store_item(row.text("prefix"), row.text("key"), value, times, place)


def _read_item(record: dict[str, Json], _home: ConversationKey, place: ReaderPlace) -> Iterator[ReadItem]:
    namespace = record.get("namespace")
    prefix = ".".join(foreign_memory.text_list(namespace)) if isinstance(namespace, list) else str(namespace)
    value = message_shape.object_members(record.get("value"), what="value")
    place.unknown_keys += len(foreign_memory.unknown_keys(record, _ITEM_KEYS))
    yield _store_item(prefix, str(record.get("key")), value, record, place)


def _store_item(prefix: str, key: str, value: dict[str, Json], times: dict[str, Json], place: ReaderPlace) -> ReadItem:
    text = _item_text(value)
    if not text:
        return LeftOut(OmissionReason.NO_SENTENCE)
    memory = ForeignMemory(
        system=LANGGRAPH,
        id=f"{prefix}/{key}",
        text=text,
        owner=message_shape.optional_title(prefix),
        at=place.moment(times.get("updated_at") or times.get("created_at"), what="updated_at"),
        ended_at=place.moment(times.get("expires_at"), what="expires_at"),
        details={"namespace": prefix, "key": key} | value,
    )
    return foreign_memory.memory_item(place, memory)


def _item_text(value: dict[str, Json]) -> str:
    """Return an item's text: its own, that in its content, or its fields as "name: value"."""
    text = foreign_memory.own_text(value, _TEXTS)
    inner = value.get("content")
    if not text and isinstance(inner, dict):
        return _item_text(inner)
    if text:
        return text
    return "\n".join(f"{name}: {each}" for name, each in value.items() if isinstance(each, str) and each.strip())


def is_hindsight_manifest(document: Json, /) -> bool:
    """Return whether a JSON document is the manifest of a Hindsight archive."""
    return isinstance(document, dict) and "source_bank_id" in document and "schema_version" in document


def read_hindsight(bundle: FileBundle, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield each document's facts, then observations. Raises UnreadableFile for another schema version."""
    for member in bundle.files_named("manifest.json"):
        manifest = message_shape.object_members(member.json(), what="manifest")
        version = manifest.get("schema_version")
        if version != _SCHEMA:
            raise UnreadableFile(
                name=bundle.name, problem=f"has an unsupported Hindsight schema; the supported schema is {_SCHEMA}"
            )
    files = bundle.ending(".json")
    for number, member in enumerate(files):
        place.now(member.name, number / len(files))
        if member.name.startswith("documents/") or "/documents/" in member.name:
            try:
                document = message_shape.object_members(member.json(), what="document")
            except (UnreadableFile, InvalidInput) as error:
                yield SkippedRecord(member.name, error.message)
                continue
            yield from _document_facts(document, home, place)
        elif "observation" in member.name:
            records = place.attempt(_observation_list, member.json())
            if isinstance(records, SkippedRecord):
                yield records
            else:
                yield from foreign_memory.each_record(records, "observation", place, _read_fact, home)


def _observation_list(document: Json) -> list[Json]:
    return foreign_memory.record_list(document, "observations")


def _document_facts(document: dict[str, Json], home: ConversationKey, place: ReaderPlace) -> Iterator[ReadItem]:
    facts = document.get("facts")
    own = foreign_memory.own_id(document, "", "id")
    for number, fact in enumerate(facts if isinstance(facts, list) else []):
        place.now(f"document {own[:40]}, fact {number + 1}", 0)
        record = {"source_id": f"{own}/{number}"} | fact if isinstance(fact, dict) else fact
        yield from foreign_memory.attempt_record(place, _read_fact, record, home)
    observations = document.get("observations")
    if isinstance(observations, list):
        yield from foreign_memory.each_record(observations, "observation", place, _read_fact, home)


def _read_fact(record: dict[str, Json], _home: ConversationKey, place: ReaderPlace) -> Iterator[ReadItem]:
    text = foreign_memory.own_text(record, ("text",))
    metadata = record.get("metadata")
    details = {name: record.get(name) for name in ("fact_type", "context", "occurred_start", "occurred_end")}
    yield foreign_memory.memory_item(
        place,
        ForeignMemory(
            system=HINDSIGHT,
            id=foreign_memory.own_id(record, text, "source_id"),
            text=text,
            at=_said_at(record, place),
            tags=foreign_memory.text_list(record.get("tags")),
            details=(metadata if isinstance(metadata, dict) else {}) | details,
            unknown=foreign_memory.unknown_keys(record, _FACT_KEYS),
        ),
    )


def _said_at(record: dict[str, Json], place: ReaderPlace) -> Instant | None:
    names = ("mentioned_at", "occurred_start", "event_date", "created_at")
    return place.moment(next((record[name] for name in names if record.get(name)), None), what="mentioned_at")
