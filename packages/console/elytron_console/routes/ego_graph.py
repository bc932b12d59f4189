"""Surroundings of one memory: its evidence, its versions and what rests on it, bounded here for every page."""

from collections.abc import Sequence
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import CallTransport, RejectedAnswer
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.http.requests import query_scope
from elytron_adapter.http.responses import principal_of, render_answer, request_id_of
from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_console import limits
from elytron_console.sessions import GROUP, ConsoleDoor, value_response
from elytron_core.contracts.control import (
    MemoryControlReport,
    MemoryForgetRequest,
    MemoryGetRequest,
    MemoryHistoryReport,
    MemoryHistoryRequest,
)
from elytron_core.contracts.facts import FactDetailReport, FactDetailRequest
from elytron_core.contracts.recall import RecallHit
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_core.scope import Scope, ScopedRequest

ReportT = TypeVar("ReportT", bound=Value)


class EgoNode(Value):
    """A memory beside another one: the beginning of its text, empty if it may not be read or is gone."""

    id: str
    text: str = ""


class EgoGraph(Value):
    """A memory's surroundings, of at most 200 memories; `clipped` if there are more."""

    id: str
    rests: tuple[EgoNode, ...] = ()
    """Memories that it rests on."""
    versions: tuple[EgoNode, ...] = ()
    """Versions of the fact, oldest first, itself included."""
    derived: tuple[EgoNode, ...] = ()
    """Memories that rest on it."""
    clipped: bool = False


def ego_graph_surface(entrance: CallerEntrance, door: ConsoleDoor, /) -> Surface:
    """Return the surface of a memory's surroundings."""

    async def shown(request: Request) -> Response:
        reading = _EgoReading(entrance, request, query_scope(request.query_params))
        found = await reading.graph(request.query_params.get("id", ""))
        return render_answer(found) if isinstance(found, RejectedAnswer) else value_response(found)

    told = SurfaceDescription(
        "console_around", "Show what one memory rests on, its versions, and what rests on it.", None, EgoGraph, (),
        ("space", "id"), group=GROUP,
    )  # fmt: skip
    return door.surface("GET", "/around", shown, told)


class _EgoReading:
    """Reads the surroundings by operations, each a call of the principal who asks."""

    def __init__(self, entrance: CallerEntrance, request: Request, scope: Scope | None, /) -> None:
        self._entrance = entrance
        self._request = request
        self._scope = scope
        self._left = limits.EGO_NODES

    async def graph(self, name: str) -> EgoGraph | RejectedAnswer:
        """Return the surroundings of the memory `name`, or why it cannot be read."""
        scope = self._scope
        own = await self._call("get", MemoryGetRequest(id=name, include_private=True, scope=scope))
        detail = await self._fact(name)
        if isinstance(own, RejectedAnswer) and detail is None:
            return own
        told = MemoryHistoryRequest(id=name, include_private=True, scope=scope)
        past = await self._report("history", told, MemoryHistoryReport)
        # A preview of an erasure names what rests on a memory; nothing is hidden or erased.
        asked = MemoryForgetRequest(ids=(name,), dry_run=True, scope=scope)
        preview = await self._report("forget", asked, MemoryControlReport)
        evidence = detail.fact.evidence if detail is not None else ()
        derived = preview.derived if preview is not None else ()
        events = past.items if past is not None and detail is not None else ()
        texts = {item.id: item.text for item in events if item.text}
        ids = tuple(dict.fromkeys((*(item.id for item in events), name))) if detail is not None else ()
        return EgoGraph(
            id=name,
            versions=tuple(_ego_node(each, texts.get(each, "")) for each in self._taken(ids)),
            rests=tuple([await self._node(each) for each in self._taken(evidence)]),
            derived=tuple([await self._node(each) for each in self._taken(derived)]),
            clipped=len(evidence) + len(ids) + len(derived) > limits.EGO_NODES,
        )

    def _taken(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of `ids` that there is room for."""
        taken = ids[: self._left]
        self._left -= len(taken)
        return taken

    async def _node(self, name: str) -> EgoNode:
        hit = await self._report("get", MemoryGetRequest(id=name, include_private=True, scope=self._scope), RecallHit)
        return _ego_node(name, hit.text if hit is not None else "")

    async def _fact(self, name: str) -> FactDetailReport | None:
        """Return the fact of this id, None if the id is of another memory."""
        try:
            asked = FactDetailRequest(id=name, include_private=True, scope=self._scope)
        except InvalidInput:
            return None
        return await self._report("get_fact", asked, FactDetailReport)

    async def _report(self, operation: str, asked: ScopedRequest, kind: type[ReportT]) -> ReportT | None:
        answer = await self._call(operation, asked)
        report = None if isinstance(answer, RejectedAnswer) else answer.report
        return report if isinstance(report, kind) else None

    async def _call(self, operation: str, asked: ScopedRequest) -> Answer:
        return await self._entrance.call(
            principal_of(self._request.scope),
            transport=CallTransport.CONSOLE,
            operation=operation,
            request_id=request_id_of(self._request.scope),
            payload=asked,
        )


def _ego_node(name: str, text: str) -> EgoNode:
    return EgoNode(id=name, text=text[: limits.EGO_TEXT_CHARS])
