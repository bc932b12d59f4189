"""The readable tree: folders with abstracts and overviews, listed with depth and limit (rows G17, G18, G22)."""

import json

import pytest
from tests.agent.hooks.turns import told
from tests.agent.places import AT, EVERYWHERE

from elytron.api import MemoryFace
from elytron_agent import TurnHooks
from elytron_agent.hooks.tree import FileFolders, TreeFile
from elytron_core.clock import DAY_MS, FrozenClock, Instant
from elytron_core.errors import InvalidInput, NotFound

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(AT)


@pytest.fixture
async def hooks(memory: MemoryFace, clock: FrozenClock) -> TurnHooks:
    hooks = TurnHooks(memory, clock=clock)
    await told(hooks, "My name is Ada. Today I need to buy bread.", "Noted.", turn_id="t1")
    await told(hooks, "My name is Ada.", "I know.", turn_id="t2")
    return hooks


async def paths(hooks: TurnHooks, path: str = "/", *, depth: int = 8, limit: int = 200) -> list[str]:
    return [entry.path for entry in (await hooks.tree().list(path, depth=depth, limit=limit)).entries]


async def test_g17_every_folder_has_an_abstract_and_an_overview(hooks: TurnHooks) -> None:
    tree = hooks.tree()
    entries = (await tree.list()).entries
    folders = [entry for entry in entries if entry.kind == "folder"]
    assert {"/events", "/memory_tiers", "/memory_tiers/L0", "/memory_tiers/L1", "/insights"} <= {
        entry.path for entry in folders
    }
    for folder in folders:
        assert await tree.read(f"{folder.path}/.abstract") == folder.abstract
        overview = json.loads(await tree.read(f"{folder.path}/.overview"))
        assert (overview["path"], overview["files"]) == (folder.path, folder.files)
    root = json.loads(await tree.read("/.overview"))
    assert root["files"] == len(entries) - len(folders) == 5
    assert "buy bread" in await tree.read("/.abstract")


def test_g17_abstracts_and_overviews_are_bounded() -> None:
    files = [TreeFile(path=f"/a/{number:04}", text="word " * 500, at=Instant(AT + number)) for number in range(300)]
    folders = FileFolders(files)
    assert len(folders.abstract("/a").split()) <= 200
    overview = json.loads(folders.overview("/a"))
    assert (overview["files"], len(overview["samples"])) == (300, 20)
    assert len(folders.overview("/a").split()) <= 2_000
    assert FileFolders((), folders=("/b",)).abstract("/b") == "/b is empty."


async def test_g18_a_listing_honours_depth_and_limit(hooks: TurnHooks) -> None:
    assert await paths(hooks, depth=1) == ["/events", "/insights", "/memory_tiers"]
    assert await paths(hooks, "/memory_tiers", depth=1) == [f"/memory_tiers/{tier}" for tier in ("L0", "L1", "L2")]
    listing = await hooks.tree().list(limit=2)
    assert [entry.path for entry in listing.entries] == (await paths(hooks))[:2]
    assert listing.has_more
    whole = await hooks.tree().list()
    assert not whole.has_more


@EVERYWHERE
async def test_turns_facts_and_insights_are_files(hooks: TurnHooks, clock: FrozenClock) -> None:
    tree = hooks.tree()
    first, second = await paths(hooks, (await paths(hooks, "/events", depth=1))[0])
    assert first.endswith("/000001")
    assert await tree.read(first) == "user: My name is Ada. Today I need to buy bread.\nassistant: Noted."
    assert (await tree.read(second)).startswith("user: My name is Ada.")
    (need,) = await paths(hooks, "/memory_tiers/L1")
    assert (await tree.read(need)).startswith("today_task: to buy bread\ntopic: today_task::today_task")
    (insight,) = await paths(hooks, "/insights")
    assert await tree.read(insight) == "name was stated again, and is unchanged: Ada"
    clock.advance(DAY_MS)
    assert await paths(hooks, "/memory_tiers/L1") == []


@pytest.mark.parametrize(
    "path", ["", "events", "/events/", "//events", "/a/../b", "/.", "/a b", "/a\nb", "/a\\b", f"/{'a' * 512}"]
)
async def test_g22_a_path_that_leads_outside_is_rejected(memory: MemoryFace, path: str) -> None:
    tree = TurnHooks(memory).tree()
    with pytest.raises(InvalidInput):
        await tree.read(path)
    with pytest.raises(InvalidInput):
        await tree.list(path)


async def test_missing_paths_are_not_found(memory: MemoryFace) -> None:
    tree = TurnHooks(memory).tree()
    with pytest.raises(NotFound):
        await tree.read("/events/never")
    with pytest.raises(NotFound):
        await tree.list("/events/never")
    assert await tree.read("/.abstract") == "/ is empty."
