"""A real headless Chromium, driven over its DevTools protocol."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

PROGRAM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
"""The path of Chromium, or None."""
NO_BROWSER = "no Chromium on this machine: install the package `chromium`"
_WAIT_S = 100.0
_LOOK_S = 0.01


class Interrupted(Exception):
    """The page navigated away while a command ran in it."""


class Page:
    """One page. Its requests to any server, console messages, and exceptions are recorded."""

    def __init__(self, socket: ClientConnection, /) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.requested: list[str] = []
        self.complaints: list[str] = []

    async def send(self, method: str, **params: Any) -> Any:
        """Return the browser's answer to one command."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        async with asyncio.timeout(_WAIT_S):
            return await self._answers[number]

    async def listen(self) -> None:
        """Receive the browser's events while it is connected."""
        async for text in self._socket:
            told = json.loads(text)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told.get("result", told.get("error")))
                continue
            match told["method"]:
                case "Network.requestWillBeSent":
                    self.requested.append(told["params"]["request"]["url"])
                case "Runtime.exceptionThrown":
                    self.complaints.append(str(told["params"]["exceptionDetails"]))
                case "Log.entryAdded":
                    self.complaints.append(told["params"]["entry"]["text"])
                case _:
                    pass

    async def open(self, url: str) -> None:
        """Go to `url`; its scripts have run when this returns."""
        await self.send("Page.navigate", url=url)
        await self.until(f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})")

    async def run(self, script: str) -> Any:
        """Return the value of `script`, awaited if it is a promise.

        Raises AssertionError for what it throws, and Interrupted.
        """
        told = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "result" not in told:
            raise Interrupted(told)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def until(self, claim: str) -> None:
        """Return as soon as the JavaScript expression `claim` is true. Raises TimeoutError."""
        async with asyncio.timeout(_WAIT_S):
            while not await self._holds(claim):
                await asyncio.sleep(_LOOK_S)

    async def _holds(self, claim: str) -> bool:
        try:
            return bool(await self.run(f"Boolean({claim})"))
        except Interrupted:
            return False


@asynccontextmanager
async def page(folder: Path, /) -> AsyncGenerator[Page]:
    """Yield an empty page of a new browser with its profile in `folder`; the browser ends with it."""
    assert PROGRAM is not None
    options = [
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--no-sandbox")  # root has none
    browser = await asyncio.create_subprocess_exec(
        PROGRAM, *options, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_WAIT_S):
            browsers = await _address(browser)
        reading = asyncio.create_task(_drained(browser))
        async with _connected(browsers) as whole:
            one = await _first_page(whole)
        async with _connected(f"{browsers.split('/devtools/')[0]}/devtools/page/{one}") as socket:
            found = Page(socket)
            listening = asyncio.create_task(found.listen())
            for domain in ("Page", "Runtime", "Network", "Log"):
                await found.send(f"{domain}.enable")
            yield found
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    finally:
        with suppress(ProcessLookupError):
            browser.kill()
        await browser.wait()


async def _address(browser: asyncio.subprocess.Process) -> str:
    """Return the address that the browser reports."""
    assert browser.stderr is not None
    while line := (await browser.stderr.readline()).decode():
        _, begins, rest = line.partition("DevTools listening on ")
        if begins:
            return rest.strip()
    raise AssertionError("the browser ended before it listened")


async def _drained(browser: asyncio.subprocess.Process) -> None:
    assert browser.stderr is not None
    while await browser.stderr.readline():
        pass


def _connected(url: str) -> connect:
    """Return the connection to a browser, however long its answers take: the test's own timeout bounds it."""
    return connect(url, max_size=None, open_timeout=_WAIT_S, ping_interval=None)


async def _first_page(whole: ClientConnection) -> str:
    """Return the id of the browser's first page, which does not exist yet when it starts to listen."""
    async with asyncio.timeout(_WAIT_S):
        while True:
            told = await _asked(whole, "Target.getTargets")
            pages = [found["targetId"] for found in told["targetInfos"] if found["type"] == "page"]
            if pages:
                return pages[0]
            await asyncio.sleep(_LOOK_S)


async def _asked(socket: ClientConnection, method: str) -> Any:
    await socket.send(json.dumps({"id": 1, "method": method}))
    return json.loads(await socket.recv())["result"]
