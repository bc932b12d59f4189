"""Identity of a process: its machine and pid namespace, its pid, and its start time.

On the same machine this shows at once whether the process still runs, so no turn waits for the lease of a killed
process. From another machine, or without `/proc`, that is unknown, and the lease has to expire.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PROC: Final = Path("/proc")
_START_FIELD: Final = 19
"""Place of the start time behind the name of the program in `/proc/PID/stat`."""
_STATE_FIELD: Final = 0
_DEAD: Final = frozenset({"Z", "X"})


def own_process() -> str:
    """Return the name of this process; empty where it cannot be known."""
    # A fork has another pid, and so another name.
    place, status = _own_place(), _process_status(_PROC / "self")
    return f"{place}.{status[0]}.{status[1]}" if place and status is not None else ""


def is_gone(process: str, /) -> bool:
    """Return whether the process of this name has ended; False if that is not known."""
    place, _, rest = process.partition(".")
    pid, _, started = rest.partition(".")
    if not place or place != _own_place() or not pid.isdecimal():
        return False
    status = _process_status(_PROC / pid)
    return status is None or status != (pid, started)


@cache
def _own_place() -> str:
    """Return a digest of what tells this kernel and pid namespace from all others; empty if there is no such name."""
    try:
        place = f"{_BOOT.read_text('ascii').strip()} {(_PROC / 'self/ns/pid').readlink()}"
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def _process_status(folder: Path) -> tuple[str, str] | None:
    """Return pid and start time of a process that runs, None if there is none."""
    try:
        pid, _, rest = (folder / "stat").read_text("utf-8", "replace").partition(" (")
    except OSError:
        return None
    # The program's name may have any characters, but no field behind it has a parenthesis.
    fields = rest.rpartition(") ")[2].split()
    if len(fields) <= _START_FIELD or fields[_STATE_FIELD] in _DEAD:
        return None
    return pid, fields[_START_FIELD]
