"""A memory moves from a file to Postgres and back: the same fingerprints, even after an interruption."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.store.postgres_rig import CLOCK, empty_store

import elytron
from elytron.transfer.migration import copy_store
from elytron_cli.app import elytron_group
from elytron_core.ids import SeededIds
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_store.engine import PassingStore
from elytron_store.store_urls import open_store

pytestmark = pytest.mark.anyio


@pytest.fixture
async def target(database: str) -> str:
    """Return the URL of an empty store on the server."""
    return await empty_store(database)


@pytest.fixture
async def source(tmp_path: Path) -> str:
    """Return the URL of a file with two people's memories."""
    url = f"sqlite:///{tmp_path}/m.db"
    for space in ("ada", "bob"):
        async with elytron.open(url, space=space, clock=CLOCK) as memory:
            for number in range(6):
                await memory.add(f"The ferry number {number} leaves at six.")
            gone = await memory.add("This goes.")
            await memory.erase(gone.ids)
    return url


async def fingerprints(url: str) -> dict[str, tuple[str, str]]:
    """Return the fingerprints of both spaces."""
    found: dict[str, tuple[str, str]] = {}
    for space in ("ada", "bob"):
        async with elytron.open(url, space=space, clock=CLOCK) as memory:
            report = await memory.inspect(fingerprints=True)
        found[space] = report.state_fingerprint, report.event_fingerprint
    return found


async def test_a_memory_is_unchanged_on_the_server_and_back_in_a_file(source: str, target: str, tmp_path: Path) -> None:
    before = await fingerprints(source)
    back = f"sqlite:///{tmp_path}/back.db"
    for from_store, to_store in ((source, target), (target, back)):
        told = await asyncio.to_thread(CliRunner().invoke, elytron_group, ["migrate", from_store, to_store])
        spaces = json.loads(told.stdout)["spaces"]
        copied = {item["space"]: (item["state_fingerprint"], item["event_fingerprint"]) for item in spaces}
        assert copied == before
        assert await fingerprints(to_store) == before
    async with elytron.open(target, space="ada", clock=CLOCK) as memory:
        assert (await memory.recall("ferry")).hits


class BrokenOff(Exception):
    """The machine with the copy fails."""


class BreakingStore(PassingStore):
    """A store that fails at the first commit to Bob's space."""

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if batch.space == "bob":
            raise BrokenOff
        return await super().commit(batch)


async def test_an_interrupted_copy_continues_after_its_complete_part(source: str, target: str) -> None:
    told: list[tuple[int, int]] = []
    file = await open_store(source, clock=CLOCK)
    broken = BreakingStore(await open_store(target, clock=CLOCK))
    with pytest.raises(BrokenOff):
        await copy_store(file, broken, ids=SeededIds())
    whole = await open_store(target, clock=CLOCK)
    copied = await copy_store(file, whole, ids=SeededIds(), progress=lambda done, total: told.append((done, total)))
    assert [space.space for space in copied] == ["ada", "bob"]
    assert told[-1][0] == told[-1][1] == sum(space.sequence for space in copied)
    for store in (file, broken, whole):
        await store.close()
