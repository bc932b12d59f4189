"""MCP over stdio for one local user, read strictly, and over HTTP for holders of access keys."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import ValidationError

from elytron.runtime import MemoryRuntime
from elytron_adapter.access_keys import DevelopmentCallers, Principal
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.envelope import AuthKind, CallTransport
from elytron_adapter.surface import Family, Route, Surface, SurfaceAccess, build_surfaces, own_app
from elytron_core import strict_json
from elytron_core.errors import ElytronError, InvalidInput, InvalidJson, MissingExtra
from elytron_core.planes.space import PrincipalKind
from elytron_core.strict_json import Json
from elytron_mcp_shell.tools import DEFAULT_SETS, ToolSet

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server import Server
    from mcp.shared._stream_protocols import WriteStream
    from mcp.shared.message import SessionMessage
    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as AsgiScope


def require_message(message: Json, /) -> None:
    """Raise InvalidInput for an invalid JSON-RPC message, which the SDK would answer by repeating it."""
    from mcp_types import jsonrpc_message_adapter

    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        raise InvalidInput(field="body", problem="is not a JSON-RPC message") from None


Refuse = Callable[["types.JSONRPCError"], Awaitable[None]]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ANSWERS_S = 60.0
"""Time for the answers to calls that came before the end of the input."""


class InputLines:
    """The messages from `source`, until it ends or `end` is called; `refuse`, once set, answers invalid ones.

    The SDK leaves unanswered what it cannot read, and its host waits. It also drops running calls when the input ends,
    so it learns of the end only when all calls were answered. `source` is read by a thread that is not joined, because
    a read without input cannot be cancelled otherwise.
    """

    def __init__(self, source: BinaryIO, /, *, limit: int) -> None:
        self.refuse: Refuse | None = None
        self._source = source
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._read_requests: SimpleQueue[None] = SimpleQueue()
        self._next: asyncio.Future[bytes] = self._loop.create_future()
        self._is_ended = False
        self._calls: set[types.RequestId] = set()
        self._answered = asyncio.Event()
        threading.Thread(target=self._read, name="elytron stdin", daemon=True).start()

    def end(self) -> None:
        """Return no more lines, as if the host had hung up."""
        self._is_ended = True
        self._calls.clear()
        self._answered.set()
        self._give(b"")

    def answer(self, message: "types.JSONRPCMessage", /) -> None:
        """Record that `message` was written: the answer to a call, or any other message."""
        import mcp_types as types

        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._calls.discard(message.id)
            self._answered.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while line := await self._line():
            line = line.strip()
            if not line:
                continue
            try:
                message = strict_json.parse_json(line, limit=self._limit)
                require_message(message)
            except ElytronError as error:
                assert self.refuse is not None
                await self.refuse(_refusal_of(line, error))
                continue
            self._note(cast("dict[str, Any]", message))
            return line.decode()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERS_S):
                while self._calls:
                    self._answered.clear()
                    await self._answered.wait()
        raise StopAsyncIteration

    def _note(self, message: "dict[str, Any]") -> None:
        """Record a received call, or that one was cancelled and may get no answer."""
        if message.get("method") == "notifications/cancelled":
            self._calls.discard(cast("dict[str, Any]", message.get("params") or {}).get("requestId", ""))
        elif "method" in message and message.get("id") is not None:
            self._calls.add(message["id"])

    async def _line(self) -> bytes:
        if self._is_ended:
            return b""
        self._next = self._loop.create_future()
        # Lines are read on request, so that a host that sends many fills no memory.
        self._read_requests.put(None)
        return await self._next

    def _give(self, line: bytes) -> None:
        if not self._next.done():
            self._next.set_result(line)

    def _read(self) -> None:
        line = b"\n"
        while line:
            self._read_requests.get()
            try:
                # One byte beyond the limit shows that a line is too long.
                line = rest = self._source.readline(self._limit + 1)
                while rest and not rest.endswith(b"\n"):
                    rest = self._source.readline(self._limit)  # of a line that is too long, the beginning is kept
            except (OSError, ValueError):  # a closed terminal or file
                line = b""
            with suppress(RuntimeError):  # the loop ended meanwhile
                self._loop.call_soon_threadsafe(self._give, line)


@contextmanager
def own_stdin() -> Generator[BinaryIO]:
    """Yield the process's standard input, which is empty for all other readers meanwhile: children would consume it."""
    if sys.stdin is None:  # the host gave none, and its descriptor belongs to another file by now
        with Path(os.devnull).open("rb") as nothing:
            yield nothing
        return
    private = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        # Never closed: a thread may still be reading from it.
        yield os.fdopen(private, "rb", closefd=False)
    finally:
        os.dup2(private, 0)


@contextmanager
def at_signals(end: Callable[[], None], /) -> Generator[None]:
    """Make SIGINT and SIGTERM call `end`, the first time; the second has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ends(_number: int, _frame: object) -> None:
        restore()
        loop.call_soon_threadsafe(end)

    before |= {number: signal.signal(number, ends) for number in _SIGNALS}
    try:
        yield
    finally:
        restore()


class NotedAnswers:
    """A stream of messages to a client that calls `note` for each one once it was taken."""

    def __init__(
        self, stream: "WriteStream[SessionMessage]", note: Callable[["types.JSONRPCMessage"], None], /
    ) -> None:
        self._stream = stream
        self._note = note

    async def send(self, item: "SessionMessage", /) -> None:
        """Send a message."""
        await self._stream.send(item)
        self._note(item.message)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


def as_file(lines: InputLines, /) -> Any:
    """Return `lines` in the form for the SDK, which only iterates over the file's lines."""
    return cast("Any", lines)


def _refusal_of(line: bytes, error: ElytronError) -> "types.JSONRPCError":
    import mcp_types as types

    code = types.PARSE_ERROR if isinstance(error, InvalidJson) else types.INVALID_REQUEST
    problem = types.ErrorData(code=code, message=str(error))
    return types.JSONRPCError(jsonrpc="2.0", id=_id_of(line), error=problem)


def _id_of(line: bytes) -> "types.RequestId | None":
    """Return a message's id, if it is readable."""
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    message_id = cast("dict[str, object]", message).get("id") if isinstance(message, dict) else None
    # In Python True is an int, but it is not an id of JSON-RPC.
    return message_id if isinstance(message_id, str) or type(message_id) is int else None


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
    admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
    return _admission_shell(
        admission, sets=sets, who=_same_principal(local), kind=AuthKind.LOCAL, is_private=is_private
    ).server()


async def serve_stdio(
    memory: MemoryRuntime,
    /,
    *,
    sets: frozenset[ToolSet] = DEFAULT_SETS,
    is_operator: bool = False,
    is_private: bool = False,
) -> None:
    """Serve stdin and stdout until the host disconnects or a signal ends it; only the protocol is printed."""
    server = mcp_server(memory, sets=sets, is_operator=is_operator, is_private=is_private)
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage

    with own_stdin() as source:
        lines = InputLines(source, limit=memory.context.profile.budget.http_body_bytes)
        with at_signals(lines.end):
            async with stdio_server(as_file(lines)) as (reading, writing):
                lines.refuse = lambda error: writing.send(SessionMessage(error))
                answering = NotedAnswers(writing, lines.answer)
                await server.run(reading, answering, server.create_initialization_options())


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
    shell = _admission_shell(admission, sets=sets, who=_context_principal, kind=AuthKind.BEARER, is_private=is_private)
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(app=shell.server(), stateless=True, json_response=True)

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        async with manager.run():
            yield

    return McpApp(StreamableHTTPASGIApp(manager), running)


def _admission_shell(
    admission: CallerAdmission, *, sets: frozenset[ToolSet], who: Any, kind: AuthKind, is_private: bool
) -> Any:
    try:
        from elytron_mcp_shell.server import McpShell
    except ImportError as error:
        raise MissingExtra(extra="mcp", purpose="the MCP server") from error
    return McpShell(admission, sets=sets, who=who, kind=kind, is_private=is_private)


def _same_principal(principal: Principal) -> Callable[[Any], Principal]:
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
        first_request, over = asyncio.Event(), asyncio.Event()
        opened: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        self._is_wanted, self._opened = first_request, opened
        # The SDK's task group begins and ends in one task, which is no request's.
        keeper = asyncio.create_task(self._keep(first_request, opened, over))
        keeper.add_done_callback(lambda _: opened.cancel())
        try:
            yield
        finally:
            # Both are set, so that a keeper that no request has woken ends too.
            over.set()
            first_request.set()
            await keeper

    async def _keep(self, first_request: asyncio.Event, opened: "asyncio.Future[ASGIApp]", over: asyncio.Event) -> None:
        await first_request.wait()
        if over.is_set():
            return
        # These imports take long and would block the loop.
        for name in ("elytron_mcp_shell.server", "mcp.server.streamable_http_manager"):
            await asyncio.to_thread(import_module, name)
        served = self._build()
        async with served.running():
            opened.set_result(served.app)
            await over.wait()


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
        parts = urlsplit(issuer)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not issuer.isascii() or '"' in issuer:
            raise InvalidInput(field="--mcp-issuer", problem="is not an https:// or http:// address")

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        if find_spec("mcp") is None:
            raise MissingExtra(extra="mcp", purpose="the MCP server")
        from elytron_adapter.http.requests import strict_json_app  # Starlette is only installed with a server

        served = LateMcpApp(lambda: mcp_app(admission, sets=sets, is_private=is_private))
        limit = admission.dispatcher.runtime.context.profile.budget.http_body_bytes
        # No session exists: there is none to listen to (GET) or to end (DELETE), and the protocol allows 405 for both.
        route = Route(
            "POST", _PATH, strict_json_app(served, limit=limit, require=require_message), "mcp",
            "Send an MCP message over streamable HTTP.", _JSON, _JSON, outcome="The protocol's response.",
            group="protocols", other_statuses=(202, 400, 406),
        )  # fmt: skip
        (surface,) = build_surfaces((route,), own_app, transport=CallTransport.MCP.value, running=served.running)
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
