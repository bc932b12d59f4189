"""Pages in a real browser: nothing foreign, no errors, and stored content only as text."""

import re
from importlib.resources import files

import pytest
from playwright.async_api import Browser, Route
from tests.console.conftest import HOST, Watched, browser_page, make_agent
from tests.transports.serving import Served, served

from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.contracts.facts import FactListRequest
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.contracts.recall import VectorUse
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio

PAGES = (
    "overview",
    "people",
    "memories",
    "memories?q=owned",
    "facts?states=all",
    "conversations?conversation=<i>c</i>",
    "timeline",
    "recall?q=owned&compare=1",
    "projection?q=owned",
    "review",
    "erasures",
    "agents",
    "jobs",
    "spending",
    "journal",
    "tools",
    "transfer",
    "spaces",
    "skills?name=runtime_skill__hostile",
    "devices",
    "stores",
    "gateway",
    "docs",
    "server",
)
PAYLOADS = (
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "</textarea><svg onload=document.title='owned'>",
    "javascript:document.title='owned'",
    "\u202egnp.exe\u202c",
    "bell\u0007 escape\u001b[31m",
    "${document.title='owned'}",
)


async def write(server: Served, write: dict[str, object], **scope: str) -> MemoryWriteReport:
    request = MemoryWriteRequest.model_validate({"write": write, "scope": {"space": "ada", **scope}})
    return await server.memory.operate(request)


async def plant(server: Served) -> None:
    """Store payloads in every field that people can read."""
    for place, text in enumerate(PAYLOADS):
        message = {"text": text, "speaker": text[:40].replace("\u0007", "").replace("\u001b", "").replace("\u202e", "")}
        message["speaker"] = "".join(one for one in message["speaker"] if one.isprintable()).strip()
        turn = {"messages": [message]}
        await write(
            server, {"kind": "transcript", "turns": [turn], "title": f"<b>{place}</b>"}, conversation="<i>c</i>"
        )
        fact = {"topic": f"<u>{place}</u>", "content": text, "authority": "user_asserted"}
        await write(server, {"kind": "long_term", "facts": [fact]})
    skill = {"name": "hostile", "topic": PAYLOADS[0], "title": PAYLOADS[1], "summary": PAYLOADS[2]}
    proposal = {"target": "long_term", "topic": PAYLOADS[0], "content": PAYLOADS[1]}
    judgement = {"verdict": "defer", "reason": PAYLOADS[0]}
    candidate = {"proposal": proposal, "authority": "external_content", "origins": ["external"], "judgement": judgement}
    await write(server, {"kind": "candidates", "candidates": [candidate]})
    content = f"1. Run {PAYLOADS[0]}.\n2. Check the pages.\n3. Upload them with the release script."
    await write(server, {"kind": "procedural", "writes": [{**skill, "content": content}]})
    await make_agent(server, PAYLOADS[0])


async def test_every_page_opens_fits_its_screen_logs_no_errors_and_contacts_no_other_server(
    open_server: Served, page: Watched
) -> None:
    await plant(open_server)
    for name in PAGES:
        await page.go(name)
        assert await page.page.locator("h1").count() == 1
        assert await page.page.get_by_role("alert").all_inner_texts() == []
        assert "owned" not in await page.page.title()
        for width in (360, 768, 1440):
            await page.page.set_viewport_size({"width": width, "height": 800})
            beyond = await page.beyond()
            assert beyond <= 0, (name, width)
    assert (page.said, page.foreign) == ([], [])
    assert await page.page.locator("main script, main img, main svg[onload], main b, main i, main u").count() == 0


async def test_a_key_signs_in_and_out_and_the_address_is_unchanged(browser: Browser, server: Served) -> None:
    key = await server.key(PrincipalKind.OPERATOR, None)
    async with browser_page(browser, server.url) as found:
        await found.go("devices")
        for wrong in ("ely_user_wrong", "\u05de\u05e4\u05ea\u05d7", "two words"):
            await found.page.get_by_label("Access key").fill(wrong)
            await found.page.keyboard.press("Enter")
            await found.page.get_by_text("This access key is not valid here.").wait_for()
        await found.page.get_by_label("Access key").fill(key)
        await found.page.keyboard.press("Enter")
        await found.page.get_by_role("heading", name="Keys and devices").wait_for()
        assert "#/devices" in found.page.url
        await found.page.get_by_role("button", name="Sign out").click()
        await found.page.get_by_text("You have signed out.").wait_for()
        assert key not in await found.page.content()
        # The browser itself logs a 401 answer in its console.
        assert [line for line in found.said if "401" not in line] == []


async def test_a_user_sees_no_operator_page(browser: Browser, server: Served) -> None:
    key = await server.key(PrincipalKind.USER, "ada")
    async with browser_page(browser, server.url) as found:
        await found.go("server")
        await found.page.get_by_label("Access key").fill(key)
        await found.page.keyboard.press("Enter")
        await found.page.get_by_text("Access denied").wait_for()
        links = await found.page.get_by_role("navigation").get_by_role("link").all_inner_texts()
        assert {"Server", "Keys and devices"}.isdisjoint(links)
        assert not any("/transports" in url or "/devices" in url for url in found.asked)


async def test_a_device_gets_its_key_and_a_transport_is_switched(open_server: Served, page: Watched) -> None:
    await page.go("devices")
    await page.page.get_by_role("button", name="New key").click()
    await page.page.get_by_label("Label").fill("Ada's phone")
    await page.page.get_by_role("button", name="Create key").click()
    key = await page.page.locator(".once").inner_text()
    assert key.startswith("ely_device_")
    await page.page.get_by_role("button", name="Done").click()
    await page.page.get_by_role("cell", name="Ada's phone", exact=True).wait_for()
    assert key not in await page.page.content()
    await page.go("server")
    switch = page.page.get_by_role("switch", name="MCP")
    await switch.click()
    await page.page.locator("[role=switch][aria-label=MCP][aria-checked=false]").wait_for()
    assert page.said == []


REACHABLE = """() => ["button", "a", "input", "select", "textarea", "summary", "[tabindex='0']"]
  .flatMap((tag) => [...document.querySelectorAll(`main ${tag}`)])
  .filter((node) => !node.disabled && node.checkVisibility()).length"""
FOLLOW_FOCUS = """(isWhole) => {
  if (isWhole) document.activeElement.blur();
  else document.querySelector("main").focus();
  window.reached = new Set();
  document.addEventListener("focusin", ({ target }) => {
    if (target.closest("main") && target.tagName !== "MAIN") reached.add(target);
  });
}"""
TABS_AT_ONCE = 20


async def test_everything_is_reachable_by_keyboard(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await make_agent(open_server, "Water the ferns.")
    await page.go(PAGES[0])
    for place, name in enumerate(PAGES):
        await page.turn(name)
        wanted = await page.page.evaluate(REACHABLE)
        # The part before the page, the same on all of them, is only tabbed through on the first one.
        await page.page.evaluate(FOLLOW_FOCUS, place == 0)
        reached = 0
        for _ in range(0, wanted + 60, TABS_AT_ONCE):
            for _ in range(TABS_AT_ONCE):
                await page.page.keyboard.press("Tab")
            reached = await page.page.evaluate("reached.size")
            if reached >= wanted:
                break
        assert reached == wanted, name


async def remember(server: Served) -> None:
    for text in ("Ada likes green tea.", "The boat is blue.", "Noor is allergic to peanuts."):
        await write(server, {"kind": "transcript", "turns": [{"messages": [{"text": text, "speaker": "Ada"}]}]})
    for content in ("Ada lives in Porto", "Ada lives in Lisbon"):
        fact = {"topic": "home", "fact_kind": "profile", "content": content, "authority": "user_asserted"}
        await write(server, {"kind": "long_term", "facts": [fact]})


async def test_a_memory_is_found_opened_forgotten_and_restored(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await page.go("memories")
    found = page.page
    await found.get_by_label("Search memories").fill("what colour is the boat")
    await found.keyboard.press("Enter")
    await found.get_by_text("best first").wait_for()
    await found.get_by_role("button", name="The boat is blue.").click()
    await found.get_by_role("button", name="Forget").click()
    await found.get_by_label("Reason").fill("asked for")
    await found.get_by_role("dialog").get_by_role("button", name="Forget").click()
    await found.get_by_role("button", name="Restore").wait_for()
    assert await found.get_by_text("asked for").count() == 1
    await found.get_by_role("button", name="Restore").click()
    await found.get_by_role("dialog").get_by_role("button", name="Restore").click()
    await found.get_by_label("The memory").get_by_role("button", name="Forget").wait_for()
    assert page.said == []


async def test_memories_are_erased_in_bulk_by_the_typed_count(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await page.go("memories?plane=transcript")
    found = page.page
    await found.get_by_label("Select:").nth(0).check()
    await found.get_by_label("Select:").nth(1).check()
    await found.get_by_role("button", name="Erase…").click()
    dialog = found.get_by_role("dialog")
    await dialog.get_by_label("Type 2 to confirm").fill("3")
    assert await dialog.get_by_role("button", name="Erase").is_disabled()
    await dialog.get_by_label("Type 2 to confirm").fill("2")
    await dialog.get_by_role("button", name="Erase").click()
    await dialog.get_by_text("2 memories", exact=True).wait_for()
    await found.keyboard.press("Escape")
    await found.get_by_text("1 memory").wait_for()
    assert page.said == []


async def test_a_space_that_changed_after_the_preview_is_not_erased(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await page.go("erasures")
    found = page.page
    await found.get_by_role("button", name="Erase the whole space").click()
    dialog = found.get_by_role("dialog")
    field = dialog.get_by_label("Type the name of the space to confirm")
    await field.wait_for()
    assert await dialog.get_by_role("button", name="Erase", exact=True).is_disabled()
    await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": "The boat is new."}]}]})
    await field.fill("eva")
    assert await dialog.get_by_role("button", name="Erase", exact=True).is_disabled()
    await field.fill("ada")
    await dialog.get_by_role("button", name="Erase", exact=True).click()
    await dialog.get_by_role("alert").wait_for()
    alert = await dialog.get_by_role("alert").inner_text()
    (now,) = re.findall(r"Count is now (\d+)", alert)
    await dialog.get_by_text(f"{now} stored documents").wait_for()
    assert await field.input_value() == ""
    assert len((await open_server.memory.list()).items) == 5
    # The browser logs the refusal by itself.
    assert [line for line in page.said if "422" not in line] == []


async def test_a_fact_is_corrected_and_its_history_stays(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await page.go("facts?states=all")
    found = page.page
    assert await found.locator(".list > li").count() == 2
    await found.get_by_role("button", name="Ada lives in Lisbon").click()
    await found.get_by_role("button", name="Correct", exact=True).click()
    await found.get_by_label("Text").fill("Ada lives in Braga")
    await found.get_by_role("dialog").get_by_role("button", name="Correct").click()
    await found.get_by_label("The memory").get_by_text("Ada lives in Braga").first.wait_for()
    await found.get_by_role("button", name="Ada lives in Braga").wait_for()
    assert await found.get_by_label("The memory").locator(".text").first.inner_text() == "Ada lives in Braga"
    states = await found.locator(".list > li .badge").all_inner_texts()
    assert states == ["superseded", "corrected"]
    assert page.said == []


async def test_an_empty_search_shows_what_was_searched(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await page.go("facts?q=zeppelin&kind=task")
    assert "zeppelin" in await page.page.locator(".empty").inner_text()
    await page.go("memories?speaker=Nobody")
    assert "speaker Nobody" in await page.page.locator(".empty").inner_text()


async def test_a_long_text_is_shown_completely_on_demand(open_server: Served, page: Watched) -> None:
    text = "word " * 20_000
    made = await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": text}]}]})
    await page.go(f"memories?id={made.decisions[0].id}")
    detail = page.page.get_by_label("The memory")
    assert len(await detail.inner_text()) < 6_000
    await detail.get_by_role("button", name="Show all 100,000 characters").click()
    assert len(await detail.locator(".text").first.inner_text()) >= 99_000


async def test_every_list_follows_both_clocks(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    facts = await open_server.memory.operate(FactListRequest(states=()))
    first, second = facts.items
    found = page.page
    await page.go("timeline")
    assert "1 fact true then, of 2 versions" in await found.locator("main").inner_text()
    then = first.recorded_at + (second.recorded_at - first.recorded_at) // 2
    await found.evaluate(
        """(at) => {
          for (const slider of document.querySelectorAll("input[type=range]")) {
            slider.min = slider.step = 1;
            slider.value = at;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
          }
        }""",
        then,
    )
    await found.locator(".lane.off", has_text="Lisbon").wait_for()
    await found.get_by_role("link", name="Facts", exact=True).click()
    await found.get_by_role("button", name="Ada lives in Porto").wait_for()
    assert await found.get_by_text("Ada lives in Lisbon").count() == 0
    await found.get_by_role("link", name="Projection").click()
    block = found.locator(".block")
    await block.wait_for()
    assert "Porto" in await block.inner_text()
    await found.get_by_role("button", name="Back to now").click()
    await found.locator(".block", has_text="Lisbon").wait_for()
    assert page.said == []


async def test_recall_shows_signals_the_cutoff_and_why_a_memory_is_missing(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    found = page.page
    await page.go("recall?q=what%20does%20Ada%20like&alimit=1")
    assert await found.locator("ol.list:not(.beyond) > li").count() == 1
    assert "Cutoff by limit" in await found.locator(".cut").inner_text()
    await found.get_by_text("Signals", exact=True).first.click()
    assert await found.locator(".signal").count() > 0
    await found.get_by_label("Words in the missing memory").fill("Noor peanuts")
    await found.get_by_role("button", name="Find").click()
    await found.get_by_role("button", name="Why not?").first.click()
    await found.get_by_text("the hit limit was reached first").wait_for()
    assert page.said == []


async def test_a_proposal_is_decided(open_server: Served, page: Watched) -> None:
    proposal = {"target": "long_term", "fact_kind": "profile", "topic": "job", "content": "Ada leads the project"}
    draft = {"proposal": proposal, "authority": "external_content", "origins": ["external"]}
    await write(open_server, {"kind": "candidates", "candidates": [draft]})
    await page.go("review")
    await page.page.get_by_role("button", name="Reject").click()
    await page.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    await page.page.get_by_text("Nothing to review").wait_for()
    assert page.said == []


async def test_an_erasure_has_a_receipt_and_its_content_is_gone(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    made = await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": "The canary sings."}]}]})
    found = page.page
    await page.go("erasures")
    await found.get_by_label("Text that must be gone").fill("canary sings")
    await found.get_by_role("button", name="Check", exact=True).click()
    await found.get_by_text("is still in 1 memory").wait_for()
    erasure = MemoryEraseRequest(ids=(str(made.decisions[0].id),))
    await open_server.memory.operate(erasure)
    await page.go("erasures")
    await found.get_by_role("button", name="Verify the erasure").click()
    await found.get_by_text("none of 1 memory can be read").wait_for()
    await found.get_by_label("Text that must be gone").fill("canary sings")
    await found.get_by_role("button", name="Check", exact=True).click()
    await found.get_by_text("is in none of").wait_for()
    # The browser logs by itself that the requested memory is not found.
    assert [line for line in page.said if "404" not in line] == []


ODD = (
    "memories?since=abc&until=99999999999999999",
    "memories?q=%20&since=-5",
    f"memories?q={'x' * 2_000}",
    f"facts?q={'x' * 2_000}",
    f"recall?q={'x' * 2_000}&alimit=abc",
    f"projection?q={'x' * 2_000}&chars=abc",
    f"conversations?conversation={'x' * 200}",
    "conversations?conversation=c",
    "timeline",
    "people?person=%zz",
    "journal?before=abc",
)


async def test_the_system_space_is_refused_by_name(open_server: Served, page: Watched) -> None:
    await page.go("memories")
    await page.page.get_by_label("Space", exact=True).select_option("")
    await page.page.get_by_label("Space name").fill("elytron:system")
    await page.page.keyboard.press("Enter")
    alert = page.page.get_by_role("alert")
    await alert.wait_for()
    assert "reserved for the server" in await alert.inner_text()


async def test_a_page_keeps_showing_its_data_when_the_server_is_gone(page: Watched) -> None:
    async with served(SurfaceOptions(console=HOST), development=True) as gone:
        await remember(gone)
        page.url = gone.url
        await page.go("jobs")
    await page.page.get_by_role("button", name="Refresh").click()
    alert = page.page.get_by_role("alert")
    await alert.get_by_text("Showing data from").wait_for()
    assert "No response" in await alert.inner_text()
    assert await page.page.get_by_role("group", name="Figures").is_visible()


async def test_an_odd_address_shows_a_suitable_page(open_server: Served, page: Watched) -> None:
    text = "\u05d0\u05d3\u05d4 \u05d0\u05d5\u05d4\u05d1\u05ea \u05ea\u05d4"
    turn = {"messages": [{"text": text, "speaker": text}]}
    await write(open_server, {"kind": "transcript", "turns": [turn]}, conversation=f"c{chr(0x5D0) * 150}")
    for address in ODD:
        await page.go(address)
        assert await page.page.locator("h1").count() == 1
        assert await page.page.get_by_role("alert").all_inner_texts() == []
        for width in (360, 1280):
            await page.page.set_viewport_size({"width": width, "height": 800})
            beyond = await page.beyond()
            assert beyond <= 0, (address, width)
    assert [line for line in page.said if not line.startswith("warning")] == []


AXE = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`)"""


@pytest.mark.timeout(300)
async def test_axe_finds_nothing_serious(open_server: Served, page: Watched) -> None:
    await plant(open_server)
    source = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    await page.go(PAGES[0])
    await page.page.evaluate(f"{source}; 0")
    for place, name in enumerate(PAGES):
        await page.page.emulate_media(color_scheme="dark" if place % 2 else "light", reduced_motion="reduce")
        await page.turn(name)
        assert await page.page.evaluate(AXE) == [], name


async def test_facts_about_a_person_are_shown_with_their_evidence(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    said = await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": "I lead the project."}]}]})
    fact = {"topic": "job", "fact_kind": "profile", "content": "Ada leads the project", "authority": "user_asserted"}
    evidence = {"citations": [said.decisions[0].id]}
    await write(open_server, {"kind": "long_term", "facts": [fact | evidence]})
    await page.go("people")
    await page.page.get_by_role("link", name="Ada leads the project").click()
    await page.page.get_by_text("Related memories").click()
    await page.page.locator(".around").get_by_role("link", name="I lead the project.").wait_for()
    assert page.said == []


async def test_a_conversation_shows_the_time_of_each_turn(open_server: Served, page: Watched) -> None:
    spoken = {"messages": [{"text": "The mast is up.", "speaker": "Ada", "at": 1_740_904_200_000}]}
    turns = [spoken, {"messages": [{"text": "The sail is new."}]}]
    await write(open_server, {"kind": "transcript", "turns": turns}, conversation="harbour")
    await page.go("conversations?conversation=harbour")
    first, second = await page.page.locator("article time").all()
    assert await first.inner_text() == "Mar 2, 2025, 08:30 AM"
    assert (await first.get_attribute("title") or "").startswith("stored ")
    assert (await second.inner_text()).startswith("stored ")


async def test_a_link_opens_the_space_it_was_copied_from(browser: Browser, open_server: Served) -> None:
    await remember(open_server)
    await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": "Bob rows."}]}]}, space="bob")
    async with browser_page(browser, open_server.url) as first, browser_page(browser, open_server.url) as second:
        await first.go("memories")
        await first.page.get_by_label("Space", exact=True).select_option("bob")
        await first.page.get_by_role("button", name="Bob rows.").click()
        await first.page.get_by_label("The memory").get_by_text("Bob rows.").wait_for()
        assert "space=bob" in first.page.url
        await second.page.goto(first.page.url)
        await second.page.get_by_label("The memory").get_by_text("Bob rows.").wait_for()
        await second.page.get_by_role("link", name="Conversations").click()
        await second.settled()
        assert second.page.url.endswith("#/conversations?space=bob")


async def test_the_only_nonempty_space_is_opened(browser: Browser, open_server: Served) -> None:
    await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": "Bob rows."}]}]}, space="bob")
    async with browser_page(browser, open_server.url) as found:
        await found.go("memories")
        await found.page.get_by_role("button", name="Bob rows.").wait_for()
        await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": "Eve sails."}]}]}, space="eve")
        await found.go("overview")
        await found.page.locator(".empty").get_by_role("link", name="eve").first.click()
        await found.page.get_by_text("Contents of the space eve").wait_for()


async def test_a_link_to_a_foreign_space_is_explained_to_a_user(browser: Browser, server: Served) -> None:
    key = await server.key(PrincipalKind.USER, "ada")
    async with browser_page(browser, server.url) as found:
        await found.go("memories?space=bob")
        await found.page.get_by_label("Access key").fill(key)
        await found.page.keyboard.press("Enter")
        await found.page.get_by_text("This key has no access to the space bob.").wait_for()
        await found.page.locator("main").get_by_role("link", name="ada").click()
        await found.page.get_by_text("Nothing is stored here yet").wait_for()


async def test_an_unresponsive_server_is_reported_and_can_be_retried(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await page.page.clock.install()
    await page.go("overview")

    async def never(_: Route) -> None:
        """Leave the request unanswered."""

    await page.page.route("**/console/operations/list", never)
    async with page.page.expect_request("**/console/operations/list"):
        await page.page.get_by_role("link", name="Memories", exact=True).click()
    await page.page.clock.run_for(31_000)
    alert = page.page.get_by_role("alert")
    await alert.get_by_text("The server did not respond within 30 s").wait_for()
    await page.page.unroute("**/console/operations/list", never)
    await alert.get_by_role("button", name="Retry").click()
    await page.page.get_by_role("button", name="The boat is blue.").wait_for()


async def test_each_signal_of_a_hit_is_explained(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await page.go("recall?q=where does Ada live")
    found = page.page
    for summary in ("Signals", "What these signals mean"):
        for place in await found.get_by_text(summary, exact=True).all():
            await place.click()
    assert await found.locator(".meanings dd").count() > 3
    assert await found.get_by_text("This signal has no explanation").count() == 0
    assert "words and built-in vectors. No embedder is set." in await found.locator("main").inner_text()


def test_the_recall_lab_explains_every_use_of_vectors() -> None:
    source = (files("elytron_console") / "static/pages/recall.mjs").read_text("utf-8")
    assert [use for use in VectorUse if f'  {use.value}: "Compared: ' not in source] == []


async def test_another_space_is_chosen_from_the_list(open_server: Served, page: Watched) -> None:
    await remember(open_server)
    await write(open_server, {"kind": "transcript", "turns": [{"messages": [{"text": "Bob rows."}]}]}, space="bob")
    await page.go("spaces")
    await page.page.get_by_role("button", name="Show bob").click()
    await page.page.get_by_role("link", name="Memories").click()
    await page.page.get_by_role("button", name="Bob rows.").wait_for()
    assert await page.page.get_by_text("Ada likes green tea.").count() == 0
    assert page.said == []
