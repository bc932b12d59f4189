"""Knowledge graphs as sentences: the MCP reference server's memory file, and Graphiti and Zep dumps."""

from collections.abc import Iterator
from typing import Final

from elytron.importers import message_shape
from elytron.importers.memories import foreign_memory
from elytron.importers.memories.foreign_memory import ForeignMemory
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem
from elytron_core.errors import InvalidInput
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json

MCP_SYSTEM: Final = "mcp-memory"
GRAPHITI: Final = "graphiti"
_ENTITY_KEYS: Final = frozenset({"type", "name", "entityName", "entityType", "entity_type", "observations", "id"})
_RELATION_KEYS: Final = frozenset(
    {"type", "from", "to", "relationType", "relation_type", "from_id", "to_id", "source", "target", "id"}
)
_EPISODE_KEYS: Final = frozenset(
    {"uuid", "id", "name", "group_id", "labels", "created_at", "source", "source_description", "content"}
    | {"episode_body", "valid_at", "entity_edges", "episode_metadata", "user_id", "session_id"}
)
_NODE_KEYS: Final = frozenset(
    {"uuid", "id", "name", "group_id", "labels", "label", "created_at", "name_embedding", "summary", "description"}
    | {"summary_embedding", "attributes"}
)
_EDGE_KEYS: Final = frozenset(
    {"uuid", "id", "group_id", "source_node_uuid", "target_node_uuid", "source", "target", "created_at", "name"}
    | {"relation", "fact", "fact_embedding", "episodes", "expired_at", "valid_at", "invalid_at", "reference_time"}
    | {"attributes"}
)
_EPISODES: Final = ("episodes", "episodic_nodes")
_NODES: Final = ("entities", "nodes", "entity_nodes")
_EDGES: Final = ("facts", "edges", "entity_edges")


def is_graph_line(record: dict[str, Json], /) -> bool:
    """Return whether a line is an entity or relation of the MCP reference server."""
    return _is_entity(record) or _is_relation(record)


def _is_entity(record: dict[str, Json]) -> bool:
    # Early versions of the server wrote no types.
    is_named = "entityType" in record or "entity_type" in record or record.get("type") == "entity"
    return is_named and isinstance(record.get("observations"), list)


def _is_relation(record: dict[str, Json]) -> bool:
    return "relationType" in record or "relation_type" in record


def read_graph_line(record: dict[str, Json], _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield each observation as "Name: text" and each relation as "A relation B". The file contains no times."""
    if _is_entity(record):
        name = _required_text(record, "name", "entityName", "id")
        unknown = foreign_memory.unknown_keys(record, _ENTITY_KEYS)
        kind = record.get("entityType") or record.get("entity_type")
        observations = _observation_texts(record.get("observations"))
        if not observations:
            yield LeftOut(OmissionReason.NO_SENTENCE)
        for number, observation in enumerate(observations):
            text = f"{name}: {observation}" if observation.strip() else ""
            yield foreign_memory.memory_item(
                place,
                ForeignMemory(
                    system=MCP_SYSTEM,
                    id=foreign_memory.own_id({}, f"{name}\n{observation}"),
                    text=text,
                    details={"entity": name, "entity_type": kind},
                    unknown={} if number else unknown,
                ),
            )
    elif _is_relation(record):
        words = (
            _required_text(record, "from", "from_id", "source"),
            _required_text(record, "relationType", "relation_type"),
            _required_text(record, "to", "to_id", "target"),
        )
        yield foreign_memory.memory_item(
            place,
            ForeignMemory(
                system=MCP_SYSTEM,
                id=foreign_memory.own_id({}, "\n".join(words)),
                text=" ".join((words[0], words[1].replace("_", " "), words[2])),
                details={"relation": words[1]},
                unknown=foreign_memory.unknown_keys(record, _RELATION_KEYS),
            ),
        )
    else:
        raise InvalidInput(field="type", problem="is neither entity nor relation")


def _observation_texts(value: Json) -> list[str]:
    """Return the observations, given as strings or, by servers that extend the format, as objects with `content`."""
    items = value if isinstance(value, list) else []
    texts = (item.get("content") if isinstance(item, dict) else item for item in items)
    return [text for text in texts if isinstance(text, str)]


def _required_text(record: dict[str, Json], *names: str) -> str:
    name = foreign_memory.own_text(record, names)
    if not name:
        raise InvalidInput(field=names[0], problem="is missing")
    return name.strip()


def is_graphiti_dump(document: Json, /) -> bool:
    """Return whether a JSON document contains nodes, edges or episodes of Graphiti or Zep."""
    match document:
        case [{"fact": str(), "source_node_uuid": _}, *_]:
            return True
        case dict():
            lists = [document.get(name) for name in (*_EPISODES, *_NODES, *_EDGES)]
            first = [values[0] for values in lists if isinstance(values, list) and values]
            return any(isinstance(one, dict) and "uuid" in one for one in first)
        case _:
            return False


def read_graphiti_dump(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield episodes, entity summaries, and edges as sentences. An edge that is no longer valid is history."""
    edges: dict[str, Json] = {"edges": document}
    members = edges if isinstance(document, list) else message_shape.object_members(document, what="dump")
    names = _node_names(_record_list(members, _NODES))

    def read_edge(record: dict[str, Json], _home: ConversationKey, place: ReaderPlace) -> Iterator[ReadItem]:
        yield _edge_item(record, names, place)

    yield from foreign_memory.each_record(_record_list(members, _EPISODES), "episode", place, _read_episode, home)
    yield from foreign_memory.each_record(_record_list(members, _NODES), "entity", place, _read_node, home)
    yield from foreign_memory.each_record(_record_list(members, _EDGES), "edge", place, read_edge, home)


def _record_list(members: dict[str, Json], names: tuple[str, ...]) -> list[Json]:
    for name in names:
        if isinstance(values := members.get(name), list):
            return values
    return []


def _node_names(nodes: list[Json]) -> dict[str, str]:
    pairs = ((node.get("uuid") or node.get("id"), node.get("name")) for node in nodes if isinstance(node, dict))
    return {uuid: name for uuid, name in pairs if isinstance(uuid, str) and isinstance(name, str)}


def _owner_of(record: dict[str, Json]) -> str | None:
    return message_shape.optional_title(record.get("user_id") or record.get("group_id"))


def _read_episode(record: dict[str, Json], _home: ConversationKey, place: ReaderPlace) -> Iterator[ReadItem]:
    text = foreign_memory.own_text(record, ("content", "episode_body"))
    yield foreign_memory.memory_item(
        place,
        ForeignMemory(
            system=GRAPHITI,
            id=foreign_memory.own_id(record, text, "uuid", "id"),
            text=text,
            owner=_owner_of(record),
            at=place.moment(record.get("valid_at") or record.get("created_at"), what="valid_at"),
            details={name: record.get(name) for name in ("name", "source", "source_description", "session_id")},
            unknown=foreign_memory.unknown_keys(record, _EPISODE_KEYS),
        ),
    )


def _read_node(record: dict[str, Json], _home: ConversationKey, place: ReaderPlace) -> Iterator[ReadItem]:
    summary = foreign_memory.own_text(record, ("summary", "description"))
    unknown = foreign_memory.unknown_keys(record, _NODE_KEYS)
    if not summary:
        place.unknown_keys += len(unknown)
        yield LeftOut(OmissionReason.NO_SENTENCE)
        return
    attributes = record.get("attributes")
    yield foreign_memory.memory_item(
        place,
        ForeignMemory(
            system=GRAPHITI,
            id=foreign_memory.own_id(record, summary, "uuid", "id"),
            text=f"{_required_text(record, 'name')}: {summary}",
            owner=_owner_of(record),
            at=place.moment(record.get("created_at"), what="created_at"),
            tags=foreign_memory.text_list(record.get("labels")),
            details=attributes if isinstance(attributes, dict) else {},
            unknown=unknown,
        ),
    )


def _edge_item(record: dict[str, Json], names: dict[str, str], place: ReaderPlace) -> ReadItem:
    text = foreign_memory.own_text(record, ("fact",))
    relation = foreign_memory.own_text(record, ("name", "relation"))
    if not text and relation:
        ends = (
            foreign_memory.own_text(record, one)
            for one in (("source_node_uuid", "source"), ("target_node_uuid", "target"))
        )
        subject, target = (names.get(end, end) for end in ends)
        text = f"{subject} {relation.replace('_', ' ').lower()} {target}" if subject and target else ""
    return foreign_memory.memory_item(
        place,
        ForeignMemory(
            system=GRAPHITI,
            id=foreign_memory.own_id(record, text, "uuid", "id"),
            text=text,
            owner=_owner_of(record),
            at=place.moment(record.get("valid_at") or record.get("created_at"), what="valid_at"),
            ended_at=place.moment(record.get("invalid_at") or record.get("expired_at"), what="invalid_at"),
            details={"relation": relation, "recorded_at": record.get("created_at"), "valid_at": record.get("valid_at")},
            unknown=foreign_memory.unknown_keys(record, _EDGE_KEYS),
        ),
    )
