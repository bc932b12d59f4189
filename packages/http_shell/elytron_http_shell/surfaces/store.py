"""The store port as routes, for runtimes elsewhere that keep their memory here. Mounted only if asked for.

A user reaches its own space alone, an operator every space but the server's own. Documents written here have
passed the rules of the runtime that wrote it, not those of this one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elytron_adapter.entry import Entrance
from elytron_adapter.failures import rejection
from elytron_adapter.identity.principals import Principal, PrincipalKind
from elytron_adapter.surface import Access, Surface, Told
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidJson, PermissionRefused
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.ports.store import Store
from elytron_http_shell.doors import principal_of, request_id_of, shown
from elytron_http_shell.problems import problem
from elytron_http_shell.request.bodies import body, pieces, require_json
from elytron_store.gateway import wire
from elytron_store.gateway.wire import Route, Wire

WireT = TypeVar("WireT", bound=Wire)
Handler = Callable[[Store, Principal, Any], Awaitable[Wire]]
_GROUP = "shared store"
_OPERATORS = frozenset({PrincipalKind.OPERATOR, PrincipalKind.DEVELOPER})


def store_surfaces(entrance: Entrance, /) -> Iterable[Surface]:
    """Return the family of the port's routes."""
    store = entrance.dispatcher.runtime.context.store

    async def put_blob(request: Request) -> Response:
        space, key = _own(principal_of(request.scope), request.query_params.get("space", "")), _key(request)
        sent = pieces(request.scope, request.receive, limit=limits.BLOB_BYTES)
        return _json(wire.BlobAnswer(size=await store.write_blob(space, key, sent)))

    async def get_blob(request: Request) -> Response:
        space, key = _own(principal_of(request.scope), request.query_params.get("space", "")), _key(request)
        chunks = store.read_blob(space, key)
        # The first chunk is read before anything is answered, so that what is missing is said in the status.
        first = await anext(chunks, None)
        return StreamingResponse(
            _framed(first, chunks, request_id=request_id_of(request.scope)), media_type=wire.FRAMES
        )

    routes: tuple[tuple[Route[Any], Handler, Access], ...] = (
        (wire.COMMIT, _commit, Access.MEMBER),
        (wire.GET, _get, Access.MEMBER),
        (wire.SCAN, _scan, Access.MEMBER),
        (wire.JOURNAL, _journal, Access.MEMBER),
        (wire.COMPACT, _compact, Access.MEMBER),
        (wire.SPACES, _spaces, Access.MEMBER),
        (wire.ERASE, _erase, Access.MEMBER),
        (wire.CHECK, _check, Access.OPERATOR),
        (wire.REPAIR, _repair, Access.OPERATOR),
    )
    octets = "application/octet-stream"
    return (
        *(_surface(store, route, handler, access) for route, handler, access in routes),
        shown(
            wire.BLOBS, put_blob, access=Access.MEMBER, methods=("PUT",),
            told=Told("store_write_blob", "Replace a blob.", octets, wire.BlobAnswer, query=("space", "key"),
                      group=_GROUP),
        ),
        shown(
            wire.BLOBS, get_blob, access=Access.MEMBER, methods=("GET",),
            told=Told("store_read_blob", "Read a blob.", None, wire.FRAMES, query=("space", "key"),
                      group=_GROUP),
        ),
    )  # fmt: skip


def _surface(store: Store, route: Route[Any], handler: Handler, access: Access) -> Surface:
    async def answered(request: Request) -> Response:
        require_json(request.headers)
        call = _read(route.taken, await body(request.scope, request.receive, limit=limits.HTTP_STORE_BODY_BYTES))
        return _json(await handler(store, principal_of(request.scope), call))

    told = Told(f"store_{route.name}", f"The store port's {route.name}.", route.taken, route.given, group=_GROUP)
    return shown(route.path, answered, access=access, methods=("POST",), told=told)


async def _commit(store: Store, principal: Principal, call: wire.CommitCall) -> Wire:
    _own(principal, call.batch.space)
    return wire.CommitAnswer(committed=await store.commit(call.batch))


async def _get(store: Store, principal: Principal, call: wire.GetCall) -> Wire:
    return wire.GetAnswer(documents=tuple(await store.get(_own(principal, call.space), call.refs)))


async def _scan(store: Store, principal: Principal, call: wire.ScanCall) -> Wire:
    documents = await store.scan(
        _own(principal, call.space),
        call.collection,
        prefix=call.prefix,
        after=call.after,
        limit=call.limit,
        descending=call.descending,
    )
    return wire.ScanAnswer(documents=tuple(documents))


async def _journal(store: Store, principal: Principal, call: wire.JournalCall) -> Wire:
    entries = await store.journal(_own(principal, call.space), after=call.after, limit=call.limit)
    return wire.JournalAnswer(entries=tuple(entries))


async def _compact(store: Store, principal: Principal, call: wire.CompactCall) -> Wire:
    return wire.CompactAnswer(entries=await store.compact(_own(principal, call.space), call.runs))


async def _spaces(store: Store, principal: Principal, call: wire.SpacesCall) -> Wire:
    if principal.space is None:
        found = await store.spaces(after=call.after, limit=call.limit)
        return wire.SpacesAnswer(spaces=tuple(space for space in found if not is_reserved(space)))
    holds = call.after == "" and bool(await store.journal(principal.space, after=0, limit=1))
    return wire.SpacesAnswer(spaces=(principal.space,) if holds else ())


async def _erase(store: Store, principal: Principal, call: wire.EraseCall) -> Wire:
    _own(principal, call.erasure.space)
    return wire.EraseAnswer(erased=await store.erase(call.erasure))


async def _check(store: Store, _principal: Principal, _call: wire.HealthCall) -> Wire:
    return wire.HealthAnswer(report=await store.check())


async def _repair(store: Store, _principal: Principal, _call: wire.HealthCall) -> Wire:
    return wire.HealthAnswer(report=await store.repair())


def _own(principal: Principal, space: str) -> SpaceId:
    """Return `space`. Raises PermissionRefused unless the principal may use it, alike for every reason."""
    may = principal.kind in _OPERATORS or (principal.kind is PrincipalKind.USER and principal.space == space)
    if not may or is_reserved(space):
        raise PermissionRefused("this key opens another space")
    return SpaceId(space)


def _key(request: Request) -> str:
    return request.query_params.get("key", "")


def _read(model: type[WireT], data: bytes) -> WireT:
    try:
        return model.model_validate_json(data)
    except ValidationError:
        raise InvalidJson(problem="is no call of the store port") from None


def _json(answer: Wire) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


async def _framed(first: bytes | None, rest: AsyncIterator[bytes], *, request_id: str) -> AsyncIterator[bytes]:
    """Yield a blob in frames: its chunks, and its end or what went wrong on the way."""
    if first is not None:
        yield wire.frame(wire.CHUNK, first)
    try:
        async for chunk in rest:
            yield wire.frame(wire.CHUNK, chunk)
    except ElytronError as error:
        told = problem(rejection(error, request_id=request_id))
        yield wire.frame(wire.PROBLEM, told.model_dump_json().encode())
        return
    yield wire.frame(wire.END)
