"""What a caller unlocked in one process of a server is open to it in the others, and to nobody else."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

import elytron
from elytron.runtime import MemoryRuntime
from elytron.secrets.forms import SecretState
from elytron_core.clock import FrozenClock
from elytron_core.errors import SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.ports.store import PutChange, scan_documents
from elytron_store.secret.records import SECRET_SLOT, secret_batch
from elytron_store.secret.sessions import SpaceCaller, calling_as

pytestmark = pytest.mark.anyio

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
OTHER_WORDS = "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic"
KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))
ADA, BOB = SpaceCaller("ada-key"), SpaceCaller("bob-key")
TEXT = "The boat key is under the oar."


class Workers:
    """Two processes of a server and one of another, over one store whose content is sealed and locked."""

    def __init__(
        self, first: MemoryRuntime, second: MemoryRuntime, stranger: MemoryRuntime, clock: FrozenClock
    ) -> None:
        self.first, self.second, self.stranger, self.clock = first, second, stranger, clock

    async def unlock(self) -> None:
        with calling_as(ADA):
            await self.first.secrets.unlock("ada", words=WORDS, minutes=10)


async def can_read(memory: MemoryRuntime, caller: SpaceCaller = ADA) -> bool:
    """Return whether a caller finds the space's content; otherwise it is locked."""
    with calling_as(caller):
        try:
            return [hit.text for hit in (await memory.search("boat key")).hits] == [TEXT]
        except SpaceLocked:
            return False


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    url, clock = f"sqlite:{tmp_path / 'kept.db'}", FrozenClock()
    async with (
        elytron.open(url, space="ada", clock=clock) as first,
        elytron.open(url, space="ada", clock=clock) as second,
        elytron.open(url, space="ada", clock=clock) as stranger,
    ):
        for memory, key in ((first, KEY), (second, KEY), (stranger, OTHER_KEY)):
            memory.secrets.share_sessions(key)
        with calling_as(ADA):
            await first.add(TEXT)
            # Each has the space in its index as plain text.
            assert [await can_read(memory) for memory in (first, second, stranger)] == [True, True, True]
            await first.secrets.seal("ada", words=WORDS)
            await first.secrets.lock("ada")
        yield Workers(first, second, stranger, clock)


async def test_sealing_and_locking_apply_to_every_process(workers: Workers) -> None:
    everywhere = (workers.first, workers.second, workers.stranger)
    assert [await can_read(memory) for memory in everywhere] == [False, False, False]
    await workers.unlock()
    assert await can_read(workers.second)
    with calling_as(ADA):
        await workers.second.secrets.lock("ada")
    assert [await can_read(memory) for memory in everywhere] == [False, False, False]


async def test_an_unlock_applies_to_every_server_process_for_its_caller_and_time(workers: Workers) -> None:
    await workers.unlock()
    assert [await can_read(memory) for memory in (workers.first, workers.second)] == [True, True]
    assert [await can_read(memory, BOB) for memory in (workers.first, workers.second)] == [False, False]
    assert not await can_read(workers.stranger)
    with calling_as(ADA):
        first, second = [await memory.secrets.status("ada") for memory in (workers.first, workers.second)]
    assert (second.state, second.until) == (SecretState.UNLOCKED, first.until)
    workers.clock.advance(10 * 60_000)
    assert [await can_read(memory) for memory in (workers.first, workers.second)] == [False, False]


async def test_a_process_that_never_read_the_space_opens_it_too_and_may_write(workers: Workers) -> None:
    await workers.unlock()
    with calling_as(ADA):
        await workers.second.add("The tide table hangs in the kitchen.")
        hits = (await workers.first.search("tide table")).hits
    assert "The tide table hangs in the kitchen." in [hit.text for hit in hits]


async def test_a_changed_secret_or_data_key_keeps_only_the_callers_session(workers: Workers) -> None:
    await workers.unlock()
    with calling_as(BOB):
        await workers.second.secrets.unlock("ada", words=WORDS)
    with calling_as(ADA):
        await workers.first.secrets.change("ada", words=WORDS, new_words=OTHER_WORDS)
    for _ in range(2):
        assert [await can_read(memory) for memory in (workers.first, workers.second)] == [True, True]
        assert [await can_read(memory, BOB) for memory in (workers.first, workers.second)] == [False, False]
        with calling_as(ADA):
            await workers.first.secrets.rotate("ada", words=OTHER_WORDS)


async def test_a_replayed_session_from_before_a_lock_opens_nothing(workers: Workers) -> None:
    await workers.unlock()
    inner = workers.first.secrets.store.inner
    (stored,) = [
        each async for each in scan_documents(inner, SpaceId("ada"), SECRET_SLOT.collection) if each.ref != SECRET_SLOT
    ]
    with calling_as(ADA):
        await workers.first.secrets.lock("ada")
    left = [each.ref async for each in scan_documents(inner, SpaceId("ada"), SECRET_SLOT.collection)]
    assert left == [SECRET_SLOT]
    await inner.commit(secret_batch(SpaceId("ada"), workers.clock, PutChange(stored.ref, stored.body, 0)))
    assert not await can_read(workers.second)


async def test_a_damaged_session_is_ignored_and_replaced_by_the_next_unlock(workers: Workers, tmp_path: Path) -> None:
    await workers.unlock()
    with closing(sqlite3.connect(tmp_path / "kept.db")) as raw, raw:
        raw.execute(
            "UPDATE documents SET body = ? WHERE collection = ? AND key LIKE '4.%'", (b"", SECRET_SLOT.collection)
        )
    assert not await can_read(workers.second)
    await workers.unlock()
    assert await can_read(workers.second)
