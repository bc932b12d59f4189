"""Shared helpers of the SQLite engine's tests: a library that observes or fails, and direct access to the file."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange
from elytron_store.sqlite import SqliteStore
from elytron_store.sqlite.driver import Raw, SqliteLibrary, sqlite_library

CLOCK = FrozenClock()
OLD = SqliteLibrary(module=sqlite_library().module, version=(3, 40, 1))
"""The usual library, treated as one that must not share a WAL."""


SPACE = SpaceId("ada")
REF = DocumentRef("turns", "aa")
AT = Instant(1)


async def opened(path: Path) -> SqliteStore:
    """Return one more handle on the store in the folder `path`."""
    return await SqliteStore.open(path / "m.db", clock=FrozenClock(step_ms=1))


def batch(body: bytes, expects: int, ref: DocumentRef = REF) -> Batch:
    """Return a batch that puts one document."""
    return Batch(
        space=SPACE, at=AT, entries=(EntryDraft(JournalAction.WRITE, ref),), puts=(PutChange(ref, body, expects),)
    )


@dataclass(frozen=True)
class Watched(SqliteLibrary):
    """The usual library; `statements` collects what its connections run."""

    statements: list[str] = field(default_factory=list[str])

    def connect(self, path: str, /, *, wait_s: float) -> Raw:
        raw = sqlite_library().connect(path, wait_s=wait_s)
        raw.set_trace_callback(self.statements.append)
        return raw

    @property
    def commits(self) -> int:
        return self.statements.count("COMMIT")


def watched() -> Watched:
    return Watched(module=sqlite_library().module, version=sqlite_library().version)


class Trouble:
    """The errors of a `Failing` library's connections while set, by the statement's first word."""

    def __init__(self) -> None:
        self.at: dict[str, Exception] = {}


@dataclass(frozen=True)
class Failing(SqliteLibrary):
    """The interpreter's library, on a device that fails when told to."""

    trouble: Trouble = field(default_factory=Trouble)

    def connect(self, path: str, /, *, wait_s: float) -> Raw:
        trouble = self.trouble

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
                error = trouble.at.get(sql.split(maxsplit=1)[0])
                if error is not None:
                    raise error
                return super().execute(sql, *parameters)

        return sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False, factory=Connection)


def failing() -> Failing:
    return Failing(module=sqlite3, version=(3, 40, 1))


def driver_error(code: int) -> sqlite3.OperationalError:
    """Return the driver's exception for an SQLite result code."""
    error = sqlite3.OperationalError("told by the test")
    error.sqlite_errorcode = code
    return error


def look(path: Path, statement: str, *parameters: Any) -> Sequence[tuple[Any, ...]]:
    """Run one statement directly on the file."""
    with closing(sqlite_library().connect(str(path), wait_s=5.0)) as raw:
        return raw.execute(statement, parameters).fetchall()


def remains(folder: Path, *needles: bytes) -> set[bytes]:
    """Return those of `needles` that occur in any file of `folder`."""
    whole = b"\n".join(file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file())
    return {needle for needle in needles if needle in whole}
