"""The page `/agent` in a real browser: sign in with a key, live thread, reactions, and nothing else loaded."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.agent.service.served import served
from tests.transports.chromium import NO_BROWSER, PROGRAM, Page, page

from elytron_agent.service.routes.agent_routes import page_policy

pytestmark = pytest.mark.anyio
SHOWN = "JSON.stringify([...document.querySelectorAll('.message')].map((box) => [box.className, box.textContent]))"


@pytest.fixture
async def chromium(tmp_path: Path) -> AsyncIterator[Page]:
    if PROGRAM is None:
        pytest.skip(NO_BROWSER)
    async with page(tmp_path) as found:
        yield found


async def test_a_user_signs_in_chats_and_sees_messages_from_other_devices(chromium: Page) -> None:
    async with served() as server:
        ada = await server.user("ada")
        await chromium.open(f"{server.url}/agent")
        await chromium.run(f"document.getElementById('key').value = {ada.key!r}; document.forms[0].requestSubmit()")
        await chromium.until("document.querySelectorAll('.message').length === 3")
        await chromium.run("document.getElementById('words').value = '<b>Hello</b>'")
        await chromium.run("document.getElementById('send').click()")
        await chromium.until("document.querySelectorAll('.message').length === 5")
        await ada.chat("from the phone")
        await chromium.until("document.querySelectorAll('.message').length === 7")
        shown = await chromium.run(SHOWN)
        item = (await ada.items())["data"][0]["id"]
        await ada.made("POST", f"/items/{item}/reaction", {"emoji": "👍"})
        await chromium.until("document.body.textContent.includes('👍')")
        await chromium.open("about:blank")
    assert shown.count("message user") == 2
    assert "You said: <b>Hello</b>" in shown
    assert "You said: from the phone" in shown
    assert chromium.complaints == []
    assert {url.split("/")[2] for url in chromium.requested if url.startswith("http")} == {server.url.split("/")[2]}


async def test_an_operators_page_replaces_the_default_one(chromium: Page) -> None:
    body = (Path(__file__).parents[3] / "examples" / "web_chat.html").read_bytes()
    async with served(page=body) as server:
        ada = await server.user("ada")
        await chromium.send("Page.addScriptToEvaluateOnNewDocument", source=f"window.prompt = () => {ada.key!r}")
        await chromium.open(f"{server.url}/agent")
        await chromium.until("document.querySelectorAll('#thread p').length === 3")
        await chromium.run("document.getElementById('words').value = 'Hello'; document.forms[0].requestSubmit()")
        await chromium.until("document.body.textContent.includes('You said: Hello')")
    assert chromium.complaints == []


async def test_a_page_may_have_several_scripts_but_none_from_elsewhere() -> None:
    policy = page_policy(b"<script>a()</script><p>x</p><script>b()</script>")
    assert (policy.count("'sha256-"), "style-src 'none'" in policy) == (2, True)


async def test_the_page_is_one_file_and_runs_only_its_own_script() -> None:
    async with served() as server:
        answer = await server.client.get("/agent")
        again = await server.client.get("/agent", headers={"If-None-Match": answer.headers["etag"]})
    policy = answer.headers["content-security-policy"]
    assert (answer.status_code, again.status_code) == (200, 304)
    assert "default-src 'none'; script-src 'sha256-" in policy
    assert "unsafe" not in policy
