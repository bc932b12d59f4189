"""Agents in the console: the service's routes in one space, and model costs."""

from collections.abc import AsyncIterator

import httpx
import pytest
from playwright.async_api import Browser
from tests.agent.service.served import FakeServer, echo
from tests.agent.service.served import serving as model_serving
from tests.console.conftest import HOST, Watched, bearer, browser_page
from tests.transports.serving import Served, served

from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import KEY as BOOK_KEY
from elytron_core.planes.jobs import SPENDING, ModelUsage, SpendingHistory
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.policy.spending_budget import hold_call, settle_call
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange

pytestmark = pytest.mark.anyio

TASK = "Water the <b>ferns</b>."
REMINDER = {"task": TASK, "rule": {"type": "daily", "time": "09:00"}}


def wanted(model: FakeServer) -> SurfaceOptions:
    return SurfaceOptions(console=HOST, agent=ServiceSettings(models=(f"chat:scripted@{model.url}/v1",)))


@pytest.fixture
async def model() -> AsyncIterator[FakeServer]:
    async with model_serving() as running:
        running.reply = echo
        yield running


@pytest.fixture
async def agents(model: FakeServer) -> AsyncIterator[Served]:
    """Serve agents, with keys."""
    async with served(wanted(model)) as running:
        yield running


@pytest.fixture
async def agent_page(browser: Browser, model: FakeServer) -> AsyncIterator[tuple[Served, Watched]]:
    """Give a page of a server of agents in development mode."""
    async with served(wanted(model), development=True) as running, browser_page(browser, running.url) as watched:
        yield running, watched


async def spend(server: Served, *days: ModelUsage) -> None:
    """Store spending records whose last day is today."""
    now, book = server.memory.context.clock.now(), SpendingHistory()
    for place, spent in enumerate(reversed(days)):
        at = type(now)(now - place * 86_400_000)
        book = settle_call(hold_call(book, at, tokens=1), at, tokens=1, spent=spent)
    ref = DocumentRef(SPENDING, BOOK_KEY)
    put = PutChange(ref, book.to_bytes(), expects=0)
    entry = EntryDraft(JournalAction.MAINTENANCE, ref)
    await server.memory.context.store.commit(Batch(SpaceId("ada"), at=now, puts=(put,), entries=(entry,)))


async def test_the_routes_call_the_service_in_the_requested_space(agents: Served) -> None:
    user, stranger = await agents.key(PrincipalKind.USER, "ada"), await agents.key(PrincipalKind.USER, "bob")
    operator = await agents.key(PrincipalKind.OPERATOR, None)
    async with httpx.AsyncClient(base_url=agents.url, trust_env=False, timeout=60) as client:
        assert (await client.get("/console/session", headers=bearer(user))).json()["agents"] is True
        assert (await client.get("/console/agents", headers=bearer(user))).json() == {"space": "ada", "exists": False}
        made = (await client.post("/console/agent/init", json={}, headers=bearer(user))).json()
        own = (await client.get("/v1/agent", headers=bearer(user))).json()
        seen = (await client.get("/console/agent?space=ada", headers=bearer(operator))).json()
        assert (await client.get("/console/agents", headers=bearer(user))).json()["exists"] is True
        assert made["id"] == own["id"] == seen["id"]
        schedule = (await client.post("/console/agent/schedules", json=REMINDER, headers=bearer(user))).json()
        listed = (await client.get("/v1/agent/schedules", headers=bearer(user))).json()
        assert [one["id"] for one in listed["data"]] == [schedule["id"]]
        await client.post("/console/agent/init", json={}, headers=bearer(stranger))
        for path in ("s", "", "/config", "/items", "/usage", "/subagents", "/schedules"):
            foreign = await client.get(f"/console/agent{path}?space=ada", headers=bearer(stranger))
            assert (foreign.status_code, foreign.json()["code"]) == (403, "permission_refused")
        gone = await client.delete(f"/console/agent/schedules/{schedule['id']}", headers=bearer(stranger))
        assert gone.status_code == 404
        for method, path in (("DELETE", ""), ("GET", "/events"), ("POST", "/chat"), ("GET", "/push")):
            assert (await client.request(method, f"/console/agent{path}", headers=bearer(user))).status_code in {
                404,
                405,
            }


async def test_usage_covers_the_turns_of_the_last_day(agents: Served) -> None:
    user = await agents.key(PrincipalKind.USER, "ada")
    async with httpx.AsyncClient(base_url=agents.url, trust_env=False, timeout=60, headers=bearer(user)) as client:
        await client.post("/v1/agent/init", json={})
        for text in ("Hello.", "Hello again."):
            await client.post("/v1/agent/chat", json={"input": text})
        usage = (await client.get("/v1/agent/usage")).json()
        assert (usage["turns"], usage["failed"], usage["steps"]) == (2, 0, 2)


async def test_a_page_creates_and_configures_an_agent_and_its_schedules(agent_page: tuple[Served, Watched]) -> None:
    server, page = agent_page
    found = page.page
    await page.go("agents")
    await found.get_by_role("button", name="Create agent").click()
    await found.get_by_role("switch", name="Tools").click()
    await found.locator("[role=switch][aria-checked=false]").wait_for()
    await found.get_by_role("button", name="New schedule").click()
    dialog = found.get_by_role("dialog")
    await dialog.get_by_label("Task").fill(TASK)
    await dialog.get_by_label("When").select_option("weekly")
    await dialog.get_by_label("Friday").check()
    await dialog.get_by_role("button", name="Create schedule").click()
    row = found.get_by_role("row", name="Water the <b>ferns</b>.")
    await row.get_by_text("Monday, Friday at 09:00").wait_for()
    await row.get_by_role("button", name="Delete").click()
    await dialog.get_by_role("button", name="Delete").click()
    await found.get_by_text("No schedules").wait_for()
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        await client.post("/v1/agent/chat", json={"input": "Hello <i>there</i>."})
    await page.go("agents")
    await found.get_by_text("You said: Hello <i>there</i>.").wait_for()
    await found.get_by_role("switch", name="On").click()
    await found.get_by_text("The agent is off").wait_for()
    assert (page.said, page.foreign) == ([], [])


async def test_an_invalid_cron_line_is_rejected_in_its_dialog(agent_page: tuple[Served, Watched]) -> None:
    _, page = agent_page
    found = page.page
    await page.go("agents")
    await found.get_by_role("button", name="Create agent").click()
    await found.get_by_role("button", name="New schedule").click()
    dialog = found.get_by_role("dialog")
    await dialog.get_by_label("Task").fill("Look.")
    await dialog.get_by_label("When").select_option("cron")
    await dialog.get_by_label("Cron expression").fill("99 99 * * *")
    await dialog.get_by_role("button", name="Create schedule").click()
    await dialog.get_by_role("alert").wait_for()
    assert "cron line" in await dialog.get_by_role("alert").inner_text()


async def test_a_server_without_agents_has_no_agents_page(browser: Browser) -> None:
    wanted = SurfaceOptions(console=HOST)
    async with served(wanted, development=True) as running, browser_page(browser, running.url) as watched:
        await watched.go("agents")
        await watched.page.get_by_text("This server has no agents").wait_for()
        assert await watched.page.get_by_role("link", name="Agents").count() == 0
        assert watched.said == []


async def test_spending_matches_the_stored_records(open_server: Served, page: Watched) -> None:
    yesterday = ModelUsage(calls=2, prompt_tokens=900, completion_tokens=100, cost=1_000)
    today = ModelUsage(calls=1, prompt_tokens=2_000, completion_tokens=345, cost=2_500)
    await spend(open_server, yesterday, today)
    found = page.page
    await page.go("spending")
    figures = found.get_by_role("group", name="Figures")
    assert "2,345" in await figures.inner_text()
    assert "3,345" in await figures.inner_text()
    rows = await found.get_by_role("table", name="Days").get_by_role("row").all_inner_texts()
    assert len(rows) == 3
    assert "0.002500" in rows[1]
    assert await found.get_by_role("table", name="Spaces with the most tokens").get_by_text("3,345").count() == 1
    assert (page.said, page.foreign) == ([], [])


async def test_a_user_sees_the_spending_of_its_own_space(server: Served) -> None:
    await spend(server, ModelUsage(calls=3, prompt_tokens=10, completion_tokens=1))
    user, stranger = await server.key(PrincipalKind.USER, "ada"), await server.key(PrincipalKind.USER, "bob")
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        mine = (await client.get("/console/spending", headers=bearer(user))).json()
        assert [day["spent"]["calls"] for day in mine["days"]] == [3]
        assert (await client.get("/console/spending", headers=bearer(stranger))).json()["days"] == []
        assert (await client.get("/console/spending?space=ada", headers=bearer(stranger))).status_code == 403
        assert (await client.get("/console/spending/spaces", headers=bearer(user))).status_code == 403


async def test_the_agents_page_needs_no_key_in_development_and_fits_a_narrow_screen(
    open_server: Served, page: Watched
) -> None:
    await page.page.set_viewport_size({"width": 360, "height": 800})
    await page.page.goto(f"{open_server.url}/agent")
    await page.page.locator(".message").first.wait_for()
    assert await page.page.get_by_label("Access key").is_hidden()
    assert await page.page.get_by_label("Message").is_enabled()
    assert await page.beyond() <= 0
    await page.page.get_by_role("button", name="Memory").click()
    await page.page.get_by_label("Block human").wait_for()
    assert await page.beyond() <= 0
    assert (page.said, page.foreign) == ([], [])
