"""The transports of a server, and which of them an operator has switched off."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from elytron.context import OperationContext
from elytron.state.change_lines import retry_lost_races
from elytron_adapter.system_documents import SystemDocuments
from elytron_core import limits
from elytron_core.errors import ElytronError, StoreUnavailable, TransportOff
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import TRANSPORTS, ClosedTransports, TransportEndpoints
from elytron_core.ports.store import PutChange

if TYPE_CHECKING:
    from elytron_adapter.surface import Route

_SWITCHES, _ENDPOINTS = "0", "1"
_FIRST_TRIES = 20
ValueT = TypeVar("ValueT", bound=Value)


class TransportSwitches:
    """The transports that one server exposes, by name, and their endpoints. Disabled ones are stored.

    Other servers of the same store read it when they start, and every second while they run.
    """

    def __init__(self, context: OperationContext, /) -> None:
        self._documents = SystemDocuments(context, TRANSPORTS)
        self._paths: dict[str, list[str]] = defaultdict(list)
        self._off: frozenset[str] = frozenset()
        self.endpoints: Mapping[str, str] = {}
        """The address at which clients reach a transport, if an operator set one."""
        self.served: tuple[Route[Any], ...] = ()
        """Every HTTP route that this server exposes and describes."""

    @property
    def paths(self) -> Mapping[str, list[str]]:
        """Return the paths of each exposed transport."""
        return self._paths

    def show(self, paths: Iterable[tuple[str, str]], /) -> None:
        """Record that this server exposes these transports, each at its path."""
        for name, path in paths:
            if path not in self._paths[name]:
                self._paths[name].append(path)

    def is_on(self, name: str, /) -> bool:
        """Return whether the transport is enabled."""
        return name not in self._off

    def require_on(self, name: str, /) -> None:
        """Raise TransportOff if the transport is disabled."""
        if name in self._off:
            raise TransportOff(transport=name)

    async def load(self) -> None:
        """Load which transports are disabled, and the endpoints."""
        closed, _ = await self._stored(ClosedTransports, _SWITCHES)
        stored_endpoints, _ = await self._stored(TransportEndpoints, _ENDPOINTS)
        self._off, self.endpoints = frozenset(closed.names), stored_endpoints.endpoints

    @asynccontextmanager
    async def followed(self, *, pause_s: float = limits.EVENTS_POLL_S) -> AsyncGenerator[None]:
        """Load what is stored, and follow other servers' changes during the block.

        A briefly unavailable store is waited for: nothing answers before it is known what is disabled.
        """
        await self._load_first(pause_s)
        following = asyncio.create_task(self._follow(pause_s))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _load_first(self, pause_s: float) -> None:
        for _ in range(_FIRST_TRIES):
            try:
                return await self.load()
            except StoreUnavailable:
                await asyncio.sleep(pause_s)
        # The last attempt raises the reason why the store is unavailable.
        return await self.load()

    async def _follow(self, pause_s: float) -> None:
        while True:
            await asyncio.sleep(pause_s)
            with suppress(ElytronError):  # an unavailable store is read again later
                await self.load()

    async def switch(self, name: str, /, *, on: bool) -> None:
        """Store whether the transport is enabled, and apply it."""

        def switched(closed: ClosedTransports) -> ClosedTransports:
            names = frozenset(closed.names) - {name} if on else frozenset(closed.names) | {name}
            return ClosedTransports(names=tuple(sorted(names)))

        self._off = frozenset((await self._change(ClosedTransports, _SWITCHES, switched)).names)

    async def set_endpoint(self, name: str, endpoint: str, /) -> None:
        """Store the address at which clients reach the transport; an empty one removes it."""

        def changed(stored: TransportEndpoints) -> TransportEndpoints:
            other_endpoints = {
                other_name: address for other_name, address in stored.endpoints.items() if other_name != name
            }
            return TransportEndpoints(endpoints=other_endpoints | ({name: endpoint} if endpoint else {}))

        self.endpoints = (await self._change(TransportEndpoints, _ENDPOINTS, changed)).endpoints

    @retry_lost_races
    async def _change(self, model: type[ValueT], key: str, change: Callable[[ValueT], ValueT]) -> ValueT:
        """Store the result of `change` for a document, planned again if another change came first, and return it.

        The caller takes it over only then, so that a failed commit switches nothing here.
        """
        record = await self._documents.record()
        stored_state, revision = await self._stored(model, key)
        changed_state = change(stored_state)
        if changed_state == stored_state:
            return changed_state
        await self._documents.commit(record, PutChange(self._documents.ref(key), changed_state.to_bytes(), revision))
        return changed_state

    async def _stored(self, model: type[ValueT], key: str) -> tuple[ValueT, int]:
        document = await self._documents.read(key)
        return (model(), 0) if document is None else (model.from_bytes(document.body), document.revision)
