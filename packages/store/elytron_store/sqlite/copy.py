"""A copy of a store file while it is in use: one state of it, also during writes."""

import os
from contextlib import closing
from pathlib import Path

from elytron_core.errors import StoreForeign
from elytron_store import limits as store_limits
from elytron_store.manifest import Manifest, read
from elytron_store.sqlite.database.driver import ERRORS, library, translate
from elytron_store.sqlite.database.schema import STEPS, recognise
from elytron_store.sqlite.setup import connect_reader


def copy(source: Path, target: Path, /) -> Manifest:
    """Leave one state of the store `source` at the new file `target`, durable, and return its manifest.

    Bytes that were freed are left behind. Blocks: call it in a worker thread. Raises StoreForeign, StoreNewer,
    StoreBusy, StoreFull, StoreUnavailable.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with closing(connect_reader(library(), source, store_limits.BUSY_WAIT_S)) as raw:
            if recognise(raw, known=len(STEPS)) == 0:
                raise StoreForeign("this file holds no store yet: there is nothing to copy")
            raw.execute("PRAGMA query_only = OFF")  # which forbids writing to other files too
            raw.execute("VACUUM INTO ?", (str(target),))
        with closing(connect_reader(library(), target, store_limits.BUSY_WAIT_S)) as raw:
            row = raw.execute("SELECT body FROM manifest WHERE name = 'store'").fetchone()
    except ERRORS as error:
        raise translate(error, doing="copying") from error
    if row is None:
        raise StoreForeign("this store has lost its manifest: restore it from a backup")
    with target.open("rb+") as file:
        os.fsync(file.fileno())
    return read(row[0])
