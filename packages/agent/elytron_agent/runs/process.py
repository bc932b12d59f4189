"""Identity of a process: its machine and pid namespace, its pid, and its start time.

On the same machine, this shows immediately whether the process still runs, so no turn waits for the lease of a killed
process. From another machine, or without `/proc`, that is unknown, and the lease has to expire.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PROC: Final = Path("/proc")
_START_FIELD: Final = 19
"""Position of the start time after the program name in `/proc/PID/stat`."""
_STATE_FIELD: Final = 0
_DEAD: Final = frozenset({"Z", "X"})


def own_process() -> str:
    """Return the identity of this process, or "" if it cannot be determined."""
    # Not cached, because a fork has another pid.
    process_space, status = _own_place(), _process_status(_PROC / "self")
    return f"{process_space}.{status[0]}.{status[1]}" if process_space and status is not None else ""


def is_gone(process: str, /) -> bool:
    """Return whether the identified process has ended; False if that is unknown."""
    process_space, _, pid_and_start = process.partition(".")
    pid, _, start_time = pid_and_start.partition(".")
    if not process_space or process_space != _own_place() or not pid.isdecimal():
        return False
    status = _process_status(_PROC / pid)
    return status is None or status != (pid, start_time)


@cache
def _own_place() -> str:
    """Return a digest that distinguishes this kernel and pid namespace from all others, or "" if there is none."""
    try:
        process_space = f"{_BOOT.read_text('ascii').strip()} {(_PROC / 'self/ns/pid').readlink()}"
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(process_space.encode()).hexdigest()[:16]


def _process_status(folder: Path) -> tuple[str, str] | None:
    """Return pid and start time of a running process, or None if it does not run."""
    try:
        pid, _, stat_text = (folder / "stat").read_text("utf-8", "replace").partition(" (")
    except OSError:
        return None
    # The program name may contain any character, but no later field contains a parenthesis.
    fields = stat_text.rpartition(") ")[2].split()
    if len(fields) <= _START_FIELD or fields[_STATE_FIELD] in _DEAD:
        return None
    return pid, fields[_START_FIELD]
