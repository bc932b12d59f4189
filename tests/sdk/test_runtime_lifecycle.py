"""Guarantees over a runtime's life: reopened stores have everything, closed ones refuse, damage is reported."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.sdk.meanwhile import ReadOnly
from tests.sdk.told import believe, texts

import elytron
from elytron.indexing.checkpoints import CHECKPOINT
from elytron.ops.inspection import inspect_space
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.inspection import RuntimePhase
from elytron_core.contracts.recall import NothingReason
from elytron_core.errors import (
    InvalidInput,
    NotFound,
    StoreClosed,
    StoreCorrupt,
    StoreForeign,
    StoreUnavailable,
    StoreUrlInvalid,
)
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.ports.store_checks import StoreLoss
from elytron_core.scope import Scope
from elytron_store import WriteDurability, open_store
from elytron_store.memory import MemoryStore
from elytron_store.sqlite.quarantine import record_loss

pytestmark = pytest.mark.anyio

STORES = ["memory.db", "folder/"]


@pytest.mark.parametrize("name", STORES)
async def test_a_reopened_store_has_all_content(tmp_path: Path, name: str) -> None:
    store = f"{tmp_path}/{name}"
    async with elytron.open(store) as memory:
        await memory.add("We moved to Lisbon in May.")
        await believe(memory, "home city", "Lisbon")
        before = await memory.inspect(fingerprints=True)
    async with elytron.open(store) as memory:
        assert (await texts(memory, "when did we move?"))[0] == "We moved to Lisbon in May."
        after = await memory.inspect(fingerprints=True)
        assert after.state_fingerprint == before.state_fingerprint
        assert after.event_fingerprint == before.event_fingerprint
        assert after.documents == {"conversations": 1, "facts": 1, "slots": 1, "space": 1, "turns": 1}


async def test_the_index_is_restored_from_its_checkpoint_and_updated(path: str) -> None:
    async with elytron.open(path) as memory:
        await memory.add("I like tea")
        await memory.recall("tea")
        closed = await memory.close()
        assert closed.checkpoints_written == 1
        assert (await memory.close()).checkpoints_written == 0
    async with elytron.open(path) as memory:
        await memory.add("and green tea")
        assert sorted(await texts(memory, "tea")) == ["I like tea", "and green tea"]


async def test_a_damaged_or_foreign_checkpoint_is_rebuilt() -> None:
    store = MemoryStore()
    async with elytron.open(store, space="ada") as memory:
        await memory.add("I like tea")
        for bad in (b"", b"not a checkpoint"):
            await store.write_blob(memory.scope.space, CHECKPOINT, once(bad))  # pyright: ignore[reportOptionalMemberAccess]
            memory.context.folds.drop(memory.scope.space)  # pyright: ignore[reportOptionalMemberAccess]
            assert await texts(memory, "tea") == ["I like tea"]


async def once(data: bytes):
    yield data


async def test_recover_checks_the_store_and_rebuilds_the_index(memory: elytron.MemoryRuntime) -> None:
    nothing = await memory.recover()
    assert (nothing.phase, nothing.indexed_units) == (RuntimePhase.RECOVERED, 0)
    await memory.add(["I like tea", "and cake"])
    report = await memory.recover(elytron.MemoryRecoverRequest(trigger="after a crash"))
    assert (report.reason, report.indexed_units, report.checkpoints_written) == ("after a crash", 2, 1)
    assert report.store_check is not None
    assert report.store_check.ok


async def test_a_spaces_history_shows_who_recovered_it_and_why(memory: elytron.MemoryRuntime) -> None:
    assert (await memory.history("space")).items == ()
    await memory.add("I like tea")
    await memory.recover(elytron.MemoryRecoverRequest(trigger="key AKIAIOSFODNN7EXAMPLE leaked"))
    await memory.recover()
    told = [(item.event.value, item.by, item.reason) for item in (await memory.history("space")).items]
    assert told == [("recovered", "host", "key [redacted:aws_key] leaked"), ("recovered", "host", "operator")]
    await memory.erase(elytron.MemoryEraseRequest(whole_space="ada"))
    assert (await memory.history("space")).items == ()


async def test_a_read_only_store_is_recovered_all_the_same(path: str) -> None:
    async with elytron.open(path) as memory:
        await memory.add("I like tea")
    store = ReadOnly(await open_store(f"sqlite:///{path}", clock=FrozenClock()))
    async with elytron.open(store) as memory:
        assert (await memory.recover()).indexed_units == 1
        assert (await memory.history("space")).items == ()
    await store.close()


async def test_a_closed_runtime_refuses(path: str) -> None:
    memory = await elytron.open(path)
    report = await memory.close(elytron.MemoryCloseRequest(reason="done"))
    assert (report.phase, report.reason) == (RuntimePhase.CLOSED, "done")
    with pytest.raises(StoreClosed):
        await memory.add("Hello")


async def test_inspection_describes_the_content(memory: elytron.MemoryRuntime) -> None:
    nothing = await memory.inspect(fingerprints=True)
    assert (nothing.exists, nothing.sequence, nothing.documents) == (False, 0, {})
    await memory.add("one", speaker="Ada", at=2_000, conversation="b")
    await memory.add("two", speaker="Bob", at=1_000, conversation="a")
    report = await memory.inspect(elytron.MemoryInspectionRequest(check=True, repair=True))
    assert [(head.conversation, head.turns, head.speakers) for head in report.conversations] == [
        ("a", 1, ("Bob",)),
        ("b", 1, ("Ada",)),
    ]
    assert (report.speakers, report.first_at, report.last_at) == (("Bob", "Ada"), 1_000_000, 2_000_000)
    assert report.indexed_units == 2
    assert report.store_check is not None
    assert report.store_check.ok
    with pytest.raises(InvalidInput, match="requires check"):
        await memory.inspect(elytron.MemoryInspectionRequest(repair=True))


async def test_only_an_operator_sees_which_other_space_is_damaged(path: str) -> None:
    async with elytron.open(path) as memory:
        await memory.add("I like tea")
        await memory.add("I like tea", user_id="bob")
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE documents SET body = zeroblob(10) WHERE collection = 'turns'")
    raw.close()
    async with elytron.open(path) as memory:
        with pytest.raises(StoreCorrupt, match="was not returned"):
            await memory.inspect()
        with pytest.raises(StoreCorrupt):
            await memory.recall("tea")
        by_operator = await memory.inspect(elytron.MemoryInspectionRequest(check=True))
        assert by_operator.store_check is not None
        assert "in the space 'bob'" in {problem.what for problem in by_operator.store_check.problems}
        bound = memory.context.bound_to(Scope(space="default"), caller="ada")
        report = await inspect_space(bound, elytron.MemoryInspectionRequest(check=True))
        assert report.state_fingerprint == ""
        assert report.store_check is not None
        whats = sorted(problem.what for problem in report.store_check.problems)
    assert len(whats) >= 2
    assert "in another space" in whats
    assert not any("bob" in what for what in whats)


async def test_a_loss_just_recorded_by_another_process_is_reported_for_an_empty_space(path: str) -> None:
    async with elytron.open(path, space="ada") as memory:
        await memory.add("I like tea", user_id="bob")
        assert (await memory.recall("tea")).reason is NothingReason.EMPTY_SPACE
        with closing(sqlite3.connect(path)) as raw:
            loss = StoreLoss(SpaceId("ada"), 1, 0, 0, Instant(1), "rows")
            record_loss(raw, loss, missing=0)
            raw.commit()
        assert (await memory.recall("tea")).reason is NothingReason.LOST
        assert [loss.documents for loss in (await memory.list()).losses] == [1]


async def test_the_same_calls_give_the_same_state_on_every_store(tmp_path: Path) -> None:
    prints: set[tuple[str, str]] = set()
    for store in ("memory:", f"{tmp_path}/m.db", f"{tmp_path}/folder/"):
        async with elytron.open(store, space="ada", clock=FrozenClock(), ids=SeededIds()) as memory:
            await memory.add(["I like tea", "and cake"], speaker="Ada")
            await believe(memory, "home", "Lisbon")
            report = await memory.inspect(fingerprints=True)
            prints.add((report.state_fingerprint, report.event_fingerprint))
    assert len(prints) == 1


async def test_invalid_stores_are_rejected_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(StoreUrlInvalid, match=r"sqlite:///path\.db"):
        await elytron.open("redis://somewhere")
    with pytest.raises(InvalidInput, match="space"):
        elytron.open("memory:", space="a\nb")
    with pytest.raises(StoreUnavailable):
        await elytron.open(f"{tmp_path}/missing/folder/memory.db")
    foreign = tmp_path / "foreign.db"
    foreign.write_text("this is a letter, not a database " * 100)
    with pytest.raises(StoreForeign):
        await elytron.open(foreign)
    assert foreign.read_text().startswith("this is a letter")


async def test_a_store_can_be_configured_with_weaker_durability(path: str) -> None:
    async with elytron.open(path, durability=WriteDurability.NORMAL) as memory:
        await memory.add("I like tea")
        assert await texts(memory, "tea") == ["I like tea"]


async def test_closing_skips_checkpoints_after_its_time_limit_and_loses_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLOSE_WAIT_S", 0)
    names = [f"user {number}" for number in range(5)]
    async with elytron.open(path) as memory:
        for number, name in enumerate(names):
            await memory.add(["I like tea"] * (number + 1), user_id=name)
            await memory.recall("tea", user_id=name)
        assert (await memory.close()).checkpoints_written == 1
    async with elytron.open(path) as memory:
        assert [len((await memory.recall("tea", user_id=name)).hits) > 0 for name in names] == [True] * len(names)
        stored = {name async for name in checkpointed(memory, names)}
    assert stored == {"user 4"}, "the one that had grown most"


async def checkpointed(memory: elytron.MemoryRuntime, names: list[str]) -> AsyncIterator[str]:
    """Yield the spaces that have a checkpoint."""
    for name in names:
        with suppress(NotFound):
            assert b"".join([chunk async for chunk in memory.context.store.read_blob(SpaceId(name), CHECKPOINT)])
            yield name
