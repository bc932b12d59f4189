"""The store port over HTTP, for runtimes that keep their memory on this server, and the list of a store's servers.

A user reaches only its own space; an operator reaches every space except the server's own. Documents written here have
passed the rules of the runtime that wrote them, not the rules of this one.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elytron.erasure.dependants import every_copy
from elytron_adapter.access_keys import OPERATORS, Principal
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import reject_error
from elytron_adapter.http.requests import body_pieces, json_body
from elytron_adapter.http.responses import answered_by, principal_of, problem_document, request_app, request_id_of
from elytron_adapter.surface import Family, Route, Surface, SurfaceAccess, build_surfaces
from elytron_core import limits
from elytron_core.contracts.inspection import ServerNodes
from elytron_core.errors import ElytronError, InvalidInput, InvalidJson, PermissionRefused, Unsupported
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.planes.records import RUNTIME_RECORDS
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.store import Store
from elytron_store.engine import innermost_store
from elytron_store.remote_store import (
    ANSWERS,
    BLOBS,
    CHUNK,
    END,
    FRAMES,
    HEALTH_ANSWERS,
    PROBLEM,
    BlobAnswer,
    Handler,
    SpaceAccess,
    WireValue,
    encode_frame,
)
from elytron_store.sealed.records import KEYRING, SHARED
from elytron_store.secret.records import SECRET_SLOT

HTTP_STORE_BODY_BYTES: Final = 64 * 1024 * 1024
"""A batch of documents that a runtime elsewhere sends to the store that it keeps its memory in."""
NODE_LEASE_MS: Final = 10_000
"""Time for which a server is in its store's list of nodes without renewing that."""
NODE_RENEW_S: Final = 3.0
"""Time after which it does."""


_GROUP = "shared store"
_TRANSPORT = "store"
_CLOSED = frozenset({RUNTIME_RECORDS, SECRET_SLOT.collection})
"""Collections that no caller of the port may write."""


def store_surfaces(admission: CallerAdmission, /) -> Iterable[Surface]:
    """Return the family of the port's routes."""
    context = admission.dispatcher.runtime.context
    store, erasure_copies = context.store, partial(every_copy, context)

    async def answer_call(route: Route[Handler], request: Request) -> Response:
        body = await json_body(request, limit=HTTP_STORE_BODY_BYTES)
        assert isinstance(route.request, type)
        try:
            call = route.request.model_validate_json(body)
        except ValidationError:
            raise InvalidJson(problem="is not a call of the store port") from None
        principal = principal_of(request.scope)
        space_access = SpaceAccess(principal.space, partial(_own_space, principal), _CLOSED, erasure_copies)
        return _json_response(await route.handler(store, space_access, call))

    async def put_blob(request: Request) -> Response:
        space, key = _named_blob(request)
        pieces = body_pieces(request.scope, request.receive, limit=limits.BLOB_BYTES)
        return _json_response(BlobAnswer(size=await store.write_blob(space, key, pieces)))

    async def get_blob(request: Request) -> Response:
        chunks = store.read_blob(*_named_blob(request))
        # The first chunk is read before anything is answered, so that a missing blob is reported in the status.
        first_chunk = await anext(chunks, None)
        return StreamingResponse(
            _framed_blob(first_chunk, chunks, request_id=request_id_of(request.scope)), media_type=FRAMES
        )

    query, octet_stream = ("space", "key"), "application/octet-stream"
    blobs = (
        Route("PUT", BLOBS, put_blob, "store_write_blob", "Replace a blob.", octet_stream, BlobAnswer, query=query),
        Route("GET", BLOBS, get_blob, "store_read_blob", "Read a blob.", None, FRAMES, query=query),
    )
    return (
        *build_surfaces(_CALLS, answered_by(answer_call), group=_GROUP, transport=_TRANSPORT),
        *build_surfaces(blobs, request_app, group=_GROUP, transport=_TRANSPORT),
    )


_CALLS = tuple(
    Route(
        "POST", call.path, handler, f"store_{call.name}", f"Call {call.name} of the store port.", call.request,
        call.answer, access,
    )
    for handlers, access in ((ANSWERS, SurfaceAccess.MEMBER), (HEALTH_ANSWERS, SurfaceAccess.OPERATOR))
    for call, handler in handlers
)  # fmt: skip


def _own_space(principal: Principal, space: str) -> SpaceId:
    """Return `space`. Raises PermissionRefused unless the principal may use it, identically for every reason."""
    is_operator = principal.kind in OPERATORS
    is_allowed = is_operator or (principal.kind is PrincipalKind.USER and principal.space == space)
    # A store that its operator seals from elsewhere stores the keys of its spaces in a separate one.
    if not is_allowed or (is_reserved(space) and not (is_operator and space in {KEYRING, SHARED})):
        raise PermissionRefused("this key opens a different space")
    return SpaceId(space)


def _named_blob(request: Request) -> tuple[SpaceId, str]:
    """Return the space and key of a blob."""
    query = request.query_params
    return _own_space(principal_of(request.scope), query.get("space", "")), query.get("key", "")


def _json_response(answer: WireValue) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


async def _framed_blob(
    first_chunk: bytes | None, later_chunks: AsyncIterator[bytes], *, request_id: str
) -> AsyncIterator[bytes]:
    """Yield a blob in frames: its chunks, and its end or an error."""
    if first_chunk is not None:
        yield encode_frame(CHUNK, first_chunk)
    try:
        async for chunk in later_chunks:
            yield encode_frame(CHUNK, chunk)
    except ElytronError as error:
        document = problem_document(reject_error(error, request_id=request_id))
        yield encode_frame(PROBLEM, document.model_dump_json().encode())
        return
    yield encode_frame(END)


logger = logging.getLogger(__name__)


@runtime_checkable
class NodeLeases(Protocol):
    """A store that maintains a list of its servers."""

    async def note_node(self, url: str, /, *, lease_ms: int) -> None: ...
    async def drop_node(self, url: str, /) -> None: ...
    async def list_nodes(self) -> Sequence[str]: ...


def leases_of(store: Store, /) -> NodeLeases:
    """Return the list of servers of `store`. Raises Unsupported for an engine without one."""
    engine = innermost_store(store)
    if not isinstance(engine, NodeLeases):
        raise Unsupported("only a store on a Postgres server has a list of its nodes: remove --node-url")
    return engine


def node_host(url: str, /) -> str:
    """Return the host in a server's address. Raises InvalidInput for an invalid address, or one with a path."""
    try:
        url_parts = urlsplit(url)
        is_http_address = url_parts.scheme in {"http", "https"} and (url_parts.port is None or url_parts.port > 0)
    except ValueError:
        is_http_address = False
        url_parts = urlsplit("")
    if (
        not is_http_address
        or not url_parts.hostname
        or url_parts.username is not None
        or url_parts.path.strip("/")
        or url_parts.query
    ):
        raise InvalidInput(field="--node-url", problem="is not an http:// or https:// address with a host and port")
    return f"[{url_parts.hostname}]" if ":" in url_parts.hostname else url_parts.hostname


@asynccontextmanager
async def lease_kept(leases: NodeLeases, url: str, /) -> AsyncGenerator[None]:
    """Register `url` in the list during the block; if the list is unavailable, it is written later."""

    async def renew() -> None:
        while True:
            try:
                await leases.note_node(url, lease_ms=NODE_LEASE_MS)
            except ElytronError as error:
                logger.warning("this server is currently missing from the list of nodes: %s", error.key)
            await asyncio.sleep(NODE_RENEW_S)

    renewal_task = asyncio.create_task(renew())
    try:
        yield
    finally:
        # Ended first, so that no renewal lists the server again.
        renewal_task.cancel()
        await asyncio.gather(renewal_task, return_exceptions=True)
        with suppress(ElytronError):  # its lease expires
            await leases.drop_node(url)


def node_surfaces(leases: NodeLeases, url: str, /) -> Family:
    """Return the family of the list, in which the server is registered as `url` while it runs."""

    async def list_nodes(_request: Request) -> Value:
        return ServerNodes(nodes=tuple(await leases.list_nodes()))

    route = Route(
        "GET", "/v1/nodes", list_nodes, "nodes", "List the servers of the store.", None, ServerNodes,
        outcome="Their addresses.",
    )  # fmt: skip
    return lambda _: build_surfaces((route,), request_app, running=lambda: lease_kept(leases, url))
