"""Places in a file store's folder, and how a folder or a whole file is made there.

manifest.json
locks/store, locks/00 ... ff             held while opening; while a space with that digest's start is written
spaces/<sha-256 of the space>/log        the space's commits
spaces/<sha-256 of the space>/log.new    a generation being written under the lock; a left-over is replaced
spaces/<sha-256 of the space>/blobs/<key>.blob
queued/<sha-256 of the space>            an empty file for each space that may have unfinished jobs
incoming/                                unfinished blobs; each has its own lock, so left-overs are recognised
trash/                                   erased spaces on their way out
quarantine/<sha-256 of the space>/       what `repair` moved aside
reserve                                  room for erasures, while the device is short of it
records/<sha-256 of the space>           that the space has begun
losses/<sha-256 of the space>            what `repair` could not save of it
"""

import errno
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from elytron_core.errors import PermissionRefused, StoreBusy, StoreFailed, StoreFull, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.strict_json import sha256_digest
from elytron_store.disk_reserve import FULL
from elytron_store.manifest import is_folder
from elytron_store.private_files import private_opener, sync_path

_TRIES_ON_WINDOWS = 500


def write_all(file: FileIO, data: bytes | bytearray, /) -> None:
    """Write all of `data` at the position of `file`: a raw file may accept less at once."""
    remaining_view = memoryview(data)
    while remaining_view:
        byte_count = file.write(remaining_view)
        assert byte_count is not None, "the file blocks"
        remaining_view = remaining_view[byte_count:]


def read_up_to(read: Callable[[int], bytes | None], size: int, /) -> bytes:
    """Return `size` bytes, fewer only at the end of the file: a raw file may return less than requested."""
    data = read(size) or b""
    while 0 < len(data) < size and (next_bytes := read(size - len(data))):
        data += next_bytes
    return data


def sync_file(file: FileIO, /) -> None:
    """Flush everything written to `file` to the device."""
    if sys.platform == "darwin":
        # On macOS, `fsync` returns when the bytes are in the drive's cache.
        import fcntl

        fcntl.fcntl(file.fileno(), fcntl.F_FULLFSYNC)
    elif sys.platform == "linux":
        os.fdatasync(file.fileno())  # includes the length, the only relevant metadata of the file
    else:
        os.fsync(file.fileno())


def move_durably(source: Path, target: Path, /) -> None:
    """Move the synced file or folder `source` to `target`, replacing a file there, durably."""
    for is_last_try in (False,) * _TRIES_ON_WINDOWS + (True,):
        try:
            source.replace(target)
            break
        except PermissionError:
            if is_last_try or sys.platform != "win32":
                raise
            time.sleep(0.01)  # another handle is reading the target, which takes no longer than a read
    # The new name first: a power cut between the two leaves two names, not none.
    sync_path(target.parent)
    if source.parent != target.parent:
        sync_path(source.parent)


_FOLDER_MODE = 0o700
_LOG = "log"
NEW_SUFFIX = ".new"
"""Suffix of a file that is written next to the one it will replace."""


class StorePaths:
    """The paths of one store."""

    def __init__(self, root: Path, /) -> None:
        # Absolute, so that a program may change its folder while the store is open.
        self.root = root = root.absolute()
        self.manifest = root / "manifest.json"
        self.locks = root / "locks"
        self.spaces = root / "spaces"
        self.queued = root / "queued"
        self.incoming = root / "incoming"
        self.trash = root / "trash"
        self.quarantine = root / "quarantine"
        self.reserve = root / "reserve"
        self.records = root / "records"
        self.losses = root / "losses"

    def lock_of(self, name: str, /) -> Path:
        """Return the lock of the space folder `name`; a few spaces share one, so locks never need to be removed."""
        return self.locks / name[:2]

    def log_of(self, name: str, /) -> Path:
        return self.spaces / name / _LOG

    def record_of(self, name: str, /) -> Path:
        return self.records / name

    def loss_of(self, name: str, /) -> Path:
        return self.losses / name

    def blobs_of(self, name: str, /) -> Path:
        return self.spaces / name / "blobs"

    def blob_of(self, name: str, key: str, /) -> Path:
        return self.blobs_of(name) / f"{key}.blob"


def folder_name(space: SpaceId | str, /) -> str:
    """Return the folder name of a space: no character of its name can reach the file system."""
    return sha256_digest(space.encode())


def make_folder(path: Path, /) -> None:
    """Create a durable folder at `path`, readable only by its owner; its parent exists."""
    if not is_folder(path):
        path.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        sync_path(path.parent)


def leave_mark(path: Path, /) -> None:
    """Create an empty file at `path`, durably; its folder exists."""
    create_file(path).close()
    sync_path(path.parent)


def create_file(path: Path, /) -> FileIO:
    """Open a new, empty file at `path` for reading and writing, readable only by its owner."""
    return FileIO(path, "w+", opener=private_opener)


def write_file(path: Path, data: bytes, /) -> None:
    """Write `data` to a file at `path`, atomically and durably."""
    new_path = path.with_name(f"{path.name}{NEW_SUFFIX}")
    with create_file(new_path) as file:
        write_all(file, data)
        sync_file(file)
    move_durably(new_path, path)


ENGINE = "file"


@contextmanager
def while_writing(doing: str, /) -> Generator[None]:
    """Translate write errors: StoreFull for a full device, PermissionRefused, StoreUnavailable, or StoreFailed for
    others."""
    try:
        yield
    except PermissionError as error:
        raise PermissionRefused(
            "this user may not write to the file store: make the user who runs elytron the owner of the folder"
        ) from error
    except OSError as error:
        if error.errno in FULL:
            raise StoreFull(engine=ENGINE) from error
        if error.errno == errno.EROFS:
            raise StoreUnavailable("a file store writes locks, but this location is read-only: copy it") from error
        raise StoreFailed(engine=ENGINE, doing=doing) from error


@contextmanager
def while_reading(what: str, /) -> Generator[None]:
    """Raise PermissionRefused if `what` may not be read, StoreUnavailable for any other failure in the block."""
    try:
        yield
    except PermissionError as error:
        raise PermissionRefused(
            f"{what} may not be read by this user: make the user who runs elytron the owner of the folder"
        ) from error
    except OSError as error:
        raise StoreUnavailable(f"{what} cannot be read: check the device and try again") from error


_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.05

if sys.platform == "win32":
    import msvcrt

    def try_lock(file: FileIO, /) -> bool:
        """Take the exclusive lock of `file`, which ends with its handle; return whether it was free."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(file: FileIO, /) -> bool:
        """Take the exclusive lock of `file`, which ends with its handle; return whether it was free."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked_file(path: Path, /, *, wait_s: float) -> Generator[None]:
    """Hold the lock at `path` during the block, against threads and processes. Blocks: call it in a worker thread.

    Raises StoreBusy if it is not free within `wait_s`.
    """
    with while_writing("taking a lock"):
        make_folder(path.parent)
        file = create_file(path)
    with file:
        deadline = time.monotonic() + wait_s
        pause_s = _FIRST_PAUSE_S
        # `flock` has no time limit, so it is polled.
        while not try_lock(file):
            if time.monotonic() >= deadline:
                raise StoreBusy(engine=ENGINE, waited_s=wait_s)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        yield
