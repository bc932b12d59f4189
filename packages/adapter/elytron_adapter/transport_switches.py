"""Transports of a server: which there are, and which an operator has switched off."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.state.spaces import LostRaces
from elytron_adapter.system_documents import SystemDocuments
from elytron_core import limits
from elytron_core.errors import Conflict, ElytronError, StoreUnavailable, TransportOff
from elytron_core.planes.space import TRANSPORTS, ClosedTransports
from elytron_core.ports.store import PutChange

_KEY = "0"
_FIRST_TRIES = 20


class ServedPath(NamedTuple):
    """One path of a server by its method; `is_operators` if no other key opens it."""

    method: str
    path: str
    group: str
    summary: str
    is_operators: bool


class TransportSwitches:
    """The transports that one server shows, by name. What is switched off is stored, and off from then on.

    Other servers of the same store read it when they start, and every second while they run.
    """

    def __init__(self, context: OperationContext, /) -> None:
        self._documents = SystemDocuments(context, TRANSPORTS)
        self._paths: dict[str, list[str]] = defaultdict(list)
        self._off: frozenset[str] = frozenset()
        self.served: tuple[ServedPath, ...] = ()
        """Every path over HTTP that this server shows and describes."""

    @property
    def paths(self) -> Mapping[str, list[str]]:
        """Return the paths of each transport that this server shows."""
        return self._paths

    def show(self, paths: Iterable[tuple[str, str]], /) -> None:
        """Note that this server shows these transports, each at its path."""
        for name, path in paths:
            if path not in self._paths[name]:
                self._paths[name].append(path)

    def is_on(self, name: str, /) -> bool:
        """Return whether the transport answers."""
        return name not in self._off

    def require_on(self, name: str, /) -> None:
        """Raise TransportOff if the transport is switched off."""
        if name in self._off:
            raise TransportOff(transport=name)

    async def load(self) -> None:
        """Switch off what is stored as switched off."""
        closed, _ = await self._stored()
        self._off = frozenset(closed.names)

    @asynccontextmanager
    async def followed(self, *, pause_s: float = limits.EVENTS_POLL_S) -> AsyncGenerator[None]:
        """Load what is stored, and take over what other servers of the store switch while this is entered.

        A store that is away for a moment is waited for: nothing answers before it is known what is off.
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
        # The last attempt raises the reason why the store is away.
        return await self.load()

    async def _follow(self, pause_s: float) -> None:
        while True:
            await asyncio.sleep(pause_s)
            with suppress(ElytronError):  # a store that is away is read again later
                await self.load()

    async def switch(self, name: str, /, *, on: bool) -> None:
        """Store whether the transport answers, and let it be so from now on."""
        race = LostRaces()
        while True:
            record = await self._documents.record()
            closed, revision = await self._stored()
            names = frozenset(closed.names) - {name} if on else frozenset(closed.names) | {name}
            body = ClosedTransports(names=tuple(sorted(names))).to_bytes()
            try:
                if names != frozenset(closed.names):
                    await self._documents.commit(record, PutChange(self._documents.ref(_KEY), body, revision))
            except Conflict as conflict:
                await race.lost(conflict)
                continue
            # Set only once it is stored, so that a failed commit switches nothing here.
            self._off = names
            return

    async def _stored(self) -> tuple[ClosedTransports, int]:
        document = await self._documents.read(_KEY)
        return (
            (ClosedTransports(), 0)
            if document is None
            else (ClosedTransports.from_bytes(document.body), document.revision)
        )
