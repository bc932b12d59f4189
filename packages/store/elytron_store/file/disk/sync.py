"""Durable writing: bytes, names and moves that are on the device when a call returns."""

import os
import sys
import time
from io import FileIO
from pathlib import Path

_TRIES_ON_WINDOWS = 500


def write_all(file: FileIO, data: bytes | bytearray, /) -> None:
    """Write all of `data` at the position of `file`: a raw file may take less at once."""
    rest = memoryview(data)
    while rest:
        written = file.write(rest)
        assert written is not None, "the file blocks"
        rest = rest[written:]


def sync(file: FileIO, /) -> None:
    """Return when everything written to `file` is on the device."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(file.fileno(), fcntl.F_FULLFSYNC)
    elif sys.platform == "linux":
        os.fdatasync(file.fileno())  # the length included, which is all of the file's own data that matters
    else:
        os.fsync(file.fileno())


def sync_folder(path: Path, /) -> None:
    """Return when the names in the folder `path` are on the device."""
    if sys.platform == "win32":
        return  # Windows has no such call: it keeps names in the journal of its file system
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def move(source: Path, target: Path, /) -> None:
    """Leave the synced file or folder `source` at `target`, replacing a file there, for good."""
    for last in (False,) * _TRIES_ON_WINDOWS + (True,):
        try:
            source.replace(target)
            break
        except PermissionError:
            if last or sys.platform != "win32":
                raise
            time.sleep(0.01)  # another handle is reading the target, which takes no longer than a read
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)
