"""The synchronous face of the runtime: the same operations, the same names, made from the same methods."""

import asyncio
import atexit
from collections.abc import Callable, Coroutine
from functools import wraps
from threading import Thread
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from elytron.runtime import MemoryRuntime
from elytron_core.errors import StoreClosed
from elytron_core.scope import Scope

P = ParamSpec("P")
R = TypeVar("R")


def blocking(
    method: Callable[Concatenate[MemoryRuntime, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["SyncMemoryRuntime", P], R]:
    """Return `method` as a call that waits for its answer."""

    @wraps(method)
    def call(self: "SyncMemoryRuntime", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(method(self.runtime, *args, **kwargs))

    return call


class SyncMemoryRuntime:
    """A MemoryRuntime whose calls wait for their answer.

    The runtime lives in an event loop on a thread of its own, so the calls work anywhere: in a script, beneath a
    running loop, in a notebook. `with elytron.open(...) as memory` opens and closes it; one that was never closed is
    closed when the interpreter ends.
    """

    def __init__(self, opening: Coroutine[Any, Any, MemoryRuntime], /) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="elytron", daemon=True)
        self._thread.start()
        self._open = True
        try:
            self.runtime = self.run(opening)
        except BaseException:
            self._shut()
            raise
        atexit.register(self.close)

    @property
    def scope(self) -> Scope | None:
        """Return the scope of calls that name none."""
        return self.runtime.scope

    def run(self, call: Coroutine[Any, Any, R], /) -> R:
        """Run `call` where the runtime lives and return its result. Raises StoreClosed after `close`."""
        if not self._open:
            call.close()
            raise StoreClosed
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupt reaches the waiting thread alone: stop what it waited for.
            future.cancel()
            raise

    write = blocking(MemoryRuntime.write)
    add = blocking(MemoryRuntime.add)
    recall = blocking(MemoryRuntime.recall)
    search = blocking(MemoryRuntime.search)
    project = blocking(MemoryRuntime.project)
    get = blocking(MemoryRuntime.get)
    list = blocking(MemoryRuntime.list)
    get_all = blocking(MemoryRuntime.get_all)
    history = blocking(MemoryRuntime.history)
    forget = blocking(MemoryRuntime.forget)
    correct = blocking(MemoryRuntime.correct)
    erase = blocking(MemoryRuntime.erase)
    delete = blocking(MemoryRuntime.delete)
    delete_all = blocking(MemoryRuntime.delete_all)
    inspect = blocking(MemoryRuntime.inspect)
    replay = blocking(MemoryRuntime.replay)
    export = blocking(MemoryRuntime.export)
    import_archive = blocking(MemoryRuntime.import_archive)
    recover = blocking(MemoryRuntime.recover)
    _close = blocking(MemoryRuntime.close)

    def close(self) -> None:
        """Finish what was accepted and let go of the store and the thread; a second close does nothing."""
        if not self._open:
            return
        try:
            self._close()
        finally:
            self._shut()

    def _shut(self) -> None:
        self._open = False
        atexit.unregister(self.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
