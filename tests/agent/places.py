"""Locations of a memory: in this process, in a file, and on a server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, get_args
from weakref import WeakKeyDictionary

import pytest
from tests.transports.live import Live

import elytron
from elytron.api import MemoryFace
from elytron_core.clock import FrozenClock, Instant
from elytron_store.memory import MemoryStore

Place = Literal["memory", "sqlite", "remote"]
PLACES: tuple[Place, ...] = get_args(Place)
EVERYWHERE = pytest.mark.parametrize("place", PLACES, indirect=True)
"""Runs a test at each location. Others run in this process: the suites of stores and transports cover the rest."""
AT = Instant(1_780_000_000_000)


_JOURNALS: WeakKeyDictionary[MemoryFace, MemoryFace] = WeakKeyDictionary()


def journal_beside(memory: MemoryFace) -> MemoryFace | None:
    """Return the journal of agents over a memory on a server; None for one with its own."""
    return _JOURNALS.get(memory)


class Ended(BaseException):
    """The process died."""


class KeptStore(MemoryStore):
    """A store that survives the process that releases it."""

    async def close(self) -> None:
        pass


@asynccontextmanager
async def opened(place: Place, folder: Path, /, *, space: str = "ada") -> AsyncGenerator[MemoryFace]:
    """Yield an empty memory at `place`; the remote one is reached over real HTTP."""
    match place:
        case "memory":
            async with elytron.open("memory:", space=space, clock=FrozenClock(AT)) as memory:
                yield memory
        case "sqlite":
            async with elytron.open(str(folder / "memory.db"), space=space, clock=FrozenClock(AT)) as memory:
                yield memory
        case "remote":
            with Live() as server:
                async with elytron.connect(server.url, space=space) as memory, elytron.open("memory:") as journal:
                    _JOURNALS[memory] = journal
                    yield memory
