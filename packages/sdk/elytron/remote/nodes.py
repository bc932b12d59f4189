"""Calls to several nodes of one store: each space by the node that is its own, and past a node that does not answer.

Every node answers for every space. That one of them is a space's own keeps its index in one memory, and groups its
commits. The order of the nodes for a space is a rendezvous hash: a node that comes or goes moves its own spaces alone.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from urllib.parse import urlsplit

from elytron.remote.wire import (
    BegunStream,
    HttpTransport,
    NodeSource,
    NotConnected,
    RemoteCall,
    ServerAddress,
    unreachable_server,
)
from elytron_core import limits
from elytron_core.contracts.inspection import ServerNodes
from elytron_core.errors import ElytronError, NotFound, Unreachable, Unsupported
from elytron_core.events import EventId, StreamItem
from elytron_core.scope import Scope

_PASSED_OVER = frozenset({"unreachable", "store_unavailable", "overloaded"})
"""Errors of one node, which another may not have."""
FindNodes = Callable[[], Awaitable[Sequence[ServerAddress]]]


def rank_nodes(name: str, urls: Sequence[str], /) -> list[str]:
    """Return `urls` in the order in which they are asked for the space `name`; its own node comes first."""
    return sorted(urls, key=lambda url: blake2b(f"{name}\0{url}".encode(), digest_size=8).digest(), reverse=True)


async def resolve_nodes(address: ServerAddress, /) -> Sequence[ServerAddress]:
    """Return an address for each that the name in `address` has. Raises Unreachable for a name without any."""
    parts = urlsplit(address.url)
    port = parts.port or 80
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a name with a label that is empty or too long is none
        raise unreachable_server(address.url, type(error).__name__) from None
    hosts = sorted({str(where[0]) for *_, where in found})
    headers = {**address.headers, "Host": parts.netloc}
    return [
        replace(address, url=f"http://{f'[{host}]' if ':' in host else host}:{port}{parts.path}", headers=headers)
        for host in hosts
    ]


class NodesTransport:
    """Carries calls to the nodes of one store over HTTP.

    A read, or a change under an idempotency key, is sent to a second node if the first does not answer within
    `limits.REMOTE_PASS_S`, and the first answer counts. Any other change goes to another node only if the first took no
    connection. Unless they are `listed`, the nodes are found before the first call and again from time to time.
    """

    def __init__(self, addresses: Sequence[ServerAddress], /, *, timeout_s: float, source: NodeSource) -> None:
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._nodes = {address.url: HttpTransport(address, timeout_s=timeout_s) for address in addresses}
        self._left: list[tuple[float, HttpTransport]] = []
        """Nodes that are none any more, whose calls may be under way."""
        self._silent_until: dict[str, float] = {}
        self._find: FindNodes | None = {"dns": self._named, "leased": self._leased}.get(source)
        self._find_at = 0.0
        self._finding: asyncio.Task[None] | None = None
        # A call without a space is about the space of the credential.
        self._own = addresses[0].headers.get("Authorization", "")

    async def call(self, call: RemoteCall, /) -> bytes:
        await self._look_for_nodes()
        left = self._ordered(call.space)
        nodes = dict(self._nodes)
        under_way: dict[asyncio.Task[bytes], str] = {}
        latest, failure = left[0], None
        try:
            while left or under_way:
                if left:
                    latest = left.pop(0)
                    under_way[asyncio.create_task(nodes[latest].call(call))] = latest
                pass_s = limits.REMOTE_PASS_S if left and call.may_repeat else None
                done, _ = await asyncio.wait(under_way, timeout=pass_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    self._note_silent(latest)
                for task in done:
                    answered = under_way.pop(task)
                    error = task.exception()
                    if error is None:
                        return task.result()
                    failure = _require_passing(error, call)
                    self._note_silent(answered)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
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
        for node in (*self._nodes.values(), *(left for _, left in self._left)):
            await node.close()

    async def _look_for_nodes(self) -> None:
        """Find the nodes: before the first call, which waits for that, and again beside later ones."""
        now = asyncio.get_running_loop().time()
        if self._find is None or now < self._find_at:
            return
        is_first, self._find_at = self._find_at == 0.0, now + limits.REMOTE_FIND_S
        if not is_first:
            self._finding = asyncio.create_task(self._find_again(self._find))
            return
        try:
            await self._take_nodes(await self._find())
        except BaseException:
            self._find_at = 0.0
            raise

    async def _find_again(self, find: FindNodes) -> None:
        with suppress(ElytronError):  # those that are known stay
            await self._take_nodes(await find())

    async def _named(self) -> Sequence[ServerAddress]:
        return await resolve_nodes(self._addresses[0])

    async def _leased(self) -> Sequence[ServerAddress]:
        """Return the nodes that their database lists, asked of those that are known and of the first ones.

        Raises Unsupported if they keep no list, Unreachable if none answers.
        """
        first, failure = self._addresses[0], Unreachable("no node was asked")
        left = [*dict.fromkeys([*self._ordered(None), *(address.url for address in self._addresses)])]
        while left:
            url = left.pop(0)
            address = replace(first, url=url, scheme=url.partition(":")[0])
            node = self._nodes.get(url) or HttpTransport(address, timeout_s=self._timeout_s)
            try:
                async with asyncio.timeout(limits.REMOTE_PASS_S if left else None):
                    found = await node.read("/v1/nodes", ServerNodes)
                if found.nodes:
                    return [replace(first, url=each.rstrip("/"), scheme=each.partition(":")[0]) for each in found.nodes]
            except NotFound:
                raise Unsupported(
                    f"the server at {url} keeps no list of nodes: start each with --node-url, or give their addresses"
                ) from None
            except TimeoutError:
                continue
            except Unreachable as error:
                failure = error
            finally:
                if url not in self._nodes:
                    await node.close()
        raise failure

    async def _take_nodes(self, found: Sequence[ServerAddress]) -> None:
        """Let `found` be the nodes; connections to others are closed once no call can be under way there."""
        now = asyncio.get_running_loop().time()
        known = {address.url: address for address in found}
        for url in [url for url in self._nodes if url not in known]:
            self._left.append((now + self._timeout_s, self._nodes.pop(url)))
        for url, address in known.items():
            if url not in self._nodes:
                self._nodes[url] = HttpTransport(address, timeout_s=self._timeout_s)
        over, self._left = (
            [node for until, node in self._left if until <= now],
            [(until, node) for until, node in self._left if until > now],
        )
        for node in over:
            await node.close()

    def _ordered(self, space: str | None) -> list[str]:
        """Return the nodes in the order in which they are asked: those that were silent lately come last."""
        ranked = rank_nodes(space or self._own, [*self._nodes])
        now = asyncio.get_running_loop().time()
        return sorted(ranked, key=lambda url: self._silent_until.get(url, 0.0) > now)

    def _note_silent(self, url: str) -> None:
        if self._find_at:
            self._find_at = min(self._find_at, asyncio.get_running_loop().time() + limits.REMOTE_PASS_S)
        self._silent_until[url] = asyncio.get_running_loop().time() + limits.REMOTE_SILENT_S


def _require_passing(error: BaseException, call: RemoteCall) -> ElytronError:
    """Return `error` if another node may be asked behind it. Raises it if not."""
    if isinstance(error, NotConnected):
        return error
    if isinstance(error, ElytronError) and call.may_repeat and error.key in _PASSED_OVER:
        return error
    raise error
