"""A backup of a whole store in use. The copy is read completely before it counts as a backup."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from elytron_core.clock import Clock, Instant
from elytron_core.errors import InvalidInput, StoreCorrupt, StoreFailed, StoreMissing, StoreUnavailable, Unsupported
from elytron_core.ports.store import Store
from elytron_core.ports.store_checks import CheckReport
from elytron_store.file.disk import create_file, make_folder, try_lock
from elytron_store.manifest import StoreManifest, is_folder, is_there
from elytron_store.private_files import replace_file, sync_path
from elytron_store.store_urls import StoreAddress, parse_url

_LOCK = "lock"
_BESIDE_A_DATABASE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class BackupStage:
    """Staging folder of a store whose place is `target`."""

    path: Path
    target: Path

    async def place(self) -> None:
        """Move the closed store to its final place, durably.

        Raises InvalidInput where something came there meanwhile, StoreUnavailable where it cannot be put there.
        """
        try:
            await asyncio.to_thread(self._place)
        except OSError as error:
            raise _unwritable_target(self.target, error) from error

    def _place(self) -> None:
        # A closed database has no accompanying files.
        if any(is_there(self.path.with_name(self.path.name + file_ending)) for file_ending in _BESIDE_A_DATABASE):
            raise StoreFailed(engine="sqlite", doing="closing the copy")
        try:
            if is_folder(self.path):
                with suppress(FileNotFoundError):
                    self.target.rmdir()  # an empty folder does not count as a store
                self.path.rename(self.target)
            else:
                os.link(self.path, self.target)  # unlike a rename, a link replaces nothing
        except OSError:
            if os.path.lexists(self.target):
                raise InvalidInput(field="target", problem="already exists: name a new file") from None
            self.path.rename(self.target)  # a file system without hard links
        sync_path(self.target.absolute().parent)


def is_free(path: Path, /) -> bool:
    """Return whether a store may be created at `path`: nothing is there, or an empty folder. Raises
    StoreUnavailable."""
    try:
        return not any(path.iterdir()) if is_folder(path) else not (is_there(path) or path.is_symlink())
    except OSError as error:
        raise StoreUnavailable(f"cannot read the folder {path.name!r}: {error.strerror}") from error


@asynccontextmanager
async def staged_store(target: Path, /) -> AsyncGenerator[BackupStage]:
    """Yield the path at which to create the store for `target`; it is removed afterwards unless moved into place.

    It is in a folder next to the target, which one caller locks at a time; leftovers of a killed process are removed.
    Raises StoreUnavailable if another caller is creating a store for `target`, and if nothing can be created there.
    """
    folder = target.with_name(f".{target.name}.partial")
    try:
        folder_lock = await asyncio.to_thread(_take_folder, folder)
    except OSError as error:
        raise _unwritable_target(target, error) from error
    if folder_lock is None:
        raise StoreUnavailable(f"{target.name!r} is being created by another process: wait, or name another file")
    with folder_lock:
        try:
            yield BackupStage(folder / "store", target)
        finally:
            await asyncio.to_thread(_leave_folder, folder)


def _unwritable_target(target: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"cannot write {target.name!r}: {error.strerror}")


def _take_folder(folder: Path) -> FileIO | None:
    """Return the lock of `folder`, emptied of everything else, or None if another caller holds it."""
    while True:
        make_folder(folder)
        try:
            folder_lock = create_file(folder / _LOCK)
        except FileNotFoundError:
            continue  # its holder finished just now and removed the folder
        if not try_lock(folder_lock):
            folder_lock.close()
            return None
        with suppress(FileNotFoundError):
            # The locked file may be one that its last holder has since removed.
            if os.path.samestat(os.fstat(folder_lock.fileno()), (folder / _LOCK).stat()):
                _clear_folder(folder)
                return folder_lock
        folder_lock.close()


def _leave_folder(folder: Path) -> None:
    """Remove `folder`, unless another caller is already using it."""
    _clear_folder(folder)
    with suppress(OSError):
        (folder / _LOCK).unlink()
        folder.rmdir()


def _clear_folder(folder: Path) -> None:
    for child in folder.iterdir():
        if is_folder(child):
            shutil.rmtree(child)
        elif child.name != _LOCK:
            child.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup: its path, its size, and the findings of a full read."""

    path: Path
    engine: str
    sealed: bool
    size_bytes: int
    check: CheckReport


async def back_up(url: str, target: Path, /, *, clock: Clock) -> BackedUp:
    """Create a complete, durable and verified copy of the store `url` at the free path `target`, or leave nothing.

    A sealed store stays sealed, and no key is needed. An SQLite copy is a snapshot of the whole file, a file-store copy
    a snapshot of each space. Raises InvalidInput if something is at `target`, Unsupported for a store that is not a
    local file or folder, StoreCorrupt for a damaged store, StoreMissing, StoreForeign, StoreUnavailable.
    """
    address = parse_url(url)
    if address.path is None:
        raise Unsupported("only a store in a local file or folder can be backed up: use export or migrate instead")
    await asyncio.to_thread(_require_free, address.path, target)
    try:
        async with staged_store(target) as stage:
            manifest = await asyncio.to_thread(_copy_store, address, stage.path)
            copy_check = await _check_copy(address, stage.path, manifest, clock=clock)
            if not copy_check.ok:
                raise StoreCorrupt(what="something in the store")
            await stage.place()
            await asyncio.to_thread(_keep_time, address.path, clock.now())
    except OSError as error:
        raise StoreUnavailable(f"cannot write {target.name!r}: {error.strerror}") from error
    return BackedUp(target, manifest.engine, manifest.sealed, _tree_size(target), copy_check)


def latest_backup(path: Path, /) -> Instant | None:
    """Return when the store at `path` was last backed up by `back_up`; None if that is not known."""
    try:
        return Instant(int(_time_file(path).read_text("ascii")))
    except (OSError, ValueError):
        return None


def size_on_disk(path: Path, /) -> int:
    """Return the size of the files of the store at `path`, including its engine's accompanying files."""
    new_path = [path, *(path.with_name(f"{path.name}{file_ending}") for file_ending in ("-wal", "-shm", "-reserve"))]
    return sum(_tree_size(file) for file in new_path if file.exists())


def _time_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.backup-time")


def _keep_time(path: Path, at: Instant) -> None:
    """Record the time of a backup next to its store; an unwritable folder is no reason to fail."""
    with suppress(OSError):
        replace_file(_time_file(path), str(at).encode())


def _require_free(source: Path, target: Path) -> None:
    try:
        is_taken = is_there(target)
    except (OSError, ValueError) as error:
        raise InvalidInput(field="target", problem="is not a valid file name: choose another") from error
    if is_taken:
        raise InvalidInput(field="target", problem="already exists: name a new file")
    if not is_there(source):
        raise StoreMissing(place=str(source.absolute()))


def _copy_store(address: StoreAddress, target: Path) -> StoreManifest:
    assert address.path is not None
    if address.engine == "sqlite":
        from elytron_store.sqlite.setup import copy_database as copy_file

        return copy_file(address.path, target)
    from elytron_store.file.folder import copy_folder

    return copy_folder(address.path, target)


async def _check_copy(address: StoreAddress, path: Path, manifest: StoreManifest, *, clock: Clock) -> CheckReport:
    """Open the copy with its engine, which needs no key, and read every byte of it."""
    store: Store
    if address.engine == "sqlite":
        from elytron_store.sqlite.store import SqliteStore

        store = await SqliteStore.open(path, clock=clock, sealed=manifest.sealed)
    else:
        from elytron_store.file.store import FileStore

        store = await FileStore.open(path, clock=clock, sealed=manifest.sealed)
    try:
        report = await store.check()
    finally:
        await store.close()
    return report


def _tree_size(path: Path) -> int:
    files = path.rglob("*") if is_folder(path) else (path,)
    return sum(child.stat().st_size for child in files if child.is_file())
