"""MCP over stdio for one user of this machine, and as an application of a server for callers with a key."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from elytron.runtime import MemoryRuntime
from elytron_adapter.dispatch import CallerEntrance, OperationDispatcher
from elytron_adapter.envelope import AuthKind, CallTransport
from elytron_adapter.identity.access_keys import DevelopmentCallers, Principal
from elytron_adapter.surface import Family, JsonBody, Surface, SurfaceAccess, SurfaceDescription
from elytron_core.errors import MissingExtra
from elytron_core.planes.space import PrincipalKind
from elytron_mcp_shell.stdio import require_message
from elytron_mcp_shell.tools.tool_sets import DEFAULT_SETS, ToolSet

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as AsgiScope


def mcp_server(
    memory: MemoryRuntime,
    /,
    *,
    sets: frozenset[ToolSet] = DEFAULT_SETS,
    is_operator: bool = False,
    is_private: bool = False,
) -> "Server[Any]":
    """Return the SDK's server over `memory` for one local user: one space, and with `is_operator` the machine's too.

    With `is_private`, the model may ask for private memories.

    Raises MissingExtra without the extra "mcp".
    """
    kind = PrincipalKind.OPERATOR if is_operator else PrincipalKind.USER
    space = memory.scope.space if memory.scope is not None and not is_operator else None
    local = Principal("local", kind, space)
    entrance = CallerEntrance(OperationDispatcher(memory), authenticator=DevelopmentCallers())
    return _entrance_shell(
        entrance, sets=sets, who=_same_principal(local), kind=AuthKind.LOCAL, is_private=is_private
    ).server()


async def serve_stdio(
    memory: MemoryRuntime,
    /,
    *,
    sets: frozenset[ToolSet] = DEFAULT_SETS,
    is_operator: bool = False,
    is_private: bool = False,
) -> None:
    """Answer on stdin and stdout until the host hangs up or a signal ends it; only the protocol is printed."""
    server = mcp_server(memory, sets=sets, is_operator=is_operator, is_private=is_private)
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage

    from elytron_mcp_shell.stdio import InputLines, as_file, at_signals, own_stdin

    with own_stdin() as source:
        lines = InputLines(source, limit=memory.context.profile.budget.http_body_bytes)
        with at_signals(lines.end):
            async with stdio_server(as_file(lines)) as (reading, writing):
                lines.refuse = lambda error: writing.send(SessionMessage(error))
                await server.run(reading, writing, server.create_initialization_options())


@dataclass(frozen=True, slots=True)
class McpApp:
    """MCP over streamable HTTP as an ASGI application. `running` is entered while it is served."""

    app: "ASGIApp"
    running: Callable[[], AbstractAsyncContextManager[None]]


def mcp_app(
    entrance: CallerEntrance, /, *, sets: frozenset[ToolSet] = DEFAULT_SETS, is_private: bool = False
) -> McpApp:
    """Return the application that answers from `entrance`, each caller as the principal in the scope's state.

    Host and origin are for the server around it to judge. No session is kept: each call proves who makes it. Raises
    MissingExtra without the extra "mcp".
    """
    shell = _entrance_shell(entrance, sets=sets, who=_context_principal, kind=AuthKind.BEARER, is_private=is_private)
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(app=shell.server(), stateless=True, json_response=True)

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        async with manager.run():
            yield

    return McpApp(StreamableHTTPASGIApp(manager), running)


def _entrance_shell(
    entrance: CallerEntrance, *, sets: frozenset[ToolSet], who: Any, kind: AuthKind, is_private: bool
) -> Any:
    try:
        from elytron_mcp_shell.server import McpShell
    except ImportError as error:
        raise MissingExtra(extra="mcp", purpose="the MCP server") from error
    return McpShell(entrance, sets=sets, who=who, kind=kind, is_private=is_private)


def _same_principal(principal: Principal) -> Callable[[Any], Principal]:
    return lambda _context: principal


def _context_principal(context: Any) -> Principal:
    principal = context.request.scope["state"]["principal"]
    assert isinstance(principal, Principal)
    return principal


_PATH: Final = "/mcp"
_JSON: Final = "application/json"
_TOLD: Final = SurfaceDescription(
    "mcp",
    "Speak MCP over streamable HTTP.",
    _JSON,
    _JSON,
    answer="The protocol's answer.",
    group="protocols",
    beside=(202, 400, 406),
)


class LateMcpApp:
    """MCP over streamable HTTP, whose SDK is loaded by its first request: without it, a server listens sooner."""

    def __init__(self, build: Callable[[], McpApp], /) -> None:
        self._build = build
        self._is_wanted: asyncio.Event | None = None
        self._opened: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: "AsgiScope", receive: "Receive", send: "Send") -> None:
        assert self._is_wanted is not None
        assert self._opened is not None
        self._is_wanted.set()
        app = await asyncio.shield(self._opened)
        await app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer until the block ends."""
        wanted, over = asyncio.Event(), asyncio.Event()
        opened: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        self._is_wanted, self._opened = wanted, opened
        # The SDK's task group begins and ends in one task, which is no request's.
        keeper = asyncio.create_task(self._keep(wanted, opened, over))
        keeper.add_done_callback(lambda _: opened.cancel())
        try:
            yield
        finally:
            over.set()
            wanted.set()
            await keeper

    async def _keep(self, wanted: asyncio.Event, opened: "asyncio.Future[ASGIApp]", over: asyncio.Event) -> None:
        await wanted.wait()
        if over.is_set():
            return
        for name in ("elytron_mcp_shell.server", "mcp.server.streamable_http_manager"):
            await asyncio.to_thread(import_module, name)
        served = self._build()
        async with served.running():
            opened.set_result(served.app)
            await over.wait()


def mcp_surfaces(sets: frozenset[ToolSet] = DEFAULT_SETS, /, *, is_private: bool = False) -> Family:
    """Return the family that speaks MCP over streamable HTTP, with the tools of `sets`.

    It raises MissingExtra without the extra "mcp".
    """

    def family(entrance: CallerEntrance) -> Iterable[Surface]:
        if find_spec("mcp") is None:
            raise MissingExtra(extra="mcp", purpose="the MCP server")
        served = LateMcpApp(lambda: mcp_app(entrance, sets=sets, is_private=is_private))
        body = JsonBody(entrance.dispatcher.runtime.context.profile.budget.http_body_bytes, require_message)
        # No session is kept: there is none to listen to (GET) or to end (DELETE), and the protocol lets both be 405.
        return (
            Surface(
                _PATH,
                served,
                SurfaceAccess.MEMBER,
                ("POST",),
                running=served.running,
                told=_TOLD,
                body=body,
                transport=CallTransport.MCP.value,
            ),
        )

    return family
