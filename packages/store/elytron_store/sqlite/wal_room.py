"""Room of an SQLite file on its device: when its WAL is emptied, and which writes have to leave room for an erasure."""

from contextlib import suppress
from functools import partial
from pathlib import Path

from elytron_core.errors import ElytronError, StoreBusy, StoreFull
from elytron_store.device_room import DeviceReserve, file_bytes, may_grow
from elytron_store.limits import WAL_LEAST_BYTES
from elytron_store.sqlite.driver import (
    ENGINE,
    ERRORS,
    FilePlace,
    HeldByOthers,
    Raw,
    path_beside,
    retry_while_held,
    translate_error,
)
from elytron_store.sqlite.schema import page_bytes

_FAILED_WRITES = (10, 778)
"""An input or output error of any kind, which is all that some drivers report, and that of a write."""


def truncate_wal(raw: Raw, /, *, wait_s: float) -> None:
    """Move everything into the database file and empty the WAL. Raises StoreBusy when readers do not let go of it."""

    def checkpoint() -> None:
        if raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise HeldByOthers

    retry_while_held(checkpoint, wait_s=wait_s)


def translate_write_error(error: Exception, place: FilePlace | None, /, *, doing: str) -> ElytronError:
    """Return what a failed write means. SQLite reports only ENOSPC as full; a quota or limit on files is tried out."""
    refused = translate_error(error, doing=doing)
    if place is None or getattr(error, "sqlite_errorcode", 0) not in _FAILED_WRITES:
        return refused
    largest = max(file_bytes(place.path), file_bytes(path_beside(place.path, "wal")))
    return refused if may_grow(place.path, to=largest + WAL_LEAST_BYTES) else StoreFull(engine=ENGINE)


class WalReserve:
    """Room of the file at `path`; every method but the first runs on the writer's thread."""

    def __init__(self, path: Path, /, *, reserve_bytes: int) -> None:
        self.reserve = DeviceReserve(path_beside(path, "reserve"), most=reserve_bytes, engine=ENGINE)
        self._path = path.absolute()
        self._wal = path_beside(self._path, "wal")

    def refusal(self, raw: Raw, /) -> StoreFull | None:
        """Return why nothing more is written, as an erasure could lack room for it; None if it may be."""
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
        """Empty the WAL, if there is one and readers let go of it; return whether that made room."""
        if not file_bytes(self._wal):
            return False
        with suppress(StoreBusy, *ERRORS):
            self._truncate(raw, wait_s=0.0)
            return True
        return False

    def empty_for_erasing(self, raw: Raw, /, *, wait_s: float) -> None:
        """Empty the WAL before the reserve is used. Raises StoreBusy where a reader holds an older state.

        What is written then would fill the device with a WAL that could not be moved into the file any more.
        """
        if file_bytes(self._wal):
            with suppress(*ERRORS):
                self._truncate(raw, wait_s=wait_s)

    def _truncate(self, raw: Raw, *, wait_s: float) -> None:
        # The file may have to grow first: the reserve lends the room, and gets it back from the WAL.
        reserve_bytes = self.reserve.release()
        try:
            truncate_wal(raw, wait_s=wait_s)
        finally:
            with suppress(StoreFull):
                self.reserve.refill(reserve_bytes)

    def _live_bytes(self, raw: Raw) -> int:
        """Return the bytes of the pages in use, which an erasure writes anew."""
        try:
            pages, free = (raw.execute(f"PRAGMA {name}_count").fetchone()[0] for name in ("page", "freelist"))
        except ERRORS:  # without a WAL a commit of others may be under way
            return file_bytes(self._path) + file_bytes(self._wal)
        return (pages - free) * page_bytes(raw)
