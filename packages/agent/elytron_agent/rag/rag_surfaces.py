"""Routes of the embedding service."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from elytron.api.flat_calls import own_scope
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.requests import RouteCall, read_body
from elytron_adapter.http.responses import answered_by, principal_of
from elytron_adapter.surface import Family, Route, Surface, SurfaceAccess, SurfaceFigure, build_surfaces
from elytron_agent.rag import embedding_wire as wire
from elytron_agent.rag.embedding_store import EmbeddingStore, RagParts
from elytron_agent.rag.search_figures import RagAlerts, SearchFigures
from elytron_agent.rag.table_cache import CacheBounds, TableCache
from elytron_agent.rag.usage import RagQuotas, UsageLedger
from elytron_core.errors import AgentDisabled, ScopeMissing
from elytron_core.model import Value

BODY_BYTES: Final = 1024 * 1024


ROOT: Final = "/v1/rag"
_EMBEDDINGS: Final = f"{ROOT}/embeddings"


@dataclass(frozen=True, slots=True)
class RagSettings:
    """Settings of the service, made by the operator."""

    quotas: RagQuotas = field(default_factory=RagQuotas)
    cache: CacheBounds = field(default_factory=CacheBounds)
    alerts: RagAlerts = field(default_factory=RagAlerts)
    is_off: bool = False
    """True if the routes answer `agent_disabled`."""


def rag_surfaces(settings: RagSettings | None = None, /) -> Family:
    """Return the family of embedding routes."""

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        service = RagService(admission, settings or RagSettings())
        return build_surfaces(
            _ROUTES, answered_by(service.answer), group="rag", running=service.running, figures=service.figures
        )

    return family


@dataclass(frozen=True, slots=True)
class RagCall(RouteCall):
    """One call by an authorised user."""

    embeddings: EmbeddingStore


RagHandler = Callable[[RagCall], Awaitable[Value]]


class RagService:
    """The state shared by the routes: the embeddings of every user, and the handling of a call."""

    def __init__(self, admission: CallerAdmission, settings: RagSettings, /) -> None:
        self._admission = admission
        self._is_off = settings.is_off
        context = admission.dispatcher.runtime.context
        cache = TableCache(context.store, context.clock, bounds=settings.cache)
        context.secrets.on_forget(cache.forget)
        self._parts = RagParts(context, cache, UsageLedger(context, settings.quotas), SearchFigures(settings.alerts))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the service until the context ends."""
        try:
            yield
        finally:
            await self._parts.cache.close()

    def figures(self) -> Iterable[SurfaceFigure]:
        """Return the current figures."""
        return self._parts.figures.all(self._parts.cache, self._parts.ledger)

    async def answer(self, route: Route[RagHandler], request: Request) -> Value:
        """Answer a request to `route` for its caller."""
        if self._is_off:
            raise AgentDisabled(way_out="the operator has disabled embeddings")
        principal = principal_of(request.scope)
        scope = own_scope(principal.space, self._admission.dispatcher.runtime.scope)
        if scope is None:
            raise ScopeMissing(operation="rag", way_out="use a user's key: an operator has no embeddings")
        embeddings = EmbeddingStore(self._parts, scope.space, caller=principal.id)
        body = await read_body(request.scope, request.receive, limit=BODY_BYTES) if route.request else b""
        async with self._admission.admitted(principal, body=body, space=scope.space):
            return await route.handler(RagCall(request, body, embeddings))


async def _insert_embedding(call: RagCall) -> Value:
    return await call.embeddings.insert(await call.body(wire.EmbeddingRequest), key=call.idempotency_key)


async def _delete_embedding(call: RagCall) -> Value:
    embedding_id = call.part("id")
    await call.embeddings.delete(embedding_id)
    return wire.EmbeddingDeleted(id=embedding_id)


async def _delete_embeddings(call: RagCall) -> Value:
    dry_run, source_types = call.flag("dry_run"), call.request.query_params.getlist("source_type")
    row_count, message_count = await call.embeddings.delete_all(source_types, dry_run=dry_run)
    return wire.EmbeddingsDeleted(deleted=not dry_run, dry_run=dry_run, rows=row_count, messages_left=message_count)


async def _embeddings_status(call: RagCall) -> Value:
    return await call.embeddings.status()


async def _search_embeddings(call: RagCall) -> Value:
    return await call.embeddings.search(await call.body(wire.RagSearchRequest))


_ROUTES: Final[tuple[Route[RagHandler], ...]] = (
    Route("POST", _EMBEDDINGS, _insert_embedding, "insert_embedding", "Store and embed a text.", wire.EmbeddingRequest,
          wire.EmbeddingAnswer, headers=("Idempotency-Key",)),
    Route("DELETE", _EMBEDDINGS, _delete_embeddings, "delete_embeddings",
          "Erase all stored texts, or those of some source types.", None, wire.EmbeddingsDeleted,
          SurfaceAccess.OWNER, query=("source_type", "dry_run")),
    Route("GET", f"{_EMBEDDINGS}/status", _embeddings_status, "embeddings_status",
          "Count the rows by model, and show the quotas.", None, wire.RagStatus),
    Route("DELETE", f"{_EMBEDDINGS}/{{id:path}}", _delete_embedding, "delete_embedding", "Erase a row and its text.",
          None, wire.EmbeddingDeleted),
    Route("POST", f"{ROOT}/search", _search_embeddings, "search_embeddings",
          "Find the rows nearest to a query by cosine.", wire.RagSearchRequest, wire.RagSearchAnswer),
)  # fmt: skip
