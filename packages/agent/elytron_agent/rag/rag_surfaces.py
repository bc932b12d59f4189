"""Routes of the embedding service."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.flat_calls import own_scope
from elytron_adapter.http.requests import heads_of, idempotency_key, read_body, require_json
from elytron_adapter.http.responses import principal_of, shown_surface
from elytron_adapter.surface import Family, Surface, SurfaceAccess, SurfaceDescription
from elytron_agent.rag import embedding_wire as wire
from elytron_agent.rag import limits
from elytron_agent.rag.embedding_store import EmbeddingStore, RagParts
from elytron_agent.rag.search_figures import RagAlerts, RagFigure, SearchFigures
from elytron_agent.rag.table_cache import CacheBounds, TableCache
from elytron_agent.rag.usage import RagQuotas, UsageLedger
from elytron_core.errors import AgentDisabled, InvalidInput, ScopeMissing
from elytron_core.model import Value

ROOT: Final = "/v1/rag"
_EMBEDDINGS: Final = f"{ROOT}/embeddings"
_GROUP: Final = "rag"
RequestT = TypeVar("RequestT", bound=Value)


@dataclass(frozen=True, slots=True)
class RagSettings:
    """Settings of the service, as the operator gives them."""

    quotas: RagQuotas = field(default_factory=RagQuotas)
    cache: CacheBounds = field(default_factory=CacheBounds)
    alerts: RagAlerts = field(default_factory=RagAlerts)
    is_off: bool = False
    """True if the routes answer `agent_disabled`."""


def rag_surfaces(settings: RagSettings | None = None, /) -> Family:
    """Return the family of the routes of embeddings."""

    def family(entrance: CallerAdmission) -> Iterable[Surface]:
        routes = RagRoutes(entrance, settings or RagSettings())
        first, *others = routes.surfaces()
        return (replace(first, running=routes.running, figures=routes.figures), *others)

    return family


@dataclass(frozen=True, slots=True)
class RagCall:
    """One call, by a user who was let in."""

    embeddings: EmbeddingStore
    request: Request
    raw_body: bytes = b""
    """Body, as it was read before the call was given its place."""

    async def body(self, model: type[RequestT], /) -> RequestT:
        """Return the request in the body."""
        if self.raw_body:
            require_json(heads_of(self.request.scope))
        data = self.raw_body or b"{}"
        return await envelope.read_aside(len(data), partial(envelope.decode_as, model, data, limit=limits.BODY_BYTES))


RagHandler = Callable[[RagCall], Awaitable[Value]]


class RagRoutes:
    """The routes, and what they share."""

    def __init__(self, entrance: CallerAdmission, settings: RagSettings, /) -> None:
        self._entrance = entrance
        self._is_off = settings.is_off
        context = entrance.dispatcher.runtime.context
        cache = TableCache(context.store, context.clock, bounds=settings.cache)
        context.secrets.on_forget(cache.forget)
        self._parts = RagParts(context, cache, UsageLedger(context, settings.quotas), SearchFigures(settings.alerts))

    def surfaces(self) -> Iterable[Surface]:
        """Yield the surfaces."""
        for method, path, handler, description in _ROUTES:
            access = SurfaceAccess.OWNER if handler is delete_embeddings else SurfaceAccess.MEMBER
            yield self._surface(method, path, handler, replace(description, group=_GROUP), access)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve while this is entered."""
        try:
            yield
        finally:
            await self._parts.cache.close()

    def figures(self) -> Iterable[RagFigure]:
        """Return the figures as they are now."""
        return self._parts.figures.all(self._parts.cache, self._parts.ledger)

    def _surface(
        self, method: str, path: str, handler: RagHandler, about: SurfaceDescription, access: SurfaceAccess
    ) -> Surface:
        async def answered(request: Request) -> Response:
            if self._is_off:
                raise AgentDisabled(way_out="the operator has disabled embeddings")
            principal = principal_of(request.scope)
            scope = own_scope(principal.space, self._entrance.dispatcher.runtime.scope)
            if scope is None:
                raise ScopeMissing(operation="rag", way_out="use a user's key: an operator has no embeddings")
            embeddings = EmbeddingStore(self._parts, scope.space, caller=principal.id)
            body = await read_body(request.scope, request.receive, limit=limits.BODY_BYTES) if about.taken else b""
            async with self._entrance.admitted(principal, body=body, space=scope.space):
                answer = await handler(RagCall(embeddings, request, body))
            return Response(envelope.encode_value(answer), media_type="application/json")

        return shown_surface(path, answered, access=access, methods=(method,), description=about)


async def insert_embedding(call: RagCall) -> Value:
    """Put in a text."""
    request = await call.body(wire.EmbeddingRequest)
    return await call.embeddings.insert(request, key=idempotency_key(heads_of(call.request.scope)))


async def delete_embedding(call: RagCall) -> Value:
    """Erase a row."""
    embedding_id = call.request.path_params["id"]
    await call.embeddings.delete(embedding_id)
    return wire.EmbeddingDeleted(id=embedding_id)


async def delete_embeddings(call: RagCall) -> Value:
    """Erase all rows that were put in."""
    query = call.request.query_params
    dry_run = query.get("dry_run", "false")
    if dry_run not in {"true", "false"}:
        raise InvalidInput(field="dry_run", problem="must be true or false")
    types = query.getlist("source_type")
    rows, messages = await call.embeddings.delete_all(types, dry_run=dry_run == "true")
    return wire.EmbeddingsDeleted(
        deleted=dry_run == "false", dry_run=dry_run == "true", rows=rows, messages_left=messages
    )


async def embeddings_status(call: RagCall) -> Value:
    """Count the rows."""
    return await call.embeddings.status()


async def search_embeddings(call: RagCall) -> Value:
    """Find the nearest rows."""
    return await call.embeddings.search(await call.body(wire.RagSearchRequest))


_ROUTES: Final[tuple[tuple[str, str, RagHandler, SurfaceDescription], ...]] = (
    ("POST", _EMBEDDINGS, insert_embedding,
     SurfaceDescription("insert_embedding", "Store and embed a text.", wire.EmbeddingRequest, wire.EmbeddingAnswer,
                        ("Idempotency-Key",))),
    ("DELETE", _EMBEDDINGS, delete_embeddings,
     SurfaceDescription("delete_embeddings", "Erase all stored texts, or those of some source types.", None,
                        wire.EmbeddingsDeleted, query=("source_type", "dry_run"))),
    ("GET", f"{_EMBEDDINGS}/status", embeddings_status,
     SurfaceDescription("embeddings_status", "Count the rows by model, and show the quotas.", None, wire.RagStatus)),
    ("DELETE", f"{_EMBEDDINGS}/{{id:path}}", delete_embedding,
     SurfaceDescription("delete_embedding", "Erase a row and its text.", None, wire.EmbeddingDeleted)),
    ("POST", f"{ROOT}/search", search_embeddings,
     SurfaceDescription("search_embeddings", "Find the rows nearest to a query by cosine.", wire.RagSearchRequest,
                        wire.RagSearchAnswer)),
)  # fmt: skip
