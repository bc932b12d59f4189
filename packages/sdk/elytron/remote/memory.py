"""A memory on a server: the same calls, types, reports and errors as in this process.

With several nodes of one store, calls go to the space's own node, and to the next one if that does not answer. Every
node can answer for every space; using one node per space keeps its index in one process and groups its commits. Nodes
are ordered for a space by rendezvous hashing, so a node that joins or leaves moves only its own spaces.
"""

import asyncio
import random
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

from elytron.api import MemoryFace, calls
from elytron.api.calls import ReportT, RequestT
from elytron.registry import by_request
from elytron.remote.wire import (
    BegunStream,
    HttpTransport,
    NodeSource,
    NotConnected,
    RemoteCall,
    RemoteTransport,
    ServerAddress,
    addresses_of,
    call_of,
    report_of,
    require_source,
    require_within,
    space_of,
    unreachable_server,
)
from elytron.runtime import BlockingMemory, RuntimeEntering
from elytron_core import limits
from elytron_core.contracts.events import EventGap, EventId, GapReason, JournalEvent, StreamItem
from elytron_core.contracts.inspection import (
    LedgerOrder,
    MemoryCloseRequest,
    MemoryLifecycleReport,
    MemoryReplayReport,
    RuntimePhase,
    ServerNodes,
    ShutdownReport,
    ShutdownRequest,
)
from elytron_core.errors import ElytronError, NotFound, RateLimited, StoreClosed, Unreachable, Unsupported
from elytron_core.errors.foreign_names import known_keywords
from elytron_core.model import OperationRequest, Value
from elytron_core.scope import Scope

REMOTE_PASS_S: Final = 1.0
"""Time after which a client of several nodes asks a second one too."""
REMOTE_FIND_S: Final = 10.0
"""Time after which such a client looks for the nodes again, if it finds them itself."""
REMOTE_SILENT_S: Final = 10.0
"""Time for which such a client asks a node that did not answer behind all others."""
REMOTE_ATTEMPTS: Final = 4
"""Attempts at what a client may send again: reads, and writes under an idempotency key."""
REMOTE_STREAM_ATTEMPTS: Final = 24
"""Attempts to open a stream again that had begun: about a minute, enough for a server to restart."""
REMOTE_STEADY_S: Final = 60.0
"""Time after which a stream without an entry counts as established, so that its end is the first failure again."""
REMOTE_BACKOFF_S: Final = 0.1
REMOTE_BACKOFF_MAX_S: Final = 5.0


_PASSED_OVER = frozenset({"unreachable", "store_unavailable", "overloaded"})
"""Errors of one node that another may not have."""
FindNodes = Callable[[], Awaitable[Sequence[ServerAddress]]]


def rank_nodes(name: str, urls: Sequence[str], /) -> list[str]:
    """Return `urls` in the order of preference for the space `name`; its own node comes first."""
    # By digests of both names, so that a node that goes away moves no space of another.
    return sorted(urls, key=lambda url: blake2b(f"{name}\0{url}".encode(), digest_size=8).digest(), reverse=True)


async def resolve_nodes(address: ServerAddress, /) -> Sequence[ServerAddress]:
    """Return an address for each IP of the name in `address`. Raises Unreachable for a name without any."""
    url_parts = urlsplit(address.url)
    port = url_parts.port or 80
    try:
        address_infos = await asyncio.get_running_loop().getaddrinfo(url_parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a name with a label that is empty or too long is none
        raise unreachable_server(address.url, type(error).__name__) from None
    hosts = sorted({str(socket_address[0]) for *_, socket_address in address_infos})
    headers = {**address.headers, "Host": url_parts.netloc}
    return [
        replace(address, url=f"http://{f'[{host}]' if ':' in host else host}:{port}{url_parts.path}", headers=headers)
        for host in hosts
    ]


class NodesTransport:
    """Carries calls to the nodes of one store over HTTP.

    A read, or a change under an idempotency key, is sent to a second node if the first does not answer within
    `REMOTE_PASS_S`, and the first answer counts. Any other change goes to another node only if the first took no
    connection. Unless they are `listed`, the nodes are found before the first call and again from time to time.
    """

    def __init__(self, addresses: Sequence[ServerAddress], /, *, timeout_s: float, source: NodeSource) -> None:
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._nodes = {address.url: HttpTransport(address, timeout_s=timeout_s) for address in addresses}
        self._former_nodes: list[tuple[float, HttpTransport]] = []
        """Former nodes, whose calls may still be running."""
        self._silent_until: dict[str, float] = {}
        self._find: FindNodes | None = {"dns": self._resolve_nodes, "leased": self._leased}.get(source)
        self._find_at = 0.0
        self._finding: asyncio.Task[None] | None = None
        # A call without a space is about the space of the credential.
        self._own = addresses[0].headers.get("Authorization", "")

    async def call(self, call: RemoteCall, /) -> bytes:
        await self._look_for_nodes()
        remaining_urls = self._ordered(call.space)
        # A copy, since nodes may be rediscovered meanwhile.
        nodes = dict(self._nodes)
        url_by_task: dict[asyncio.Task[bytes], str] = {}
        latest_url, failure = remaining_urls[0], None
        try:
            while remaining_urls or url_by_task:
                if remaining_urls:
                    latest_url = remaining_urls.pop(0)
                    url_by_task[asyncio.create_task(nodes[latest_url].call(call))] = latest_url
                pass_s = REMOTE_PASS_S if remaining_urls and call.may_repeat else None
                tasks, _ = await asyncio.wait(url_by_task, timeout=pass_s, return_when=asyncio.FIRST_COMPLETED)
                # Its call keeps running, because the first answer counts.
                if not tasks:
                    self._note_silent(latest_url)
                for task in tasks:
                    answered_url = url_by_task.pop(task)
                    error = task.exception()
                    if error is None:
                        return task.result()
                    failure = _require_passing(error, call)
                    self._note_silent(answered_url)
        finally:
            for task in url_by_task:
                task.cancel()
            await asyncio.gather(*url_by_task, return_exceptions=True)
        assert failure is not None
        raise failure

    async def events(self, scope: Scope | None, after: EventId | None, /) -> AsyncGenerator[StreamItem | BegunStream]:
        await self._look_for_nodes()
        url = self._ordered(scope.space if scope is not None else None)[0]
        try:
            async for item in self._nodes[url].events(scope, after):
                yield item
        except Unreachable:
            self._note_silent(url)  # the next attempt is another's
            raise

    def watch(self, call: RemoteCall, after: int, /) -> AsyncGenerator[bytes]:
        return self._nodes[self._ordered(call.space)[0]].watch(call, after)

    async def close(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)
        for node in (*self._nodes.values(), *(former_node for _, former_node in self._former_nodes)):
            await node.close()

    async def _look_for_nodes(self) -> None:
        """Find the nodes: before the first call, which waits for that, and again concurrently with later ones."""
        now = asyncio.get_running_loop().time()
        if self._find is None or now < self._find_at:
            return
        is_first_search, self._find_at = self._find_at == 0.0, now + REMOTE_FIND_S
        if not is_first_search:
            self._finding = asyncio.create_task(self._find_again(self._find))
            return
        try:
            await self._take_nodes(await self._find())
        except BaseException:
            # Not found, so that the next call tries again.
            self._find_at = 0.0
            raise

    async def _find_again(self, find: FindNodes) -> None:
        with suppress(ElytronError):  # those that are known stay
            await self._take_nodes(await find())

    async def _resolve_nodes(self) -> Sequence[ServerAddress]:
        return await resolve_nodes(self._addresses[0])

    async def _leased(self) -> Sequence[ServerAddress]:
        """Return the nodes that their database lists, asking the known ones and the first ones.

        Raises Unsupported if they keep no list, Unreachable if none answers.
        """
        first_address, failure = self._addresses[0], Unreachable("no node was contacted")
        urls = [*dict.fromkeys([*self._ordered(None), *(address.url for address in self._addresses)])]
        while urls:
            url = urls.pop(0)
            address = replace(first_address, url=url, scheme=url.partition(":")[0])
            node = self._nodes.get(url) or HttpTransport(address, timeout_s=self._timeout_s)
            try:
                # The last one has the whole time of a call.
                async with asyncio.timeout(REMOTE_PASS_S if urls else None):
                    node_list = await node.read("/v1/nodes", ServerNodes)
                if node_list.nodes:
                    return [
                        replace(first_address, url=each.rstrip("/"), scheme=each.partition(":")[0])
                        for each in node_list.nodes
                    ]
            except NotFound:
                raise Unsupported(
                    f"the server at {url} has no list of nodes: start each with --node-url, or pass their addresses"
                ) from None
            except TimeoutError:
                continue
            except Unreachable as error:
                failure = error
            finally:
                if url not in self._nodes:
                    await node.close()
        raise failure

    async def _take_nodes(self, addresses: Sequence[ServerAddress]) -> None:
        """Make `addresses` the nodes; connections to others are closed once no call can be running there."""
        now = asyncio.get_running_loop().time()
        addresses_by_url = {address.url: address for address in addresses}
        for url in [url for url in self._nodes if url not in addresses_by_url]:
            self._former_nodes.append((now + self._timeout_s, self._nodes.pop(url)))
        for url, address in addresses_by_url.items():
            if url not in self._nodes:
                self._nodes[url] = HttpTransport(address, timeout_s=self._timeout_s)
        expired_nodes, self._former_nodes = (
            [node for closes_at, node in self._former_nodes if closes_at <= now],
            [(closes_at, node) for closes_at, node in self._former_nodes if closes_at > now],
        )
        for node in expired_nodes:
            await node.close()

    def _ordered(self, space: str | None) -> list[str]:
        """Return the nodes in the order of use: those that recently did not answer come last."""
        ranked_urls = rank_nodes(space or self._own, [*self._nodes])
        now = asyncio.get_running_loop().time()
        return sorted(ranked_urls, key=lambda url: self._silent_until.get(url, 0.0) > now)

    def _note_silent(self, url: str) -> None:
        if self._find_at:
            self._find_at = min(self._find_at, asyncio.get_running_loop().time() + REMOTE_PASS_S)
        self._silent_until[url] = asyncio.get_running_loop().time() + REMOTE_SILENT_S


def _require_passing(error: BaseException, call: RemoteCall) -> ElytronError:
    """Return `error` if another node may be tried after it. Raises it otherwise."""
    if isinstance(error, NotConnected):
        return error
    if isinstance(error, ElytronError) and call.may_repeat and error.key in _PASSED_OVER:
        return error
    raise error


WAITED_FOR = frozenset(
    {
        "unreachable",
        "rate_limited",
        "overloaded",
        "still_running",
        "store_unavailable",
        "store_busy",
        "model_unavailable",
    }
)
"""Transient errors. A conflict is not one: its caller must read again."""


def pause_s(
    error: ElytronError, /, *, attempt: int, may_repeat: bool, jitter: float, attempts: int = REMOTE_ATTEMPTS
) -> float | None:
    """Return how long to wait before attempt `attempt + 1`, or None if `error` is final.

    `attempt` counts from 1, up to `attempts`; `jitter` (0 to 1) spreads callers that failed together. A server that
    names a time is given it, up to the bound.
    """
    if not may_repeat or attempt >= attempts or error.key not in WAITED_FOR:
        return None
    if isinstance(error, RateLimited):
        return min(float(error.retry_after_s), REMOTE_BACKOFF_MAX_S)
    backoff = min(REMOTE_BACKOFF_S * 2 ** (attempt - 1), REMOTE_BACKOFF_MAX_S)
    return min(error.retry_after_s + backoff * (0.5 + jitter / 2), REMOTE_BACKOFF_MAX_S)


class RemoteMemory(MemoryFace):
    """Calls a server's memory. Created by `elytron.connect`; many calls may run concurrently.

    Reads, and writes under an idempotency key, are repeated if the server cannot be reached or asks to wait; other
    writes are sent once. If it stays unreachable, Unreachable is raised. Without a scope, a call is about the space
    that the credential opens.
    """

    def __init__(
        self,
        transport: RemoteTransport,
        /,
        *,
        scope: Scope | None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._scope = scope
        self._sleep = sleep
        self._is_closed = False

    @property
    def scope(self) -> Scope | None:
        """Return the default scope of calls."""
        return self._scope

    async def operate(self, request: OperationRequest[ReportT], /, *, idempotency_key: str | None = None) -> ReportT:
        """Perform the operation that takes `request` on the server and return its report.

        With `idempotency_key`, a change that takes one may be resent and is done once. Closing only releases the
        connection: no call ends a server.
        """
        operation = by_request(request)
        if isinstance(request, MemoryCloseRequest):
            close_report: Any = await self.close(request)
            return close_report
        call = call_of(operation, self._scoped(request), idempotency_key=idempotency_key)
        failures = 0
        while True:
            self._require_open()
            try:
                return require_within(report_of(await self._transport.call(call), operation.report), request)
            except ElytronError as error:
                failures += 1
                await self._pause(error, failures, may_repeat=call.may_repeat)

    async def events(
        self, *, after: EventId | int | None = None, scope: Scope | None = None
    ) -> AsyncGenerator[JournalEvent | EventGap]:
        """Yield the entries of the space's journal after `after` (None: from now on), until the caller stops.

        In order and at least once; a broken connection is reopened, even if the server is away for a minute, and
        continues after the last entry. Entries that cannot be resent come as an EventGap.

        >>> async def first_entry():
        ...     async with elytron.connect(address) as remote, aclosing(remote.events(after=0)) as entries:
        ...         return await anext(entries)
        >>> asyncio.run(first_entry()).sequence
        1
        """
        place = str(after) if after is not None else None
        failures, attempts, loop = 0, REMOTE_ATTEMPTS, asyncio.get_running_loop()
        while True:
            self._require_open()
            opened_at = loop.time()
            try:
                async with aclosing(self._transport.events(scope or self._scope, place)) as items:
                    async for item in items:
                        attempts, place = REMOTE_STREAM_ATTEMPTS, _stream_place(item)
                        if not isinstance(item, BegunStream):
                            failures = 0
                            yield item
            except ElytronError as error:
                self._require_open()
                # A proxy that cuts each stream as it begins must not be asked forever.
                failures = 1 if loop.time() - opened_at >= REMOTE_STEADY_S else failures + 1
                await self._pause(error, failures, attempts)

    async def watch(self, request: OperationRequest[ReportT], /, *, after: int = 0) -> AsyncGenerator[ReportT]:
        """Yield the report of a projection, inspection or replay, and again whenever its space has grown beyond
        `after`.

        Needs a ws:// or wss:// address. A broken connection is reopened: the report is repeated, a replay continues
        after the last turn.

        >>> request = elytron.MemoryInspectionRequest()
        >>> async def first_report():
        ...     async with elytron.connect(address.replace("http", "ws")) as remote:
        ...         async with aclosing(remote.watch(request)) as reports:
        ...             return await anext(reports)
        >>> asyncio.run(first_report()).documents["turns"]
        1
        """
        operation = by_request(request)
        request, failures, attempts = self._scoped(request), 0, REMOTE_ATTEMPTS
        while True:
            self._require_open()
            call = call_of(operation, request, idempotency_key=None)
            try:
                async with aclosing(self._transport.watch(call, after)) as reports:
                    async for report_bytes in reports:
                        report = report_of(report_bytes, operation.report)
                        request, after, failures = _next_request(request, report), 0, 0
                        attempts = REMOTE_STREAM_ATTEMPTS
                        yield report
            except ElytronError as error:
                self._require_open()
                failures += 1
                await self._pause(error, failures, attempts)

    async def close(self, request: MemoryCloseRequest | None = None, /) -> MemoryLifecycleReport:
        """Release the connection; the server and its memory are unaffected. A second close does nothing."""
        self._is_closed = True
        await self._transport.close()
        return MemoryLifecycleReport(phase=RuntimePhase.CLOSED, reason=request.reason if request is not None else "")

    async def _pause(
        self, error: ElytronError, failures: int, attempts: int = REMOTE_ATTEMPTS, *, may_repeat: bool = True
    ) -> None:
        """Wait before the next attempt. Raises `error` if that cannot help."""
        jitter = random.random()  # noqa: S311 - spreads callers, hides nothing
        pause_seconds = pause_s(error, attempt=failures, may_repeat=may_repeat, jitter=jitter, attempts=attempts)
        if pause_seconds is None:
            raise error
        await self._sleep(pause_seconds)

    def _scoped(self, request: RequestT) -> RequestT:
        """Return `request` with this client's scope, if it has none and takes one."""
        scope: Any = space_of(request, self._scope)
        if scope is None or "scope" not in type(request).model_fields or getattr(request, "scope", None) is not None:
            return request
        return request.model_copy(update={"scope": scope})

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed


def _stream_place(item: JournalEvent | EventGap | BegunStream) -> str:
    """Return the position from which a stream continues."""
    match item:
        case JournalEvent():
            return item.id
        case BegunStream():
            return item.place
        case EventGap():
            return "0" if item.reason is GapReason.ERASED else str(item.last)
        case _:
            assert_never(item)


def _next_request(request: RequestT, report: Value) -> RequestT:
    """Return the next request of a reopened stream: a replay continues after the last received turn."""
    if isinstance(report, MemoryReplayReport) and report.turns:
        return request.model_copy(update={"cursor": report.turns[-1].id, "order": LedgerOrder.FIRST})
    return request


class SyncRemoteMemory(BlockingMemory[RemoteMemory]):
    """A RemoteMemory with blocking calls."""


class RemoteConnecting(RuntimeEntering[RemoteMemory, SyncRemoteMemory]):
    """A memory on a server, not used yet.

    `async with` (or `await`) gives a RemoteMemory, `with` (or `.sync()`) a SyncRemoteMemory; leaving the block releases
    the connection. Nothing is sent before the first call.
    """

    def __init__(
        self,
        addresses: Sequence[ServerAddress],
        /,
        *,
        scope: Scope | None,
        timeout_s: float,
        nodes: NodeSource = "listed",
    ) -> None:
        super().__init__()
        self._source: NodeSource = nodes
        self._addresses = addresses
        self._scope = scope
        self._timeout_s = timeout_s

    async def _open(self) -> RemoteMemory:
        return RemoteMemory(self._transport(), scope=self._scope)

    def _transport(self) -> RemoteTransport:
        address, *other_addresses = self._addresses
        if other_addresses or self._source != "listed":
            from elytron.remote.memory import NodesTransport

            return NodesTransport(self._addresses, timeout_s=self._timeout_s, source=self._source)
        if address.is_websocket:
            from elytron.remote.websocket import WebSocketTransport

            return WebSocketTransport(address, timeout_s=self._timeout_s)
        return HttpTransport(address, timeout_s=self._timeout_s)

    def sync(self) -> SyncRemoteMemory:
        """Make the client behind blocking calls; the caller closes it.

        >>> remote = elytron.connect(address).sync()  # of a server, such as "http://127.0.0.1:8080"
        >>> remote.inspect().documents["turns"]
        1
        >>> _ = remote.close()
        """
        return SyncRemoteMemory(self._open())


@known_keywords
def connect(
    url: str,
    /,
    *,
    api_key: str | None = None,
    space: str | None = None,
    scope: Scope | None = None,
    timeout_s: float = limits.REMOTE_ANSWER_S,
    proxy: str | None = None,
    nodes: NodeSource = "listed",
) -> RemoteConnecting:
    """Return a memory on the server at `url`: the calls of `elytron.open`, over HTTP or (ws://, wss://) one WebSocket.

    Several addresses, separated by commas, are nodes of one store: each space has its own node, and a call skips one
    that does not answer. With `nodes="dns"` each address of the name in `url` is a node, with `nodes="leased"` the
    servers at `url` report the nodes that their database lists. Calls that name no scope use `scope`, else the space
    `space`, else the space that `api_key` opens. `timeout_s` limits the wait for an answer; `proxy` is the HTTP proxy
    to use; no other is. Raises InvalidInput for an invalid address, MissingExtra without the extra "client"; calls
    raise what they raise in process, and Unreachable if no server answers.

    >>> with elytron.connect(address) as remote:  # of a server, such as "http://127.0.0.1:8080"
    ...     remote.recall("where is the boat key?")[0].text
    'The boat key is under the oar.'
    """
    if scope is None and space is not None:
        scope = calls.scope_of(None, user_id=space)
    addresses = addresses_of(url, api_key=api_key, proxy=proxy)
    require_source(addresses, nodes)
    return RemoteConnecting(addresses, scope=scope, timeout_s=timeout_s, nodes=nodes)


async def shut_down(address: ServerAddress, /, *, reason: str = "") -> ShutdownReport:
    """Shut down the server at `address` and return its process; it finishes accepted work.

    Raises PermissionRefused for a caller who is no operator on that machine, Unreachable if no server answers.
    """
    transport = HttpTransport(address, timeout_s=limits.REMOTE_ANSWER_S)
    try:
        return await transport.post("/v1/shutdown", ShutdownRequest(reason=reason), ShutdownReport)
    finally:
        await transport.close()
