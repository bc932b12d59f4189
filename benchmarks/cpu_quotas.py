"""Processor quotas for single processes, by control groups where these can be created."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/cpu")
_PERIOD_US = 20_000
Hold = Callable[[int], None]


@contextmanager
def cpu_quotas(share: float, /) -> Generator[Hold | None]:
    """Yield a function that limits a process to `share` of one processor, or None without control groups."""
    made: list[Path] = []

    def hold(process: int) -> None:
        group = _GROUPS / f"elytron-{os.getpid()}-{len(made)}"
        group.mkdir()
        made.append(group)
        (group / "cpu.cfs_period_us").write_text(f"{_PERIOD_US}")
        (group / "cpu.cfs_quota_us").write_text(f"{int(share * _PERIOD_US)}")
        (group / "cgroup.procs").write_text(f"{process}")

    probe = _GROUPS / f"elytron-{os.getpid()}-probe"
    try:
        probe.mkdir()
        is_there = (probe / "cpu.cfs_quota_us").exists()
        probe.rmdir()
    except OSError:
        is_there = False
    try:
        yield hold if is_there else None
    finally:
        for group in made:
            with suppress(OSError):
                for process in (group / "cgroup.procs").read_text().split():
                    (_GROUPS / "cgroup.procs").write_text(process)
                group.rmdir()
