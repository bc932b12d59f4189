"""COGX, an exchange format for memories: a folder with a manifest and a JSON Lines file per kind of record."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from elytron.importers import formats, message_shape
from elytron.importers.bundles import FileBundle
from elytron.importers.json_lines import LineFile, read_lines
from elytron.importers.memories import foreign_memory
from elytron.importers.memories.foreign_memory import ForeignMemory
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.evidence import ROLE_WORDS, EvidenceAuthority
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

VERSION: Final = "0.1"
MANIFEST: Final = "manifest.json"
RECORD_FILES: Final = {
    "document": "documents.jsonl",
    "episode": "episodes.jsonl",
    "entity": "entities.jsonl",
    "fact": "facts.jsonl",
    "memory": "memories.jsonl",
    "memory_block": "memory_blocks.jsonl",
    "raw_node": "nodes.jsonl",
}
"""File name of each kind of record, in reading order."""
_BASE: Final = frozenset({"kind", "external_system", "external_id", "scope", "created_at", "updated_at", "metadata"})
_KEYS: Final = {
    "document": _BASE | {"content", "title", "mime_type"},
    "episode": _BASE | {"turns", "title"},
    "entity": _BASE | {"name", "entity_type", "description", "aliases", "attributes"},
    "fact": _BASE
    | {"subject_ref", "predicate", "object_ref", "fact_text", "valid_at", "invalid_at", "confidence", "provenance"},
    "memory": _BASE | {"content", "categories"},
    "memory_block": _BASE | {"label", "value", "limit"},
}
_NAMES: Final = 200_000
"""Maximum number of entities whose names are remembered for facts that refer to them by id."""


def is_manifest(document: Json, /) -> bool:
    """Return whether a JSON document is the manifest of a COGX folder."""
    return isinstance(document, dict) and "cogx_version" in document


def is_record(record: dict[str, Json], /) -> bool:
    """Return whether a line is a COGX record."""
    return record.get("kind") in _KEYS and "external_id" in record


def read_archive(bundle: FileBundle, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the content of a folder's records. Raises UnreadableFile for a later major version."""
    for manifest in bundle.files_named(MANIFEST):
        _require_version(manifest.json(), name=bundle.name)
    reader = CogxReader()
    for file_name in RECORD_FILES.values():
        for member in bundle.files_named(file_name):
            file, size = member.open()
            with closing(file):
                yield from read_lines(LineFile(file, size), reader.read, home, place)


def _require_version(manifest: Json, *, name: str) -> None:
    version = str(manifest.get("cogx_version")) if isinstance(manifest, dict) else ""
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major[:9]) > int(VERSION.partition(".")[0]):
        raise UnreadableFile(name=name, problem=f"has an unsupported COGX version; the supported version is {VERSION}")


def read_record_line(record: dict[str, Json], home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the content of a single record, without other records to look up names in."""
    return CogxReader().read(record, home, place)


class CogxReader:
    """Reads records one at a time and remembers entity names for later facts."""

    def __init__(self) -> None:
        self._entity_names: dict[str, str] = {}

    def read(self, record: dict[str, Json], _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
        """Yield the content of a record. Raises InvalidInput."""
        kind = record.get("kind")
        if kind == "raw_node" or (kind is None and "external_id" not in record):
            yield LeftOut(OmissionReason.NO_SENTENCE)
            return
        if not isinstance(kind, str) or kind not in _KEYS:
            raise InvalidInput(field="kind", problem=f"must be one of {', '.join(_KEYS)}")
        unknown = foreign_memory.unknown_keys(record, _KEYS[kind])
        if kind == "episode":
            place.unknown_keys += len(unknown)
            yield from _episode_turns(record, place)
            return
        match kind:
            case "entity":
                text = self._entity_text(record)
            case "fact":
                text = self._fact_text(record)
            case "memory_block":
                label, value = (foreign_memory.own_text(record, (name,)) for name in ("label", "value"))
                text = f"{label}: {value}" if label and value else value
            case _:
                text = foreign_memory.own_text(record, ("content",))
        yield from _memory_items(record, text, unknown, place)

    def _entity_text(self, record: dict[str, Json]) -> str:
        name, description = (foreign_memory.own_text(record, (one,)) for one in ("name", "description"))
        own = record.get("external_id")
        if name and isinstance(own, str) and len(self._entity_names) < _NAMES:
            self._entity_names[own] = name
        return f"{name}: {description}" if name and description else ""

    def _fact_text(self, record: dict[str, Json]) -> str:
        text = foreign_memory.own_text(record, ("fact_text",))
        if text:
            return text
        subject, predicate, target = (
            foreign_memory.own_text(record, (name,)) for name in ("subject_ref", "predicate", "object_ref")
        )
        if not (subject and predicate and target):
            raise InvalidInput(field="fact", problem="has neither fact_text nor subject, predicate and object")
        names = self._entity_names
        return f"{names.get(subject, subject)} {predicate.replace('_', ' ')} {names.get(target, target)}"


def _system_of(record: dict[str, Json]) -> str:
    return message_shape.optional_title(record.get("external_system")) or "cogx"


def _scope_of(record: dict[str, Json]) -> dict[str, Json]:
    scope = record.get("scope")
    return scope if isinstance(scope, dict) else {}


def _memory_items(
    record: dict[str, Json], text: str, unknown: dict[str, Json], place: ReaderPlace
) -> Iterator[ReadItem]:
    if similarity.is_blank(text):
        place.unknown_keys += len(unknown)
        yield LeftOut(OmissionReason.NO_SENTENCE)
        return
    kind = record.get("kind")
    is_document = kind == "document"
    pieces = list(formats.text_pieces(text)) if is_document else [text]
    metadata, scope = record.get("metadata"), _scope_of(record)
    own = foreign_memory.own_id(record, text, "external_id")
    details: dict[str, Json] = {"kind": kind} | scope
    details |= {name: record.get(name) for name in ("title", "mime_type", "predicate", "confidence", "valid_at")}
    at = record.get("valid_at") or record.get("updated_at") or record.get("created_at")
    for number, piece in enumerate(pieces, start=1):
        memory = ForeignMemory(
            system=_system_of(record),
            id=own if len(pieces) == 1 else f"{own}/{number}",
            text=piece,
            owner=message_shape.optional_title(scope.get("user_id")),
            at=place.moment(at, what="created_at"),
            ended_at=place.moment(record.get("invalid_at"), what="invalid_at"),
            tags=foreign_memory.text_list(record.get("categories")),
            details=(metadata if isinstance(metadata, dict) else {}) | details,
            unknown={} if number > 1 else unknown,
            authority=EvidenceAuthority.EXTERNAL_CONTENT if is_document else EvidenceAuthority.ARCHIVE_EVIDENCE,
        )
        yield foreign_memory.memory_item(place, memory)


def _episode_turns(record: dict[str, Json], place: ReaderPlace) -> Iterator[ReadItem]:
    """Yield an episode's turns as messages. A turn without a known role becomes a memory of the other system."""
    system, own = _system_of(record), foreign_memory.own_id(record, "", "external_id")
    key = ConversationKey(system, message_shape.optional_title(own) or "episode")
    owner = message_shape.optional_title(_scope_of(record).get("user_id"))
    title = message_shape.optional_title(record.get("title"))
    turns = message_shape.list_items(record.get("turns"), what="turns")
    for number, turn in enumerate(turns, start=1):
        members = message_shape.object_members(turn, what="turn")
        words, role = foreign_memory.own_text(members, ("content",)), members.get("role")
        at = place.moment(members.get("occurred_at") or record.get("created_at"), what="occurred_at")
        turn_id = foreign_memory.own_text(members, ("id",)) or f"{own}/{number}"
        if not words:
            yield LeftOut(OmissionReason.NO_WORDS)
        elif isinstance(role, str) and role in ROLE_WORDS:
            own_id = foreign_memory.host_name(system, turn_id)
            speaker = message_shape.optional_title(members.get("speaker"))
            draft = message_shape.message_turn(words, role=ROLE_WORDS[role], speaker=speaker, at=at, own_id=own_id)
            yield place.make_message(key, draft, title=title, owner=owner)
        else:
            memory = ForeignMemory(system=system, id=turn_id, text=words, owner=owner, at=at)
            yield foreign_memory.memory_item(place, memory)
