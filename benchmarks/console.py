"""Measure the console's pages in a browser with few and with many memories: the time until each is shown, and its size.

    python -m benchmarks.console [--memories 100 100000] [--rounds 5]

Each size has its own SQLite file. The server is `elytron console` in a separate process, the browser is Chromium. A
time starts with the navigation. The first round fills caches and is shown separately.
"""

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import elytron
from benchmarks.corpora import corpus
from elytron_core.contracts.transcript import MemoryWriteRequest

if TYPE_CHECKING:
    from playwright.async_api import Browser

CLI = (sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()")
PROGRAMS = ("chromium", "google-chrome", "chromium-headless-shell")
BATCH, AT = 400, 1_700_000_000_000
ADDRESS = re.compile(r"http://[0-9.]+:\d+")
PAGES = {
    "memories": ("memories", ".list > li"),
    "search": ("memories?q={query}", ".list > li"),
    "overview": ("overview", "[aria-label='Contents of the space'] dl"),
    "facts": ("facts", ".page[aria-busy=false]"),
    "conversations": ("conversations", ".page[aria-busy=false]"),
    "timeline": ("timeline", ".page[aria-busy=false]"),
    "recall lab": ("recall?q={query}", "ol.list > li"),
    "projection": ("projection?q={query}", ".block"),
    "import": ("transfer", ".page[aria-busy=false]"),
    "journal": ("journal", ".page[aria-busy=false]"),
    "spending": ("spending", ".figures"),
}
"""Addresses of the pages, and the element that is present once a page is shown."""
SHOWN = """(wanted) => document.querySelector(wanted) && !document.querySelector(".waiting") && performance.now()"""
LOADED = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .map((entry) => [new URL(entry.name).pathname, entry.duration, entry.decodedBodySize])"""
ROWS_GOAL, PAGE_GOAL, WHOLE_GOAL = 3.0, 200 * 1024, 300 * 1024


class PageLook(NamedTuple):
    """One visit of a page: milliseconds until it was shown, its bytes, and its slowest call."""

    shown_ms: float
    size_bytes: int
    call: str
    call_ms: float


async def fill(path: Path, texts: list[str], /) -> None:
    """Store the texts as messages, one per second, in one space and in conversations of 400."""
    async with elytron.open(path, space="ada") as memory:
        for first in range(0, len(texts), BATCH):
            turns = [
                {"messages": [{"text": text, "speaker": f"Speaker {place % 7}", "at": AT + place * 1_000}]}
                for place, text in enumerate(texts[first : first + BATCH], first)
            ]
            scope = {"space": "ada", "conversation": f"c{first}"}
            request = {"write": {"kind": "transcript", "turns": turns}, "scope": scope}
            await memory.operate(MemoryWriteRequest.model_validate(request))


@asynccontextmanager
async def console_of(path: Path, /) -> AsyncGenerator[str]:
    """Yield the address of a console for the store at `path`."""
    command = (*CLI, "console", "--store", str(path), "--space", "ada", "--port", "0")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        found = None
        while found is None:
            line = (await process.stdout.readline()).decode()
            assert line, "the server ended before it gave its address"
            found = ADDRESS.search(line)
        yield found[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@asynccontextmanager
async def chromium() -> AsyncGenerator["Browser"]:
    """Yield a browser that makes no calls of its own."""
    from playwright.async_api import async_playwright

    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        sys.exit("no Chromium on this machine: install the package `chromium`")
    switches = ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-gpu"]
    if os.geteuid() == 0:
        switches.append("--no-sandbox")  # root has no sandbox
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=switches)
        try:
            yield browser
        finally:
            await browser.close()


async def look(browser: "Browser", url: str, address: str, wanted: str, /) -> PageLook:
    """Open a page with an empty cache, and measure when it is shown."""
    page = await browser.new_page()
    try:
        await page.goto(f"{url}/console#/{address}")
        shown = await page.wait_for_function(SHOWN, arg=wanted, timeout=120_000)
        shown_ms = await shown.json_value()
        loaded: list[tuple[str, float, int]] = await page.evaluate(LOADED)
    finally:
        await page.close()
    calls = [(duration, path) for path, duration, _ in loaded if "/static/" not in path and path != "/console"]
    call_ms, call = max(calls)
    return PageLook(shown_ms, sum(size for _, _, size in loaded), call.removeprefix("/console/"), call_ms)


async def measure(size: int, rounds: int, folder: Path, /) -> dict[str, list[PageLook]]:
    """Return the visits of each page with `size` memories, in order."""
    data = corpus(size)
    path = folder / f"{size}.db"
    await fill(path, data.texts)
    found: dict[str, list[PageLook]] = {name: [] for name in PAGES}
    async with console_of(path) as url, chromium() as browser:
        for place in range(rounds + 1):
            for name, (address, wanted) in PAGES.items():
                query = data.questions[place].replace(" ", "%20")
                found[name].append(await look(browser, url, address.format(query=query), wanted))
    return found


def show(size: int, found: dict[str, list[PageLook]], /) -> None:
    """Print the times of each page: the first visit, and the median of the others."""
    print(f"\n{size:,} memories\n{'page':<15}{'first ms':>9}{'ms':>7}{'KiB':>6}  longest call, ms")
    for name, (first, *others) in found.items():
        middle = sorted(others)[len(others) // 2]
        kib = max(each.size_bytes for each in others) / 1024
        print(f"{name:<15}{first.shown_ms:>9.0f}{middle.shown_ms:>7.0f}{kib:>6.0f}  {middle.call} {middle.call_ms:.0f}")


def main() -> None:
    """Measure each size and print which goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, nargs="+", default=[100, 100_000])
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    rows: dict[int, float] = {}
    most = 0
    with tempfile.TemporaryDirectory(prefix="elytron-") as folder:
        for size in asked.memories:
            found = asyncio.run(measure(size, asked.rounds, Path(folder)))
            show(size, found)
            rows[size] = statistics.median(each.shown_ms for each in found["memories"][1:])
            most = max(most, *(each.size_bytes for looks in found.values() for each in looks))
    few, many = min(rows), max(rows)
    static = files("elytron_console") / "static"
    whole = sum(each.stat().st_size for each in Path(str(static)).rglob("*") if each.is_file())
    ratio = rows[many] / rows[few]
    print(f"\nfirst rows over {many:,}: {ratio:.2f} times as late as over {few:,} (goal: at most {ROWS_GOAL})")
    print(f"most bytes of a page: {most / 1024:.0f} KiB (goal: at most {PAGE_GOAL // 1024})")
    print(f"all parts of the console: {whole / 1024:.0f} KiB (goal: at most {WHOLE_GOAL // 1024})")
    sys.exit(not (ratio <= ROWS_GOAL and most <= PAGE_GOAL and whole <= WHOLE_GOAL))


if __name__ == "__main__":
    main()
