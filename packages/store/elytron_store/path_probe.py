"""What lies at a path. What cannot be looked at is an error; from Python 3.14 on `Path.exists` and `is_dir` hide it."""

from pathlib import Path
from stat import S_ISDIR


def is_there(path: Path, /) -> bool:
    """Tell whether anything is at `path`. Raises OSError where that cannot be looked at, ValueError for a NUL in it."""
    return bool(_mode(path))


def is_folder(path: Path, /) -> bool:
    """Tell whether a folder is at `path`. Raises OSError where that cannot be looked at, ValueError for a NUL in it."""
    return S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return the mode of what is at `path`, 0 where nothing is."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
