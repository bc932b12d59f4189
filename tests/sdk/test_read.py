"""Guarantees of reading: any memory by id, lists that page without loss, ledgers in order."""

from contextlib import closing
from pathlib import Path

import pytest
from tests.sdk.told import believe, learn, talk

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.evidence import EvidenceRole
from elytron_store.sqlite.driver import sqlite_library

pytestmark = pytest.mark.anyio

SKILLS = {
    "sail": "1. Rig the boat.\n2. Watch the wind.\n3. Cast off.",
    "bake": "1. Knead the dough.\n2. Let it rise.\n3. Put it into the oven.",
    "paint": "1. Sand the wall.\n2. Prime the plaster.\n3. Roll twice.",
    "file": "1. Sort the letters.\n2. Punch holes.\n3. Label the folder.",
}


async def test_every_plane_is_read_by_id(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await memory.add("I like tea")).ids
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await learn(memory, "brew", "1. Heat water.\n2. Add tea.\n3. Wait.")
    texts = [(await memory.get(memory_id)).text for memory_id in (turn, fact)]
    assert texts == ["I like tea", "green tea"]
    assert (await memory.get("runtime_skill__brew")).title == "How to do brew"
    with pytest.raises(NotFound):
        await memory.get(f"{turn}#1")
    with pytest.raises(NotFound):
        await memory.history("nothing")
    with pytest.raises(NotFound):
        await memory.get(turn, user_id="bob")


@pytest.mark.parametrize("url", ["memory:", "store.db", "store/"])
async def test_a_list_follows_storage_order_on_every_store(url: str, tmp_path: Path) -> None:
    place = url if url == "memory:" else f"{tmp_path}/{url}"
    clock = FrozenClock(step_ms=1)
    async with elytron.open(place, space="ada", clock=clock) as memory:
        for number in range(12):
            await memory.add(f"said {number}", conversation=f"talk {number % 5}")
        for name, steps in SKILLS.items():
            await learn(memory, name, steps, topic=name)
        items: list[elytron.RecallHit] = []
        page = await memory.list(limit=5)
        while page.next_cursor is not None:
            items += page.items
            page = await memory.list(limit=5, cursor=page.next_cursor)
        items += page.items
    assert [item.text for item in items[:12]] == [f"said {number}" for number in range(12)]
    assert [item.title for item in items[12:]] == [f"How to do {name}" for name in SKILLS]


async def test_a_list_reports_damaged_turns_but_not_erased_ones(tmp_path: Path) -> None:
    place = tmp_path / "store.db"
    async with elytron.open(str(place), space="ada") as memory:
        ids = (await memory.add(["one", "two", "three", "four"])).ids
        await memory.erase(ids[0])
    with closing(sqlite_library().connect(str(place), wait_s=5.0)) as raw:
        raw.execute("DELETE FROM documents WHERE key = ?", (ids[1],))
    async with elytron.open(str(place), space="ada") as memory:
        assert [(item.text) for item in (await memory.list()).items] == ["three", "four"]
        assert (await memory.list()).lost == 1
        assert (await memory.list(limit=1)).lost == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_together_are_the_whole_list(memory: elytron.MemoryRuntime, limit: int) -> None:
    for number in range(3):
        await talk(memory, (EvidenceRole.USER, f"one {number}"), (EvidenceRole.ASSISTANT, f"two {number}"))
    await memory.add("elsewhere", conversation="other")
    await believe(memory, "drink", "green tea")
    await learn(memory, "brew", "1. Heat water.\n2. Add tea.\n3. Wait.")
    whole = (await memory.list()).items
    assert len(whole) == 9
    paged: list[elytron.RecallHit] = []
    cursor = None
    while True:
        page = await memory.get_all(limit=limit, cursor=cursor)
        paged += page.items
        assert len(page.items) <= limit
        assert page.has_more == (page.next_cursor is not None)
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert paged == list(whole)


async def test_a_list_with_hidden_items_covers_every_plane(memory: elytron.MemoryRuntime) -> None:
    shown = (await memory.add(["one", "two"])).ids
    await believe(memory, "drink", "green tea")
    await believe(memory, "drink", "coffee")
    await learn(memory, "brew", "1. Heat water.\n2. Add tea.\n3. Wait.")
    note = elytron.NotesWrite(notes=(elytron.NoteDraft(period="2026-01-02", text="We had tea"),))
    await memory.write(elytron.MemoryWriteRequest(write=note))
    everything = (await memory.list(elytron.MemoryListRequest(hidden=elytron.HiddenFilter.LISTED))).items
    await memory.forget(elytron.MemoryForgetRequest(ids=tuple(item.id for item in everything)))
    await memory.delete(shown[1])
    assert (await memory.list()).items == ()
    listed = (await memory.list(elytron.MemoryListRequest(hidden=elytron.HiddenFilter.LISTED))).items
    assert {item.text.partition("\n")[0] for item in listed} >= {"one", "green tea", "coffee", "We had tea"}
    assert len(listed) == len(everything) - 1
    drinks = elytron.RecallFilters(planes=(elytron.RecallPlane.LONG_TERM,))
    request = elytron.MemoryListRequest(hidden=elytron.HiddenFilter.LISTED, filters=drinks, limit=1)
    first = await memory.list(request)
    rest = await memory.list(request.model_copy(update={"cursor": first.next_cursor}))
    assert [hit.text for hit in (*first.items, *rest.items)] == ["green tea", "coffee"]


@pytest.mark.parametrize("cursor", ["", "x", "9.0.ab", "0.x.ab", "0.9999.ab", "0.0.", "²..a"])
async def test_a_forged_list_cursor_is_rejected(memory: elytron.MemoryRuntime, cursor: str) -> None:
    await memory.add("I like tea")
    with pytest.raises(InvalidInput, match="cursor"):
        await memory.get_all(cursor=cursor)


async def test_a_list_continues_past_concurrently_erased_items(memory: elytron.MemoryRuntime) -> None:
    ids = (await memory.add(["one", "two", "three"])).ids
    page = await memory.get_all(limit=1)
    await memory.delete(ids[0])
    rest = await memory.get_all(cursor=page.next_cursor)
    assert [item.text for item in rest.items] == ["two", "three"]


async def test_a_ledger_lists_the_last_turns_in_order_and_its_cursor_leads_back(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"note {number}" for number in range(7)], run_id="c1")
    said: list[str] = []
    cursor = None
    while True:
        page = await memory.replay(elytron.MemoryReplayRequest(chat_id="c1", limit=3, cursor=cursor))
        said[:0] = [message.text for turn in page.turns for message in turn.messages]
        assert len(page.turns) == (3 if page.has_more else 1)
        assert page.total_turns == 7
        if not page.has_more:
            break
        cursor = page.next_cursor
    assert said == [f"note {number}" for number in range(7)]


async def test_a_ledger_shows_the_last_32_turns_by_default_even_after_erasures(
    memory: elytron.MemoryRuntime,
) -> None:
    ids = (await memory.add([f"note {number}" for number in range(40)], run_id="c1")).ids
    page = await memory.replay("c1")
    assert [turn.id for turn in page.turns] == list(ids[8:])
    await memory.delete(ids[20])
    page = await memory.replay("c1")
    assert [turn.id for turn in page.turns] == [*ids[7:20], *ids[21:]]


async def test_a_ledger_can_be_read_from_its_first_turn(memory: elytron.MemoryRuntime) -> None:
    ids = (await memory.add([f"note {number}" for number in range(7)], run_id="c1")).ids
    page = await memory.replay("c1", limit=4, order=elytron.LedgerOrder.FIRST)
    assert [turn.id for turn in page.turns] == list(ids[:4])
    rest = await memory.replay("c1", limit=4, order=elytron.LedgerOrder.FIRST, cursor=page.next_cursor)
    assert ([turn.id for turn in rest.turns], rest.has_more) == (list(ids[4:]), False)


async def test_an_empty_ledger_is_empty_and_a_foreign_cursor_rejected(memory: elytron.MemoryRuntime) -> None:
    empty = await memory.replay("nobody")
    assert (empty.turns, empty.total_turns) == ((), 0)
    with pytest.raises(InvalidInput, match="cursor"):
        await memory.replay(elytron.MemoryReplayRequest(cursor="ab.000000000001"))
    (turn,) = (await memory.add("note")).ids
    assert (await memory.replay("nobody")).total_turns == 0
    for cursor in ("x", turn + "0", turn[:-1] + "z", "ab." + "0" * 12):
        with pytest.raises(InvalidInput, match="cursor"):
            await memory.replay(elytron.MemoryReplayRequest(cursor=cursor))
    assert (await memory.replay(elytron.MemoryReplayRequest(cursor=turn))).turns == ()


async def test_a_ledger_marks_forgotten_turns(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await memory.add("note")).ids
    await memory.forget(elytron.MemoryForgetRequest(ids=(turn,)))
    ((message,),) = [found.messages for found in (await memory.replay()).turns]
    assert message.forgotten


async def test_inspection_reports_what_is_allowed_in_the_hosts_mode(
    memory: elytron.MemoryRuntime,
) -> None:
    assert (await memory.inspect()).lifecycle == ()
    request = elytron.MemoryInspectionRequest.model_validate({"mode_input": {"safe_mode": True}})
    found = {one.action.value: (one.admitted, one.reason) for one in (await memory.inspect(request)).lifecycle}
    assert (found["inspect"], found["maintain"]) == ((True, ""), (False, "safe_mode"))


async def test_the_latest_item_comes_first_across_planes_and_conversations(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["one", "two"], conversation="a")
    await believe(memory, "drink", "green tea")
    hidden = (await memory.add("three", conversation="b")).ids
    await memory.add("four", conversation="a")
    await memory.forget(hidden)
    latest = elytron.MemoryListRequest(order=elytron.ListOrder.LATEST)
    listed = await memory.list(latest)
    assert [item.text for item in listed.items] == ["four", "green tea", "two", "one"]
    only = latest.model_copy(update={"limit": 2, "filters": elytron.RecallFilters(conversations=("a",))})
    assert [item.text for item in (await memory.list(only)).items] == ["four", "two"]
    elsewhere = latest.model_copy(update={"scope": elytron.Scope(space="bob")})
    assert (await memory.list(elsewhere)).items == ()
    with pytest.raises(InvalidInput, match="single page"):
        await memory.list(elytron.MemoryListRequest(order=elytron.ListOrder.LATEST, cursor="0.0.a"))
