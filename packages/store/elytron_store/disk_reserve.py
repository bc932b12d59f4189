"""Room of a store on its device: bounds from its URL, and a reserve that only forgetting and erasing may use.

An erasure rewrites an SQLite file, or the log of a space, before it can give the old bytes back. So a store holds that
much room for it. While the device has plenty, nothing is done. When it gets short, a file of that size is allocated: it
is removed when the room is needed, and allocated again by the next ordinary write, which is refused if that fails.
"""

import errno
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from elytron_core.errors import StoreFull
from elytron_core.ports.store import Batch
from elytron_store import limits as store_limits
from elytron_store.commit_queue import Outcome
from elytron_store.private_files import private_opener

WAL_BYTES: Final = 16 * 1024 * 1024
WAL_SHARE: Final = 32
"""Size from which on commits move a WAL into the database file, and which its file keeps: by default, and as a part of
the free room of its device at opening."""
RESERVE_BYTES: Final = 64 * 1024 * 1024
"""Room that a store holds for erasures at most, unless its URL says another."""


T = TypeVar("T")

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers for a full device, a quota, and a file size limit."""
_ROOMY: Final = 4
"""No reserve file is needed while this many times the reserve is free."""
_ERASURE_BYTES: Final = 64 * 1024
"""Bytes that an erasure writes in addition to what it rewrites."""
_READERS_S: Final = 0.2
"""How long readers usually hold a replaced file open."""
_LOOKS_SPARED: Final = 256
"""Maximum groups of commits written between checks of the device."""


@dataclass(frozen=True, slots=True)
class DeviceBounds:
    """Limits of a store's own disk use: SQLite's WAL, and the reserve (0: none)."""

    wal_bytes: int = WAL_BYTES
    reserve_bytes: int = RESERVE_BYTES

    def wal_limit(self, available_bytes: int, /) -> int:
        """Return the size at which a WAL is checkpointed, on a device with this many available bytes."""
        return min(self.wal_bytes, max(available_bytes // WAL_SHARE, store_limits.WAL_LEAST_BYTES))


DEFAULT_BOUNDS: Final = DeviceBounds()


def free_bytes(folder: Path, /) -> int | None:
    """Return the bytes that this user may still write in `folder`; None if the system does not report it."""
    try:
        state = os.statvfs(folder)
        return state.f_bavail * state.f_frsize
    except (OSError, AttributeError):
        return None


def file_bytes(path: Path, /) -> int:
    """Return the size of the file at `path`, 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def may_grow(path: Path, /, *, to: int) -> bool:
    """Return whether a file next to `path` may have `to` bytes; tests with a short-lived sparse file."""
    trial_path = path.with_name(f"{path.name}-trial")
    try:
        with open(trial_path, "wb", buffering=0, opener=private_opener) as file:
            file.seek(to)
            file.write(b"\0")
    except OSError as error:
        return error.errno not in FULL
    finally:
        with suppress(OSError):
            trial_path.unlink(missing_ok=True)
    return True


class DeviceReserve:
    """Disk space reserved for a store's erasures, as a file at `path` when the device is nearly full; thread-safe."""

    def __init__(self, path: Path, /, *, most: int, engine: str) -> None:
        self._path = path
        self._most = most
        self._engine = engine
        self._mutex = Lock()
        self._largest = 0
        self._looks_spared = 0

    @property
    def may_be_short(self) -> bool:
        """True unless the device has room for any reserve."""
        available_bytes = free_bytes(self._path.parent)
        return available_bytes is not None and available_bytes < _ROOMY * self._most

    def hold_largest(self, rewritten_bytes: int, /) -> None:
        """Reserve space as `hold` does, for the largest size named so far."""
        with self._mutex:
            self._largest = max(self._largest, rewritten_bytes)
        self.hold(lambda: self._largest)

    def hold(self, rewritten_bytes: Callable[[], int], /) -> None:
        """Reserve space for an erasure that rewrites this many bytes. Raises StoreFull if the device has less."""
        with self._mutex:
            if self._looks_spared:
                self._looks_spared -= 1
                return
            available_bytes = free_bytes(self._path.parent)
            if available_bytes is None or not self._most:
                return
            reserve_bytes = min(rewritten_bytes() + _ERASURE_BYTES, self._most)
            spare_bytes = available_bytes - _ROOMY * reserve_bytes
            if spare_bytes < 0:
                self._fill(reserve_bytes)
                return
            # Not checked again until the writes in between could have used up the margin.
            self._looks_spared = min(spare_bytes // (2 * store_limits.GROUP_BYTES), _LOOKS_SPARED)
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def release(self) -> int:
        """Free the reserve file's space; return its size."""
        with self._mutex:
            self._looks_spared = 0
            reserve_bytes = file_bytes(self._path)
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            return reserve_bytes

    def refill(self, size: int, /) -> None:
        """Reserve `size` bytes again that were just released. Raises StoreFull."""
        with self._mutex:
            if size:
                self._fill(size)

    def use(self, write: Callable[[], T], /) -> T:
        """Return the result of `write`; if the device is full, retry with the reserve released.

        If that is too little, it is retried once more when a reader closes a file that was just replaced.
        """
        try:
            return write()
        except (OSError, StoreFull) as error:
            if not _means_full(error):
                raise
        self.release()
        available_bytes = free_bytes(self._path.parent)
        try:
            return write()
        except (OSError, StoreFull) as error:
            if not _means_full(error) or available_bytes is None or not self._grows(beyond=available_bytes):
                raise
        return write()

    def _grows(self, *, beyond: int) -> bool:
        """Return whether the device has more free space than that, now or shortly."""
        deadline = time.monotonic() + _READERS_S
        while (free_bytes(self._path.parent) or 0) <= beyond:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_READERS_S / 20)
        return True

    def commit(
        self,
        batches: Sequence[Batch],
        write: Callable[[Sequence[Batch]], Sequence[Outcome]],
        refusal: StoreFull | None,
        /,
    ) -> Sequence[Outcome]:
        """Write `batches`; if there is a `refusal`, only those that remove something."""
        removing_batches = [batch for batch in batches if batch.takes_back]
        if refusal is None and len(removing_batches) < len(batches):
            try:
                return write(batches)
            except StoreFull as full_error:
                refusal = full_error
        outcomes = iter(self.use(lambda: write(removing_batches)) if removing_batches else ())
        return [next(outcomes) if refusal is None or batch.takes_back else refusal for batch in batches]

    def _fill(self, size: int) -> None:
        try:
            with open(self._path, "ab", buffering=0, opener=private_opener) as file:
                current_size = file_bytes(self._path)
                if current_size < size:
                    _allocate_bytes(file.fileno(), current_size, size - current_size)
                elif current_size > size + _ERASURE_BYTES:
                    file.truncate(size)
        except OSError as error:
            if error.errno in FULL:
                raise StoreFull(engine=self._engine) from error
            # Nothing can be created in the folder: the writes themselves will fail.


def _means_full(error: OSError | StoreFull) -> bool:
    return isinstance(error, StoreFull) or error.errno in FULL


def _allocate_bytes(descriptor: int, begin: int, size: int) -> None:
    """Allocate `size` more bytes of a file on the device."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, begin, size)
        return
    block = bytes(_ERASURE_BYTES)
    for start in range(0, size, len(block)):
        os.write(descriptor, block[: size - start])
