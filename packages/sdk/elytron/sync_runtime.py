"""The synchronous face of the runtime: the same operations, the same names, made from the same methods."""

import asyncio
import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack
from functools import cache, wraps
from importlib import import_module
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar, overload

from elytron.api import MemoryFace
from elytron.api.base import NOT_CARRIED, FaceCall, ReportT, RequestT, no_call
from elytron.runtime import MemoryRuntime
from elytron_core.contracts.inspection import MemoryCloseRequest, MemoryLifecycleReport, RuntimePhase
from elytron_core.errors import StoreClosed, Unsupported
from elytron_core.model import OperationRequest
from elytron_core.scope import Scope

P = ParamSpec("P")
R = TypeVar("R")
FaceT = TypeVar("FaceT", bound=MemoryFace)


_open: "set[BlockingMemory[Any]]" = set()
"""Blocking memories that are not closed yet."""


@cache
def _close_at_exit() -> None:
    """Have what is still open closed when the interpreter ends, while threads can still be asked for something.

    When the callbacks of `atexit` run, no executor takes anything any more, and closing needs some.
    """
    # Executors register their end when they are loaded, and the last one registered runs first.
    import_module("concurrent.futures.thread")
    getattr(threading, "_register_atexit", atexit.register)(_close_all)


def _close_all() -> None:
    with ExitStack() as closing:
        for memory in _open:
            closing.callback(memory.close)


@overload
def blocking_call(method: FaceCall[RequestT, P, Coroutine[Any, Any, R]]) -> FaceCall[RequestT, P, R]: ...


@overload
def blocking_call(
    method: Callable[Concatenate[MemoryFace, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["BlockingMemory[Any]", P], R]: ...


def blocking_call(method: Any) -> Any:
    """Return `method` as a call that waits for its answer."""

    @wraps(method)
    def call(self: "BlockingMemory[Any]", /, *args: Any, **kwargs: Any) -> Any:
        # By its name: a face of its own kind may do it in its own way.
        return self.run(getattr(self.runtime, method.__name__)(*args, **kwargs))

    return call


class BlockingMemory(Generic[FaceT]):
    """A memory whose calls wait for their answer.

    It lives in an event loop on a thread of its own, so the calls work anywhere: in a script, beneath a
    running loop, in a notebook. `with elytron.open(...) as memory` opens and closes it; one that was never closed is
    closed when the interpreter ends. A forked process has no such thread: there it is closed, and is opened again.
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
        """Return the scope of calls that name none."""
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
                "a blocking call would wait for itself here: await the same call of its `runtime` instead"
            )
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupt reaches the waiting thread alone: stop what it waited for.
            future.cancel()
            raise

    write = blocking_call(MemoryFace.write)
    add = blocking_call(MemoryFace.add)
    add_fact = blocking_call(MemoryFace.add_fact)
    recall = blocking_call(MemoryFace.recall)
    search = blocking_call(MemoryFace.search)
    project = blocking_call(MemoryFace.project)
    get = blocking_call(MemoryFace.get)
    list = blocking_call(MemoryFace.list)
    get_all = blocking_call(MemoryFace.get_all)
    history = blocking_call(MemoryFace.history)
    forget = blocking_call(MemoryFace.forget)
    correct = blocking_call(MemoryFace.correct)
    erase = blocking_call(MemoryFace.erase)
    update = blocking_call(MemoryFace.update)
    delete = blocking_call(MemoryFace.delete)
    delete_all = blocking_call(MemoryFace.delete_all)
    inspect = blocking_call(MemoryFace.inspect)
    replay = blocking_call(MemoryFace.replay)
    export = blocking_call(MemoryFace.export)
    spaces = blocking_call(MemoryFace.spaces)
    import_archive = blocking_call(MemoryFace.import_archive)
    keep_erasures = blocking_call(MemoryFace.keep_erasures)
    apply_erasures = blocking_call(MemoryFace.apply_erasures)
    compact_journal = blocking_call(MemoryFace.compact_journal)
    embed = blocking_call(MemoryFace.embed)
    switch_model = blocking_call(MemoryFace.switch_model)
    recover = blocking_call(MemoryFace.recover)
    capabilities = blocking_call(MemoryFace.capabilities)
    commit_transcript = blocking_call(MemoryFace.commit_transcript)
    replay_transcript = blocking_call(MemoryFace.replay_transcript)
    export_transcript = blocking_call(MemoryFace.export_transcript)
    request_transcript_lifecycle = blocking_call(MemoryFace.request_transcript_lifecycle)
    repair_transcript = blocking_call(MemoryFace.repair_transcript)
    list_runtime_skills = blocking_call(MemoryFace.list_runtime_skills)
    get_runtime_skill = blocking_call(MemoryFace.get_runtime_skill)
    edit_runtime_skill = blocking_call(MemoryFace.edit_runtime_skill)
    set_runtime_skill_enabled = blocking_call(MemoryFace.set_runtime_skill_enabled)
    delete_runtime_skill = blocking_call(MemoryFace.delete_runtime_skill)
    record_skill_reuse = blocking_call(MemoryFace.record_skill_reuse)
    govern_runtime_skills = blocking_call(MemoryFace.govern_runtime_skills)
    add_agent_skill_dir = blocking_call(MemoryFace.add_agent_skill_dir)
    upsert_agent_tool_registry = blocking_call(MemoryFace.upsert_agent_tool_registry)
    list_agent_tool_registries = blocking_call(MemoryFace.list_agent_tool_registries)
    get_agent_tool_registry = blocking_call(MemoryFace.get_agent_tool_registry)
    delete_agent_tool_registry = blocking_call(MemoryFace.delete_agent_tool_registry)
    put_record = blocking_call(MemoryFace.put_record)
    get_record = blocking_call(MemoryFace.get_record)
    delete_record = blocking_call(MemoryFace.delete_record)
    search_records = blocking_call(MemoryFace.search_records)
    list_record_namespaces = blocking_call(MemoryFace.list_record_namespaces)
    record_history = blocking_call(MemoryFace.record_history)
    finalize_turn_and_maintain = blocking_call(MemoryFace.finalize_turn_and_maintain)
    maintain = blocking_call(MemoryFace.maintain)
    list_jobs = blocking_call(MemoryFace.list_jobs)
    run_jobs = blocking_call(MemoryFace.run_jobs)
    retry_job = blocking_call(MemoryFace.retry_job)
    cancel_job = blocking_call(MemoryFace.cancel_job)
    list_candidates = blocking_call(MemoryFace.list_candidates)
    resolve_candidate = blocking_call(MemoryFace.resolve_candidate)
    list_facts = blocking_call(MemoryFace.list_facts)
    get_fact = blocking_call(MemoryFace.get_fact)
    profile = blocking_call(MemoryFace.profile)
    change_fact = blocking_call(MemoryFace.change_fact)
    forget_facts = blocking_call(MemoryFace.forget_facts)
    set_learning = blocking_call(MemoryFace.set_learning)
    merge_facts = blocking_call(MemoryFace.merge_facts)
    read_continuity = blocking_call(MemoryFace.read_continuity)
    export_continuity = blocking_call(MemoryFace.export_continuity)
    import_continuity = blocking_call(MemoryFace.import_continuity)
    read_subjects = blocking_call(MemoryFace.read_subjects)
    read_garden = blocking_call(MemoryFace.read_garden)
    _close = blocking_call(MemoryFace.close)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_call(self, name)

    def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return what it reports. Raises Unsupported.

        >>> report = memory.operate(elytron.MemoryRecallRequest(query="boat key"))
        >>> report.hits[0].text
        'The boat key is under the oar.'
        """
        return self.run(self.runtime.operate(request))

    def close(self, request: MemoryCloseRequest | None = None, /) -> MemoryLifecycleReport:
        """Finish what was accepted and let go of the store and the thread; a second close does nothing.

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
    """A MemoryRuntime whose calls wait for their answer."""


HandleFaceT = TypeVar("HandleFaceT", bound=MemoryFace)
BlockingT = TypeVar("BlockingT", bound=BlockingMemory[Any])


class RuntimeEntering(ABC, Generic[HandleFaceT, BlockingT]):
    """A memory about to be opened; nothing is opened before. Leaving the block closes it."""

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
            f"{name!r} is of an open memory: `with ... as memory` or .sync() opens this one, or `async with` or await",
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
        way_out = "`with elytron.open(...)` gives blocking calls, which work anywhere"
        raise Unsupported(f"a memory is awaited in an asyncio event loop, and none runs here: {way_out}") from None
