"""Processes that may kill themselves: forks of one server that has imported what they need."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from tests.sdk.turns import finish

import elytron
from elytron.context import Beat
from elytron.erasure import removal
from elytron.flows.worker import run_next
from elytron.indexing.index_manager import SpaceIndexes
from elytron.jobs.queue import schedule_job
from elytron.journal.compaction import compact_space
from elytron.journal.follower import AnnouncingStore
from elytron.models import ScriptedModel
from elytron.transfer import bootstrap
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope
from elytron_store import engine
from elytron_store.file import disk, generation
from elytron_store.file.store import FileSpace
from elytron_store.sqlite import writes
from elytron_store.sqlite.schema import JournalAppending

P = ParamSpec("P")
T = TypeVar("T")

ADA = SpaceId("ada")
POINTS = {
    "acknowledge": (generation, "acknowledge_end"),
    "append": (generation, "append_frames"),
    "begun": (AnnouncingStore, "erase"),
    "ended": (removal, "end_erasing"),
    "finished": (SpaceIndexes, "settle_erasure"),
    "purge": (writes, "purge_file"),
    "fsync": (os, "fsync"),
    "journal": (JournalAppending, "finish"),
    "mark": (disk, "leave_mark"),
    "replace": (os, "replace"),
    "run": (engine, "stand_in"),
    "settle": (FileSpace, "_settle_mark"),
    "write": (bootstrap, "commit_write"),
}
"""The functions at which a process can die."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([
    "asyncio", "elytron.factory", "elytron.flows.maintenance",
    "elytron.ops.archive", "elytron_store.file.store", "elytron_store.sqlite.store",
])  # fmt: skip


def exit_code(work: Callable[..., Coroutine[Any, Any, None]], /, *args: str | int) -> int | None:
    """Run `work` in a separate process; return its exit code, negative for a signal."""
    process = _FORKS.Process(target=_run, args=(work, args))
    process.start()
    process.join(60)
    return process.exitcode


def _run(work: Callable[..., Coroutine[Any, Any, None]], args: tuple[str | int, ...]) -> None:
    asyncio.run(work(*args))


async def compacting(url: str, point: str, number: int) -> None:
    """Compact the journal of a space; die when `point` is reached for the `number`th time."""
    async with elytron.open(url, space=ADA) as memory:
        await memory.inspect()
        _die_at(point, number)
        await compact_space(memory.context.store, ADA)


async def erasing(url: str, point: str, number: int, *ids: str) -> None:
    """Erase memories; die like `compacting`."""
    async with elytron.open(url, space=ADA) as memory:
        await memory.recall("tea")
        _die_at(point, number)
        await memory.erase(elytron.MemoryEraseRequest(ids=ids))


async def importing(url: str, archive: str, point: str, number: int) -> None:
    """Import an archive into a space with memories; die like `compacting`."""
    async with elytron.open(url, space=ADA) as memory:
        await memory.inspect()
        _die_at(point, number)
        await memory.import_archive(archive, mode=elytron.ImportMode.BOOTSTRAP)


async def asking(url: str) -> None:
    """Queue a turn in a store; die when the model is called for it."""
    dying = ScriptedModel(lambda _: os.kill(os.getpid(), signal.SIGKILL) or "")
    async with elytron.open(url, space=ADA, language_model=dying) as memory:
        await finish(memory, "t1", "Well, home is Porto these days.")
        await memory.run_jobs()


async def queueing(url: str, point: str, number: int) -> None:
    """Queue jobs of several spaces and run some, repeatedly; die like `compacting`."""
    async with elytron.open(url, space=ADA) as memory:
        memory.context.runners["remind"] = _do_nothing
        for name in ("ada", "bob", "cleo"):
            await memory.add("hello", user_id=name)
        _die_at(point, number)
        for turn in range(9):
            for name in ("ada", "bob", "cleo"):
                due_at = memory.context.clock.now()
                await schedule_job(memory.context, Scope(space=name), "remind", f"{turn}", "", due_at=due_at)
                if turn % 3 or name == "ada":
                    await run_next(memory.context, SpaceId(name))


async def _do_nothing(_scope: Scope, _payload: str, _beat: Beat, /) -> None: ...


def _die_at(point: str, number: int) -> None:
    owner, name = POINTS[point]
    setattr(owner, name, _dying(getattr(owner, name), number))


def _dying(function: Callable[P, T], number: int) -> Callable[P, T]:
    """Return `function`, whose `number`th call ends the process."""
    calls = iter(range(1, number))

    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return called
