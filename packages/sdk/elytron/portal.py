"""The synchronous face of the runtime: the same operations, the same names, made from the same methods."""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from functools import partial, wraps
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
        return self.run(partial(method, self.runtime, *args, **kwargs))

    return call


class SyncMemoryRuntime:
    """A MemoryRuntime whose calls wait for their answer.

    The runtime lives in an event loop on a thread of its own, so the calls work anywhere: in a script, beneath a
    running loop, in a notebook. `with elytron.open(...) as memory` opens and closes it.
    """

    def __init__(self, opening: Callable[[], Awaitable[MemoryRuntime]], /) -> None:
        from anyio.from_thread import start_blocking_portal

        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal("asyncio", name="elytron"))
        self._open = True
        try:
            self.runtime = self._portal.call(opening)
        except BaseException:
            self._shut()
            raise

    @property
    def scope(self) -> Scope | None:
        """Return the scope of calls that name none."""
        return self.runtime.scope

    def run(self, call: Callable[[], Awaitable[R]], /) -> R:
        """Run `call` where the runtime lives and return its result. Raises StoreClosed after `close`."""
        if not self._open:
            raise StoreClosed
        return self._portal.call(call)

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
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
