"""Telling how far an index is that has more of its journal to take in than a moment's work."""

from collections.abc import Callable

from elytron_core.ids import SpaceId
from elytron_core.ports.store import Store

Progress = Callable[[int, int], None]
"""Called with how many entries of a space's journal its index holds, and how many the journal has."""


class CatchingUp:
    """Progress of an index towards the end of its space's journal. Less than a page is not reported."""

    def __init__(self, store: Store, space: SpaceId, progress: Progress | None, /) -> None:
        self._store = store
        self._space = space
        self._progress = progress
        self._end = 0

    async def at(self, done: int, seen: int, /, *, is_all: bool) -> None:
        """Say that the index holds `done` entries, and that the journal has `seen`, or more unless that `is_all`."""
        if self._progress is None or (is_all and not self._end):
            return
        if is_all:
            self._end = seen
        elif seen > self._end:
            self._end = await end_of(self._store, self._space, seen)
        self._progress(done, self._end)


async def end_of(store: Store, space: SpaceId, least: int, /) -> int:
    """Return where the journal of `space` ends, which is at `least` or later, in few looks."""

    async def reaches(sequence: int) -> bool:
        return bool(await store.journal(space, after=sequence - 1, limit=1))

    step = least
    while await reaches(least + step):
        least, step = least + step, 2 * step
    beyond = least + step
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if await reaches(middle):
            least = middle
        else:
            beyond = middle
    return least
