"""Retry of a change after a write conflict: bounded attempts with growing delay, one document in a queue."""

import asyncio
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from elytron_core.errors import Conflict
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DocumentRef

Place = tuple[SpaceId, DocumentRef]

RACES = 64
_STEP_ASIDE_S = 0.001
_STEPS_MAX = 16


class LostRaces:
    """The races that one change has lost."""

    def __init__(self) -> None:
        self._lost = 0

    async def lost(self, conflict: Conflict, /) -> None:
        """Return when it is time to read and plan again. Raises `conflict` after `RACES`, and if a retry is useless."""
        self._lost += 1
        if not conflict.retryable or self._lost >= RACES:
            raise conflict
        if self._lost > 1:
            # A change that reads again at once may do so behind each running group of others, and lose again.
            await asyncio.sleep(_STEP_ASIDE_S * min(self._lost, _STEPS_MAX))


class _ChangeLine(asyncio.Lock):
    """The first in line holds it; the others wait in the order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 0


class _HeldDocuments(NamedTuple):
    """Documents whose changes wait until a long one is `over`."""

    space: SpaceId
    refs: Collection[DocumentRef]
    over: asyncio.Event


class ChangeLines:
    """Queues of the changes of one document in this runtime, once one of them has lost a race for it.

    No change waits before: a lone writer is not slower for it. Races with other processes are as before.
    """

    def __init__(self) -> None:
        self._lines: dict[Place, _ChangeLine] = {}
        self._held: list[_HeldDocuments] = []

    def race(self, space: SpaceId, /) -> "LinedRace":
        """Return the race of a change in `space`, to be held open until the change is made."""
        return LinedRace(self._lines, self._held, space)

    @contextmanager
    def held(self, space: SpaceId, refs: Collection[DocumentRef], /) -> Generator[None]:
        """Hold back changes of the documents at `refs`, for one that takes too long to win a race against many."""
        held = _HeldDocuments(space, refs, asyncio.Event())
        self._held.append(held)
        try:
            yield
        finally:
            self._held.remove(held)
            held.over.set()


class LinedRace:
    """The race of one change, which enters the queue if it is lost, and leaves it at its end."""

    def __init__(self, lines: dict[Place, _ChangeLine], held: Sequence[_HeldDocuments], space: SpaceId, /) -> None:
        self._lines = lines
        self._held = held
        self._space = space
        self._race = LostRaces()
        self._joined: Place | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._joined is not None:
            self._lines[self._joined].release()
            self._leave(self._joined)

    async def held_back(self, about: DocumentRef, /) -> bool:
        """Wait while `about` is held; return whether it was, so that all is read again. Does not wait otherwise."""
        overs = [held.over for held in self._held if held.space == self._space and about in held.refs]
        for over in overs:
            await over.wait()
        return bool(overs)

    async def waited(self, about: DocumentRef, /) -> bool:
        """Let those in the queue for `about` go first; return whether there were any, so that all is read again."""
        if await self.held_back(about):
            return True
        place = self._space, about
        if self._joined is not None or place not in self._lines:
            return False
        await self._join(place)
        return True

    async def lost(self, conflict: Conflict, about: DocumentRef | None, /) -> None:
        """Return when it is time to read and plan again: first in the queue for `about`, if named. Raises its error."""
        await self._race.lost(conflict)
        if self._joined is None and about is not None:
            await self._join((self._space, about))

    async def _join(self, place: Place) -> None:
        line = self._lines.setdefault(place, _ChangeLine())
        line.length += 1
        try:
            await line.acquire()
        except BaseException:
            self._leave(place)
            raise
        self._joined = place

    def _leave(self, place: Place) -> None:
        self._lines[place].length -= 1
        if not self._lines[place].length:
            del self._lines[place]
