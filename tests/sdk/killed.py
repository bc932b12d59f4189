"""Processes that kill themselves: forks of one server, which has imported what they need."""

import multiprocessing
from collections.abc import Callable, Coroutine
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([
    "asyncio", "elytron.factory", "elytron.flows.finalize_turn", "elytron.flows.inspection",
    "elytron.ops.admin.archive", "elytron_store.file.store", "elytron_store.sqlite.store",
])  # fmt: skip


def exit_code(work: Callable[..., Coroutine[Any, Any, None]], /, *args: str | int) -> int | None:
    """Run `work` in a process of its own; return how it ended, by a negative number if by a signal."""
    process = _FORKS.Process(target=_run, args=(work, args))
    process.start()
    process.join(60)
    return process.exitcode


def _run(work: Callable[..., Coroutine[Any, Any, None]], args: tuple[str | int, ...]) -> None:
    import asyncio

    asyncio.run(work(*args))
