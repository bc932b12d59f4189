"""Connecting to a server."""

from collections.abc import Sequence

from elytron.api import arguments
from elytron.remote.http import HttpTransport
from elytron.remote.memory import RemoteMemory, SyncRemoteMemory
from elytron.remote.wire import NodeSource, RemoteTransport, ServerAddress, addresses_of, require_source
from elytron.sync_runtime import RuntimeEntering
from elytron_core import limits
from elytron_core.contracts.inspection import ShutdownReport, ShutdownRequest
from elytron_core.errors.foreign_names import known_keywords
from elytron_core.scope import Scope


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
