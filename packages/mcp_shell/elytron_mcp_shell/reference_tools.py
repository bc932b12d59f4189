"""The nine tools of the MCP project's reference memory server, over facts: entities, observations, relations.

An entity is a fact about the topic `entity/<name>`, an observation one about `entity/<name>/<digest>`, and a relation
one about `relation/<digest>`. They are admitted, recalled, forgotten and erased like every other fact.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from elytron_core import limits
from elytron_core.model import Request, Value
from elytron_mcp_shell.tools import Perform, PlainTool

_ENTITY, _RELATION = "entity/", "relation/"
Text = Annotated[str, Field(min_length=1, max_length=limits.FACT_CHARS)]
EntityName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^/]+$")]
_CAMEL = ConfigDict(populate_by_name=True)
_RELATION_PARTS = TypeAdapter(tuple[EntityName, Text, EntityName])


class GraphEntity(Value):
    """An entity, its type, and observations of it."""

    model_config = _CAMEL

    name: EntityName
    entity_type: Text = Field(alias="entityType")
    observations: tuple[Text, ...] = ()


class GraphRelation(Value):
    """A relation of one entity to another, in the active voice."""

    model_config = _CAMEL

    source: EntityName = Field(alias="from")
    target: EntityName = Field(alias="to")
    relation_type: Text = Field(alias="relationType")


class ObservedEntity(Value):
    """Observations of one entity."""

    model_config = _CAMEL

    entity_name: EntityName = Field(alias="entityName")
    contents: tuple[Text, ...]


class UnobservedEntity(Value):
    """Observations of one entity to delete."""

    model_config = _CAMEL

    entity_name: EntityName = Field(alias="entityName")
    observations: tuple[Text, ...]


class EntitiesRequest(Request):
    entities: tuple[GraphEntity, ...]


class RelationsRequest(Request):
    relations: tuple[GraphRelation, ...]


class ObservationsRequest(Request):
    observations: tuple[ObservedEntity, ...]


class EntityNames(Request):
    model_config = _CAMEL

    entity_names: tuple[EntityName, ...] = Field(alias="entityNames")


class DeletionsRequest(Request):
    deletions: tuple[UnobservedEntity, ...]


class GraphReadRequest(Request):
    """Request everything."""


class GraphSearchRequest(Request):
    query: str


class EntityNameList(Request):
    names: tuple[EntityName, ...]


class MemoryGraph(Value):
    """Entities with their observations, and the relations between them."""

    entities: tuple[GraphEntity, ...] = ()
    relations: tuple[GraphRelation, ...] = ()


class ChangedCount(Value):
    """Number of facts that were stored or erased."""

    count: int


def reference_tools() -> tuple[PlainTool, ...]:
    """Return the nine tools under the names that the reference server gives them."""
    return (
        PlainTool("create_entities", "Store entities.", EntitiesRequest, ChangedCount, _create_entities, mutates=True),
        PlainTool("create_relations", "Store relations.", RelationsRequest, ChangedCount, _create_relations,
                  mutates=True),
        PlainTool("add_observations", "Add observations to entities.", ObservationsRequest, ChangedCount,
                  _observe_entities, mutates=True),
        PlainTool("delete_entities", "Erase entities and their relations.", EntityNames, ChangedCount, _delete_entities,
                  mutates=True, destroys=True),
        PlainTool("delete_observations", "Erase observations.", DeletionsRequest, ChangedCount, _delete_observations,
                  mutates=True, destroys=True),
        PlainTool("delete_relations", "Erase relations.", RelationsRequest, ChangedCount, _delete_relations,
                  mutates=True, destroys=True),
        PlainTool("read_graph", "Read all entities and relations.", GraphReadRequest, MemoryGraph, _read_graph),
        PlainTool("search_nodes", "Find entities that answer a query.", GraphSearchRequest, MemoryGraph, _search_graph),
        PlainTool("open_nodes", "Read entities by name.", EntityNameList, MemoryGraph, _open_entities),
    )  # fmt: skip


async def _create_entities(perform: Perform, request: EntitiesRequest) -> Any:
    drafts = [
        draft
        for entity in request.entities
        for draft in (
            _fact_draft(_ENTITY + entity.name, entity.entity_type),
            *(
                _fact_draft(_observation_draft(entity.name, observation), observation)
                for observation in entity.observations
            ),
        )
    ]
    return await _store_drafts(perform, drafts)


async def _create_relations(perform: Perform, request: RelationsRequest) -> Any:
    return await _store_drafts(
        perform, [_fact_draft(_relation_topic(one), _relation_content(one)) for one in request.relations]
    )


async def _observe_entities(perform: Perform, request: ObservationsRequest) -> Any:
    drafts = [
        _fact_draft(_observation_draft(observed_entity.entity_name, observation), observation)
        for observed_entity in request.observations
        for observation in observed_entity.contents
    ]
    return await _store_drafts(perform, drafts)


async def _delete_entities(perform: Perform, request: EntityNames) -> Any:
    # Collected before the first erasure, so that no page shifts under its cursor.
    fact_ids = [
        fact_id
        async for fact_id, topic, content in _graph_facts(perform)
        if {*_fact_names(topic, content)} & {*request.entity_names}
    ]
    return await _erase_facts(perform, fact_ids)


async def _delete_observations(perform: Perform, request: DeletionsRequest) -> Any:
    topics = {
        _observation_draft(deletion.entity_name, observation)
        for deletion in request.deletions
        for observation in deletion.observations
    }
    return await _erase_facts(
        perform, [fact_id async for fact_id, topic, _ in _graph_facts(perform) if topic in topics]
    )


async def _delete_relations(perform: Perform, request: RelationsRequest) -> Any:
    topics = {_relation_topic(one) for one in request.relations}
    return await _erase_facts(
        perform, [fact_id async for fact_id, topic, _ in _graph_facts(perform) if topic in topics]
    )


async def _read_graph(perform: Perform, _asked: GraphReadRequest) -> Any:
    return _facts_graph([(topic, content) async for _, topic, content in _graph_facts(perform)])


async def _search_graph(perform: Perform, request: GraphSearchRequest) -> Any:
    report = await perform(
        "recall",
        {
            "query": request.query,
            "limit": limits.RECALL_DEFAULT,
            "min_score": limits.PROJECTED_SCORE,
            "filters": {"planes": ["long_term"]},
        },
    )
    names = {name for hit in report.get("hits", ()) for name in _fact_names(hit.get("title") or "", hit["text"])}
    return await _open_entities(perform, EntityNameList(names=tuple(sorted(names))))


async def _open_entities(perform: Perform, request: EntityNameList) -> Any:
    facts = [(topic, content) async for _, topic, content in _graph_facts(perform)]
    return _facts_graph(
        [(topic, content) for topic, content in facts if {*_fact_names(topic, content)} & {*request.names}]
    )


async def _store_drafts(perform: Perform, drafts: list[dict[str, Any]]) -> Any:
    count = 0
    for start in range(0, len(drafts), limits.WRITES_PER_REQUEST):
        facts = drafts[start : start + limits.WRITES_PER_REQUEST]
        report = await perform("write", {"write": {"kind": "long_term", "facts": facts}})
        count += sum(decision["outcome"] in {"stored", "updated", "confirmed"} for decision in report["decisions"])
    return {"count": count}


async def _erase_facts(perform: Perform, ids: list[str]) -> Any:
    count = 0
    for start in range(0, len(ids), limits.WRITES_PER_REQUEST):
        report = await perform("erase", {"ids": ids[start : start + limits.WRITES_PER_REQUEST]})
        count += sum(decision["outcome"] == "changed" for decision in report["decisions"])
    return {"count": count}


async def _graph_facts(perform: Perform) -> AsyncIterator[tuple[str, str, str]]:
    """Yield the id, topic and content of every fact that belongs to the graph."""
    cursor: str | None = None
    while True:
        request: dict[str, Any] = {"limit": limits.PAGE_MAX, "filters": {"planes": ["long_term"]}}
        page = await perform("list", request | ({"cursor": cursor} if cursor is not None else {}))
        for item in page.get("items", ()):
            topic = item.get("title") or ""
            if topic.startswith(_ENTITY) or _relation_of(topic, item["text"]) is not None:
                yield item["id"], topic, item["text"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return


def _facts_graph(facts: list[tuple[str, str]]) -> Any:
    entity_types = {topic.removeprefix(_ENTITY): text for topic, text in facts if _is_entity(topic)}
    observations_by_entity: dict[str, list[str]] = {name: [] for name in entity_types}
    relations: list[dict[str, str]] = []
    for topic, text in facts:
        if (relation := _relation_of(topic, text)) is not None:
            relations.append(dict(zip(("from", "relationType", "to"), relation, strict=True)))
        elif not _is_entity(topic):
            observations_by_entity.setdefault(_entity_of(topic), []).append(text)
    entities = [
        {"name": name, "entityType": entity_types.get(name, "unknown"), "observations": observations}
        for name, observations in observations_by_entity.items()
    ]
    return {"entities": entities, "relations": relations}


def _fact_draft(topic: str, content: str) -> dict[str, Any]:
    return {"topic": topic, "content": content, "fact_kind": "fact"}


def _is_entity(topic: str) -> bool:
    return topic.startswith(_ENTITY) and topic.count("/") == 1


def _entity_of(topic: str) -> str:
    return topic.split("/")[1] if topic.startswith(_ENTITY) else ""


def _fact_names(topic: str, content: str) -> list[str]:
    """Return the entities that a fact is about: none for one outside the graph."""
    if topic.startswith(_ENTITY):
        return [_entity_of(topic)]
    relation = _relation_of(topic, content)
    return [relation[0], relation[2]] if relation is not None else []


def _relation_of(topic: str, content: str) -> tuple[str, str, str] | None:
    """Return source, type and target in a fact; None if it is no relation, such as one that its user corrected by
    hand."""
    if not topic.startswith(_RELATION):
        return None
    try:
        return _RELATION_PARTS.validate_json(content)
    except ValidationError:
        return None


def _observation_draft(name: str, observation: str) -> str:
    # A digest keeps a long observation within the limit of a topic.
    return f"{_ENTITY}{name}/{_text_digest(observation)}"


def _relation_topic(relation: GraphRelation) -> str:
    return _RELATION + _text_digest(_relation_content(relation))


def _relation_content(relation: GraphRelation) -> str:
    return json.dumps([relation.source, relation.relation_type, relation.target], ensure_ascii=False)


def _text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
