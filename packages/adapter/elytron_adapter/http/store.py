"""The store port as surfaces, for runtimes elsewhere that keep their memory here. Mounted only if asked for.

A user reaches its own space alone, an operator every space but the server's own. Documents written here have
passed the rules of the runtime that wrote it, not those of this one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elytron.erasure.removal import every_copy
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.failures import reject_error
from elytron_adapter.http.requests import body_pieces, read_body, require_json
from elytron_adapter.http.responses import principal_of, problem_document, request_id_of, shown_surface
from elytron_adapter.identity.access_keys import OPERATORS, Principal
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidJson, PermissionRefused
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.planes.records import RUNTIME_RECORDS
from elytron_core.planes.space import PrincipalKind
from elytron_core.ports.store import DocumentRef, Store
from elytron_store.gateway import wire
from elytron_store.gateway.wire import ANSWERS, HEALTH_ANSWERS, Handler, PortRoute, SpaceWall, WireValue
from elytron_store.sealed.records import KEYRING, SHARED
from elytron_store.secret.records import SEAT

_GROUP = "shared store"
_TRANSPORT = "store"
_CLOSED = frozenset({RUNTIME_RECORDS, SEAT.collection})
"""Collections that no caller of the port writes."""


def store_surfaces(entrance: CallerEntrance, /) -> Iterable[Surface]:
    """Return the family of the port's routes."""
    context = entrance.dispatcher.runtime.context
    store, removable = context.store, partial(every_copy, context)

    async def put_blob(request: Request) -> Response:
        space, key = _named_blob(request)
        sent = body_pieces(request.scope, request.receive, limit=limits.BLOB_BYTES)
        return _json_response(wire.BlobAnswer(size=await store.write_blob(space, key, sent)))

    async def get_blob(request: Request) -> Response:
        chunks = store.read_blob(*_named_blob(request))
        # The first chunk is read before anything is answered, so that what is missing is said in the status.
        first = await anext(chunks, None)
        return StreamingResponse(
            _framed_blob(first, chunks, request_id=request_id_of(request.scope)), media_type=wire.FRAMES
        )

    octets = "application/octet-stream"
    surfaces = (
        *(_route_surface(store, route, handler, SurfaceAccess.MEMBER, removable) for route, handler in ANSWERS),
        *(
            _route_surface(store, route, handler, SurfaceAccess.OPERATOR, removable)
            for route, handler in HEALTH_ANSWERS
        ),
        shown_surface(
            wire.BLOBS, put_blob, access=SurfaceAccess.MEMBER, methods=("PUT",),
            told=SurfaceDescription("store_write_blob", "Replace a blob.", octets, wire.BlobAnswer,
                                   query=("space", "key"),
                      group=_GROUP),
        ),
        shown_surface(
            wire.BLOBS, get_blob, access=SurfaceAccess.MEMBER, methods=("GET",),
            told=SurfaceDescription("store_read_blob", "Read a blob.", None, wire.FRAMES, query=("space", "key"),
                      group=_GROUP),
        ),
    )  # fmt: skip
    return tuple(replace(surface, transport=_TRANSPORT) for surface in surfaces)


def _route_surface(
    store: Store,
    route: PortRoute[Any],
    handler: Handler,
    access: SurfaceAccess,
    removable: Callable[[SpaceId], Awaitable[tuple[DocumentRef, ...]]],
) -> Surface:
    async def answered(request: Request) -> Response:
        require_json(request.headers)
        sent = await read_body(request.scope, request.receive, limit=limits.HTTP_STORE_BODY_BYTES)
        try:
            call = route.taken.model_validate_json(sent)
        except ValidationError:
            raise InvalidJson(problem="is no call of the store port") from None
        principal = principal_of(request.scope)
        wall = SpaceWall(
            principal.space, partial(_own_space, principal), frozenset({RUNTIME_RECORDS, SEAT.collection}), removable
        )
        return _json_response(await handler(store, wall, call))

    told = SurfaceDescription(
        f"store_{route.name}", f"The store port's {route.name}.", route.taken, route.given, group=_GROUP
    )
    return shown_surface(route.path, answered, access=access, methods=("POST",), told=told)


def _own_space(principal: Principal, space: str) -> SpaceId:
    """Return `space`. Raises PermissionRefused unless the principal may use it, alike for every reason."""
    is_operator = principal.kind in OPERATORS
    may = is_operator or (principal.kind is PrincipalKind.USER and principal.space == space)
    # A store that its operator seals from elsewhere keeps the keys of its spaces in one of their own.
    if not may or (is_reserved(space) and not (is_operator and space in {KEYRING, SHARED})):
        raise PermissionRefused("this key opens another space")
    return SpaceId(space)


def _named_blob(request: Request) -> tuple[SpaceId, str]:
    """Return the space and key of a blob."""
    query = request.query_params
    return _own_space(principal_of(request.scope), query.get("space", "")), query.get("key", "")


def _json_response(answer: WireValue) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


async def _framed_blob(first: bytes | None, rest: AsyncIterator[bytes], *, request_id: str) -> AsyncIterator[bytes]:
    """Yield a blob in frames: its chunks, and its end or what went wrong on the way."""
    if first is not None:
        yield wire.encode_frame(wire.CHUNK, first)
    try:
        async for chunk in rest:
            yield wire.encode_frame(wire.CHUNK, chunk)
    except ElytronError as error:
        told = problem_document(reject_error(error, request_id=request_id))
        yield wire.encode_frame(wire.PROBLEM, told.model_dump_json().encode())
        return
    yield wire.encode_frame(wire.END)
