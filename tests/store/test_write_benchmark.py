"""The raw side of the write benchmark writes the same as the engine, so that the comparison is fair."""

from pathlib import Path

import pytest
from benchmarks.store_write import AT, BODY, DIGEST, RawWriter, batch

from elytron_core.clock import FrozenClock
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, JournalAction, JournalEntry
from elytron_store.engine import WriteDurability
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio
SPACE = SpaceId("space")


async def test_the_engine_reads_the_raw_writers_file_and_continues_from_there(tmp_path: Path) -> None:
    raw = RawWriter(tmp_path / "raw.db", WriteDurability.FULL)
    raw.write([("space", "a1"), ("space", "a2")])
    raw.raw.close()
    store = await SqliteStore.open(tmp_path / "raw.db", clock=FrozenClock(AT))
    one, two = DocumentRef("turns", "a1"), DocumentRef("turns", "a2")
    assert await store.get(SPACE, (one, two)) == [Document(one, 1, BODY), Document(two, 1, BODY)]
    assert await store.journal(SPACE, after=0, limit=9) == [
        JournalEntry(1, AT, JournalAction.WRITE, one, DIGEST),
        JournalEntry(2, AT, JournalAction.WRITE, two, DIGEST),
    ]
    assert (await store.commit(batch("space"))).first == 3
    await store.close()
