"""A server with a console, its keys, and pages of a real browser."""

import os
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright
from tests.transports.serving import Served, served

from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_console import ConsoleHost, SmokeCheck
from elytron_core.planes.servers.system_documents import PrincipalKind

PROGRAM = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
NO_BROWSER = "no Chromium on this machine: install the package `chromium`"
CHECKS = (
    SmokeCheck("right", "It works", ("-c", "print('it works')")),
    SmokeCheck("wrong", "It fails", ("-c", "import sys; print('x' * 20000); sys.exit('broken')")),
)
SETTLED = """() => document.querySelector(".sign-in form") !== null
  || (document.querySelector(".page[aria-busy=false]") !== null && document.querySelector(".waiting") === null)"""
LOOKS = ("", "* { letter-spacing: 0.35em !important; }", "* { font-size: 24px !important; }")
"""Styles in which a page is measured: its own, a very wide font, and large text. None needs an installed font."""
BEYOND = """(looks) => looks.map((look) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(look);
  document.adoptedStyleSheets = [sheet];
  const beyond = document.documentElement.scrollWidth - innerWidth;
  document.adoptedStyleSheets = [];
  return beyond;
})"""
TURN = """async (address) => {
  location.hash = `#/${address}`;
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
}"""
HOST = ConsoleHost(store="memory:", command=(sys.executable,), checks=CHECKS, rule_commands=("elytron rules export",))


@dataclass
class Watched:
    """A page, and everything that it said, asked for beyond its server, or was refused by its policy."""

    page: Page
    url: str
    said: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    opened: int = 0

    def hear(self, message: ConsoleMessage) -> None:
        self.said.append(f"{message.type}: {message.text}")

    def note(self, request: Request) -> None:
        self.asked.append(request.url)

    @property
    def foreign(self) -> list[str]:
        """Return the addresses beyond the server that were asked for."""
        return [url for url in self.asked if not url.startswith(self.url)]

    async def go(self, address: str) -> None:
        """Open a page of the console; all that it asks for is answered when this returns."""
        self.opened += 1
        # Another query makes the browser load the page again, where another fragment alone would not.
        await self.page.goto(f"{self.url}/console?{self.opened}#/{address}")
        await self.settled()

    async def turn(self, address: str) -> None:
        """Go to another page of the console as its links do, which takes a third of the time of `go`."""
        await self.page.evaluate(TURN, address)
        await self.settled()

    async def beyond(self) -> int:
        """Return by how many pixels the page is wider than its window, in the worst of `LOOKS`."""
        return max(await self.page.evaluate(BEYOND, LOOKS))

    async def settled(self) -> None:
        """Return when the page shows what it asked for, or the form to sign in."""
        await self.page.wait_for_function(SETTLED)


@dataclass(frozen=True)
class Keys:
    """Keys of an operator, of the user of the space "ada", and of another user."""

    operator: str
    user: str
    stranger: str


def bearer(key: str) -> dict[str, str]:
    """Return the header that presents `key`."""
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with served(SurfaceOptions(console=HOST)) as running:
        yield running


@pytest.fixture
async def open_server() -> AsyncIterator[Served]:
    """Serve in development mode, with agents whose model does not answer."""
    agents = ServiceSettings(models=("ollama:tiny@http://127.0.0.1:9",))
    async with served(SurfaceOptions(console=HOST, agent=agents), development=True) as running:
        yield running


@pytest.fixture
async def keys(server: Served) -> Keys:
    return Keys(
        operator=await server.key(PrincipalKind.OPERATOR, None),
        user=await server.key(PrincipalKind.USER, "ada"),
        stranger=await server.key(PrincipalKind.USER, "bob"),
    )


@pytest.fixture
async def client(server: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as connected:
        yield connected


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """Let the tests of this folder share one event loop, and so their browser."""
    return "asyncio"


@asynccontextmanager
async def opened_browser() -> AsyncGenerator[Browser]:
    """Lend a browser that makes no calls of its own."""
    if PROGRAM is None:
        pytest.skip(NO_BROWSER)
    switches = ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-gpu"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        switches.append("--no-sandbox")  # root has none
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=PROGRAM, args=switches)
        yield browser
        await browser.close()


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    """Lend the browser that the tests of this folder share."""
    async with opened_browser() as opened:
        yield opened


@asynccontextmanager
async def browser_page(browser: Browser, url: str, /) -> AsyncGenerator[Watched]:
    """Give a page that shares nothing with others that the browser had: no storage, no cookies."""
    page = await browser.new_page(
        reduced_motion="reduce", viewport={"width": 1280, "height": 900}, locale="en-US", timezone_id="UTC"
    )
    page.set_default_timeout(60_000)
    watched = Watched(page, url)
    page.on("console", watched.hear)
    page.on("pageerror", lambda error: watched.said.append(f"error: {error}"))
    page.on("request", watched.note)
    try:
        yield watched
    finally:
        await page.context.close()


@pytest.fixture
async def page(browser: Browser, open_server: Served) -> AsyncIterator[Watched]:
    async with browser_page(browser, open_server.url) as watched:
        yield watched


async def make_agent(server: Served, task: str) -> None:
    """Make the agent of the space with a schedule, at a server in development mode."""
    schedule = {"name": task[:40], "task": task, "rule": {"type": "daily", "time": "09:00"}}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        for path, body in (("init", {}), ("schedules", schedule)):
            answer = await client.post(f"/v1/agent/{path}", json=body)
            assert answer.status_code == 200, answer.text
