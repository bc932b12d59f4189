"""Waiting for what is mostly there already."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def within(wait_s: float, work: Coroutine[Any, Any, T], /) -> T:
    """Return what `work` gives. Raises TimeoutError where it is not there after `wait_s`.

    What is there at once is returned at once: a timer is made only where there is something to wait for.
    """
    try:
        waited_for = work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    async with asyncio.timeout(wait_s):
        return await _Begun(work, waited_for)


class _Begun(Generic[T]):
    """The rest of a coroutine that waits for something: what comes to the one who awaits this goes on to it."""

    def __init__(self, work: Coroutine[Any, Any, T], waited_for: object, /) -> None:
        self._work = work
        self._waited_for = waited_for

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            while True:
                try:
                    come = yield self._waited_for
                except BaseException as error:  # noqa: BLE001 - whatever it is, it is the coroutine's to answer
                    self._waited_for = self._work.throw(error)
                else:
                    self._waited_for = self._work.send(come)
        except StopIteration as done:
            value: T = done.value
            return value
