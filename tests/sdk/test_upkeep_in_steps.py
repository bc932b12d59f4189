"""Upkeep of a space lets other tasks run: each step processes a bounded number of documents or entries."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.sdk.kill_points import ADA

import elytron
from elytron.erasure.removal import erase_many
from elytron.indexing import index_manager
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.ports.store import scan_documents, scan_entries
from elytron_core.scope import Scope
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

TURNS = 300
VERBS: dict[str, Callable[[elytron.MemoryRuntime, list[str], Path], Awaitable[object]]] = {
    "compact": lambda memory, _, __: memory.compact_journal(),
    "fold": lambda memory, _, __: memory.context.folds.rebuild(ADA),
    "check": lambda memory, _, __: memory.inspect(check=True),
    "export": lambda memory, _, folder: memory.export(folder / "ada.zip"),
    "recover": lambda memory, _, __: memory.recover(),
    "erase": lambda memory, ids, __: erase_many(memory.context, Scope(space=ADA), ids[: TURNS // 2]),
}


async def filled() -> tuple[elytron.MemoryRuntime, list[str]]:
    """Return a runtime over a space with many turns, and their ids."""
    memory = await elytron.open(MemoryStore(), space=ADA, clock=FrozenClock(step_ms=1), ids=SeededIds())
    ids = list((await memory.add([f"tea number {number} at four" for number in range(TURNS)])).ids)
    await memory.recall("tea")
    return memory, ids


async def turns_of_others(work: Awaitable[object]) -> int:
    """Return how often another task runs while `work` is done."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await work
    counting.cancel()
    return turns


@pytest.mark.parametrize("verb", VERBS)
async def test_other_tasks_run_between_steps_of_upkeep(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every step takes its full time: one yield per document or entry, or per part of a fold.
    monkeypatch.setattr("elytron_core.ports.store.WORK_STEP_S", 0.0)
    memory, ids = await filled()
    assert await turns_of_others(VERBS[verb](memory, ids, tmp_path)) >= TURNS // index_manager.APPLIED_AT_ONCE


async def test_a_walk_over_a_space_yields_between_any_two_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_core.ports.store.WORK_STEP_S", 0.0)
    memory, _ = await filled()

    async def entries() -> None:
        assert len([one async for one in scan_entries(memory.context.store, ADA)]) >= TURNS

    async def documents() -> None:
        assert len([one async for one in scan_documents(memory.context.store, ADA, "turns")]) == TURNS

    assert await turns_of_others(entries()) >= TURNS
    assert await turns_of_others(documents()) >= TURNS
