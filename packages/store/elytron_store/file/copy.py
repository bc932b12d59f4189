"""A copy of a store's folder while it is in use: of each space one state, taken under its lock."""

from pathlib import Path

from elytron_core import limits
from elytron_core.errors import StoreForeign
from elytron_store import limits as store_limits
from elytron_store import manifest
from elytron_store.file.disk.failures import while_reading
from elytron_store.file.disk.locks import locked
from elytron_store.file.disk.places import Places, create, make_folder, write_file
from elytron_store.file.disk.sync import sync, sync_folder, write_all
from elytron_store.manifest import Manifest
from elytron_store.path_probe import is_folder, is_there


def copy(source: Path, target: Path, /) -> Manifest:
    """Leave a copy of the store in the folder `source` in the new folder `target`, durable; return its manifest.

    Each space is as it was at one moment, not all at the same one: no commit spans two. What was moved aside stays
    behind. Blocks: call it in a worker thread. Raises StoreForeign, StoreBusy, StoreFull, StoreUnavailable.
    """
    there, here = Places(source), Places(target)
    with while_reading("the store"):
        if not is_there(there.manifest):
            raise StoreForeign("this folder holds no store yet: there is nothing to copy")
        found = manifest.read(there.manifest.read_bytes())
        target.mkdir(mode=0o700)
        make_folder(here.spaces)
        names = sorted(path.name for path in there.spaces.iterdir()) if is_folder(there.spaces) else []
    for name in names:
        with locked(there.lock_of(name), wait_s=store_limits.BUSY_WAIT_S), while_reading("the store"):
            _copy_space(there, here, name)
    with while_reading("the store"):
        write_file(here.manifest, found.to_bytes())  # last: without it the folder is no store
    return found


def _copy_space(there: Places, here: Places, name: str) -> None:
    log = there.log_of(name)
    if not is_there(log):
        return  # erased meanwhile
    make_folder(here.spaces / name)
    _copy_file(log, here.log_of(name))
    blobs = there.blobs_of(name)
    if is_folder(blobs):
        make_folder(here.blobs_of(name))
        for blob in sorted(blobs.glob("*.blob")):
            _copy_file(blob, here.blobs_of(name) / blob.name)
        sync_folder(here.blobs_of(name))
    sync_folder(here.spaces / name)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reading, create(target) as writing:
        while chunk := reading.read(limits.BLOB_CHUNK_BYTES):
            write_all(writing, chunk)
        sync(writing)
