"""One thread with one SQLite connection, and functions that run there in a single hop."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TypeVar, TypeVarTuple, cast

import aiosqlite

from elytron_core.errors import StoreClosed, StoreUnavailable
from elytron_store.sqlite.database.driver import ERRORS, Access, Raw, patiently

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Connection(aiosqlite.Connection):
    """An aiosqlite connection that takes whole functions."""

    def __init__(self, connector: Callable[[], Raw], /) -> None:
        super().__init__(connector, iter_chunk_size=64)
        # A host that forgets `close` must still be able to end; what was acknowledged is durable without the thread.
        thread: object = getattr(self, "_thread", self)
        assert isinstance(thread, threading.Thread)
        thread.daemon = True
        self._worker = thread

    async def ended(self) -> None:
        """Wait for the thread of a connection that could not be made; its last word may not find the loop closed."""
        await asyncio.to_thread(self._worker.join)

    def require_raw(self) -> Raw:
        """Return the connection itself, for its thread alone. Raises StoreClosed."""
        raw = self._connection
        if raw is None or not self._running:
            raise StoreClosed
        return raw

    async def run(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Return `function(raw, *args)`, run on the connection's thread behind what was given before.

        A cancelled caller goes away at once; the function still runs. Raises StoreClosed.
        """
        raw = self.require_raw()

        # A closure: aiosqlite logs what it runs, and the arguments are content.
        def call() -> T:
            return function(raw, *args)

        execute = cast("Callable[[Callable[[], T]], Awaitable[T]]", getattr(self, "_execute"))  # noqa: B009 - untyped there
        return await execute(call)

    def give(self, work: Callable[[], object], /) -> None:
        """Have `work` done on the connection's thread behind what was given before; it sees to its own errors.

        It is not awaited here, so that it can answer many in one hop. Raises StoreClosed.
        """
        self.require_raw()

        def call() -> None:
            work()

        queue: SimpleQueue[tuple[None, Callable[[], None]]] = getattr(self, "_tx")  # noqa: B009 - untyped there
        queue.put((None, call))


@contextmanager
def transaction(raw: Raw, access: Access, /) -> Generator[None]:
    """Hold the write lock for the body, then commit; roll back when it raises.

    Raises StoreBusy, StoreUnavailable, and StoreFailed where the file was taken away meanwhile.
    """
    begin(raw, access)
    try:
        yield
        patiently(lambda: raw.execute("COMMIT"), wait_s=access.busy_wait_s)
        if access.place is not None:
            # SQLite goes on writing to an unlinked file: that is not to be acknowledged.
            access.place.require_same()
    except BaseException:
        roll_back(raw)
        raise


@contextmanager
def snapshot(raw: Raw, /) -> Generator[None]:
    """Let all reads of the body see one state."""
    raw.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(raw)


def begin(raw: Raw, access: Access, /) -> None:
    """Take the write lock. Raises StoreBusy, and StoreUnavailable where another switched the file to a WAL since."""
    patiently(lambda: raw.execute("BEGIN IMMEDIATE"), wait_s=access.busy_wait_s)
    if access.mode == "delete" and raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        roll_back(raw)
        raise StoreUnavailable(
            "another process switched this sqlite store to WAL, which this SQLite library may corrupt: "
            "install pysqlite3 here, or an equally old SQLite there"
        )


def roll_back(raw: Raw, /) -> None:
    """End the transaction, if SQLite has not already done so."""
    # A failed rollback leaves nothing to do: the error that led here is the one to tell.
    with suppress(*ERRORS):
        if raw.in_transaction:
            raw.execute("ROLLBACK")
