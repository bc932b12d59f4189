"""A process that compacts the journal of a store and kills itself as it comes to a point for the nth time."""

import os
import signal
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import elytron
from elytron.journal.compaction import compact
from elytron_core.ids import SpaceId
from elytron_store.journal import compaction

P = ParamSpec("P")
T = TypeVar("T")


def dying(function: Callable[P, T], number: int) -> Callable[P, T]:
    """Return `function`, whose `number`th call ends the process."""
    calls = iter(range(1, number))

    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return called


async def main(url: str, point: str, number: int) -> None:
    async with elytron.open(url, space="ada") as memory:
        await memory.inspect()
        match point:
            case "run":
                compaction.stand_in = dying(compaction.stand_in, number)
            case "fsync":
                os.fsync = dying(os.fsync, number)
            case _:
                os.replace = dying(os.replace, number)
        await compact(memory.context.store, SpaceId("ada"))
