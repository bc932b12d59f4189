"""Lines of changes: one line per document, and repeats of a change that lost a race.

A change that lost a race is retried with growing delay, a bounded number of times.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from elytron_core.errors import (
    Conflict,
)
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    DocumentRef,
)

ArgumentsP = ParamSpec("ArgumentsP")


ResultT = TypeVar("ResultT")


_DocumentPlace = tuple[SpaceId, DocumentRef]


RACES = 64


_STEP_ASIDE_S = 0.001


_STEPS_MAX = 16


class LostRaces:
    """The races that one change has lost."""

    def __init__(self) -> None:
        self._lost = 0

    async def lost(self, conflict: Conflict, /) -> None:
        """Wait until it is time to read and plan again. Raises `conflict` after `RACES`, and if a retry is useless."""
        self._lost += 1
        if not conflict.retryable or self._lost >= RACES:
            raise conflict
        if self._lost > 1:
            # A change that reads again at once may do so after each running group of others, and lose again.
            await asyncio.sleep(_STEP_ASIDE_S * min(self._lost, _STEPS_MAX))


def retry_lost_races(
    change: Callable[ArgumentsP, Awaitable[ResultT]],
) -> Callable[ArgumentsP, Coroutine[Any, Any, ResultT]]:
    """Repeat a change that reads, plans and commits if another commit came first. Raises Conflict in the end."""

    @wraps(change)
    async def made(*args: ArgumentsP.args, **kwargs: ArgumentsP.kwargs) -> ResultT:
        lost_races = LostRaces()
        while True:
            try:
                return await change(*args, **kwargs)
            except Conflict as conflict:
                await lost_races.lost(conflict)

    return made


class _ChangeLine(asyncio.Lock):
    """The first in line proceeds; the others wait in order of arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 0


class _DocumentHold(NamedTuple):
    """Documents whose changes wait until a long one is `over`."""

    space: SpaceId
    refs: Collection[DocumentRef]
    over: asyncio.Event


class ChangeLines:
    """Queues of this runtime's changes of one document, once one of them has lost a race for it.

    No change waits before: a single writer is not slowed down. Races with other processes are unaffected.
    """

    def __init__(self) -> None:
        self._lines: dict[_DocumentPlace, _ChangeLine] = {}
        self._holds: list[_DocumentHold] = []

    def race(self, space: SpaceId, /) -> "LinedRace":
        """Return the race of a change in `space`, to be held open until the change is made."""
        return LinedRace(self._lines, self._holds, space)

    @contextmanager
    def hold_documents(self, space: SpaceId, refs: Collection[DocumentRef], /) -> Generator[None]:
        """Delay changes of the documents at `refs`, for one that takes too long to win a race against many."""
        document_hold = _DocumentHold(space, refs, asyncio.Event())
        self._holds.append(document_hold)
        try:
            yield
        finally:
            self._holds.remove(document_hold)
            document_hold.over.set()


class LinedRace:
    """The race of one change, which enters the queue if it is lost, and leaves it at its end."""

    def __init__(
        self, lines: dict[_DocumentPlace, _ChangeLine], holds: Sequence[_DocumentHold], space: SpaceId, /
    ) -> None:
        self._lines = lines
        self._holds = holds
        self._space = space
        self._race = LostRaces()
        self._joined: _DocumentPlace | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._joined is not None:
            self._lines[self._joined].release()
            self._leave(self._joined)

    async def held_back(self, about: DocumentRef, /) -> bool:
        """Wait while `about` is held; return whether it was, so that everything is read again. Otherwise does not
        wait."""
        hold_ends = [hold.over for hold in self._holds if hold.space == self._space and about in hold.refs]
        for hold_end in hold_ends:
            await hold_end.wait()
        return bool(hold_ends)

    async def waited(self, about: DocumentRef, /) -> bool:
        """Let those in the queue for `about` go first; return whether there were any, so that everything is read
        again."""
        if await self.held_back(about):
            return True
        document_place = self._space, about
        if self._joined is not None or document_place not in self._lines:
            return False
        await self._join(document_place)
        return True

    async def lost(self, conflict: Conflict, about: DocumentRef | None, /) -> None:
        """Wait until it is time to read and plan again: first in the queue for `about`, if named. Raises its error."""
        await self._race.lost(conflict)
        if self._joined is None and about is not None:
            await self._join((self._space, about))

    async def _join(self, document_place: _DocumentPlace) -> None:
        line = self._lines.setdefault(document_place, _ChangeLine())
        line.length += 1
        try:
            await line.acquire()
        except BaseException:
            self._leave(document_place)
            raise
        self._joined = document_place

    def _leave(self, document_place: _DocumentPlace) -> None:
        self._lines[document_place].length -= 1
        if not self._lines[document_place].length:
            del self._lines[document_place]
