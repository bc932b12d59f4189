"""Five complete pages as a screen reader gets them. `python -m tests.console.test_snapshots` rewrites them."""

import asyncio
import re
from pathlib import Path

import pytest
from tests.console.conftest import HOST, Watched, browser_page, make_agent, opened_browser
from tests.console.test_pages import remember
from tests.transports.serving import Served, served

from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parent / "snapshots"
PAGES = {
    "overview": "overview",
    "memories": "memories?plane=transcript",
    "facts": "facts?states=all",
    "agents": "agents",
    "server": "server",
}
OWN = (*("Uptime", "System", "Processors", "Load", "Free memory", "This process", "Indexes in memory", "Last backup"),)
MACHINE = re.compile(rf"(- term: (?:{'|'.join(OWN)})\n\s*- definition: ).*")
"""Figures of the current machine."""
NUMBERS = re.compile(r"(?<![\w=])\d[\d.,:]*(?: (?:ms|s|min|h|B|KiB|MiB|GiB|AM|PM)\b)?")
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}(?:\.\d+)?|[0-9a-f]{24,}")


async def snapshot(page: Watched, address: str) -> str:
    """Return a page's content, without figures of this machine and time."""
    await page.go(address)
    told = await page.page.locator("#app" if address == "overview" else "main").aria_snapshot()
    return NUMBERS.sub("#", IDS.sub("ID", MACHINE.sub(r"\1#", told))) + "\n"


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_matches_its_snapshot(open_server: Served, page: Watched, name: str) -> None:
    await remember(open_server)
    await make_agent(open_server, "Water the ferns.")
    assert await snapshot(page, PAGES[name]) == (FOLDER / f"{name}.yml").read_text("utf-8")


async def write_snapshots() -> None:
    """Rewrite every snapshot."""
    FOLDER.mkdir(exist_ok=True)
    wanted = SurfaceOptions(console=HOST, agent=ServiceSettings(models=("ollama:tiny@http://127.0.0.1:9",)))
    async with opened_browser() as browser:
        for name, address in PAGES.items():
            async with served(wanted, development=True) as server, browser_page(browser, server.url) as page:
                await remember(server)
                await make_agent(server, "Water the ferns.")
                (FOLDER / f"{name}.yml").write_text(await snapshot(page, address), "utf-8")


if __name__ == "__main__":
    asyncio.run(write_snapshots())
