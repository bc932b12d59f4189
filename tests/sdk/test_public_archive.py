"""A public archive contains what is current, and nothing that its owner deleted, corrected, replaced, or ended."""

import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import elytron
from elytron import MemoryRuntime
from elytron_core.clock import FrozenClock, instant
from elytron_core.contracts.facts import FactAction, FactChangeRequest
from elytron_core.ids import SeededIds
from elytron_core.planes.facts import FactState

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000


async def _superseded(memory: MemoryRuntime, clock: FrozenClock, text: str) -> None:
    await memory.add_fact("home", text)
    clock.advance(DAY_MS)
    await memory.add_fact("home", "Ada lives in Porto")


async def _invalidated(memory: MemoryRuntime, _: FrozenClock, text: str) -> None:
    fact = await memory.add_fact("home", text)
    await memory.change_fact(FactChangeRequest(id=fact.ids[0], action=FactAction.INVALIDATE))


async def _corrected(memory: MemoryRuntime, _: FrozenClock, text: str) -> None:
    fact = await memory.add_fact("home", text)
    await memory.correct(fact.ids[0], "Ada lives in Porto")


async def _forgotten(memory: MemoryRuntime, _: FrozenClock, text: str) -> None:
    fact = await memory.add_fact("home", text)
    await memory.forget(fact.ids[0])


async def _deleted(memory: MemoryRuntime, _: FrozenClock, text: str) -> None:
    fact = await memory.add_fact("home", text)
    await memory.change_fact(FactChangeRequest(id=fact.ids[0], action=FactAction.DELETE))


Ending = Callable[[MemoryRuntime, FrozenClock, str], Awaitable[None]]
ENDINGS: dict[FactState, Ending] = {
    FactState.SUPERSEDED: _superseded,
    FactState.INVALIDATED: _invalidated,
    FactState.CORRECTED: _corrected,
    FactState.FORGOTTEN: _forgotten,
    FactState.DELETED: _deleted,
}


def test_every_ended_fact_state_is_tested() -> None:
    assert {*ENDINGS, FactState.ACTIVE, FactState.MERGED} == set(FactState)


@pytest.mark.parametrize("state", ENDINGS)
async def test_outdated_memories_are_in_no_public_archive(state: FactState, tmp_path: Path) -> None:
    clock = FrozenClock(instant("2026-03-01"), step_ms=1)
    path = tmp_path / "public.elytron"
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds()) as memory:
        await memory.add_fact("pet", "Ada has a stoat")
        await ENDINGS[state](memory, clock, "Ada lives in Lisbon")
        await memory.export(path, include_private=False)
    assert "Lisbon" not in words(path)
    assert "stoat" in words(path)


async def test_an_ended_fact_is_in_no_public_archive(tmp_path: Path) -> None:
    clock = FrozenClock(instant("2026-03-01"), step_ms=1)
    path = tmp_path / "public.elytron"
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds()) as memory:
        fact = await memory.add_fact("home", "Ada lives in Lisbon")
        await memory.change_fact(
            FactChangeRequest(id=fact.ids[0], action=FactAction.INVALIDATE, at=instant("2026-03-09"))
        )
        clock.advance(30 * DAY_MS)
        await memory.export(path, include_private=False)
    assert "Lisbon" not in words(path)


def words(path: Path) -> str:
    """Return all text in an archive."""
    with zipfile.ZipFile(path) as archive:
        return "\n".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())
