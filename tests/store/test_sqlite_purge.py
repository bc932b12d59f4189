"""The second half of an erasure waits for others as the first does."""

from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sqlite_rig import CLOCK, OLD

from elytron_core.errors import StoreBusy
from elytron_core.ports.store import Erasure
from elytron_store.conformance.examples import ADA, AT
from elytron_store.sqlite import SqliteStore, erasing, opening
from elytron_store.sqlite.driver import Access

pytestmark = pytest.mark.anyio


async def test_a_purge_that_meets_a_commit_of_others_has_waited_for_it(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    await (await SqliteStore.open(path, clock=CLOCK, library=OLD)).close()
    with closing(opening.connect_writer(OLD, path)) as ours, closing(opening.connect_writer(OLD, path)) as theirs:
        theirs.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy):
            erasing.purge(ours, Access("delete", busy_wait_s=0.0), Erasure(space=ADA, at=AT), 1_000_000)
