"""Python's search for cyclic garbage, put off while much is made at once."""

import gc
from types import TracebackType


class Uncollected:
    """A stretch of work, without waiting, during which Python does not search for cyclic garbage.

    A batch of turns consists of thousands of objects that soon go without such a search. Each stretch counts as one
    generation of them; else they count as many, and the search goes through everything in memory again and again, a
    quarter of the time that writing takes. A search that was off before stays off.
    """

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._was_on:
            gc.enable()


def settle() -> None:
    """Take all there is for something that stays: from now on only a search through everything looks at it."""
    if not gc.get_freeze_count():  # what a host has frozen stays so
        gc.freeze()
        gc.unfreeze()
