"""Surfaces: what a package serves at a path, who may call it, and which bodies it accepts.

A surface names no web framework: its application speaks ASGI, and the server that mounts it provides the rest.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from elytron_adapter.dispatch import CallerAdmission
from elytron_core.model import Value
from elytron_core.strict_json import Json

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
"""An application of ASGI: it is given a scope, and calls to receive and send messages."""


class SurfaceAccess(StrEnum):
    """Access to a surface."""

    PUBLIC = "public"
    """Every caller: nothing of a memory is shown."""
    SIGNED = "signed"
    """The signer of the body; the handler checks that."""
    CREDENTIALS = "credentials"
    """A caller whose name and key are in the request itself; the handler checks that."""
    MEMBER = "member"
    """Every principal; the operation decides what it may do there."""
    OWNER = "owner"
    """Every principal but devices, which take nothing away in bulk."""
    OPERATOR = "operator"
    """Operators, and the developer of a server in development mode."""


@dataclass(frozen=True, slots=True)
class SurfaceDescription:
    """OpenAPI description of a surface. `taken` and `given` are models, or media types of bytes.

    `group` is its tag, under which pages list it; `status` what it answers when all went well; `beside` are
    statuses that a protocol's own library answers in its own way.
    """

    name: str
    summary: str
    taken: type[Value] | str | None = None
    given: type[Value] | str | None = None
    headers: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    answer: str = "Done."
    group: str = "server"
    status: int = 200
    beside: tuple[int, ...] = ()


class SurfaceProtocol(StrEnum):
    """Protocol of a surface."""

    HTTP = "http"
    WEBSOCKET = "websocket"
    MOUNT = "mount"
    """Every path below its own, over HTTP or WebSocket, is the mounted application's."""


class SurfaceFigure(Protocol):
    """One figure that a surface brings. A histogram has cumulative `buckets`, and its sum as `value`."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def buckets(self) -> tuple[tuple[str, float], ...]:
        """Return the upper bound of each bucket as text, with the count up to it; nothing if it is no histogram."""
        ...


Figures = Callable[[], Iterable[SurfaceFigure]]
"""Gives the figures as they are now."""


@dataclass(frozen=True, slots=True)
class JsonBody:
    """Bodies of strict JSON alone, whole, in time, within `limit` bytes, as `require` has them.

    For protocols whose libraries bound none of that, or repeat what they could not read.
    """

    limit: int
    require: Callable[[Json], None]


async def bearer_token(headers: Mapping[str, str], /) -> str | None:
    """Return the `Authorization` header."""
    return headers.get("authorization")


@dataclass(frozen=True, slots=True)
class Surface:
    """Something that the server shows: an ASGI application at a path, and who is let in to it.

    `running` is entered when the server starts and left when it ends. `credential`
    finds the caller's credential: an `Authorization` header, or its replacement.
    """

    path: str
    app: AsgiApp
    access: SurfaceAccess
    methods: tuple[str, ...] = ()
    kind: SurfaceProtocol = SurfaceProtocol.HTTP
    running: Callable[[], AbstractAsyncContextManager[None]] | None = None
    credential: Callable[[Mapping[str, str]], Awaitable[str | None]] = bearer_token
    told: SurfaceDescription | None = None
    """OpenAPI description of an HTTP surface; sockets and mounts describe themselves."""
    body: JsonBody | None = None
    """Rule for bodies that the application gets; it reads them itself if there is none."""
    is_repeatable: bool = False
    """True if a second call changes nothing more: an idempotency key is harmless then."""
    figures: Figures | None = None
    """Metrics of it at `/metrics`, beside the server's own."""
    transport: str | None = None
    """The transport that it belongs to, which an operator may switch off; None: it always answers."""


Family = Callable[[CallerAdmission], Iterable[Surface]]
"""Gives the surfaces of one package for the server's way in."""
