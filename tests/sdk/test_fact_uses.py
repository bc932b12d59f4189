"""The last use of facts: a recall and a block count, and an ending process stores it."""

from pathlib import Path

import pytest
from tests.sdk.meanwhile import ReadOnly
from tests.sdk.told import believe

import elytron
from elytron_core.clock import FrozenClock
from elytron_store import open_store

pytestmark = pytest.mark.anyio


async def test_a_fact_reports_when_it_was_last_shown_even_after_a_restart(tmp_path: Path, clock: FrozenClock) -> None:
    path = str(tmp_path / "memory.db")
    async with elytron.open(path, space="ada", clock=clock) as memory:
        (fact,) = (await believe(memory, "drink", "green tea")).ids
        assert (await memory.get_fact(fact)).fact.last_used_at is None
        await memory.recall("drink")
        used = (await memory.get_fact(fact)).fact.last_used_at
        assert used is not None
        await memory.maintain()
    async with elytron.open(path, space="ada", clock=clock) as memory:
        (entry,) = (await memory.list_facts()).items
        assert entry.last_used_at == used
        await memory.erase([fact])
        assert "fact_uses" not in (await memory.inspect()).documents


async def test_a_fact_in_a_block_counts_as_shown(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await memory.project("where is the harbour?")
    assert (await memory.get_fact(fact)).fact.last_used_at is not None


async def test_a_fact_omitted_from_a_block_does_not_count_as_shown(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea " * 60)).ids
    await memory.project("where is the harbour?", max_chars=120)
    assert (await memory.get_fact(fact)).fact.last_used_at is None


async def test_a_short_process_stores_when_a_fact_was_last_shown(path: str, clock: FrozenClock) -> None:
    async with elytron.open(path, space="ada", clock=clock) as memory:
        (fact,) = (await believe(memory, "drink", "green tea")).ids
        await memory.recall("drink")
        used = (await memory.get_fact(fact)).fact.last_used_at
    async with elytron.open(path, space="ada", clock=clock) as memory:
        assert (await memory.get_fact(fact)).fact.last_used_at == used
        await memory.recall("drink")
    async with elytron.open(path, space="ada", clock=clock) as memory:
        # Within six hours, a second use does not count, so a read-only process writes nothing.
        assert (await memory.get_fact(fact)).fact.last_used_at == used


async def test_closing_a_read_only_store_stores_no_use(path: str, clock: FrozenClock) -> None:
    async with elytron.open(path, space="ada", clock=clock) as memory:
        (fact,) = (await believe(memory, "drink", "green tea")).ids
    store = ReadOnly(await open_store(f"sqlite:///{path}", clock=clock))
    async with elytron.open(store, space="ada", clock=clock) as memory:
        await memory.recall("drink")
        assert (await memory.get_fact(fact)).fact.last_used_at is not None
    async with elytron.open(path, space="ada", clock=clock) as memory:
        assert (await memory.get_fact(fact)).fact.last_used_at is None
