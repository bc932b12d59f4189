"""Probes of a path. An unreadable path is an error; from Python 3.14 on `Path.exists` and `is_dir` hide it."""

from pathlib import Path
from stat import S_ISDIR


def is_there(path: Path, /) -> bool:
    """Return whether anything is at `path`. Raises OSError if that cannot be read, ValueError for a NUL in it."""
    return bool(_mode(path))


def is_folder(path: Path, /) -> bool:
    """Return whether a folder is at `path`. Raises OSError if that cannot be read, ValueError for a NUL in it."""
    return S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return the mode of the entry at `path`, 0 if there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
