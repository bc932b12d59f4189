"""Callers: who changed what, their programs' model usage, the paths they may use, and where calls go."""

import httpx
import pytest
from playwright.async_api import Browser
from tests.console.conftest import HOST, Keys, Watched, bearer, browser_page
from tests.models.fake_server import EVENTS, Sent, serving
from tests.models.streams import RECORDED
from tests.proxy.proxy_setup import PATHS, asked
from tests.transports.nodes import skip_over_nodes
from tests.transports.serving import Served, served

from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_proxy import ModelUpstream, ProxySettings

pytestmark = pytest.mark.anyio

TEA = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes green tea."}]}]}}


async def entries(client: httpx.AsyncClient, key: str, space: str = "ada") -> list[dict[str, str]]:
    """Return the space's journal, newest first."""
    return (await client.get(f"/console/journal?space={space}", headers=bearer(key))).json()["items"]


async def test_an_entry_names_who_made_it(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    made = (await client.post("/v1/write", json=TEA, headers=bearer(keys.user))).json()
    memory = made["decisions"][0]["id"]
    asked_for = {"ids": [memory], "reason": "asked", "scope": {"space": "ada"}}
    await client.post("/v1/forget", json=asked_for, headers=bearer(keys.operator))
    operator = (await client.get("/console/session", headers=bearer(keys.operator))).json()["principal"]
    user = (await client.get("/console/session", headers=bearer(keys.user))).json()["principal"]
    found = await entries(client, keys.user)
    assert (found[0]["by"], found[0]["label"]) == (operator, "test")
    assert [entry.get("by") for entry in found if entry["collection"] == "turns"] == [operator, user]
    # As far as this process knows, another one stored the entries; a correction is in its subject's history.
    server.memory.context.commits.writers.clear()
    assert "by" not in (await entries(client, keys.user))[-1]


async def test_a_correction_is_attributed_after_a_restart(
    server: Served, client: httpx.AsyncClient, keys: Keys
) -> None:
    fact = {"topic": "home", "fact_kind": "profile", "content": "Ada lives in Porto", "authority": "user_asserted"}
    write = {"write": {"kind": "long_term", "facts": [fact]}}
    made = (await client.post("/v1/write", json=write, headers=bearer(keys.user))).json()
    change = {"id": made["decisions"][0]["id"], "action": "mark_stale"}
    assert (await client.post("/v1/change_fact", json=change, headers=bearer(keys.user))).json()["changed"]
    server.memory.context.commits.writers.clear()
    user = (await client.get("/console/session", headers=bearer(keys.user))).json()["principal"]
    assert (await entries(client, keys.user))[0].get("by") == user


async def test_a_recreated_space_has_no_earlier_callers(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    await client.post("/v1/write", json=TEA, headers=bearer(keys.user))
    context = server.memory.context
    run = context.commits.writers[-1]
    context.commits.writers.clear()
    context.commits.writers.append(run._replace(at=type(run.at)(run.at - 1)))
    assert not any("by" in entry for entry in await entries(client, keys.user))


async def test_the_overview_shows_the_session_and_its_space(client: httpx.AsyncClient, keys: Keys) -> None:
    found = (await client.get("/console/overview", headers=bearer(keys.operator))).json()
    assert (found["session"]["kind"], found["memory_context"]["space"]) == ("operator", "ada")
    assert found["promises"]["erasure"] == "no_byte"


async def test_a_key_sees_the_paths_that_it_may_use(client: httpx.AsyncClient, keys: Keys) -> None:
    every = (await client.get("/console/paths", headers=bearer(keys.operator))).json()["items"]
    own = (await client.get("/console/paths", headers=bearer(keys.user))).json()["items"]
    assert {("POST", "/v1/recall"), ("GET", "/console/paths")} <= {(row["method"], row["path"]) for row in own}
    hidden = {row["path"] for row in every} - {row["path"] for row in own}
    assert {"/metrics", "/console/overview", "/console/devices"} <= hidden
    assert not any(row["operator"] for row in own)
    assert not any(":" in row["path"] for row in every)


async def test_tokens_of_programs_are_counted_by_space_and_model(browser: Browser) -> None:
    skip_over_nodes("figures are of one process")
    answers = [Sent((RECORDED["chat"].data,), media_type=EVENTS) for _ in range(2)]
    async with serving(*answers) as upstream:
        llm = ProxySettings(upstreams=(ModelUpstream(upstream.url),))
        async with served(SurfaceOptions(console=HOST, llm=llm)) as server:
            ada, bob = [await server.key(PrincipalKind.USER, space) for space in ("ada", "bob")]
            async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
                for _ in answers:
                    answer = await client.post(f"/llm{PATHS['chat']}", json=asked("chat", "Hello"), headers=bearer(ada))
                    assert answer.status_code == 200
                mine = (await client.get("/console/spending", headers=bearer(ada))).json()["programs"]
                (row,) = mine
                assert (row["model"], row["calls"]) == ("m", 2)
                assert row["read"] > 0
                assert row["written"] > 0
                assert (await client.get("/console/spending", headers=bearer(bob))).json()["programs"] == []
            async with browser_page(browser, server.url) as watched:
                await watched.go("spending")
                await watched.page.get_by_label("Access key").fill(ada)
                await watched.page.keyboard.press("Enter")
                table = watched.page.get_by_role("table", name="Programs through this server")
                await table.get_by_role("cell", name="2", exact=True).wait_for()


async def test_the_oldest_program_rows_are_dropped_first(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from elytron_adapter import call_figures

    monkeypatch.setattr(call_figures, "PROGRAM_DAYS", 2)
    figures = call_figures.CallFigures(server.memory.context.clock)
    for model in ("one", "two", "two", "three"):
        figures.count_tokens(SpaceId("ada"), model, read=2, output=1)
    rows = figures.programs(SpaceId("ada"))
    assert [(row.model, row.calls, row.input_tokens, row.output_tokens) for row in rows] == [
        ("two", 2, 4, 2),
        ("three", 1, 2, 1),
    ]


async def test_the_store_is_checked_and_reported_as_sound(open_server: Served, page: Watched) -> None:
    await page.go("stores")
    await page.page.get_by_role("button", name="Check now").click()
    await page.page.get_by_text("intact", exact=True).wait_for()
    await page.go("docs")
    await page.page.get_by_label("Find a path").fill("rotate-key")
    await page.page.get_by_role("cell", name="/console/devices/{id}/rotate-key").wait_for()
    await page.page.get_by_label("Find a path").fill("zeppelin")
    await page.page.get_by_text("Searched for").wait_for()
    assert (page.said, page.foreign) == ([], [])
