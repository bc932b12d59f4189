"""Measure reads of a whole space as it grows, in a separate process, so that its memory is only that of the calls.

    python -m benchmarks.scale_reads sqlite:///memory.db ada

`inspect ms` is the processor time of an inspection, `page ms` that of a page of a hundred memories, from first to last.
`check MB` and `export MB` are what a check and an export add to the memory of the process, including its peak.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import elytron

READING = ("inspect ms", "page ms", "check MB", "export MB")
_INSPECTIONS = 9
_PAGE = 100


def read_figures(url: str, space: str, /) -> dict[str, float]:
    """Return the figures of the store at `url`, measured in a separate process."""
    command = [sys.executable, "-m", "benchmarks.scale_reads", url, space]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


async def measured(url: str, space: str, /) -> dict[str, float]:
    """Return the figures of a space. The cheap calls come first, so that none leaves memory to the others."""
    async with elytron.open(url, space=space) as memory:
        await memory.recall("crate")
        inspections = [await _spent(memory.inspect) for _ in range(_INSPECTIONS)]
        pages = await _page_times(memory)
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            check = await _growth(lambda: memory.inspect(check=True))
            export = await _growth(lambda: memory.export(Path(folder) / "space.zip"))
    return dict(zip(READING, (statistics.median(inspections), statistics.mean(pages), check, export), strict=True))


async def _page_times(memory: elytron.MemoryRuntime) -> list[float]:
    times: list[float] = []
    cursor: str | None = None
    while not times or cursor is not None:
        began = time.process_time()
        page = await memory.list(limit=_PAGE, cursor=cursor)
        times.append(1e3 * (time.process_time() - began))
        cursor = page.next_cursor
    return times


async def _spent(work: Callable[[], Awaitable[object]]) -> float:
    began = time.process_time()
    await work()
    return 1e3 * (time.process_time() - began)


async def _growth(work: Callable[[], Awaitable[object]]) -> float:
    """Return by how many MB the peak memory of the process grows during `work`."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    await work()
    return _memory("VmHWM") - before


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measured(*sys.argv[1:3]))))
