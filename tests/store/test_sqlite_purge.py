"""The second half of an erasure waits for others as the first does."""

from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK, OLD, look

from elytron_core.errors import StoreBusy
from elytron_core.ports.store import Erasure
from elytron_store import limits as store_limits
from elytron_store.conformance.examples import ADA, AT, fact, put
from elytron_store.sqlite import SqliteStore, erasure, setup
from elytron_store.sqlite.database.driver import Access

pytestmark = pytest.mark.anyio


async def test_a_purge_that_meets_a_commit_of_others_has_waited_for_it(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await (await SqliteStore.open(path, clock=CLOCK, library=OLD)).close()
    with closing(setup.connect_writer(OLD, path)) as ours, closing(setup.connect_writer(OLD, path)) as theirs:
        theirs.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy):
            erasure.purge(ours, Access("delete", busy_wait_s=0.0), Erasure(space=ADA, at=AT))


async def test_a_store_made_with_other_pages_keeps_them_and_is_purged_by_its_true_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    with monkeypatch.context() as then:
        then.setattr(setup, "PAGE_BYTES", 8_192)
        await (await SqliteStore.open(path, clock=CLOCK)).close()
    store = await SqliteStore.open(path, clock=CLOCK)
    await put(store, fact(1), b"canary")
    ((tables,),) = look(path, "SELECT count(*) FROM sqlite_schema")
    monkeypatch.setattr(store_limits, "VACUUM_BYTES", tables * 8_192 - 1)
    assert (await store.erase(Erasure(space=ADA, at=AT, refs=(fact(1),)))).documents == 1
    await store.close()
    assert look(path, "PRAGMA page_size") == [(8_192,)]
    assert b"canary" not in path.read_bytes()
