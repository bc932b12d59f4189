"""What stands at a path, and who is let in to it. A path without a declared access is a fault at start."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute, request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from elytron_adapter.entry import Entrance
from elytron_adapter.failures import rejection
from elytron_adapter.principals import Principal, PrincipalKind
from elytron_core.errors import ElytronError, PermissionRefused
from elytron_http_shell.responses import turn_away

_OPERATORS = frozenset({PrincipalKind.OPERATOR, PrincipalKind.DEVELOPER})


class Access(StrEnum):
    """Who is let in."""

    PUBLIC = "public"
    """Anybody: it tells nothing of a memory."""
    SIGNED = "signed"
    """Whoever signed the body; the handler checks that."""
    MEMBER = "member"
    """Every principal; what he may do there is the operation's to say."""
    OPERATOR = "operator"
    """Operators, and the developer of a server in development mode."""


class Kind(StrEnum):
    """How a surface is reached."""

    HTTP = "http"
    WEBSOCKET = "websocket"
    MOUNT = "mount"
    """Every path below its own, over HTTP or WebSocket, is the mounted application's."""


@dataclass(frozen=True, slots=True)
class Surface:
    """Something that the server shows: an ASGI application at a path, and who is let in to it.

    `running` is entered when the server starts and left when it ends, for what needs a life of its own.
    """

    path: str
    app: ASGIApp
    access: Access
    methods: tuple[str, ...] = ()
    kind: Kind = Kind.HTTP
    running: Callable[[], AbstractAsyncContextManager[None]] | None = None


def shown(path: str, handler: Callable[[Request], object], /, *, access: Access, methods: tuple[str, ...]) -> Surface:
    """Return the surface at `path` that answers as the Starlette `handler` does."""
    return Surface(path, request_response(handler), access, methods)  # pyright: ignore[reportArgumentType]


def route(surface: Surface, entrance: Entrance, /) -> BaseRoute:
    """Return the route to `surface`, with its door before it."""
    door = Door(surface.app, entrance=entrance, access=surface.access)
    match surface.kind:
        case Kind.HTTP:
            return Route(surface.path, door, methods=list(surface.methods))
        case Kind.WEBSOCKET:
            return WebSocketRoute(surface.path, door)
        case Kind.MOUNT:
            return Mount(surface.path, door)


class Door:
    """Lets a request on with its principal, or turns it away before anything of it is read."""

    def __init__(self, app: ASGIApp, /, *, entrance: Entrance, access: Access) -> None:
        self._app = app
        self._entrance = entrance
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.access in {Access.MEMBER, Access.OPERATOR}:
            try:
                scope["state"]["principal"] = await self._admitted(scope)
            except ElytronError as error:
                told = rejection(error, request_id=request_id_of(scope))
                await turn_away(told, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _admitted(self, scope: Scope) -> Principal:
        principal = await self._entrance.authenticate(Headers(scope=scope).get("authorization"))
        if self.access is Access.OPERATOR and principal.kind not in _OPERATORS:
            raise PermissionRefused("this is an operator's: use an operator's key")
        return principal


def principal_of(scope: Scope, /) -> Principal:
    """Return who was let in."""
    principal = scope["state"]["principal"]
    assert isinstance(principal, Principal)
    return principal


def request_id_of(scope: Scope, /) -> str:
    """Return the id that the answer bears, and the log."""
    request_id = scope["state"]["request_id"]
    assert isinstance(request_id, str)
    return request_id
