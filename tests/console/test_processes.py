"""The console in real processes: `elytron console` and `elytron serve` over generated spaces, in a browser."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from playwright.async_api import Browser
from tests.console.conftest import Watched, bearer, browser_page

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio

CLI = (sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()")
AT, HOUR = 1_785_000_000_000, 3_600_000
SAID = {
    "ada": [f"Ada likes green tea, cup {place}." for place in range(50)],
    "xiaoyu": [
        "小雨喜欢在早晨喝绿茶。",
        "我们五月搬到了杭州，住在西湖附近的小街上。",
        "请把回答写得简短一些。",
    ],
    "noa": ["נועה אוהבת תה ירוק בבוקר.", "עברנו לחיפה במאי, לדירה קטנה ליד הים.", "הגרסה החדשה יוצאת (v2.4)."],
    "empty": [],
}
SPEAKERS = {"ada": "Ada", "xiaoyu": "小雨", "noa": "נועה"}
FACTS = {
    "ada": ["Ada lives in Porto", "Ada lives in Lisbon"],
    "xiaoyu": ["小雨住在杭州西湖附近"],
    "noa": ["נועה גרה בחיפה"],
}
SKILL = {
    "name": "deploy",
    "topic": "deployment",
    "title": "Deploy the site",
    "summary": "Build, check, upload.",
    "content": "1. Run the build.\n2. Check the pages.\n3. Upload them with the release script.",
}
PROPOSAL = {"target": "long_term", "fact_kind": "profile", "topic": "job", "content": "Ada leads the project"}
DRAFT = {"proposal": PROPOSAL, "authority": "external_content", "origins": ["external"]}
EVERY = (
    *("overview", "people", "memories", "facts?states=all", "conversations", "timeline", "recall?q=tea"),
    *("projection?q=tea", "review", "skills", "tools", "erasures", "transfer", "jobs", "spending", "journal"),
    *("spaces", "stores", "devices", "gateway", "server", "docs"),
)
OF_TEXTS = ("memories", "facts", "conversations", "people", "timeline", "projection", "recall?q=v2.4")


NAMED = """() => {
  const node = document.activeElement;
  return node.getAttribute("aria-label") ?? node.labels?.[0]?.innerText ?? node.innerText;
}"""


class MadeStore(NamedTuple):
    """A store file and keys for it: an operator's, one of the user of "ada", and one of another user."""

    path: Path
    operator: str
    user: str
    other: str


async def fill(path: Path) -> MadeStore:
    for space, texts in SAID.items():
        async with elytron.open(path, space=space) as memory:
            for place, text in enumerate(texts):
                message = {"text": text, "speaker": SPEAKERS[space], "at": AT + place * HOUR}
                turn = {"kind": "transcript", "turns": [{"messages": [message]}]}
                await write(memory, turn, space=space, conversation=f"day {place // 20}")
            for content in FACTS.get(space, ()):
                fact = {"topic": "home", "fact_kind": "profile", "content": content, "authority": "user_asserted"}
                await write(memory, {"kind": "long_term", "facts": [fact]}, space=space)
    async with elytron.open(path, space="ada") as memory:
        await write(memory, {"kind": "procedural", "writes": [SKILL]}, space="ada")
        await write(memory, {"kind": "candidates", "candidates": [DRAFT]}, space="ada")
        keys = AccessKeys(memory.context)
        operator = await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="desk"))
        users = [
            await keys.add(AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label=label))
            for label in ("phone", "tablet")
        ]
    return MadeStore(path, operator.key, *(made.key for made in users))


async def write(memory: elytron.MemoryRuntime, write: dict[str, Any], **scope: str) -> None:
    request = MemoryWriteRequest.model_validate({"write": write, "scope": scope})
    await memory.operate(request)


@contextmanager
def process_of(*arguments: str, folder: Path) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a serving command until this ends, and yield its address."""
    command = (*CLI, *arguments, "--json")
    environment = {**os.environ, "NO_COLOR": "1"}
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=environment)
        assert process.stdout is not None
        told = b""
        try:
            while not told.rstrip().endswith(b"}"):
                line = process.stdout.readline()
                assert line, (folder / "errors").read_text("utf-8")
                told += line
            yield str(json.loads(told)["address"]).removesuffix("/console"), process
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeStore:
    return asyncio.run(fill(tmp_path_factory.mktemp("made") / "made.db"))


@pytest.fixture(scope="module")
def shown(made: MadeStore, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Run `elytron console` over a copy of the store."""
    folder = tmp_path_factory.mktemp("console")
    shutil.copy(made.path, folder / "m.db")
    with process_of("console", "--store", "m.db", "--space", "ada", "--port", "0", folder=folder) as (address, _):
        yield address


@pytest.fixture(scope="module")
def guarded(made: MadeStore, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Run `elytron serve` over another copy, with keys required."""
    folder = tmp_path_factory.mktemp("serve")
    shutil.copy(made.path, folder / "m.db")
    with process_of("serve", "--store", "m.db", "--port", "0", folder=folder) as (address, _):
        yield address


@asynccontextmanager
async def client_of(url: str) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        yield client


async def turn_to(watched: Watched, address: str) -> None:
    """Go to another page of the same document, as a link does."""
    await watched.page.evaluate("(address) => { location.hash = `#/${address}`; }", address)
    name = address.partition("?")[0]
    await watched.page.locator(f"nav a[aria-current][href^='#/{name}']").wait_for(state="attached")
    await watched.settled()


@pytest.mark.parametrize("space", SAID)
async def test_every_page_shows_the_current_state_of_a_space(browser: Browser, shown: str, space: str) -> None:
    async with browser_page(browser, shown) as watched:
        await watched.go(f"overview?space={space}")
        await watched.page.set_viewport_size({"width": 360, "height": 800})
        for address in EVERY if space in {"ada", "empty"} else OF_TEXTS:
            await turn_to(watched, address)
            assert await watched.page.get_by_role("alert").all_inner_texts() == [], address
            assert await watched.page.locator("h1").count() == 1
            beyond = await watched.beyond()
            assert beyond <= 0, address
            if space == "empty" and address.partition("?")[0] in OF_TEXTS:
                assert await watched.page.locator(".empty-title, .block").count() > 0, address
        if texts := SAID[space]:
            await turn_to(watched, "memories?order=stored")
            text = watched.page.locator(".open-row .text").filter(has_text=texts[0])
            is_right_to_left = await text.first.evaluate("node => node.matches(':dir(rtl)')")
            assert is_right_to_left == (space == "noa")
        assert (watched.said, watched.foreign) == ([], [])


@pytest.mark.parametrize("space", SAID)
async def test_the_counts_on_its_pages_match_the_store(browser: Browser, shown: str, space: str) -> None:
    async with client_of(shown) as client:
        asked = {"scope": {"space": space}}
        held = (await client.post("/v1/inspect", json=asked)).json()
        listed = {one["space"]: one for one in (await client.post("/v1/list_spaces", json=asked)).json()["spaces"]}
    planes = {name: number for name, number in held["planes"].items() if number}
    assert planes.get("transcript", 0) == len(SAID[space])
    assert planes.get("long_term", 0) == len(FACTS.get(space, ()))
    async with browser_page(browser, shown) as watched:
        page = watched.page
        await watched.go(f"overview?space={space}")
        rows = page.get_by_role("region", name="Contents of the space").locator("dl > div")
        texts = [(await row.inner_text()).split("\n") for row in await rows.all()]
        told = {text[0]: text[-1] for text in texts}
        if planes:
            assert {name: told[name.replace("_", " ")] for name in planes} == {k: str(v) for k, v in planes.items()}
            assert told["Conversations"] == str(len(held["conversations"]))
        await turn_to(watched, "memories?plane=transcript")
        head = page.locator(".pager.first")
        if planes:
            assert f"of {planes['transcript']}" in await head.inner_text()
        await turn_to(watched, "facts?states=all")
        assert await page.locator(".list > li").count() == planes.get("long_term", 0)
        await turn_to(watched, "journal")
        assert f"{held['sequence']} entr" in await page.get_by_role("region", name="Entries").inner_text()
        await turn_to(watched, "erasures")
        assert f"the journal has {held['sequence']} entr" in await page.locator("main").inner_text()
        await turn_to(watched, "skills")
        assert f"{planes.get('procedural', 0)} skill" in await page.locator(".page-head").inner_text()
        await turn_to(watched, "review")
        assert await page.get_by_role("button", name="Accept").count() == planes.get("candidate", 0)
        await turn_to(watched, "spaces")
        cells = page.get_by_role("row").filter(has=page.get_by_role("cell", name=space, exact=True)).get_by_role("cell")
        if space in listed:
            found = [text.strip() for text in await cells.all_inner_texts()][1:3]
            assert found == [str(listed[space]["conversations"]), str(listed[space]["turns"])]
            assert listed[space]["turns"] == len(SAID[space])


async def test_an_ended_or_foreign_session_shows_the_sign_in_form_at_the_same_address(
    browser: Browser, guarded: str, made: MadeStore
) -> None:
    async with browser_page(browser, guarded) as watched, client_of(guarded) as client:
        page = watched.page
        cookie = {"name": "elytron_console", "value": "foreign", "domain": "127.0.0.1", "path": "/console"}
        await page.context.add_cookies([cookie])  # pyright: ignore[reportArgumentType]
        await watched.go("journal?action=write")
        await sign_in(watched, made.other)
        await page.get_by_role("table", name="Entries").wait_for()
        assert "#/journal?action=write" in page.url
        operator = bearer(made.operator)
        devices = (await client.get("/console/devices", headers=operator)).json()["items"]
        (tablet,) = [device["id"] for device in devices if device["label"] == "tablet"]
        assert (await client.delete(f"/console/devices/{tablet}", headers=operator)).status_code == 200
        # A server trusts a key for at most two seconds after another part of it revoked the key.
        # The button may disappear while searched for, so it is found and pressed in one step.
        while await page.locator(".sign-in").count() == 0:
            await page.evaluate(PRESSED, "Refresh")
            await watched.settled()
        assert "Your session has ended" in await page.locator(".sign-in").inner_text()
        assert "#/journal?action=write" in page.url
        await sign_in(watched, made.user)
        await page.get_by_role("table", name="Entries").wait_for()
        # The browser itself logs the 401 answers.
        assert [line for line in watched.said if "401" not in line] == []


PRESSED = """(name) => {
  [...document.querySelectorAll("button")].find((one) => one.textContent.trim() === name)?.click();
}"""


async def sign_in(watched: Watched, key: str) -> None:
    await watched.page.get_by_label("Access key").fill(key)
    await watched.page.keyboard.press("Enter")


async def tab_to(watched: Watched, name: str) -> None:
    """Press Tab until the named element has the focus."""
    told: list[str] = []
    for _ in range(60):
        await watched.page.keyboard.press("Tab")
        text = await watched.page.evaluate(NAMED)
        told.append(str(text).strip())
        if told[-1] == name:
            return
    raise AssertionError((name, told))


async def test_a_memory_is_found_forgotten_and_erased_using_only_the_keyboard(
    browser: Browser, guarded: str, made: MadeStore
) -> None:
    async with browser_page(browser, guarded) as watched:
        keyboard = watched.page.keyboard
        await watched.go("overview")
        await watched.page.locator("#key:focus").wait_for()
        await keyboard.type(made.user)
        await keyboard.press("Enter")
        await watched.page.get_by_role("navigation").wait_for()
        await tab_to(watched, "Memories")
        await keyboard.press("Enter")
        await watched.page.get_by_label("Search memories").wait_for()
        await tab_to(watched, "Search memories")
        await keyboard.type("tea cup 7")
        await keyboard.press("Enter")
        await watched.page.get_by_text("best first").wait_for()
        await tab_to(watched, "Ada likes green tea, cup 7.")
        await keyboard.press("Enter")
        await watched.page.get_by_role("region", name="The memory").get_by_role("button", name="Forget").wait_for()
        await tab_to(watched, "Forget")
        await keyboard.press("Enter")
        await watched.page.get_by_role("dialog").wait_for()
        await tab_to(watched, "Reason")
        await keyboard.type("asked for")
        await keyboard.press("Enter")
        await watched.page.get_by_role("button", name="Restore").wait_for()
        await tab_to(watched, "Erase…")
        await keyboard.press("Enter")
        await watched.page.get_by_label("Type 1 to confirm").wait_for()
        await tab_to(watched, "Type 1 to confirm")
        await keyboard.type("1")
        await keyboard.press("Enter")
        # The message, and its history entry of the call that hid it.
        await watched.page.get_by_text("2 stored documents").wait_for()
        await keyboard.press("Escape")
        await watched.page.get_by_role("dialog").wait_for(state="detached")


@pytest.mark.timeout(280)
async def test_each_page_keeps_showing_its_data_when_the_server_is_gone(
    browser: Browser, made: MadeStore, tmp_path: Path
) -> None:
    shutil.copy(made.path, tmp_path / "m.db")
    arguments = ("console", "--store", "m.db", "--space", "ada", "--port", "0")
    with process_of(*arguments, folder=tmp_path) as (address, process):
        async with browser_page(browser, address) as watched:
            await watched.go("overview")
            asking = [page for page in EVERY if page != "transfer"]
            for page in asking:
                await turn_to(watched, page)
            known: dict[str, int] = {}
            process.send_signal(signal.SIGKILL)
            process.wait(60)
            for page in asking:
                await turn_to(watched, page)
                alert = watched.page.get_by_role("alert")
                await alert.get_by_text("Showing data from").first.wait_for()
                known[page] = len(await watched.page.locator("main").inner_text())
                assert await watched.page.get_by_text("No earlier data").count() == 0, page
            assert min(known.values()) > 120
            await turn_to(watched, "facts?q=never%20asked")
            await watched.page.get_by_text("No earlier data is available").wait_for()


async def test_in_development_mode_a_page_continues_after_a_restart(
    browser: Browser, made: MadeStore, tmp_path: Path
) -> None:
    shutil.copy(made.path, tmp_path / "m.db")
    arguments = ("console", "--store", "m.db", "--space", "ada")
    async with AsyncExitStack() as stack:
        with process_of(*arguments, "--port", "0", folder=tmp_path) as (address, _):
            watched = await stack.enter_async_context(browser_page(browser, address))
            await watched.go("memories")
            loaded = await watched.page.evaluate("performance.timeOrigin")
        port = address.rpartition(":")[2]
        with process_of(*arguments, "--port", port, folder=tmp_path):
            for words, found in (
                ("tea cup 7", "Ada likes green tea, cup 7."),
                ("tea cup 8", "Ada likes green tea, cup 8."),
            ):
                await watched.page.get_by_label("Search memories").fill(words)
                await watched.page.keyboard.press("Enter")
                await watched.page.get_by_role("button", name=found).wait_for()
            assert await watched.page.get_by_role("alert").all_inner_texts() == []
            assert await watched.page.evaluate("performance.timeOrigin") == loaded
            renewals = [url for url in watched.asked if url.endswith("/console/session")]
            # The token is derived from the store's secret, so it survives the process.
            assert len(renewals) == 1
            assert watched.said == []
