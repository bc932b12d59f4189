"""LangGraph's store over a memory: values under namespaces and keys, stored as records of one space.

A query searches the memory, and the memory's own recall finds the same values.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from elytron_core import limits
from elytron_core.clock import as_datetime
from elytron_core.contracts.records import RecordItem
from elytron_core.errors import InvalidInput, NotFound, Unsupported
from elytron_core.planes.records import RECORD_TEXT_CHARS
from elytron_integrations.user_memory import MemoryLoop, OpenMemory, space_scope

_OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_UNSEARCHED: Final = " "
"""Search text for a value that no query should find. With an empty text, the value itself would be searched."""


class ElytronStore(BaseStore):
    """Store values in one space of a memory, for every thread of a graph.

    Accepts the memory of `async with elytron.open(...)`, `with elytron.open(...)` or `elytron.connect(...)`. A `ttl` in
    minutes counts from the last put, and reading does not extend it. Raises ScopeMissing without a space.
    """

    supports_ttl = True
    """A TTL is passed on, and a memory that does not support one refuses it."""
    ttl_config: TTLConfig | None = {"refresh_on_read": False}

    def __init__(self, memory: OpenMemory, /, *, space: str | None = None) -> None:
        self._loop = MemoryLoop(memory)
        self._face = self._loop.face
        self._space = space_scope(self._face.scope, space, operation="ElytronStore").space

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Blocking form of `abatch`."""
        return self._loop.wait(self._perform_all(tuple(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations and return their results.

        All reads run before all puts; of several puts to one key, only the last one counts. Raises InvalidInput,
        PermissionRefused for namespaces reserved by Elytron, and Unsupported if the memory does not support a TTL.
        """
        return await self._loop.run(self._perform_all(tuple(ops)))

    async def _perform_all(self, ops: tuple[Op, ...]) -> list[Result]:
        results: list[Result] = [await self._read(op) for op in ops]
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        await asyncio.gather(*map(self._put, puts.values()))
        return results

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                return await self._get(op)
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._list_namespaces(op)
            case _:
                return None

    async def _put(self, op: PutOp) -> None:
        if op.value is None:
            await self._face.delete_record(op.namespace, op.key, user_id=self._space)
            return
        value = dict(op.value)
        await self._face.put_record(
            op.namespace,
            op.key,
            value,
            text=_search_text(value, op.index),
            ttl_s=None if op.ttl is None else _ttl_seconds(op.ttl),
            user_id=self._space,
        )

    async def _get(self, op: GetOp) -> Item | None:
        try:
            report = await self._face.get_record(op.namespace, op.key, user_id=self._space)
        except NotFound:
            return None
        _require_no_refresh(report.record, refreshes=op.refresh_ttl)
        return Item(**_item_fields(report.record))

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        where = {"AND": list(_filter_conditions(op.filter or {}, ""))} if op.filter else None
        items: list[SearchItem] = []
        has_more = op.limit > 0
        while has_more and len(items) < op.limit:
            report = await self._face.search_records(
                op.namespace_prefix,
                query=op.query or "",
                where=where,
                limit=min(op.limit - len(items), limits.PAGE_MAX),
                offset=op.offset + len(items),
                user_id=self._space,
            )
            for record in report.items:
                _require_no_refresh(record, refreshes=op.refresh_ttl)
                items.append(SearchItem(**_item_fields(record), score=record.score))
            has_more = report.has_more and bool(report.items)
        return items

    async def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        namespaces: set[tuple[str, ...]] = set()
        offset, has_more = 0, True
        while has_more:
            report = await self._face.list_record_namespaces(
                _literal_prefix(conditions), limit=limits.PAGE_MAX, offset=offset, user_id=self._space
            )
            names = [entry.namespace for entry in report.namespaces]
            namespaces |= {
                name[: op.max_depth] for name in names if all(_is_match(name, condition) for condition in conditions)
            }
            offset, has_more = offset + len(names), report.has_more
        return sorted(namespaces)[op.offset : op.offset + op.limit]


def _ttl_seconds(minutes: object) -> int:
    """Return a TTL in whole seconds, 1 at least. Raises InvalidInput for what is not a finite number."""
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not abs(minutes) * 60 < math.inf:
        raise InvalidInput(field="ttl", problem="is not a finite number of minutes")
    return max(math.ceil(minutes * 60), 1)


def _item_fields(record: RecordItem) -> dict[str, Any]:
    return {
        "value": cast("dict[str, Any]", record.value),
        "key": record.key,
        "namespace": record.namespace,
        "created_at": as_datetime(record.created_at),
        "updated_at": as_datetime(record.updated_at),
    }


def _require_no_refresh(record: RecordItem, *, refreshes: bool) -> None:
    """Raise Unsupported if a read should extend the TTL of a record."""
    if refreshes and record.expires_at is not None:
        raise Unsupported("reading does not extend a TTL: pass refresh_ttl=False, or put the value again")


def _search_text(value: Mapping[str, Any], index: Literal[False] | list[str] | None) -> str:
    """Return a value's search text: the texts at the paths in `index`, otherwise all of it with field names."""
    if index is False:
        return _UNSEARCHED
    lines = (
        _named_lines(value, "") if index is None else (text for path in index for text in get_text_at_path(value, path))
    )
    return "\n".join(lines)[:RECORD_TEXT_CHARS] or _UNSEARCHED


def _named_lines(part: object, name: str) -> Iterator[str]:
    match part:
        case Mapping():
            for key, inner in cast("Mapping[object, object]", part).items():
                yield from _named_lines(inner, f"{name} {key}".strip())
        case list() | tuple():
            for inner in cast("list[object]", part):
                yield from _named_lines(inner, name)
        case None:
            pass
        case _:
            yield f"{name}: {part}"


def _filter_conditions(values: Mapping[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Yield one memory filter per comparison in LangGraph's filter. Raises InvalidInput."""
    for name, value in values.items():
        field = f"{prefix}{name}"
        if not isinstance(value, Mapping):
            yield {field: {"eq": _compared_value(value, field)}}
            continue
        inner = cast("Mapping[str, Any]", value)
        operators = [word for word in inner if word.startswith("$")]
        if not operators:
            yield from _filter_conditions(inner, f"{field}.")
        for word in operators:
            if word not in _OPERATORS:
                raise InvalidInput(
                    field=f"filter.{field}", problem=f"has an unknown operator: use one of {', '.join(_OPERATORS)}"
                )
            yield {field: {word.removeprefix("$"): _compared_value(inner[word], field)}}


def _compared_value(value: object, field: str) -> object:
    if not isinstance(value, str | int | float):
        raise InvalidInput(field=f"filter.{field}", problem="can only be compared with strings, numbers and booleans")
    return value


def _literal_prefix(conditions: Iterable[MatchCondition]) -> tuple[str, ...]:
    """Return the literal namespace parts that every match must begin with."""
    prefixes = (condition.path for condition in conditions if condition.match_type == "prefix")
    path = next(prefixes, ())
    return path[: path.index("*")] if "*" in path else tuple(path)


def _is_match(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    parts = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(label in {part, "*"} for part, label in zip(parts, path, strict=True))
