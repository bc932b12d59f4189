"""A real browser reads the event stream and the page of operations, and cross-origin requests are refused."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.transports.chromium import NO_BROWSER, PROGRAM, Page, page
from tests.transports.serving import Served, served

from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio

FOLLOW = """
fetch("/v1/events/session", {method: "POST", headers: {Authorization: "Bearer " + %s}}).then((answer) => {
  window.seen = [];
  window.source = new EventSource("/v1/events");
  source.addEventListener("entry", (event) => seen.push([event.lastEventId, JSON.parse(event.data).collection]));
  return new Promise((opened) => { source.onopen = () => opened([answer.status, document.cookie]); });
})
"""
IDS = "JSON.stringify(seen.filter(([, collection]) => collection === 'turns').map(([id]) => parseInt(id)))"


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with served(SurfaceOptions()) as running:
        yield running


@pytest.fixture
async def chromium(tmp_path: Path) -> AsyncIterator[Page]:
    if PROGRAM is None:
        pytest.skip(NO_BROWSER)
    async with page(tmp_path) as found:
        yield found


class Relay:
    """A relay between a browser and a server that cuts connections on demand."""

    def __init__(self, target: str, /) -> None:
        self._target = urlsplit(target)
        self._passing: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        server = await asyncio.start_server(self._both, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self.cut()

    def cut(self) -> None:
        for writer in self._passing:
            writer.close()

    async def _both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, onward = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._passing |= {writer, onward}
        await asyncio.gather(_pass_on(reader, onward), _pass_on(behind, writer))
        self._passing -= {writer, onward}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def test_an_event_source_gets_every_entry_once_even_across_a_reconnect(
    server: Served, chromium: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_http_shell.events.EVENTS_RETRY_MS", 10)
    key = await server.key(PrincipalKind.USER, "ada")
    relay = Relay(server.url)
    async with relay.listening() as address:
        await chromium.open(f"{address}/docs")
        status, cookies = await chromium.run(FOLLOW % json.dumps(key))
        assert (status, cookies) == (204, "")  # scripts cannot read the cookie
        await server.memory.add("The ferry leaves at six.")
        await chromium.until("seen.some(([, collection]) => collection === 'turns')")
        relay.cut()
        await server.memory.add("The ferry leaves at seven.")
        await chromium.until("seen.filter(([, collection]) => collection === 'turns').length > 1")
        told = json.loads(await chromium.run(IDS))
    journal = await server.memory.context.store.journal(SpaceId("ada"), after=0, limit=100)
    assert told == [entry.sequence for entry in journal if entry.ref.collection == "turns"]
    assert not [url for url in chromium.requested if key in url]


async def test_without_a_session_or_from_another_origin_a_page_gets_no_events(server: Served, chromium: Page) -> None:
    await chromium.open(f"{server.url}/docs")
    refused = "new Promise((done) => { new EventSource('/v1/events').onerror = (e) => done(e.target.readyState); })"
    assert await chromium.run(refused) == 2
    key = await server.key(PrincipalKind.USER, "ada")
    await chromium.open("data:text/html,elsewhere")
    asked = f"{{method: 'POST', headers: {{Authorization: 'Bearer {key}'}}}}"
    reached = f"fetch('{server.url}/v1/list', {asked}).then(() => 'read', () => 'refused')"
    assert await chromium.run(reached) == "refused"


async def enter(chromium: Page, key: str) -> None:
    """Enter a key when the page asks for one."""
    await chromium.until("document.querySelector('#operations .status')")
    await chromium.run(
        f"document.getElementById('key').value = {json.dumps(key)};"
        "document.getElementById('key').dispatchEvent(new Event('change'))"
    )


async def test_the_page_of_operations_sends_one_and_shows_the_answer(server: Served, chromium: Page) -> None:
    await server.memory.add("The ferry leaves at six. <img src=x>")
    key = await server.key(PrincipalKind.USER, "ada")
    await chromium.open(f"{server.url}/docs")
    await enter(chromium, key)
    await chromium.until("document.querySelectorAll('#groups a').length > 5")
    await chromium.run(
        "window.recall = [...document.querySelectorAll('.operation')]"
        ".find((one) => one.querySelector('.path').textContent === '/v1/recall'); recall.open = true"
    )
    await chromium.until("recall.querySelector('textarea')")
    filled_in = json.loads(await chromium.run("recall.querySelector('textarea').value"))
    assert filled_in == {"query": "When did we move?", "limit": 5}
    await chromium.run(
        "recall.querySelector('textarea').value = '{\"query\": \"ferry\"}';recall.querySelector('button').click()"
    )
    await chromium.until("recall.querySelector('.status.right')")
    assert "The ferry leaves at six. <img src=x>" in await chromium.run(
        "recall.querySelector('.status + pre').textContent"
    )
    assert await chromium.run("document.querySelectorAll('img').length") == 0
    assert all("401" in complaint for complaint in chromium.complaints), "but for the first look without a key"
    assert {url.split("/")[2] for url in chromium.requested} == {server.url.split("/")[2]}


async def test_the_page_finds_operations_and_expands_their_parameters(server: Served, chromium: Page) -> None:
    await chromium.open(f"{server.url}/docs")
    await enter(chromium, await server.key(PrincipalKind.USER, "ada"))
    await chromium.until("document.querySelector('.operation')")
    await chromium.run(
        "const sought = document.getElementById('find'); sought.value = '/v1/recall';"
        "sought.dispatchEvent(new Event('input'));"
        "window.left = [...document.querySelectorAll('.operation')].filter((one) => one.offsetParent);"
        "left[0].open = true"
    )
    assert await chromium.run("left.map((one) => one.querySelector('.path').textContent)") == ["/v1/recall"]
    await chromium.until("left[0].querySelector('textarea')")
    await chromium.run("left[0].querySelectorAll('details').forEach((one) => { one.open = true; })")
    await chromium.until("left[0].querySelector('dt')")
    terms = await chromium.run("[...left[0].querySelectorAll('dt')].map((one) => one.textContent)")
    assert "query  text  required" in terms
    assert all("401" in complaint for complaint in chromium.complaints), "but for the first look without a key"
