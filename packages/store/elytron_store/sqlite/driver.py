"""The SQLite library: its choice, its limits, and its errors."""

import asyncio
import importlib
import os
import random
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Literal, Self, TypeVar, TypeVarTuple, cast

import aiosqlite

from elytron_core.errors import (
    ElytronError,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreFailed,
    StoreForeign,
    StoreFull,
    StoreUnavailable,
    Unsupported,
)
from elytron_store import limits as store_limits
from elytron_store.manifest import is_there

T = TypeVar("T")

Raw = sqlite3.Connection
"""A blocking connection of either driver; the bundled one has the same shape."""

WAL_SAFE_FROM = (3, 51, 3)
"""SQLite 3.7.0 to 3.51.2 can corrupt a WAL that several connections share."""

_STRICT_TABLES_FROM = (3, 37, 0)
ENGINE = "sqlite"
_BUSY = 5
# Position of the format's read version in a file's header: 2 means WAL.
_WAL_AT = 19
_FIRST_PAUSE_S = 0.000_5
_LONGEST_PAUSE_S = 0.01


JournalMode = Literal["wal", "delete"]


@dataclass(frozen=True, slots=True)
class SqliteLibrary:
    """A DB-API module and the version of the SQLite behind it."""

    module: ModuleType
    version: tuple[int, ...]

    @property
    def wal_is_safe(self) -> bool:
        """True if several connections and processes may share a WAL of this library."""
        return self.version >= WAL_SAFE_FROM

    def connect(self, path: str, /, *, wait_s: float) -> Raw:
        """Open `path` in autocommit; statements wait up to `wait_s` for a lock. The caller creates the file."""
        return self._connect(path, wait_s=wait_s)

    def connect_reading(self, path: Path, /, *, wait_s: float) -> Raw:
        """Open a file that cannot be written here. Raises StoreUnavailable if others' writes could not be seen.

        Other writers are visible through the files next to a WAL; if there are none, SQLite would create them, and lock
        the file's owner out. On a read-only medium there are no others.
        """
        if _stands_still(path):
            mode = "immutable=1"
        elif _has_wal_mode(path) and not is_there(path_beside(path, "shm")):
            name = str(path)
            raise StoreUnavailable(
                f"the store at {name!r} belongs to another user and is not open: copy it, or have its owner open it"
            )
        else:
            mode = "mode=ro"
        return self._connect(f"{path.absolute().as_uri()}?{mode}", wait_s=wait_s, uri=True)

    def _connect(self, name: str, *, wait_s: float, uri: bool = False) -> Raw:
        # Autocommit: this package begins its transactions itself, and a write takes its lock at once.
        raw_connection: Raw = self.module.connect(
            name, timeout=wait_s, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri
        )
        return raw_connection


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file under its name, with its identity when it was opened."""

    path: Path
    device: int
    number: int

    @classmethod
    def of(cls, path: Path, /) -> Self:
        """Return the place of the file that is at `path` now."""
        absolute_path = path.absolute()
        status = absolute_path.stat()
        return cls(absolute_path, status.st_dev, status.st_ino)

    def require_same(self) -> None:
        """Raise StoreFailed if the name no longer refers to the same file: the writes are in no store."""
        try:
            status = self.path.stat()
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != (self.device, self.number):
            raise StoreFailed(engine=ENGINE, doing=f"committing, as its file {self.path.name!r} was moved or replaced")


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Settings of a handle's file: its journal mode, its wait for others, and its path."""

    mode: JournalMode
    busy_wait_s: float = store_limits.BUSY_WAIT_S
    place: FilePlace | None = None


@dataclass(frozen=True, slots=True)
class DriverReport:
    """Report of `elytron doctor` on SQLite."""

    library: str
    version: str
    journal_mode: JournalMode
    reason: str


def _bundled_module() -> ModuleType | None:
    with suppress(ImportError):
        return importlib.import_module("pysqlite3.dbapi2")
    return None


ERRORS: tuple[type[Exception], ...] = (
    *{module.Error for module in (sqlite3, _bundled_module()) if module is not None},
    UnicodeDecodeError,
)
"""Exceptions of both drivers; the last for a SQLite message that quotes a damaged schema."""


@cache
def sqlite_library() -> SqliteLibrary:
    """Return the bundled SQLite if there is one, else the interpreter's. Raises Unsupported below 3.37.

    A process must use one library per file: two copies of SQLite do not see each other's locks, and take them away.
    """
    module = _bundled_module() or sqlite3
    library = SqliteLibrary(module=module, version=tuple(module.sqlite_version_info))
    if library.version < _STRICT_TABLES_FROM:
        raise Unsupported("SQLite 3.37 or newer is required: install pysqlite3 or a newer Python")
    return library


def driver_report(library: SqliteLibrary | None = None, /) -> DriverReport:
    """Return which SQLite a store will use, in which journal mode, and why."""
    library = library or sqlite_library()
    name = library.module.__name__.partition(".")[0]
    version = ".".join(str(part) for part in library.version)
    if library.wal_is_safe:
        return DriverReport(name, version, "wal", "this SQLite can safely share a WAL between processes")
    reason = "SQLite 3.7.0 to 3.51.2 can corrupt a shared WAL; for the faster journal install pysqlite3 3.51.3 or newer"
    return DriverReport(name, version, "delete", reason)


class LockedByOthers(Exception):
    """Others hold the file, as inferred from something that SQLite does not report as an error."""


def is_busy(error: Exception, /) -> bool:
    """Return whether `error` only says that others hold the file."""
    return isinstance(error, LockedByOthers) or _primary_code(error) == _BUSY


def retry_while_held(step: Callable[[], T], /, *, wait_s: float) -> T:
    """Return the result of `step`, retrying while others hold the file; blocks, so for worker threads only.

    Raises StoreBusy after `wait_s`. The pauses vary, so that processes waiting for each other get out of step.
    """
    deadline = time.monotonic() + wait_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return step()
        except (LockedByOthers, *ERRORS) as error:
            if not is_busy(error):
                raise
            if time.monotonic() >= deadline:
                raise StoreBusy(engine=ENGINE, waited_s=wait_s) from error
        time.sleep(pause_s * (0.5 + random.random()))  # noqa: S311 - spreads waiters, guards nothing
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def translate_error(error: Exception, /, *, doing: str) -> ElytronError:
    """Return the caller's error for a driver's `error`; the driver's own text is dropped, because it may quote
    content."""
    match _primary_code(error):
        case 5 | 6:  # busy, locked
            return StoreBusy(engine=ENGINE, waited_s=store_limits.BUSY_WAIT_S)
        case 13:  # full
            return StoreFull(engine=ENGINE)
        case 11:  # corrupt
            return StoreCorrupt(what="the sqlite file")
        case 26:  # not a database
            return StoreForeign("this file is not an SQLite database: name another file, or restore it from a backup")
        case 3 | 8 | 14 | 23:  # no permission, read-only, cannot open, not authorised
            way_out = "check the permissions of the file and its folder"
            return StoreUnavailable(f"the sqlite store failed while {doing}: {way_out}")
        case 0:  # the driver's own: a text that is not UTF-8
            return StoreCorrupt(what="a text in the sqlite file")
        case _:
            return StoreFailed(engine=ENGINE, doing=doing)


def _stands_still(path: Path) -> bool:
    """Return whether no process can write `path`, and no written data waits next to it."""
    wal_path = path_beside(path, "wal")
    try:
        is_wal_empty = not is_there(wal_path) or wal_path.stat().st_size == 0
        return is_wal_empty and bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except (OSError, AttributeError):  # a system that does not report it
        return False


def _has_wal_mode(path: Path) -> bool:
    """Return whether the header says that a WAL is used. Raises StoreUnavailable for an unreadable file."""
    try:
        with path.open("rb") as file:
            return file.read(_WAL_AT + 1)[_WAL_AT:] == b"\x02"
    except OSError as error:
        raise StoreUnavailable(f"the store at {str(path)!r} cannot be read: {error.strerror}") from error


def path_beside(path: Path, kind: str, /) -> Path:
    """Return the path of the accompanying file of that kind for the SQLite file at `path`."""
    return path.with_name(f"{path.name}-{kind}")


def _primary_code(error: Exception, /) -> int:
    """Return the primary SQLite result code of `error`, 0 for one of the driver's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


ResultT = TypeVar("ResultT")
Ts = TypeVarTuple("Ts")


class _NoFuture:
    """The future of work that no caller awaits, without which aiosqlite 0.21 ends its thread."""

    def get_loop(self) -> Self:
        return self

    def call_soon_threadsafe(self, *_result: object) -> None:
        """Drop the result."""


class StoreConnection(aiosqlite.Connection):
    """An aiosqlite connection that takes whole functions."""

    def __init__(self, connector: Callable[[], Raw], /) -> None:
        super().__init__(connector, iter_chunk_size=64)
        # A host that forgets `close` must still be able to exit; what was acknowledged is durable without the thread.
        thread: object = getattr(self, "_thread", self)
        assert isinstance(thread, threading.Thread)
        thread.daemon = True
        self._worker = thread

    async def ended(self) -> None:
        """Wait for the thread of a failed connection, because its last callback may not find the loop closed."""
        await asyncio.to_thread(self._worker.join)

    def require_raw(self) -> Raw:
        """Return the connection itself, for its thread alone. Raises StoreClosed."""
        raw = self._connection
        if raw is None or not self._running:
            raise StoreClosed
        return raw

    async def call(self, function: Callable[[Raw, *Ts], ResultT], /, *args: *Ts) -> ResultT:
        """Return `function(raw, *args)`, run on the connection's thread after earlier work.

        A cancelled caller leaves at once; the function still runs. Raises StoreClosed.
        """
        raw = self.require_raw()

        # A closure: aiosqlite logs what it runs, and the arguments are content.
        def work() -> ResultT:
            return function(raw, *args)

        execute = cast("Callable[[Callable[[], ResultT]], Awaitable[ResultT]]", getattr(self, "_execute"))  # noqa: B009 - untyped there
        return await execute(work)

    def give(self, work: Callable[[], object], /) -> None:
        """Run `work` on the connection's thread after earlier work; it handles its own errors.

        It is not awaited here, so that it can answer many callers in one thread switch. Raises StoreClosed.
        """
        self.require_raw()

        def call() -> None:
            work()

        queue: SimpleQueue[tuple[_NoFuture, Callable[[], None]]] = getattr(self, "_tx")  # noqa: B009 - untyped there
        queue.put((_NoFuture(), call))


@contextmanager
def write_transaction(raw: Raw, access: FileAccess, /) -> Generator[None]:
    """Hold the write lock for the body, then commit; roll back if it raises.

    Raises StoreBusy, StoreUnavailable, and StoreFailed if the file was removed meanwhile.
    """
    begin_writing(raw, access)
    try:
        yield
        retry_while_held(lambda: raw.execute("COMMIT"), wait_s=access.busy_wait_s)
        if access.place is not None:
            # SQLite continues writing to an unlinked file, which must not be acknowledged.
            access.place.require_same()
    except BaseException:
        roll_back(raw)
        raise


@contextmanager
def read_snapshot(raw: Raw, /) -> Generator[None]:
    """Give all reads of the body one consistent state."""
    raw.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(raw)


def begin_writing(raw: Raw, access: FileAccess, /) -> None:
    """Take the write lock. Raises StoreBusy, and StoreUnavailable if another process switched the file to a WAL
    since."""
    retry_while_held(lambda: raw.execute("BEGIN IMMEDIATE"), wait_s=access.busy_wait_s)
    # Checked under the lock: then no other process can switch the mode any more.
    if access.mode == "delete" and raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        roll_back(raw)
        raise StoreUnavailable(
            "another process switched this sqlite store to WAL, which this SQLite library may corrupt: "
            "install pysqlite3 here, or an equally old SQLite there"
        )


def roll_back(raw: Raw, /) -> None:
    """End the transaction, if SQLite has not already done so."""
    # A failed rollback leaves nothing to do: the error that led here is the one to report.
    with suppress(*ERRORS):
        if raw.in_transaction:
            raw.execute("ROLLBACK")
