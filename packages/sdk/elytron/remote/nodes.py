"""Calls to several nodes of one store: each space by the node that is its own, and past a node that does not answer.

Every node answers for every space. That one of them is a space's own keeps its index in one memory, and groups its
commits. The order of the nodes for a space is a rendezvous hash: a node that comes or goes moves its own spaces alone.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from hashlib import blake2b

from elytron.remote.http import HttpTransport, NotConnected
from elytron.remote.wire import BegunStream, RemoteCall, ServerAddress
from elytron_core import limits
from elytron_core.errors import ElytronError, Unreachable
from elytron_core.events import EventId, StreamItem
from elytron_core.scope import Scope

_PASSED_OVER = frozenset({"unreachable", "store_unavailable", "overloaded"})
"""Errors of one node, which another may not have."""


def rank_nodes(name: str, urls: Sequence[str], /) -> list[str]:
    """Return `urls` in the order in which they are asked for the space `name`; its own node comes first."""
    return sorted(urls, key=lambda url: blake2b(f"{name}\0{url}".encode(), digest_size=8).digest(), reverse=True)


class NodesTransport:
    """Carries calls to the nodes of one store over HTTP.

    A read, or a change under an idempotency key, is sent to a second node if the first does not answer within
    `limits.REMOTE_PASS_S`, and the first answer counts. Any other change goes to another node only if the first took no
    connection.
    """

    def __init__(self, addresses: Sequence[ServerAddress], /, *, timeout_s: float) -> None:
        self._nodes = {address.url: HttpTransport(address, timeout_s=timeout_s) for address in addresses}
        self._silent_until: dict[str, float] = {}
        # A call without a space is about the space of the credential.
        self._own = addresses[0].headers.get("Authorization", "")

    async def call(self, call: RemoteCall, /) -> bytes:
        left = self._ordered(call.space)
        under_way: dict[asyncio.Task[bytes], str] = {}
        latest, failure = left[0], None
        try:
            while left or under_way:
                if left:
                    latest = left.pop(0)
                    under_way[asyncio.create_task(self._nodes[latest].call(call))] = latest
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
        for node in self._nodes.values():
            await node.close()

    def _ordered(self, space: str | None) -> list[str]:
        """Return the nodes in the order in which they are asked: those that were silent lately come last."""
        ranked = rank_nodes(space or self._own, [*self._nodes])
        now = asyncio.get_running_loop().time()
        return sorted(ranked, key=lambda url: self._silent_until.get(url, 0.0) > now)

    def _note_silent(self, url: str) -> None:
        self._silent_until[url] = asyncio.get_running_loop().time() + limits.REMOTE_SILENT_S


def _require_passing(error: BaseException, call: RemoteCall) -> ElytronError:
    """Return `error` if another node may be asked behind it. Raises it if not."""
    if isinstance(error, NotConnected):
        return error
    if isinstance(error, ElytronError) and call.may_repeat and error.key in _PASSED_OVER:
        return error
    raise error
