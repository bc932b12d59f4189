"""Opening a file store's folder: it is ours and fits, or nothing in it is touched."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import PermissionRefused, StoreForeign, StoreUnavailable
from elytron_store import limits as store_limits
from elytron_store import manifest
from elytron_store.disk_reserve import FULL, file_bytes
from elytron_store.file import blobs, disk, records
from elytron_store.file.disk import (
    ENGINE,
    StorePaths,
    create_file,
    locked_file,
    make_folder,
    sync_file,
    while_reading,
    write_all,
    write_file,
)
from elytron_store.manifest import StoreManifest, is_folder, is_there
from elytron_store.private_files import sync_path

_MAY_COME_FIRST = {"locks", "manifest.json.new"}
"""Leftovers of an opening that died before there was a manifest."""


def prepare_folder(paths: StorePaths, /, *, at: Instant, profile: str | None, sealed: bool, busy_wait_s: float) -> None:
    """Prepare the folder: an existing store is unchanged, otherwise a new one is created.

    Raises StoreForeign, StoreNewer, PermissionRefused, StoreUnavailable.
    """
    with _folder_errors(paths):
        stored_manifest = _matching_manifest(paths, profile=profile, sealed=sealed)
        if not _lists_queues(paths, stored_manifest):
            paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked_file(paths.locks / "store", wait_s=busy_wait_s):
                # Checked again: another process may have created the store meanwhile.
                stored_manifest = _matching_manifest(paths, profile=profile, sealed=sealed)
                if stored_manifest is None:
                    stored_manifest = StoreManifest.fresh(ENGINE, at=at, profile=profile, sealed=sealed)
                    disk.write_file(paths.manifest, stored_manifest.to_bytes())
                if not _lists_queues(paths, stored_manifest):
                    _list_queues(paths, stored_manifest)
        disk.make_folder(paths.spaces)


def _lists_queues(paths: StorePaths, stored_manifest: StoreManifest | None) -> bool:
    """Return whether every space with unfinished jobs has a mark. Builds before version 2 of manifests made none."""
    return (
        stored_manifest is not None
        and stored_manifest.schema_version >= manifest.SCHEMA_VERSION
        and is_folder(paths.queued)
    )


def _list_queues(paths: StorePaths, stored_manifest: StoreManifest) -> None:
    """Mark all spaces as possibly having unfinished jobs; whoever looks for those removes the wrong marks."""
    filled_file = paths.queued.with_name(f"{paths.queued.name}{disk.NEW_SUFFIX}")
    shutil.rmtree(filled_file, ignore_errors=True)
    filled_file.mkdir(mode=0o700)
    for space in paths.spaces.iterdir() if is_folder(paths.spaces) else ():
        create_file(filled_file / space.name).close()
    sync_path(filled_file)
    shutil.rmtree(paths.queued, ignore_errors=True)
    disk.move_durably(filled_file, paths.queued)
    # Last, so that an interrupted pass is repeated.
    disk.write_file(
        paths.manifest, stored_manifest.model_copy(update={"schema_version": manifest.SCHEMA_VERSION}).to_bytes()
    )


def note_opening(paths: StorePaths, /, *, at: Instant, busy_wait_s: float) -> None:
    """Record in the manifest that the store was opened at `at`, and sweep leftovers.

    The manifest stays as it is where the device has no room for another. Raises as `prepare_folder` does.
    """
    with _folder_errors(paths):
        with locked_file(paths.locks / "store", wait_s=busy_wait_s):
            data = _read_manifest(paths)
            if data is not None:
                _write_manifest(paths, manifest.read_manifest(data).model_copy(update={"opened_at": at}))
        records.record_earlier(paths, busy_wait_s=busy_wait_s)
        blobs.sweep_uploads(paths, busy_wait_s=busy_wait_s)
        if is_folder(paths.trash):
            shutil.rmtree(paths.trash, ignore_errors=True)  # another opening may be doing the same


@contextmanager
def _folder_errors(paths: StorePaths) -> Generator[None]:
    root = str(paths.root)
    try:
        yield
    except PermissionError as error:
        raise PermissionRefused(
            f"the folder {root!r} is not accessible to this user: choose another or change its owner"
        ) from error
    except OSError as error:
        reason = error.strerror or "unknown failure"
        raise StoreUnavailable(f"{root!r} cannot be used as the folder of a file store: {reason}") from error


def _matching_manifest(paths: StorePaths, *, profile: str | None, sealed: bool) -> StoreManifest | None:
    """Return the matching manifest; None if there is nothing at all."""
    data = _read_manifest(paths)
    if data is None and is_there(paths.root) and {path.name for path in paths.root.iterdir()} - _MAY_COME_FIRST:
        # Another process may have created a store between the two checks.
        data = _read_manifest(paths)
        if data is None:
            raise StoreForeign(
                f"the folder {str(paths.root)!r} contains files but no elytron store: choose an empty or new folder"
            )
    if data is None:
        return None
    store_manifest = manifest.read_manifest(data)
    manifest.require_match(store_manifest, engine=ENGINE, profile=profile, sealed=sealed)
    return store_manifest


def _write_manifest(paths: StorePaths, store_manifest: StoreManifest) -> None:
    """Write the manifest; an existing one stays if the device has no room for another. Raises OSError."""
    try:
        disk.write_file(paths.manifest, store_manifest.to_bytes())
    except OSError as error:
        if error.errno not in FULL or not is_there(paths.manifest):
            raise


def _read_manifest(paths: StorePaths) -> bytes | None:
    try:
        return paths.manifest.read_bytes()
    except FileNotFoundError:
        return None


def largest_log(paths: StorePaths, /) -> int:
    """Return the size of the store's largest log: an erasure may rewrite it."""
    return max((file_bytes(paths.log_of(path.name)) for path in paths.spaces.iterdir()), default=0)


def copy_folder(source: Path, target: Path, /) -> StoreManifest:
    """Copy the store in the folder `source` to the new folder `target`, durably; return its manifest.

    Each space is a consistent snapshot, not all of the same moment: no commit spans two spaces. Quarantined content is
    not copied. Blocks: call it in a worker thread. Raises StoreForeign, StoreBusy, StoreFull, StoreUnavailable.
    """
    source_paths, target_paths = StorePaths(source), StorePaths(target)
    with while_reading("the store"):
        if not is_there(source_paths.manifest):
            raise StoreForeign("this folder contains no store yet: there is nothing to copy")
        store_manifest = manifest.read_manifest(source_paths.manifest.read_bytes())
        target.mkdir(mode=0o700)
        make_folder(target_paths.spaces)
        names = records.space_names(source_paths)
    for name in names:
        with locked_file(source_paths.lock_of(name), wait_s=store_limits.BUSY_WAIT_S), while_reading("the store"):
            _copy_space(source_paths, target_paths, name)
    with while_reading("the store"):
        write_file(target_paths.manifest, store_manifest.to_bytes())  # last: without it the folder is no store
    return store_manifest


def _copy_space(source_paths: StorePaths, target_paths: StorePaths, name: str) -> None:
    for source_file in (source_paths.record_of(name), source_paths.loss_of(name)):
        if is_there(source_file):
            make_folder(target_paths.root / source_file.parent.name)
            _copy_file(source_file, target_paths.root / source_file.parent.name / name)
            sync_path(target_paths.root / source_file.parent.name)
    log = source_paths.log_of(name)
    if not is_there(log):
        return  # erased meanwhile
    make_folder(target_paths.spaces / name)
    _copy_file(log, target_paths.log_of(name))
    blobs = source_paths.blobs_of(name)
    if is_folder(blobs):
        make_folder(target_paths.blobs_of(name))
        for blob in sorted(blobs.glob("*.blob")):
            _copy_file(blob, target_paths.blobs_of(name) / blob.name)
        sync_path(target_paths.blobs_of(name))
    sync_path(target_paths.spaces / name)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as source_file, create_file(target) as target_file:
        while chunk := source_file.read(limits.BLOB_CHUNK_BYTES):
            write_all(target_file, chunk)
        sync_file(target_file)
