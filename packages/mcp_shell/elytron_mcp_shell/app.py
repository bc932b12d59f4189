"""MCP over HTTP for holders of access keys."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from elytron_adapter.access_keys import Principal
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import AuthKind, CallTransport
from elytron_adapter.surface import Family, Route, Surface, SurfaceAccess, build_surfaces, own_app
from elytron_core.errors import InvalidInput, MissingExtra
from elytron_core.strict_json import Json
from elytron_mcp_shell.tools import DEFAULT_SETS, ToolSet

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as AsgiScope


def require_message(message: Json, /) -> None:
    """Raise InvalidInput for an invalid JSON-RPC message, which the SDK would answer by repeating it."""
    from mcp_types import jsonrpc_message_adapter

    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        raise InvalidInput(field="body", problem="is not a JSON-RPC message") from None


@dataclass(frozen=True, slots=True)
class McpApp:
    """MCP over streamable HTTP as an ASGI application. `running` is entered while it is served."""

    app: "ASGIApp"
    running: Callable[[], AbstractAsyncContextManager[None]]


def mcp_app(
    admission: CallerAdmission, /, *, sets: frozenset[ToolSet] = DEFAULT_SETS, is_private: bool = False
) -> McpApp:
    """Return the application that answers from `admission`, each caller as the principal in the scope's state.

    Host and origin are for the server around it to judge. No session is kept: each call proves who makes it. Raises
    MissingExtra without the extra "mcp".
    """
    shell = admission_shell(admission, sets=sets, who=_context_principal, kind=AuthKind.BEARER, is_private=is_private)
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(app=shell.server(), stateless=True, json_response=True)

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        async with manager.run():
            yield

    return McpApp(StreamableHTTPASGIApp(manager), running)


def admission_shell(
    admission: CallerAdmission, *, sets: frozenset[ToolSet], who: Any, kind: AuthKind, is_private: bool
) -> Any:
    """Return the MCP server over `admission`. Raises MissingExtra without the SDK."""
    try:
        from elytron_mcp_shell.server import McpShell
    except ImportError as error:
        raise MissingExtra(extra="mcp", purpose="the MCP server") from error
    return McpShell(admission, sets=sets, who=who, kind=kind, is_private=is_private)


def same_principal(principal: Principal, /) -> Callable[[Any], Principal]:
    """Return a function that returns `principal` for every request."""
    return lambda _context: principal


def _context_principal(context: Any) -> Principal:
    principal = context.request.scope["state"]["principal"]
    assert isinstance(principal, Principal)
    return principal


_PATH: Final = "/mcp"
_JSON: Final = "application/json"


class LateMcpApp:
    """MCP over streamable HTTP, loading the SDK on first request so that a server listens sooner."""

    def __init__(self, build: Callable[[], McpApp], /) -> None:
        self._build = build
        self._is_wanted: asyncio.Event | None = None
        self._opened: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: "AsgiScope", receive: "Receive", send: "Send") -> None:
        assert self._is_wanted is not None
        assert self._opened is not None
        self._is_wanted.set()
        # A cancelled request must not cancel the loading that others wait for.
        app = await asyncio.shield(self._opened)
        await app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer until the block ends."""
        first_request, end_event = asyncio.Event(), asyncio.Event()
        app_future: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        self._is_wanted, self._opened = first_request, app_future
        # The SDK's task group begins and ends in one task, which is no request's.
        app_task = asyncio.create_task(self._keep(first_request, app_future, end_event))
        app_task.add_done_callback(lambda _: app_future.cancel())
        try:
            yield
        finally:
            # Both are set, so that a keeper that no request has woken ends too.
            end_event.set()
            first_request.set()
            await app_task

    async def _keep(
        self, first_request: asyncio.Event, app_future: "asyncio.Future[ASGIApp]", end_event: asyncio.Event
    ) -> None:
        await first_request.wait()
        if end_event.is_set():
            return
        # These imports take long and would block the loop.
        for name in ("elytron_mcp_shell.server", "mcp.server.streamable_http_manager"):
            await asyncio.to_thread(import_module, name)
        mcp_application = self._build()
        async with mcp_application.running():
            app_future.set_result(mcp_application.app)
            await end_event.wait()


_METADATA: Final = "/.well-known/oauth-protected-resource"


def mcp_surfaces(
    sets: frozenset[ToolSet] = DEFAULT_SETS,
    /,
    *,
    is_private: bool = False,
    issuers: tuple[str, ...] = (),
    public_url: str | None = None,
) -> Family:
    """Return the family that speaks MCP over streamable HTTP, with the tools of `sets`.

    With `issuers`, callers without a valid key learn where to sign in. Without, they are told nothing of it, since
    hosts that have a key would open a browser. It raises MissingExtra without the extra "mcp".

    Raises InvalidInput for an issuer that is no address.
    """
    for issuer in issuers:
        issuer_parts = urlsplit(issuer)
        if (
            issuer_parts.scheme not in {"http", "https"}
            or not issuer_parts.hostname
            or not issuer.isascii()
            or '"' in issuer
        ):
            raise InvalidInput(field="--mcp-issuer", problem="is not an https:// or http:// address")

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        if find_spec("mcp") is None:
            raise MissingExtra(extra="mcp", purpose="the MCP server")
        from elytron_adapter.http.requests import strict_json_app  # Starlette is only installed with a server

        late_app = LateMcpApp(lambda: mcp_app(admission, sets=sets, is_private=is_private))
        limit = admission.dispatcher.runtime.context.profile.budget.http_body_bytes
        # No session exists: there is none to listen to (GET) or to end (DELETE), and the protocol allows 405 for both.
        route = Route(
            "POST", _PATH, strict_json_app(late_app, limit=limit, require=require_message), "mcp",
            "Send an MCP message over streamable HTTP.", _JSON, _JSON, outcome="The protocol's response.",
            group="protocols", other_statuses=(202, 400, 406),
        )  # fmt: skip
        (surface,) = build_surfaces((route,), own_app, transport=CallTransport.MCP.value, running=late_app.running)
        if issuers:
            surface = replace(surface, metadata=partial(_metadata_address, public_url))
        return (surface, *_metadata_surfaces(issuers, public_url))

    return family


def _metadata_surfaces(issuers: tuple[str, ...], public_url: str | None) -> Iterable[Surface]:
    """Return the surfaces for the metadata at both places where clients look; none without issuers."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    from elytron_adapter.http.responses import request_app

    async def show_metadata(request: Request) -> Response:
        return JSONResponse(
            {
                "resource": f"{_origin_of(request.scope, public_url)}{_PATH}",
                "authorization_servers": list(issuers),
                "bearer_methods_supported": ["header"],
                "resource_name": "Elytron",
            }
        )

    route = Route(
        "GET", _METADATA, show_metadata, "mcp_resource_metadata", "Show where clients sign in (RFC 9728).",
        answer=_JSON, access=SurfaceAccess.PUBLIC, outcome="The metadata.", group="protocols",
    )  # fmt: skip
    return build_surfaces((route, replace(route, path=f"{_METADATA}{_PATH}")), request_app) if issuers else ()


def _metadata_address(public_url: str | None, scope: MutableMapping[str, Any]) -> str:
    return f"{_origin_of(scope, public_url)}{_METADATA}{_PATH}"


def _origin_of(scope: MutableMapping[str, Any], public_url: str | None) -> str:
    """Return the address of the server as its callers know it."""
    if public_url is not None:
        return public_url.rstrip("/")
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return f"{scope['scheme']}://{host}"
