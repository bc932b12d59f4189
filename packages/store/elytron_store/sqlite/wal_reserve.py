"""Disk space of an SQLite file: when its WAL is emptied, and which writes must leave space for an erasure."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from elytron_core.errors import ElytronError, StoreBusy, StoreFull
from elytron_store.disk_reserve import DeviceReserve, file_bytes, may_grow
from elytron_store.limits import WAL_LEAST_BYTES
from elytron_store.sqlite.driver import (
    ENGINE,
    ERRORS,
    FilePlace,
    LockedByOthers,
    Raw,
    path_beside,
    retry_while_held,
    roll_back,
    translate_error,
)
from elytron_store.sqlite.schema import page_bytes

T = TypeVar("T")

_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
"""Bytes before the pages of a WAL, and before each of them."""
_INDEX_BYTES = 8
"""Bytes of a WAL's index per page."""
_FAILED_WRITES = (10, 778)
"""An input or output error of any kind, which is all that some drivers report, and that of a write."""


def truncate_wal(raw: Raw, /, *, wait_s: float) -> None:
    """Checkpoint everything into the database file and empty the WAL. Raises StoreBusy if readers do not release it."""

    def checkpoint() -> None:
        if raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise LockedByOthers

    retry_while_held(checkpoint, wait_s=wait_s)


def cut_wal(raw: Raw, wal: Path, /, *, wait_s: float) -> None:
    """Cut off what rolled-back transactions left at the end of a WAL: SQLite does not free that room.

    Raises StoreBusy. A WAL that others wrote to meanwhile is left unchanged.
    """

    def look() -> int:
        # It reports only other connections, and this one writes nothing in between.
        version: int = raw.execute("PRAGMA data_version").fetchone()[0]
        return version

    version = retry_while_held(look, wait_s=wait_s)
    frame_count: int = raw.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()[1]
    if frame_count < 0:  # no WAL
        return
    wal_bytes = _WAL_HEADER_BYTES + frame_count * (_FRAME_HEADER_BYTES + page_bytes(raw)) if frame_count else 0
    retry_while_held(lambda: raw.execute("BEGIN IMMEDIATE"), wait_s=wait_s)
    # Under the lock nobody writes to the WAL, and nobody reads after its last commit.
    try:
        if look() == version and file_bytes(wal) > wal_bytes:
            with suppress(OSError):
                os.truncate(wal, wal_bytes)
    finally:
        roll_back(raw)


def translate_write_error(error: Exception, place: FilePlace | None, /, *, doing: str) -> ElytronError:
    """Return the meaning of a failed write. SQLite reports only ENOSPC as full; a quota or file size limit is
    tested."""
    refusal = translate_error(error, doing=doing)
    if place is None or getattr(error, "sqlite_errorcode", 0) not in _FAILED_WRITES:
        return refusal
    largest_bytes = max(file_bytes(place.path), file_bytes(path_beside(place.path, "wal")))
    return refusal if may_grow(place.path, to=largest_bytes + WAL_LEAST_BYTES) else StoreFull(engine=ENGINE)


class WalReserve:
    """Reserved room as the file at `path`; every method but the first runs on the writer's thread."""

    def __init__(self, path: Path, /, *, reserve_bytes: int) -> None:
        self.reserve = DeviceReserve(path_beside(path, "reserve"), most=reserve_bytes, engine=ENGINE)
        self._path = path.absolute()
        self._wal = path_beside(self._path, "wal")

    def refusal(self, raw: Raw, /) -> StoreFull | None:
        """Return why no more is written, because an erasure could lack room; None if writing is allowed."""
        try:
            self.reserve.hold(partial(self._live_bytes, raw))
        except StoreFull as refusal:
            if not self.empty_wal(raw):
                return refusal
        else:
            return None
        try:
            self.reserve.hold(partial(self._live_bytes, raw))
        except StoreFull as refusal:
            return refusal
        return None

    def empty_wal(self, raw: Raw, /) -> bool:
        """Empty the WAL, if there is one and readers release it; return whether that made room."""
        if not file_bytes(self._wal):
            return False
        with suppress(StoreBusy, *ERRORS):
            self._truncate(raw, wait_s=0.0)
            return True
        return False

    def empty_for_erasing(self, raw: Raw, /, *, wait_s: float) -> None:
        """Empty the WAL before the reserve is used. Raises StoreBusy if a reader holds an older state.

        What is written then would fill the device with a WAL that could not be moved into the file any more.
        """
        if file_bytes(self._wal):
            with suppress(*ERRORS):
                self._truncate(raw, wait_s=wait_s)

    def lend(self, raw: Raw, attempt: Callable[[], T], /, *, wait_s: float) -> T:
        """Return the result of `attempt`; if the device is full, with the room of the WAL, then of the reserve.

        If that is too little, the WAL and the reserve are left ready for the next attempt. Raises StoreFull.
        """
        try:
            return attempt()
        except StoreFull:
            self.empty_for_erasing(raw, wait_s=wait_s)
        try:
            return self.reserve.use(attempt)
        except StoreFull:
            self.refusal(raw)
            raise

    def _truncate(self, raw: Raw, *, wait_s: float) -> None:
        # The file may have to grow first: the reserve lends the room, and gets it back from the WAL.
        reserve_bytes = self.reserve.release()
        try:
            try:
                truncate_wal(raw, wait_s=wait_s)
            except ERRORS:
                cut_wal(raw, self._wal, wait_s=wait_s)
                truncate_wal(raw, wait_s=wait_s)
        finally:
            with suppress(StoreFull):
                self.reserve.refill(reserve_bytes)

    def _live_bytes(self, raw: Raw) -> int:
        """Return the bytes that an erasure writes: the pages in use, into the WAL and its index."""
        try:
            page_count, free_pages = (
                raw.execute(f"PRAGMA {name}_count").fetchone()[0] for name in ("page", "freelist")
            )
        except ERRORS:  # without a WAL a commit of others may be running
            return file_bytes(self._path) + file_bytes(self._wal)
        return (page_count - free_pages) * (page_bytes(raw) + _FRAME_HEADER_BYTES + _INDEX_BYTES)
