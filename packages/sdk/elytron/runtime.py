"""The async and the blocking face of a store in this process, with the same operations and names."""

import asyncio
import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from elytron.api import BlockingFaces, MemoryFace
from elytron.api.calls import NOT_CARRIED, ReportT, blocking_call, no_call
from elytron.context import OperationContext
from elytron.journal.follower import WRITER, inner_store
from elytron.registry import by_request
from elytron.secrets.space_secrets import SpaceSecrets
from elytron_core.contracts.inspection import MemoryCloseRequest, MemoryLifecycleReport, RuntimePhase
from elytron_core.errors import StoreClosed, Unsupported
from elytron_core.model import OperationRequest
from elytron_core.ports.store import Store
from elytron_core.scope import Scope


class MemoryRuntime(MemoryFace):
    """Governed memory over one store. Every call is a typed operation of one memory space and returns its report.

    Calls take the typed request; the everyday ones also take plain values, and the ids that mem0's users know:
    `user_id` names the space, `agent_id` the agent, `run_id` the conversation. Many calls may run at once.
    `async with elytron.open(...) as memory` opens and closes it. `elytron.ops` has what each operation does.
    """

    def __init__(self, context: OperationContext, /) -> None:
        self._context = context

    def __repr__(self) -> str:
        space = f"space {self.scope.space!r}" if self.scope is not None else "no space of its own"
        return f"<MemoryRuntime on {self._context.engine}, {space}{', closed' if self._context.closing else ''}>"

    @property
    def context(self) -> OperationContext:
        """Return the context of the operations: the store, clock, ids and index of this runtime."""
        return self._context

    @property
    def store(self) -> Store:
        """Return the store that this runtime was opened on, unwrapped: a sealed one rotates its keys."""
        return inner_store(self._context.store)

    @property
    def secrets(self) -> SpaceSecrets:
        """Return the interface that protects spaces with their users' words or passphrases, opens and closes them."""
        return self._context.secrets

    @property
    def scope(self) -> Scope | None:
        """Return the default scope of calls."""
        return self._context.usual_scope

    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return its report. Raises Unsupported.

        >>> report = memory.operate(elytron.MemoryRecallRequest(query="boat key"))
        >>> report.hits[0].text
        'The boat key is under the oar.'
        """
        operation = by_request(request)
        writer = WRITER.set(self._context.caller)
        try:
            report = await operation.perform(self._context, await self._context.reached(request))
        finally:
            WRITER.reset(writer)
        assert isinstance(report, operation.report)
        return report


R = TypeVar("R")
FaceT = TypeVar("FaceT", bound=MemoryFace)


_open: "set[BlockingMemory[Any]]" = set()
"""Blocking memories that are not closed yet."""


@cache
def _close_at_exit() -> None:
    """Close open memories when the interpreter ends, while threads can still be used.

    When the callbacks of `atexit` run, no executor takes anything any more, and closing needs some.
    """
    # Executors register their end when they are loaded, and the last one registered runs first.
    import_module("concurrent.futures.thread")
    getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _close_all() -> None:
    with ExitStack() as close_stack:
        for memory in _open:
            close_stack.callback(memory.close)


class BlockingMemory(BlockingFaces, Generic[FaceT]):
    """A memory with blocking calls.

    It runs in an event loop on a separate thread, so the calls work anywhere: in a script, inside a running loop, in a
    notebook. `with elytron.open(...) as memory` opens and closes it; one that was never closed is closed when the
    interpreter ends. A forked process has no such thread: there it is closed, and must be opened again.
    """

    def __init__(self, opening: Coroutine[Any, Any, FaceT], /) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="elytron", daemon=True)
        self._thread.start()
        self._process: int | None = os.getpid()
        try:
            self.runtime = self.run(opening)
        except BaseException:
            self._shut()
            raise
        _open.add(self)
        _close_at_exit()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.runtime!r}>"

    @property
    def scope(self) -> Scope | None:
        """Return the default scope of calls."""
        return self.runtime.scope

    def run(self, call: Coroutine[Any, Any, R], /) -> R:
        """Run `call` where the runtime lives and return its result.

        Raises StoreClosed after `close`, and in a fork; Unsupported in what runs there already, which it would hold up.

        >>> memory.run(memory.runtime.recall("boat key"))[0].text
        'The boat key is under the oar.'
        """
        if os.getpid() != self._process:
            call.close()
            raise StoreClosed
        if threading.current_thread() is self._thread:
            call.close()
            raise Unsupported(
                "a blocking call here would wait for itself: await the same call of its `runtime` instead"
            )
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupt only reaches the waiting thread: stop what it waited for.
            future.cancel()
            raise

    _close = blocking_call(MemoryFace.close)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_call(self, name)

    def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return its report. Raises Unsupported.

        >>> report = memory.operate(elytron.MemoryRecallRequest(query="boat key"))
        >>> report.hits[0].text
        'The boat key is under the oar.'
        """
        return self.run(self.runtime.operate(request))

    def close(self, request: MemoryCloseRequest | None = None, /) -> MemoryLifecycleReport:
        """Finish accepted work and release the store and the thread; a second close does nothing.

        >>> print(memory.close().phase)
        closed
        """
        if os.getpid() != self._process:
            reason = request.reason if request is not None else ""
            return MemoryLifecycleReport(phase=RuntimePhase.CLOSED, reason=reason)
        try:
            return self._close(request)
        finally:
            self._shut()

    def _shut(self) -> None:
        self._process = None
        _open.discard(self)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_CARRIED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncMemoryRuntime(BlockingMemory[MemoryRuntime]):
    """A MemoryRuntime with blocking calls."""


HandleFaceT = TypeVar("HandleFaceT", bound=MemoryFace)
BlockingT = TypeVar("BlockingT", bound=BlockingMemory[Any])


class RuntimeEntering(ABC, Generic[HandleFaceT, BlockingT]):
    """A memory that has not been opened yet. Leaving the block closes it."""

    def __init__(self) -> None:
        self._async: HandleFaceT | None = None
        self._sync: BlockingT | None = None

    @abstractmethod
    def _open(self) -> Coroutine[Any, Any, HandleFaceT]:
        """Open the memory."""

    @abstractmethod
    def sync(self) -> BlockingT:
        """Open the memory behind blocking calls; the caller closes it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{name!r} requires an open memory: use `with ... as memory` or .sync(), or `async with` or await",
            name=name,
            obj=self,
        )

    def __await__(self) -> Generator[Any, None, HandleFaceT]:
        _require_asyncio()
        return self._open().__await__()

    async def __aenter__(self) -> HandleFaceT:
        self._async = await self
        return self._async

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._async is not None
        await self._async.close()

    def __enter__(self) -> BlockingT:
        self._sync = self.sync()
        return self._sync

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sync is not None
        self._sync.close()


def _require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        way_out = "`with elytron.open(...)` provides blocking calls, which work anywhere"
        raise Unsupported(f"a memory is awaited in an asyncio event loop, but none is running: {way_out}") from None
