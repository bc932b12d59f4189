"""Locks between processes: the operating system frees them when their holder dies."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from elytron_core.errors import StoreBusy
from elytron_store.file.disk.failures import ENGINE, while_writing
from elytron_store.file.disk.places import create, make_folder

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.05

if sys.platform == "win32":
    import msvcrt

    def try_lock(file: FileIO, /) -> bool:
        """Take the exclusive lock of `file`, which ends with its handle; tell whether it was free."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: FileIO, /) -> bool:
        """Take the exclusive lock of `file`, which ends with its handle; tell whether it was free."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked(path: Path, /, *, wait_s: float) -> Generator[None]:
    """Hold the lock at `path` for the block, against threads and processes. Blocks: call it in a worker thread.

    Raises StoreBusy when others held it for `wait_s`.
    """
    with while_writing("taking a lock"):
        make_folder(path.parent)
        file = create(path)
    with file:
        deadline = time.monotonic() + wait_s
        pause = _FIRST_PAUSE_S
        while not try_lock(file):
            if time.monotonic() >= deadline:
                raise StoreBusy(engine=ENGINE, waited_s=wait_s)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        yield
