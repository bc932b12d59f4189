"""The HTTP server process: the application on one port, which loses no accepted request."""

import asyncio
import ipaddress
import math
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from elytron.runtime import MemoryRuntime
from elytron_adapter.access_keys import (
    AccessAddRequest,
    AccessKeys,
    AnyAuthenticator,
    Authenticator,
    DevelopmentCallers,
)
from elytron_adapter.admission_control import ConnectionBounds, FairPlaces, LoadBounds
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.key_quotas import WrongAttempts
from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, PermissionRefused
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_outbound.addresses import networks_of

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from elytron_adapter.surface import Family, Figures
    from elytron_http_shell.telemetry.spans import RequestSpans

BACKLOG_CONNECTIONS: Final = 2_048
BACKLOG_TAKEN: Final = 16
"""Connections that wait to be accepted, and those that one turn of the event loop accepts."""
BACKLOG_HELD: Final = 64
"""With this many connections that are not accepted yet, a server accepts them before it answers anything more."""
BACKLOG_LOOK_S: Final = 0.1
BACKLOG_HOLD_S: Final = 1.0
"""Longest time for which no call is begun while connections are accepted."""


LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def create_app(
    memory: CallerAdmission | OperationDispatcher | MemoryRuntime,
    /,
    *,
    authenticator: Authenticator | None = None,
    hosts: frozenset[str] = LOOPBACK,
    body_bytes: int | None = None,
    bounds: LoadBounds | None = None,
    further: "Iterable[Family]" = (),
    spans: "RequestSpans | None" = None,
    is_described_to_all: bool = False,
    figures: "Sequence[Figures]" = (),
) -> "Starlette":
    """Return the application that answers from `memory`, which its opener closes.

    `authenticator` authenticates callers; without one, the access keys in the store do, and a caller without a key is
    rejected. An entrance brings its own, and the access keys of every surface. Requests must name one of `hosts` as
    their host, and as their origin if a browser sends one, so that no web page reaches a memory on this machine ("*"
    allows any). Bodies are limited to `body_bytes`, else to what the memory's profile allows, before they are read.
    `bounds` limit the load. `further` families of routes are added to the operations; `spans` are opened around
    requests, and `figures` are added at `/metrics` to the server's own. The OpenAPI document and the list of operations
    are for authenticated callers, unless `is_described_to_all`. Raises MissingExtra without the extra "server".
    """
    try:
        from elytron_http_shell.application import build_application
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="the HTTP server") from error
    if not isinstance(memory, CallerAdmission):
        dispatcher = memory if isinstance(memory, OperationDispatcher) else OperationDispatcher(memory)
        memory = CallerAdmission(
            dispatcher,
            authenticator=authenticator or AccessKeys(dispatcher.runtime.context),
            shedding=FairPlaces(bounds),
        )
    if body_bytes is None:
        body_bytes = memory.dispatcher.runtime.context.profile.budget.http_body_bytes
    return build_application(
        memory,
        hosts=hosts,
        body_bytes=body_bytes,
        further=further,
        spans=spans,
        is_described_to_all=is_described_to_all,
        figures=figures,
    )


_UNACKED = slice(24, 28)
"""Offset of a listening socket's queue length in `struct tcp_info`."""


def waiting_connections(listening_socket: socket.socket, /) -> int:
    """Return how many connections wait to be accepted; 0 if the system does not report it."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None or sys.platform != "linux":
        return 0
    try:
        return int.from_bytes(
            listening_socket.getsockopt(socket.IPPROTO_TCP, option, _UNACKED.stop)[_UNACKED], sys.byteorder
        )
    except OSError:
        return 0


async def take_up(listening_socket: socket.socket, places: FairPlaces, /) -> None:
    """Delay calls while many connections wait to be accepted, as long as the server runs."""
    event_loop = asyncio.get_running_loop()
    while listening_socket.fileno() >= 0:
        await asyncio.sleep(BACKLOG_LOOK_S)
        if waiting_connections(listening_socket) <= BACKLOG_HELD:
            continue
        with places.hold_calls():
            hold_until = event_loop.time() + BACKLOG_HOLD_S
            while waiting_connections(listening_socket) and event_loop.time() < hold_until:  # noqa: ASYNC110 - each turn of the loop takes one up
                await asyncio.sleep(0)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Settings of a server: its address, its callers, and its load."""

    host: str = "127.0.0.1"
    port: int = 8010
    descriptor: int | None = None
    """A bound socket given to this process, instead of host and port."""
    development: bool = False
    names: frozenset[str] = frozenset()
    """Host names of the server, in addition to this machine's own."""
    bounds: LoadBounds = field(default_factory=LoadBounds)
    body_bytes: int | None = None
    """Limit of a body; defaults to the limit of the memory's profile."""
    trusted_proxies: frozenset[str] = frozenset()
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted."""
    is_described_to_all: bool = False
    """Show the OpenAPI document and the list of operations without a key."""
    connections: ConnectionBounds = field(default_factory=ConnectionBounds)
    spans: bool = False
    operator_key: bool = False
    """Create the first operator's key if there is none, and show it once."""


@dataclass(frozen=True, slots=True)
class StartedServer:
    """The address of a listening server. `end` shuts it down as a signal does."""

    address: str
    mode: str
    end: Callable[[], None]
    operator_key: str | None = None


async def serve_http(
    memory: MemoryRuntime,
    serving_settings: ServingSettings,
    /,
    *,
    started: Callable[[StartedServer], None],
    further: "Iterable[Family]" = (),
    authenticators: Iterable[Authenticator] = (),
    figures: "Sequence[Figures]" = (),
    signals: Iterable[signal.Signals] = _SIGNALS,
) -> None:
    """Serve HTTP until one of `signals` or `StartedServer.end`, then finish accepted work and return.

    Requests that take longer than `limits.SHUTDOWN_S` are cancelled. `authenticators` admit callers in addition to the
    access keys, and `figures` are shown at `/metrics`. The opener of `memory` closes it. Raises PermissionRefused for a
    server reachable from other machines that would admit all callers, InvalidInput for an unusable address,
    MissingExtra.
    """
    keys = AccessKeys(memory.context)
    kinds = await keys.open_kinds()
    _require_safe(serving_settings, has_keys=bool(kinds))
    needs_first_key = (
        serving_settings.operator_key and not serving_settings.development and PrincipalKind.OPERATOR not in kinds
    )
    operator_key = await _first_key(keys) if needs_first_key else None
    admission = CallerAdmission(
        OperationDispatcher(memory),
        authenticator=DevelopmentCallers() if serving_settings.development else AnyAuthenticator(keys, *authenticators),
        keys=keys,
        shedding=FairPlaces(serving_settings.bounds),
        attempts=WrongAttempts(memory.context.clock, most=serving_settings.bounds.wrong_credentials_per_minute),
    )
    spans = _span_exporter() if serving_settings.spans else None
    app = create_app(
        admission,
        hosts=_allowed_hosts(serving_settings),
        body_bytes=serving_settings.body_bytes,
        further=further,
        spans=spans,
        is_described_to_all=serving_settings.is_described_to_all,
        figures=figures,
    )
    mode = (
        "development: every caller on this machine is its operator" if serving_settings.development else "access keys"
    )
    try:
        await serve_app(
            app, admission, serving_settings, started=started, mode=mode, operator_key=operator_key, signals=signals
        )
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


async def serve_watched(
    app: Any,
    admission: CallerAdmission,
    serving_settings: ServingSettings,
    /,
    *,
    started: Callable[[StartedServer], None],
    mode: str,
    figures: "Sequence[Figures]" = (),
) -> None:
    """Serve as `serve_app` does, with a server's health and metrics in front of `app`. Raises what it raises."""
    try:
        from elytron_http_shell.application import WatchedApplication
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="the HTTP server") from error
    watched_app = WatchedApplication(app, admission, hosts=_allowed_hosts(serving_settings), figures=figures)
    await serve_app(watched_app, admission, serving_settings, started=started, mode=mode)


async def serve_app(
    app: Any,
    admission: CallerAdmission,
    serving_settings: ServingSettings,
    /,
    *,
    started: Callable[[StartedServer], None],
    mode: str,
    operator_key: str | None = None,
    signals: Iterable[signal.Signals] = _SIGNALS,
) -> None:
    """Serve `app` until one of `signals` or `StartedServer.end`, then finish accepted work and return.

    `mode` says who may call. Raises InvalidInput for an unavailable address, MissingExtra.
    """
    with given_socket(serving_settings) as listening_socket:
        address = listening_address(listening_socket)

        def told(end: Callable[[], None]) -> None:
            started(StartedServer(address=address, mode=mode, end=end, operator_key=operator_key))

        trusted_networks = sorted(networks_of(serving_settings.trusted_proxies, field="trusted_proxies"))
        server = server_of(
            app, admission, told, signals=signals, trusted=trusted_networks, connections=serving_settings.connections
        )
        # An earlier interrupt is handled here: during its start, a server would report it as its own failure.
        await asyncio.sleep(0)
        call_slots = admission.shedding
        taking_up = (
            asyncio.create_task(take_up(listening_socket, call_slots)) if isinstance(call_slots, FairPlaces) else None
        )
        try:
            await server.serve(sockets=[listening_socket])
        finally:
            if taking_up is not None:
                taking_up.cancel()
                await asyncio.gather(taking_up, return_exceptions=True)


@asynccontextmanager
async def served_http(
    memory: MemoryRuntime,
    serving_settings: ServingSettings,
    /,
    *,
    further: "Iterable[Family]" = (),
    authenticators: Iterable[Authenticator] = (),
    figures: "Sequence[Figures]" = (),
) -> AsyncGenerator[StartedServer]:
    """Serve during the block, alongside the rest of the program, whose signals are unaffected.

    Raises what `serve_http` raises; errors of the server meanwhile are raised at the end.
    """
    started_future: asyncio.Future[StartedServer] = asyncio.get_running_loop().create_future()
    server_task = asyncio.create_task(
        serve_http(
            memory,
            serving_settings,
            started=started_future.set_result,
            further=further,
            authenticators=authenticators,
            figures=figures,
            signals=(),
        )
    )
    try:
        await asyncio.wait([started_future, server_task], return_when=asyncio.FIRST_COMPLETED)
        if started_future.done():
            yield started_future.result()
    finally:
        # A caller that leaves before it listens waits for that too: a starting server is not torn down.
        started_future.add_done_callback(lambda future: future.result().end())
        await server_task


def is_loopback(host: str, /) -> bool:
    """Return whether `host` is only this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _require_safe(serving_settings: ServingSettings, *, has_keys: bool) -> None:
    if is_loopback(serving_settings.host):
        return
    if serving_settings.development:
        raise PermissionRefused("development mode requires no credentials, so it can listen only on this machine")
    if not has_keys and not serving_settings.operator_key:
        raise PermissionRefused(
            "callers from other machines need credentials, and there is no access key yet:"
            " create one with `elytron access add --kind operator --label <name>`"
        )


async def _first_key(keys: AccessKeys) -> str:
    return (await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="first operator"))).key


def _allowed_hosts(serving_settings: ServingSettings) -> frozenset[str]:
    host = serving_settings.host.lower()
    own_hosts = {f"[{host}]"} if ":" in host else {host}
    return LOOPBACK | own_hosts | frozenset(name.lower() for name in serving_settings.names)


def given_socket(serving_settings: ServingSettings, /) -> AbstractContextManager[socket.socket]:
    """Yield the socket given to this process, or a new one. Raises InvalidInput for an invalid one."""
    if serving_settings.descriptor is None:
        return bound_socket(serving_settings.host, serving_settings.port)
    try:
        return socket.socket(fileno=serving_settings.descriptor)
    except OSError as error:
        raise InvalidInput(field="--listen-fd", problem="is not a socket") from error


@contextmanager
def bound_socket(host: str, port: int, /) -> Generator[socket.socket]:
    """Yield the socket, bound before anything is announced. Raises InvalidInput for an unavailable address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Declared as TCP: asyncio disables Nagle's algorithm only on such sockets; otherwise answers wait 40 ms.
    listening_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with listening_socket:
        # A port whose last connections are still closing can be bound at once.
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening_socket.bind((host, port))
        except OSError as error:
            problem = f"cannot be bound: {error.strerror}; choose others, or port 0 for any free port"
            raise InvalidInput(field="host and port", problem=problem) from error
        yield listening_socket


def listening_address(listening_socket: socket.socket, /) -> str:
    """Return the address at which a bound socket is reached."""
    host, port, *_ = listening_socket.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _span_exporter() -> Any:
    from elytron_http_shell.telemetry.spans import otlp_spans

    return otlp_spans()


def server_of(
    app: Any,
    admission: CallerAdmission,
    listens: Callable[[Callable[[], None]], None],
    /,
    *,
    signals: Iterable[signal.Signals] = _SIGNALS,
    trusted: Sequence[str] = (),
    connections: ConnectionBounds | None = None,
) -> Any:
    """Return a server of `app` that provides a way to end it once it listens; `signals` end it too. Raises
    MissingExtra."""
    try:
        import uvicorn

        from elytron_http_shell.connections import ConnectionTable, http_protocol
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="the HTTP server") from error
    table = ConnectionTable(connections, trusted=trusted)

    class Server(uvicorn.Server):
        """Reports when it listens, and when it ends before that; signals end it and not the process."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for listening_socket in sockets or ():
                listening_socket.listen(BACKLOG_CONNECTIONS)
            admission.end = self._end
            listens(self._end)

        async def main_loop(self) -> None:
            # uvicorn itself checks for its end ten times a second; the event ends it at once.
            loop_tasks = asyncio.gather(super().main_loop(), table.watch())
            await admission.closing.wait()
            loop_tasks.cancel()
            await asyncio.gather(loop_tasks, return_exceptions=True)

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            with _signals_end(signals, self._end):
                yield

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            shutdown_deadline = time.monotonic() + limits.SHUTDOWN_S
            await _streams_left(admission, self, shutdown_deadline)
            # The rest of the same timeout, so that both waits together stay within it.
            self.config.timeout_graceful_shutdown = max(1, math.ceil(shutdown_deadline - time.monotonic()))
            await super().shutdown(sockets)

        def _end(self) -> None:
            self.force_exit = self.should_exit  # who asks twice does not wait
            self.should_exit = True
            admission.closing.set()

    return Server(_server_config(app, trusted=list(trusted), http=http_protocol(table)))


@contextmanager
def _signals_end(signals: Iterable[signal.Signals], end: Callable[[], None]) -> Generator[None]:
    """Make `signals` call `end` during the block, and restore the former handlers afterwards."""
    event_loop = asyncio.get_running_loop()

    def ends(_number: int, _frame: object) -> None:
        event_loop.call_soon_threadsafe(end)

    numbers = signals if threading.current_thread() is threading.main_thread() else ()
    previous_handlers = {signal_number: signal.signal(signal_number, ends) for signal_number in numbers}
    try:
        yield
    finally:
        for signal_number, handler in previous_handlers.items():
            signal.signal(signal_number, handler)


async def _streams_left(admission: CallerAdmission, server: Any, deadline: float) -> None:
    """Wait for streams, which report why they end; uvicorn would cut them off with its own code."""
    while admission.streams and not server.force_exit and time.monotonic() < deadline:  # noqa: ASYNC110 - three ends
        await asyncio.sleep(_LOOK_S)


def _server_config(app: Any, *, trusted: list[str], http: Any) -> Any:
    import uvicorn

    return uvicorn.Config(
        app,
        http=http,
        # asyncio accepts this many at once, before a connection can make room for another; the queue itself is longer.
        backlog=BACKLOG_TAKEN,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted),
        forwarded_allow_ips=trusted,
        lifespan="on",
        # More than a frame may have, so that the socket itself rejects one that is too big.
        ws_max_size=limits.FRAME_BYTES * 2,
        h11_max_incomplete_event_size=limits.HTTP_HEADER_BYTES,
        timeout_keep_alive=limits.HTTP_IDLE_S,
    )
