"""A store that is made beside its place and put there whole: before that, nothing is at the place."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from elytron_core.errors import InvalidInput, StoreFailed, StoreUnavailable
from elytron_store.file.disk.locks import try_lock
from elytron_store.file.disk.places import create, make_folder
from elytron_store.file.disk.sync import sync_folder
from elytron_store.path_probe import is_folder, is_there

_LOCK = "lock"
_BESIDE_A_DATABASE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Stage:
    """Staging folder of a store whose place is `target`."""

    path: Path
    target: Path

    async def place(self) -> None:
        """Put the closed store at its place, for good.

        Raises InvalidInput where something came there meanwhile, StoreUnavailable where it cannot be put there.
        """
        try:
            await asyncio.to_thread(self._place)
        except OSError as error:
            raise _unwritable(self.target, error) from error

    def _place(self) -> None:
        if any(is_there(self.path.with_name(self.path.name + tail)) for tail in _BESIDE_A_DATABASE):
            raise StoreFailed(engine="sqlite", doing="closing the copy")
        try:
            if is_folder(self.path):
                with suppress(FileNotFoundError):
                    self.target.rmdir()  # an empty folder is nothing yet
                self.path.rename(self.target)
            else:
                os.link(self.path, self.target)  # which replaces nothing, unlike a renaming
        except OSError:
            if os.path.lexists(self.target):
                raise InvalidInput(field="target", problem="is there already: name a new file") from None
            self.path.rename(self.target)  # a file system without links
        sync_folder(self.target.absolute().parent)


def is_free(place: Path, /) -> bool:
    """Return whether a store may be put at `place`: nothing is there, or an empty folder. Raises StoreUnavailable."""
    try:
        return not any(place.iterdir()) if is_folder(place) else not (is_there(place) or place.is_symlink())
    except OSError as error:
        raise StoreUnavailable(f"cannot read the folder {place.name!r}: {error.strerror}") from error


@asynccontextmanager
async def staged(target: Path, /) -> AsyncGenerator[Stage]:
    """Yield the path at which to make the store of `target`; it is removed afterwards unless put in place.

    That is in a folder beside the target, which one caller holds at a time; what a killed one left in it is removed.
    Raises StoreUnavailable if another caller makes a store for `target` now, and if nothing can be made there.
    """
    folder = target.with_name(f".{target.name}.partial")
    try:
        lock = await asyncio.to_thread(_taken, folder)
    except OSError as error:
        raise _unwritable(target, error) from error
    if lock is None:
        raise StoreUnavailable(f"{target.name!r} is being made by another process: wait for it, or name another place")
    with lock:
        try:
            yield Stage(folder / "store", target)
        finally:
            await asyncio.to_thread(_left, folder)


def _unwritable(target: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"cannot write {target.name!r}: {error.strerror}")


def _taken(folder: Path) -> FileIO | None:
    """Return the lock of `folder`, which has nothing else then, or None if another caller has it."""
    while True:
        make_folder(folder)
        try:
            lock = create(folder / _LOCK)
        except FileNotFoundError:
            continue  # who held it went away just now, and took the folder along
        if not try_lock(lock):
            lock.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), (folder / _LOCK).stat()):
                _clear(folder)
                return lock
        lock.close()


def _left(folder: Path) -> None:
    """Remove `folder`, unless another caller is in it already."""
    _clear(folder)
    with suppress(OSError):
        (folder / _LOCK).unlink()
        folder.rmdir()


def _clear(folder: Path) -> None:
    for found in folder.iterdir():
        if is_folder(found):
            shutil.rmtree(found)
        elif found.name != _LOCK:
            found.unlink(missing_ok=True)
