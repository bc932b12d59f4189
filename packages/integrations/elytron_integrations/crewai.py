"""A storage backend for CrewAI's memory: its records in one memory space, searched by their vectors.

Each is a record of the space whose text is the content, so that the memory's own recall finds it, too.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic_core import PydanticSerializationError

from elytron_core import limits
from elytron_core.contracts.memories import ControlOutcome
from elytron_core.contracts.records import RecordItem
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.planes.facts import FactPrivacy
from elytron_core.planes.records import RECORD_TEXT_CHARS
from elytron_core.text import similarity
from elytron_integrations.conversation_items import host_name
from elytron_integrations.integration_table import require_framework
from elytron_integrations.user_memory import MemoryLoop, OpenMemory, space_scope

require_framework(__name__)

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError  # noqa: E402
from crewai.memory.types import MemoryRecord, ScopeInfo  # noqa: E402

logger = logging.getLogger(__name__)
_NAMESPACE: Final = ("crewai",)
_EMBEDDING: Final = "embedding"


class ElytronStorage:
    """Stores the records of `crewai.Memory(storage=...)` in one memory space, `space` or the memory's own.

    Takes the memory of `with elytron.open(...)`, `async with elytron.open(...)` or `elytron.connect(...)`. A search
    compares the vectors of all records in the space. Raises ScopeMissing without a space.
    """

    def __init__(self, memory: OpenMemory, /, *, space: str | None = None) -> None:
        self._loop = MemoryLoop(memory)
        self._face = self._loop.face
        self._space = space_scope(self._face.scope, space, operation="ElytronStorage").space
        self._vector_size: int | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return this storage: the copy of a crew has the same memory."""
        return self

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records; one whose id is stored is replaced, and its earlier version stays until it is erased.

        Raises InvalidInput, and CrewAI's EmbeddingDimensionMismatchError for vectors of another size than the stored.
        """
        self._loop.wait(self._save(records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Do what `save` does."""
        await self._loop.run(self._save(records))

    def update(self, record: MemoryRecord) -> None:
        """Replace the record of this id, as `save` does."""
        self.save([record])

    def search(  # noqa: PLR0917 - CrewAI passes some of them by position
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records whose vectors are most similar to another, with the cosines, best first.

        Raises InvalidInput, and CrewAI's EmbeddingDimensionMismatchError for a vector of another size.
        """
        criteria = _RecordCriteria(scope_prefix, categories, metadata_filter)
        return self._loop.wait(self._search(query_embedding, criteria, limit, min_score))

    async def asearch(  # noqa: PLR0917
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Do what `search` does."""
        criteria = _RecordCriteria(scope_prefix, categories, metadata_filter)
        return await self._loop.run(self._search(query_embedding, criteria, limit, min_score))

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Erase the records that meet every criterion, with their history; return how many there were.

        Raises InvalidInput without a criterion: `reset` erases everything.
        """
        return self._loop.wait(self.adelete(scope_prefix, categories, record_ids, older_than, metadata_filter))

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Do what `delete` does."""
        criteria = _RecordCriteria(scope_prefix, categories, metadata_filter, record_ids, older_than)
        if criteria == _RecordCriteria():
            raise InvalidInput(field="delete", problem="names no criterion: call reset() to erase every record")
        return await self._loop.run(self._erase(criteria))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase the records at and below a scope, or all of them."""
        self._loop.wait(self._erase(_RecordCriteria(scope_prefix)))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record; None if there is none. Raises InvalidInput for an empty id."""
        return next(iter(self._records(_RecordCriteria(record_ids=[record_id]))), None)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return the records at and below a scope, newest first."""
        return self._records(_RecordCriteria(scope_prefix))[max(offset, 0) :][: max(limit, 0)]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return how many records are at and below a scope, with their categories, times and the scopes below."""
        records = self._records(_RecordCriteria(scope))
        return ScopeInfo(
            path=_scope_path(scope),
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=records[-1].created_at if records else None,
            newest_record=records[0].created_at if records else None,
            child_scopes=_child_scopes(records, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes one level below another that have records."""
        return _child_scopes(self._records(_RecordCriteria(parent)), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the categories of the records at and below a scope with the number of their records."""
        records = self._records(_RecordCriteria(scope_prefix))
        return dict(Counter(category for record in records for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records at and below a scope."""
        return len(self._records(_RecordCriteria(scope_prefix)))

    def _records(self, criteria: "_RecordCriteria") -> list[MemoryRecord]:
        """Return the records that meet the criteria, newest first."""
        records = self._loop.wait(self._stored(criteria)).values()
        return sorted(records, key=lambda record: _utc_time(record.created_at), reverse=True)

    async def _save(self, records: Sequence[MemoryRecord]) -> None:
        values = [_record_value(record) for record in records]
        for size in [len(record.embedding) for record in records if record.embedding]:
            if self._vector_size is None:
                stored = (await self._stored(_RecordCriteria())).values()
                self._vector_size = next((len(each.embedding) for each in stored if each.embedding), size)
            if size != self._vector_size:
                raise EmbeddingDimensionMismatchError(self._vector_size, size)
        await asyncio.gather(*map(self._put, records, values))

    async def _put(self, record: MemoryRecord, value: dict[str, Any]) -> None:
        key, text = _record_key(record.id), record.content[:RECORD_TEXT_CHARS]
        privacy = FactPrivacy.PRIVATE if record.private else FactPrivacy.SHARED
        await self._face.put_record(_NAMESPACE, key, value, text=text, privacy=privacy, user_id=self._space)

    async def _search(
        self, query_embedding: list[float], criteria: "_RecordCriteria", limit: int, min_score: float
    ) -> list[tuple[MemoryRecord, float]]:
        query = _checked_vector(query_embedding)
        records = [record for record in (await self._stored(criteria)).values() if record.embedding]
        vectors = [record.embedding or [] for record in records]
        for size in map(len, vectors):
            if size != len(query):
                raise EmbeddingDimensionMismatchError(size, len(query))
        matrix = np.asarray(vectors, "<f4").reshape(-1, len(query))
        lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(query)
        # Cosines; 0 for a vector without a direction.
        scores: list[float] = (matrix @ query / np.where(lengths > 0, lengths, np.inf)).tolist()
        hits = zip(records, scores, strict=True)
        best = sorted((hit for hit in hits if hit[1] >= min_score), key=lambda hit: hit[1], reverse=True)
        return best[: max(limit, 0)]

    async def _erase(self, criteria: "_RecordCriteria") -> int:
        ids = list(await self._stored(criteria))
        self._vector_size = None
        erased = 0
        for start in range(0, len(ids), limits.WRITES_PER_REQUEST):
            report = await self._face.erase(ids[start : start + limits.WRITES_PER_REQUEST], user_id=self._space)
            erased += sum(decision.outcome is ControlOutcome.CHANGED for decision in report.decisions)
        return erased

    async def _stored(self, criteria: "_RecordCriteria") -> dict[str, MemoryRecord]:
        """Return the records that meet the criteria by their memory ids."""
        ids = criteria.record_ids
        items = await self._all_items() if ids is None else await self._named_items(ids)
        records = {item.id: _record_of(item) for item in items}
        return {id_: record for id_, record in records.items() if record is not None and criteria.hold_for(record)}

    async def _all_items(self) -> list[RecordItem]:
        items: list[RecordItem] = []
        has_more = True
        while has_more:
            page = await self._face.search_records(
                _NAMESPACE, limit=limits.PAGE_MAX, offset=len(items), include_private=True, user_id=self._space
            )
            items += page.items
            has_more = page.has_more and bool(page.items)
        return items

    async def _named_items(self, record_ids: Sequence[str]) -> list[RecordItem]:
        items: list[RecordItem] = []
        for key in dict.fromkeys(map(_record_key, record_ids)):
            try:
                report = await self._face.get_record(_NAMESPACE, key, include_private=True, user_id=self._space)
            except NotFound:
                continue
            items.append(report.record)
        return items


@dataclass(frozen=True, slots=True)
class _RecordCriteria:
    """Conditions that a call states for records. None means no condition."""

    scope_prefix: str | None = None
    categories: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None
    record_ids: Sequence[str] | None = None
    older_than: datetime | None = None

    def hold_for(self, record: MemoryRecord, /) -> bool:
        """Return whether a record meets every criterion."""
        scope, prefix = _scope_path(record.scope), _scope_path(self.scope_prefix or "")
        return (
            f"{scope}/".startswith("/" if prefix == "/" else f"{prefix}/")
            and (not self.categories or not set(self.categories).isdisjoint(record.categories))
            and all(record.metadata.get(name) == value for name, value in (self.metadata or {}).items())
            and (self.older_than is None or _utc_time(record.created_at) < _utc_time(self.older_than))
        )


def _record_of(item: RecordItem) -> MemoryRecord | None:
    """Return a record as CrewAI knows it; None for one that another program put among them."""
    try:
        value = dict(cast("Mapping[str, Any]", item.value))
        data = value.pop(_EMBEDDING, None)
        record = MemoryRecord.model_validate(value)
        if data is not None:
            record.embedding = _checked_vector(data).tolist()
    except (TypeError, ValueError):
        logger.warning("the record %r is not one of CrewAI's and is left out", item.key)
        return None
    return record


def _record_key(record_id: str) -> str:
    if not record_id:
        raise InvalidInput(field="record_id", problem="is empty")
    return host_name(record_id)


def _record_value(record: MemoryRecord) -> dict[str, Any]:
    """Return a record as JSON. Raises InvalidInput for one without an id or words, and for what JSON cannot hold."""
    _record_key(record.id)
    if similarity.is_blank(record.content):
        raise InvalidInput(field="content", problem="has no words")
    try:
        value = record.model_dump(mode="json", exclude={_EMBEDDING})
    except PydanticSerializationError:
        raise InvalidInput(field="metadata", problem="contains a value that JSON cannot hold") from None
    if record.embedding:
        # As numbers: in base64, redaction would find credentials.
        value[_EMBEDDING] = [float(f"{number:.9g}") for number in _checked_vector(record.embedding).tolist()]
    return value


def _checked_vector(numbers: Sequence[float]) -> NDArray[np.float32]:
    """Return a vector in 32 bits for each number. Raises InvalidInput for an empty one, and what is not finite."""
    vector = np.asarray(numbers, "<f4")
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise InvalidInput(field=_EMBEDDING, problem="must be a list of finite numbers")
    return vector


def _scope_path(scope: str) -> str:
    """Return a scope with one slash before each part."""
    return f"/{'/'.join(part for part in scope.split('/') if part)}"


def _child_scopes(records: Sequence[MemoryRecord], parent: str) -> list[str]:
    """Return the scopes of records, which are at and below `parent`, cut to one level below it."""
    depth = len(_scope_path(parent).rstrip("/").split("/")) + 1
    parts = [_scope_path(record.scope).rstrip("/").split("/") for record in records]
    return sorted({"/".join(each[:depth]) for each in parts if len(each) >= depth})


def _utc_time(time: datetime) -> datetime:
    """Return a time with its zone; CrewAI's own have none and are UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
