"""A memory on a server, and its connecting: the same calls, types, reports and errors as in this process."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, assert_never

from elytron.api import MemoryFace, arguments
from elytron.api.base import ReportT, RequestT
from elytron.registry import by_request
from elytron.remote.wire import (
    BegunStream,
    HttpTransport,
    NodeSource,
    RemoteTransport,
    ServerAddress,
    addresses_of,
    call_of,
    report_of,
    require_source,
    space_of,
)
from elytron.runtime import BlockingMemory, RuntimeEntering
from elytron_core import limits
from elytron_core.contracts.inspection import (
    LedgerOrder,
    MemoryCloseRequest,
    MemoryLifecycleReport,
    MemoryReplayReport,
    RuntimePhase,
    ShutdownReport,
    ShutdownRequest,
)
from elytron_core.errors import ElytronError, RateLimited, StoreClosed
from elytron_core.errors.foreign_names import known_keywords
from elytron_core.events import EventGap, EventId, GapReason, JournalEvent
from elytron_core.model import OperationRequest, Value
from elytron_core.scope import Scope

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
"""Errors that pass by themselves. A conflict does not: its caller must read again."""


def pause_s(
    error: ElytronError, /, *, attempt: int, may_repeat: bool, jitter: float, attempts: int = limits.REMOTE_ATTEMPTS
) -> float | None:
    """Return how long to wait before attempt `attempt + 1`, or None where `error` is the answer.

    `attempt` counts from 1, up to `attempts`; `jitter` (0 to 1) spreads callers that failed together. A server that
    names a time is given it, up to the bound.
    """
    if not may_repeat or attempt >= attempts or error.key not in WAITED_FOR:
        return None
    if isinstance(error, RateLimited):
        return min(float(error.retry_after_s), limits.REMOTE_BACKOFF_MAX_S)
    backoff = min(limits.REMOTE_BACKOFF_S * 2 ** (attempt - 1), limits.REMOTE_BACKOFF_MAX_S)
    return min(error.retry_after_s + backoff * (0.5 + jitter / 2), limits.REMOTE_BACKOFF_MAX_S)


class RemoteMemory(MemoryFace):
    """Calls a server's memory. Made by `elytron.connect`; many calls may run at once.

    Reads, and writes under an idempotency key, are sent again where the server cannot be reached or asks for patience;
    other writes are sent once. What stays out of reach raises Unreachable. Without a scope, a call is about the space
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
        """Return the scope of calls that name none."""
        return self._scope

    async def operate(self, request: OperationRequest[ReportT], /, *, idempotency_key: str | None = None) -> ReportT:
        """Perform the operation that takes `request` on the server and return what it reports.

        With `idempotency_key`, a change that takes one may be sent again and is done once. To close is to let go of
        the connection: a server is not ended by a call.
        """
        operation = by_request(request)
        if isinstance(request, MemoryCloseRequest):
            closed: Any = await self.close(request)
            return closed
        call = call_of(operation, self._scoped(request), idempotency_key=idempotency_key)
        failures = 0
        while True:
            self._require_open()
            try:
                return report_of(await self._transport.call(call), operation.report)
            except ElytronError as error:
                failures += 1
                await self._pause(error, failures, may_repeat=call.may_repeat)

    async def events(
        self, *, after: EventId | int | None = None, scope: Scope | None = None
    ) -> AsyncGenerator[JournalEvent | EventGap]:
        """Yield the entries of the space's journal behind `after` (None: from now on), for as long as it is read.

        In order and at least once; a broken connection is made again, though the server be away for a minute, and goes
        on behind the last entry. Entries that cannot be sent again come as a Gap.

        >>> async def first_entry():
        ...     async with elytron.connect(address) as remote, aclosing(remote.events(after=0)) as entries:
        ...         return await anext(entries)
        >>> asyncio.run(first_entry()).sequence
        1
        """
        place = str(after) if after is not None else None
        failures, attempts = 0, limits.REMOTE_ATTEMPTS
        while True:
            self._require_open()
            try:
                async with aclosing(self._transport.events(scope or self._scope, place)) as items:
                    async for item in items:
                        failures, attempts, place = 0, limits.REMOTE_STREAM_ATTEMPTS, _stream_place(item)
                        if not isinstance(item, BegunStream):
                            yield item
            except ElytronError as error:
                self._require_open()
                failures += 1
                await self._pause(error, failures, attempts)

    async def watch(self, request: OperationRequest[ReportT], /, *, after: int = 0) -> AsyncGenerator[ReportT]:
        """Yield the report of a projection, inspection or replay, again each time its space has grown beyond `after`.

        Needs a ws:// or wss:// address. A broken connection is made again: the report comes again, a replay goes on
        behind the last turn.

        >>> request = elytron.MemoryInspectionRequest()
        >>> async def first_report():
        ...     async with elytron.connect(address.replace("http", "ws")) as remote:
        ...         async with aclosing(remote.watch(request)) as reports:
        ...             return await anext(reports)
        >>> asyncio.run(first_report()).documents["turns"]
        1
        """
        operation = by_request(request)
        request, failures, attempts = self._scoped(request), 0, limits.REMOTE_ATTEMPTS
        while True:
            self._require_open()
            call = call_of(operation, request, idempotency_key=None)
            try:
                async with aclosing(self._transport.watch(call, after)) as reports:
                    async for data in reports:
                        found = report_of(data, operation.report)
                        request, after, failures = _next_request(request, found), 0, 0
                        attempts = limits.REMOTE_STREAM_ATTEMPTS
                        yield found
            except ElytronError as error:
                self._require_open()
                failures += 1
                await self._pause(error, failures, attempts)

    async def close(self, request: MemoryCloseRequest | None = None, /) -> MemoryLifecycleReport:
        """Let go of the connection; the server and its memory go on. A second close does nothing."""
        self._is_closed = True
        await self._transport.close()
        return MemoryLifecycleReport(phase=RuntimePhase.CLOSED, reason=request.reason if request is not None else "")

    async def _pause(
        self, error: ElytronError, failures: int, attempts: int = limits.REMOTE_ATTEMPTS, *, may_repeat: bool = True
    ) -> None:
        """Wait before the next attempt. Raises `error` if that cannot help."""
        jitter = random.random()  # noqa: S311 - spreads callers, hides nothing
        pause = pause_s(error, attempt=failures, may_repeat=may_repeat, jitter=jitter, attempts=attempts)
        if pause is None:
            raise error
        await self._sleep(pause)

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
    """Return the place from which a stream goes on."""
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
    """Return the next request of a stream that is opened again: a replay goes on behind the last turn that came."""
    if isinstance(report, MemoryReplayReport) and report.turns:
        return request.model_copy(update={"cursor": report.turns[-1].id, "order": LedgerOrder.FIRST})
    return request


class SyncRemoteMemory(BlockingMemory[RemoteMemory]):
    """A RemoteMemory whose calls wait for their answer."""


class RemoteConnecting(RuntimeEntering[RemoteMemory, SyncRemoteMemory]):
    """A memory on a server, about to be used.

    `async with` (or `await`) gives a RemoteMemory, `with` (or `.sync()`) a SyncRemoteMemory; leaving the block lets go
    of the connection. Nothing is sent before the first call.
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
        address, *others = self._addresses
        if others or self._source != "listed":
            from elytron.remote.nodes import NodesTransport

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

    Several addresses, with commas between, are nodes of one store: each space has its own node, and a call goes past
    one that does not answer. With `nodes="dns"` each address of the name in `url` is a node, with `nodes="leased"` the
    servers at `url` say which there are, as their database lists them. Calls that name no scope use `scope`, else the
    space `space`, else the space that `api_key` opens. `timeout_s` bounds the wait for an answer; `proxy` is the HTTP
    proxy to go by, and no other is.
    Raises InvalidInput for a wrong address, MissingExtra without the extra "client"; calls raise what they raise in
    process, and Unreachable if no server answers.

    >>> with elytron.connect(address) as remote:  # of a server, such as "http://127.0.0.1:8080"
    ...     remote.recall("where is the boat key?")[0].text
    'The boat key is under the oar.'
    """
    if scope is None and space is not None:
        scope = arguments.scope_of(None, user_id=space)
    addresses = addresses_of(url, api_key=api_key, proxy=proxy)
    require_source(addresses, nodes)
    return RemoteConnecting(addresses, scope=scope, timeout_s=timeout_s, nodes=nodes)


async def shut_down(address: ServerAddress, /, *, reason: str = "") -> ShutdownReport:
    """End the server at `address` and return which process that is; it finishes what it accepted.

    Raises PermissionRefused for a caller who is no operator on that machine, Unreachable if no server answers.
    """
    transport = HttpTransport(address, timeout_s=limits.REMOTE_ANSWER_S)
    try:
        return await transport.post("/v1/shutdown", ShutdownRequest(reason=reason), ShutdownReport)
    finally:
        await transport.close()
