"""Opening a file store's folder: it is ours and fits, or nothing in it is touched."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager

from elytron_core.clock import Instant
from elytron_core.errors import PermissionRefused, StoreForeign, StoreUnavailable
from elytron_store import manifest
from elytron_store.file import blobs
from elytron_store.file.disk import places
from elytron_store.file.disk.failures import ENGINE, FULL
from elytron_store.file.disk.locks import locked
from elytron_store.file.disk.places import Places
from elytron_store.manifest import DEFAULT_PROFILE, Manifest
from elytron_store.path_probe import is_folder, is_there

_MAY_COME_FIRST = {"locks", "manifest.json.new"}
"""Left-overs of an opening that died before there is a manifest."""


def prepare(where: Places, /, *, at: Instant, profile: str | None, sealed: bool, busy_wait_s: float) -> None:
    """Make the folder ready for use: an existing store unchanged, else a new one.

    Raises StoreForeign, StoreNewer, PermissionRefused, StoreUnavailable.
    """
    with _using(where):
        if _matching(where, profile=profile, sealed=sealed) is None:
            where.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(where.locks / "store", wait_s=busy_wait_s):
                # Looked at once more: another process may have made the store in the meantime.
                if _matching(where, profile=profile, sealed=sealed) is None:
                    places.write_file(where.manifest, _new(at=at, profile=profile, sealed=sealed).to_bytes())
        places.make_folder(where.spaces)


def note(where: Places, /, *, at: Instant, busy_wait_s: float) -> None:
    """Have the manifest say that the store was opened at `at`, and sweep out what is left over.

    The manifest stays as it is where the device has no room for another. Raises as `prepare` does.
    """
    with _using(where):
        with locked(where.locks / "store", wait_s=busy_wait_s):
            data = _kept(where)
            if data is not None:
                _note(where, manifest.read(data).model_copy(update={"opened_at": at}))
        blobs.sweep(where, busy_wait_s=busy_wait_s)
        if is_folder(where.trash):
            shutil.rmtree(where.trash, ignore_errors=True)  # another opening may be at it too


@contextmanager
def _using(where: Places) -> Generator[None]:
    root = str(where.root)
    try:
        yield
    except PermissionError as error:
        raise PermissionRefused(
            f"the folder {root!r} may not be used by this user: choose another or change its owner"
        ) from error
    except OSError as error:
        reason = error.strerror or "unknown failure"
        raise StoreUnavailable(f"{root!r} cannot be used as the folder of a file store: {reason}") from error


def _matching(where: Places, *, profile: str | None, sealed: bool) -> Manifest | None:
    """Return the manifest, which matches; None if there is nothing at all."""
    data = _kept(where)
    if data is None and is_there(where.root) and {path.name for path in where.root.iterdir()} - _MAY_COME_FIRST:
        # There may be a store that another process made between the two checks.
        data = _kept(where)
        if data is None:
            raise StoreForeign(
                f"the folder {str(where.root)!r} holds files and no elytron store: choose an empty or a new folder"
            )
    if data is None:
        return None
    found = manifest.read(data)
    manifest.require_match(found, engine=ENGINE, profile=profile, sealed=sealed)
    return found


def _new(*, at: Instant, profile: str | None, sealed: bool) -> Manifest:
    return Manifest(engine=ENGINE, profile=profile or DEFAULT_PROFILE, sealed=sealed, created_at=at, opened_at=at)


def _note(where: Places, kept: Manifest) -> None:
    """Write the manifest; one that is there stays as it is where the device has no room for another. Raises OSError."""
    try:
        places.write_file(where.manifest, kept.to_bytes())
    except OSError as error:
        if error.errno not in FULL or not is_there(where.manifest):
            raise


def _kept(where: Places) -> bytes | None:
    try:
        return where.manifest.read_bytes()
    except FileNotFoundError:
        return None
