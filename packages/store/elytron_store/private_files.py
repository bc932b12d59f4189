"""Files of a store and next to it: readable only by their owner, and trusted only if nobody else could write them.

Everything created at a store's location is created here.
"""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

FILE_MODE: Final = 0o600
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def private_opener(path: str | Path, flags: int, /) -> int:
    """Opener for `open`: a file that it creates is readable only by its owner, regardless of the umask."""
    return os.open(path, flags, FILE_MODE)


def create_empty(path: Path, /) -> None:
    """Create an empty file. Raises FileExistsError."""
    os.close(private_opener(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))


def replace_file(path: Path, data: bytes, /) -> None:
    """Write `data` to a synced file at `path`, atomically replacing what was there."""
    new_path = path.with_name(f"{path.name}.{token_hex(6)}.new")
    try:
        with open(new_path, "xb", opener=private_opener) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new_path.replace(path)
    except OSError:
        with suppress(OSError):
            new_path.unlink(missing_ok=True)
        raise


def sync_path(path: Path, /) -> None:
    """Flush the bytes of a file, or the names in a folder, to the device."""
    is_file = path.is_file()
    if sys.platform == "win32" and not is_file:
        return  # Windows has no such call: it journals names in its file system
    handle = os.open(path, os.O_RDWR if is_file else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_own_file(path: Path, /, *, size: int) -> bytes | None:
    """Return up to `size` bytes of a file that only this process's user can have written; None for any other.

    Raises OSError.
    """
    # Otherwise opening a pipe without a writer would block.
    extra_flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | extra_flags)) as file:
        # Checked on the open file, so that what is judged is what is read.
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            return None
        if os.name == "posix" and (state.st_uid != os.geteuid() or state.st_mode & _OTHERS_WRITE):
            return None
        return file.read(size)
