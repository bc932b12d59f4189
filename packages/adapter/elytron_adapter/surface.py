"""Routes: how a package declares what it serves over HTTP, and the surfaces that a server makes of them.

A surface names no web framework: its application speaks ASGI, and the server that mounts it provides the rest.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

from elytron_adapter.dispatch import CallerAdmission
from elytron_core.model import Value

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
"""An application of ASGI: it is given a scope, and calls to receive and send messages."""

HandlerT = TypeVar("HandlerT")
HandlerT_co = TypeVar("HandlerT_co", covariant=True)


class SurfaceAccess(StrEnum):
    """Access to a surface."""

    PUBLIC = "public"
    """Every caller: no memory content is shown."""
    SIGNED = "signed"
    """The signer of the body; the handler verifies that."""
    CREDENTIALS = "credentials"
    """A caller whose name and key are in the request itself; the handler verifies that."""
    MEMBER = "member"
    """Every principal; the operation decides what it may do."""
    OWNER = "owner"
    """Every principal except devices, which export nothing in bulk."""
    OPERATOR = "operator"
    """Operators, and the developer of a server in development mode."""


class SurfaceProtocol(StrEnum):
    """Protocol of a route."""

    HTTP = "http"
    WEBSOCKET = "websocket"
    MOUNT = "mount"
    """Every path below its own, over HTTP or WebSocket, belongs to the mounted application."""


@dataclass(frozen=True, slots=True)
class Route(Generic[HandlerT_co]):
    """One route of a server: how it is called, what answers it, and its OpenAPI description.

    `request` and `answer` are models, or media types of bytes. What a `handler` takes is defined by the package that
    declares the route, when it builds the surfaces (`build_surfaces`).
    """

    method: str
    path: str
    handler: HandlerT_co
    name: str
    summary: str
    request: type[Value] | str | None = None
    answer: type[Value] | str | None = None
    access: SurfaceAccess = SurfaceAccess.MEMBER
    headers: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    outcome: str = "Done."
    """Description of a successful answer."""
    group: str = "server"
    """Its tag, under which pages list it."""
    status: int = 200
    """Status of a successful request."""
    other_statuses: tuple[int, ...] = ()
    """Statuses that a protocol's own library answers itself."""
    is_repeatable: bool = False
    """True if a second call changes nothing more, so that an idempotency key is harmless."""
    protocol: SurfaceProtocol = SurfaceProtocol.HTTP
    """A socket or a mount describes itself: only the path, the access and the handler of its row count."""


class SurfaceFigure(NamedTuple):
    """One metric of a surface. A histogram has its sum as `value`."""

    name: str
    text: str
    value: float
    buckets: tuple[tuple[str, float], ...] = ()
    """The upper bound of each bucket as text, with the count up to it; empty if it is no histogram."""


class ValueHistogram:
    """Counts of values by the smallest of `bounds` that each reaches at most, and their sum."""

    def __init__(self, bounds: Sequence[float], /) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, value: float, /) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def figure(self, name: str, text: str, /) -> SurfaceFigure:
        """Return the current metric."""
        buckets = zip((*map(str, self._bounds), "+Inf"), accumulate(self._counts), strict=True)
        return SurfaceFigure(name, text, self._total, tuple(buckets))


Figures = Callable[[], Iterable[SurfaceFigure]]
"""Returns the current metrics."""
CredentialFinder = Callable[[Mapping[str, str]], Awaitable[str | None]]
"""Finds the caller's credential in a request's headers."""


async def bearer_token(headers: Mapping[str, str], /) -> str | None:
    """Return the `Authorization` header."""
    return headers.get("authorization")


@dataclass(frozen=True, slots=True)
class Surface:
    """A route with the ASGI application that serves it, as the server exposes it.

    `running` is entered when the server starts and left when it ends. `credential` finds the caller's credential: an
    `Authorization` header, or its replacement.
    """

    route: Route[Any]
    app: AsgiApp
    running: Callable[[], AbstractAsyncContextManager[None]] | None = None
    credential: CredentialFinder = bearer_token
    figures: Figures | None = None
    """Its metrics at `/metrics`, in addition to the server's own."""
    transport: str | None = None
    """The transport that it belongs to, which an operator may disable; None: it always answers."""
    metadata: Callable[[MutableMapping[str, Any]], str] | None = None
    """Address of the resource metadata (RFC 9728) sent to a caller without a valid key."""


Family = Callable[[CallerAdmission], Iterable[Surface]]
"""Returns the surfaces of one package for the server's entrance."""


def own_app(route: Route[AsgiApp], /) -> AsgiApp:
    """Return the handler of a route whose handler is an ASGI application."""
    return route.handler


def build_surfaces(
    routes: Iterable[Route[HandlerT]],
    app_of: Callable[[Route[HandlerT]], AsgiApp],
    /,
    *,
    group: str | None = None,
    transport: str | None = None,
    credential: CredentialFinder = bearer_token,
    running: Callable[[], AbstractAsyncContextManager[None]] | None = None,
    figures: Figures | None = None,
) -> tuple[Surface, ...]:
    """Return the surfaces of `routes`, at least one, each served by the result of `app_of` for its route.

    `group` is the tag of all of them, in place of their own. `running` and `figures` belong to all of them; the first
    surface brings them.
    """
    first, *others = (
        Surface(
            route if group is None else replace(route, group=group),
            app_of(route),
            credential=credential,
            transport=transport,
        )
        for route in routes
    )
    return (replace(first, running=running, figures=figures), *others)
