"""The console shows losses of a space, and an operator acknowledges them there."""

from pathlib import Path

import pytest
from tests.console.conftest import HOST, browser_page, opened_browser
from tests.transports.serving import served

import elytron
from elytron import MemoryInspectionRequest
from elytron_cli.server.optional_surfaces import SurfaceOptions

pytestmark = pytest.mark.anyio

LOST = "Memories were lost to damage."


async def lose_a_memory(file: Path) -> None:
    """Leave a repaired store that has lost one of two messages of ada."""
    async with elytron.open(file, space="ada") as memory:
        await memory.add(["The red crate stands in hall 7.", "The blue crate stands in hall 8."])
    file.write_bytes(file.read_bytes().replace(b'"The red crate', b'"The rad crate'))
    async with elytron.open(file, space="ada") as memory:
        assert (await memory.inspect(MemoryInspectionRequest(check=True, repair=True))).losses


async def test_the_console_shows_a_loss_until_an_operator_acknowledges_it(tmp_path: Path) -> None:
    await lose_a_memory(tmp_path / "m.db")
    wanted = SurfaceOptions(console=HOST)
    async with (
        opened_browser() as browser,
        served(wanted, development=True, store=f"sqlite://{tmp_path}/m.db") as server,
        browser_page(browser, server.url) as page,
    ):
        await page.go("overview?space=ada")
        await page.page.get_by_text(LOST).first.wait_for()
        await page.go("stores?space=ada")
        await page.page.get_by_role("button", name="Check now").click()
        await page.page.get_by_role("button", name="Acknowledge the losses").click()
        await page.page.get_by_text(LOST).wait_for(state="detached")
        await page.page.get_by_text("intact").wait_for()
        assert page.said == []
        assert await server.memory.context.losses.read() == ()
