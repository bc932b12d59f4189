"""Take pictures of the console's pages with a made-up store, for docs/images and for visual inspection.

    python -m benchmarks.console_pictures FOLDER            the pictures of docs/how-to/use-the-console.md
    python -m benchmarks.console_pictures FOLDER --every    each page at 360, 768 and 1440 px, light and dark, full
                                                            and of an empty space

The store is in memory and contains invented people in English, Chinese and Hebrew. The agent's model is a local server
that repeats its input.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

import elytron
from benchmarks.console import chromium
from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_console import ConsoleHost, SmokeCheck
from elytron_console.console_host import StorageReport
from elytron_core.clock import FrozenClock, Instant, SystemClock
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import KEY, SPENDING, ModelUsage, SpendingHistory
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.spending_budget import hold_call, settle_call
from elytron_core.policy.tools import with_fingerprints
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange
from elytron_http_shell.server import ServingSettings, served_http

if TYPE_CHECKING:
    from playwright.async_api import Browser

Write = dict[str, Any]
MINUTE, DAY = 60_000, 86_400_000
WIDTHS = (360, 768, 1440)
SCHEMES = ("light", "dark")
SETTLED = """() => document.querySelector(".page[aria-busy=false]") && !document.querySelector(".waiting")"""
DOCUMENTED = {
    "overview": "overview",
    "people": "people?person=Ada",
    "memories": "memories",
    "recall-lab": "recall?q=Where%20does%20Ada%20live%20now%3F",
    "timeline": "timeline",
    "projection": "projection?q=Where%20does%20Ada%20live%20now%3F",
    "erasures": "erasures",
    "transfer": "transfer",
    "agents": "agents",
    "spending": "spending",
}
EVERY = (
    *("overview", "people", "people?person=Ada", "memories", "memories?id={memory}", "memories?q=zeppelin", "facts"),
    *("facts?states=all&id={fact}", "conversations", "conversations?conversation=kitchen", "timeline"),
    *("recall?q=Where%20does%20Ada%20live%20now%3F", "recall?q=tea&compare=1", "projection?q=tea", "review", "skills"),
    *("skills?name=runtime_skill__release", "tools", "erasures", "transfer", "agents", "jobs", "spending", "journal"),
    *("spaces", "stores", "devices", "gateway", "server", "docs"),
)
LONG_WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
SAID = (
    ("kitchen", "Ada", "I moved to Lisbon in May; the flat near the river is small but bright."),
    ("kitchen", "Elytron", "Shall I update your address in the invoices too?"),
    ("kitchen", "Ada", "Yes, and remind me to cancel the old electricity contract before the fifteenth."),
    ("kitchen", "Noor", "I am allergic to peanuts, please keep that in mind when you plan the dinner."),
    ("kitchen", "Ada", "Green tea in the morning, never coffee."),
    ("release", "Ada", "The release goes out on Thursday if the accessibility checks pass on a phone."),
    ("release", "Tomás", f"The old name of the service was {LONG_WORD}, we should shorten it."),
    ("release", "Ada", "https://docs.example/a/very/long/address/that/has/no/break/at/all/" + "segment-" * 14),
    ("release", "Noor", "Deploys are slow because the cache is cold after each start.\nWarm it first, then switch."),
    ("小组", "小雨", "我们五月搬到了杭州，住在西湖附近的小街上。请把回答写得简短一些。"),
    ("小组", "小雨", "小雨喜欢在早晨喝绿茶，不喝咖啡。"),
    ("צוות", "נועה", "עברנו לחיפה במאי, לדירה קטנה ליד הים. הגרסה החדשה יוצאת ביום חמישי (v2.4)."),
    ("צוות", "נועה", "אני אוהבת תה ירוק בבוקר, אף פעם לא קפה."),
    ("release", "Ada", "Write short answers; a table only where there are more than three rows."),
)
FACTS = (
    ("home", "Ada lives in Porto"),
    ("home", "Ada lives in Lisbon"),
    ("drink", "Ada drinks green tea in the morning"),
    ("allergy", "Noor is allergic to peanuts"),
    ("家", "小雨住在杭州西湖附近"),
    ("בית", "נועה גרה בחיפה ליד הים"),
    ("answers", "Ada wants short answers, with tables only for more than three rows"),
    ("service", f"The service was called {LONG_WORD}"),
)
SKILLS = (
    {
        "name": "release",
        "topic": "releasing the site",
        "title": "Release the site",
        "summary": "Warm the cache, check on a phone, switch, and watch for ten minutes.",
        "content": "1. Warm the cache.\n2. Check the pages on a phone.\n3. Switch the traffic.\n4. Watch the errors.",
    },
    {
        "name": "invoice",
        "topic": "invoices",
        "title": "Send an invoice",
        "summary": "Take the address from the profile, and ask when it is older than a month.",
        "content": "1. Read the address.\n2. Ask if it is old.\n3. Send the invoice.\n4. Note its number.",
    },
)
PROPOSALS = (
    ("job", "Ada leads the project since June"),
    ("搬家", "小雨明年可能搬到上海"),
    ("drink", "Ada stopped drinking tea"),
)
TOOLS = ("calendar.create_event", "mail.send_message_with_a_rather_long_tool_name", "files.search")


TASKS = (
    ("morning", "Read the news of the harbour and say what matters."),
    ("早报", "每天早上总结一下新闻。"),
)


def writes() -> Sequence[tuple[Write, dict[str, str]]]:
    """Return what the invented people say and what is known about them."""
    found: list[tuple[Write, dict[str, str]]] = []
    for place, (conversation, speaker, text) in enumerate(SAID):
        message = {"text": text, "speaker": speaker}
        turn = {"messages": [message], "tags": ["home"] if place % 3 == 0 else []}
        found.append(({"kind": "transcript", "turns": [turn]}, {"conversation": conversation}))
    for topic, content in FACTS:
        fact = {"topic": topic, "fact_kind": "profile", "content": content, "authority": "user_asserted"}
        found.append(({"kind": "long_term", "facts": [fact]}, {}))
    found.append(({"kind": "procedural", "writes": list(SKILLS)}, {}))
    for topic, content in PROPOSALS:
        proposal = {"target": "long_term", "fact_kind": "profile", "topic": topic, "content": content}
        draft = {"proposal": proposal, "authority": "external_content", "origins": ["external"]}
        found.append(({"kind": "candidates", "candidates": [draft]}, {}))
    return found


async def fill(memory: elytron.MemoryRuntime, /) -> None:
    """Store what the invented people say, in three spaces."""
    for write, scope in writes():
        request = MemoryWriteRequest.model_validate({"write": write, "scope": {"space": "ada", **scope}})
        await memory.operate(request)
    for space, texts in {"小雨": SAID[9:11], "noa": SAID[11:13]}.items():
        for conversation, speaker, text in texts:
            turn = {"messages": [{"text": text, "speaker": speaker}]}
            scope = {"space": space, "conversation": conversation}
            write = {"kind": "transcript", "turns": [turn]}
            await memory.operate(MemoryWriteRequest.model_validate({"write": write, "scope": scope}))
    tools = [{"tool_id": name, "display_name": name, "schema_fingerprint": "a" * 16} for name in TOOLS]
    draft = AgentToolRegistrySnapshot.model_validate({"registry_id": "desk", "namespace": "desk", "tools": tools})
    await memory.upsert_agent_tool_registry(with_fingerprints(draft))


async def spend(memory: elytron.MemoryRuntime, /) -> None:
    """Store the model usage of maintenance in recent days."""
    now, book = memory.context.clock.now(), SpendingHistory()
    for place, tokens in enumerate(reversed((4_200, 1_800, 9_100, 2_600, 0, 7_400, 5_050, 3_300))):
        at = Instant(now - (7 - place) * DAY)
        used = ModelUsage(calls=3, prompt_tokens=tokens, completion_tokens=tokens // 6, cost=tokens * 2)
        book = settle_call(hold_call(book, at, tokens=1), at, tokens=1, spent=used)
    ref = DocumentRef(SPENDING, KEY)
    put = PutChange(ref, book.to_bytes(), expects=0)
    entry = EntryDraft(JournalAction.MAINTENANCE, ref)
    await memory.context.store.commit(Batch(SpaceId("ada"), at=now, puts=(put,), entries=(entry,)))


async def act(client: httpx.AsyncClient, /) -> dict[str, str]:
    """Create an agent and keys, and correct, forget and erase memories. Return the ids used in addresses."""
    scope = {"space": "ada"}

    async def sent(path: str, body: Any, method: str = "POST", **headers: str) -> Any:
        answer = await client.request(method, path, json=body, headers=headers)
        if not answer.is_success:
            sys.exit(f"{path}: {answer.text}")
        return answer.json()

    token = (await client.get("/console/session")).json()["token"]
    listed = (await sent("/v1/list", {"scope": scope, "limit": 100}))["items"]
    said = [item["id"] for item in listed if item["plane"] == "transcript"]
    facts = (await sent("/v1/list_facts", {"scope": scope}))["items"]
    await sent("/v1/forget", {"ids": said[:1], "reason": "a private note", "scope": scope})
    await sent("/v1/erase", {"ids": said[1:2], "reason": "asked for by Noor", "scope": scope})
    await sent("/v1/change_fact", {"id": facts[-1]["id"], "action": "mark_stale", "scope": scope})
    for label in ("Ada's phone", "小雨的手机", f"kitchen {LONG_WORD[:30]}"):
        await sent("/console/devices", {"label": label, "space": "ada"}, **{"X-Console-Token": token})
    await sent("/v1/agent/init", {})
    await sent("/v1/agent/memory/blocks/human", {"value": "Ada, Lisbon, green tea."}, "PUT")
    rule = {"type": "daily", "time": "09:00"}
    for name, task in (
        ("morning", "Read the news of the harbour and say what matters."),
        ("早报", "每天早上总结一下新闻。"),
    ):
        await sent("/v1/agent/schedules", {"name": name, "task": task, "rule": rule})
    for text in ("What is on my list for Thursday?", "简短地说一下今天的安排。", "מה צריך לעשות היום?"):
        async with client.stream("POST", "/v1/agent/chat", json={"input": text}) as answer:
            await answer.aread()
    await sent("/v1/maintain", {"scope": scope})
    for query in ("Where does Ada live?", "tea", "peanuts"):
        await sent("/v1/recall", {"query": query, "scope": scope})
    return {"memory": said[4], "fact": facts[1]["id"]}


async def _repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer chat completions like a model that repeats its input."""
    head = await reader.readuntil(b"\r\n\r\n")
    rows = head.lower().split(b"\r\n")
    length = next((int(row.split(b":")[1]) for row in rows if row.startswith(b"content-length")), 0)
    body = json.loads(await reader.readexactly(length) or b"{}")
    last = str(body.get("messages", [{"content": ""}])[-1]["content"])
    text = f"I noted: {last.rpartition(']')[2].strip()}"
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small"}
    usage = {"prompt_tokens": 410, "completion_tokens": 23, "total_tokens": 433}
    chunks: list[dict[str, Any]] = [
        chunk | {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
    ]
    events = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
    sent = events.encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent)
    await writer.drain()
    writer.close()


@asynccontextmanager
async def made_server() -> AsyncGenerator[tuple[str, dict[str, str]]]:
    """Serve the made-up store in development mode, and yield its address and ids."""
    model = await asyncio.start_server(_repeat, "127.0.0.1", 0)
    port = model.sockets[0].getsockname()[1]
    storage = StorageReport(store_bytes=48_234_496, free_bytes=181 * 2**30, device_bytes=512 * 2**30)
    checks = (SmokeCheck("version", "The command line answers", ("--version",)),)
    host = ConsoleHost(store="sqlite:///memory.db", storage=lambda: storage, command=("elytron",), checks=checks,
                       rule_commands=("elytron rules export --format agents-md",))  # fmt: skip
    agent = ServiceSettings(models=(f"chat:small@http://127.0.0.1:{port}/v1",))
    wanted = SurfaceOptions(console=host, agent=agent)
    start = FrozenClock(Instant(SystemClock().now() - 9 * DAY), step_ms=20 * MINUTE)
    clock = MovedClock(start)
    async with elytron.open("memory:", space="ada", clock=clock) as memory:
        await fill(memory)
        clock.inner = SystemClock()
        await spend(memory)
        async with (
            open_surfaces(memory, wanted) as more,
            served_http(memory, ServingSettings(port=0, development=True), further=more.further) as started,
            httpx.AsyncClient(base_url=started.address, trust_env=False, timeout=60) as client,
        ):
            yield started.address, await act(client)


class MovedClock:
    """A clock whose underlying clock can be replaced."""

    def __init__(self, inner: "FrozenClock | SystemClock", /) -> None:
        self.inner: FrozenClock | SystemClock = inner

    def now(self) -> Instant:
        """Return the time of the underlying clock."""
        return self.inner.now()


async def take(browser: "Browser", url: str, address: str, path: Path, /, *, size: tuple[int, int], **how: Any) -> None:
    """Take a picture of one page, complete if `full_page`."""
    full_page = how.pop("full_page", False)
    viewport = {"width": size[0], "height": size[1]}
    page = await browser.new_page(viewport=viewport, locale="en-GB", timezone_id="UTC", reduced_motion="reduce", **how)  # pyright: ignore[reportArgumentType]
    try:
        await page.goto(f"{url}/console#/{address}")
        await page.wait_for_function(SETTLED, timeout=60_000)
        await page.screenshot(path=path, full_page=full_page)
    finally:
        await page.close()


async def take_documented(folder: Path, /) -> None:
    """Take the pictures of docs/how-to/use-the-console.md."""
    async with made_server() as (url, _), chromium() as browser:
        for name, address in DOCUMENTED.items():
            await take(browser, url, address, folder / f"{name}.png", size=(1200, 760), color_scheme="light")
        await take(browser, url, "memories", folder / "phone.png", size=(390, 800), color_scheme="dark")


async def take_every(folder: Path, only: Sequence[str], /) -> None:
    """Take each page at each width, in light and dark, and for an empty space."""
    async with made_server() as (url, ids), chromium() as browser:
        for place, pattern in enumerate(EVERY):
            address = pattern.format(**ids)
            name = f"{place:02d}-{pattern.partition('?')[0]}"
            if only and pattern.partition("?")[0] not in only:
                continue
            for width in WIDTHS:
                for scheme in SCHEMES:
                    path = folder / f"{name}-{width}-{scheme}.png"
                    await take(browser, url, address, path, size=(width, 800), color_scheme=scheme, full_page=True)
            if "?" not in pattern:
                path = folder / f"{name}-empty.png"
                await take(browser, url, f"{address}?space=empty", path, size=(768, 800), full_page=True)


def main() -> None:
    """Take the pictures into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--only", nargs="*", default=())
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(take_every(asked.folder, asked.only) if asked.every else take_documented(asked.folder))


if __name__ == "__main__":
    main()
