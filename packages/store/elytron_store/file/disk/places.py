"""Places in a file store's folder, and how a folder or a whole file is made there.

manifest.json
locks/store, locks/00 ... ff             held while opening; while a space with that digest's start is written
spaces/<sha-256 of the space>/log        the space's commits
spaces/<sha-256 of the space>/log.new    a generation being written under the lock; a left-over is replaced
spaces/<sha-256 of the space>/blobs/<key>.blob
incoming/                                unfinished blobs; each has its own lock, so left-overs are recognised
trash/                                   erased spaces on their way out
quarantine/<sha-256 of the space>/       what `repair` moved aside
"""

import os
from io import FileIO
from pathlib import Path

from elytron_core.canonical import digest
from elytron_core.ids import SpaceId
from elytron_store.file.disk.sync import move, sync, sync_folder, write_all
from elytron_store.path_probe import is_folder

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_LOG = "log"
NEW_SUFFIX = ".new"
"""Ending of the name of a file that is written beside the one whose place it takes."""


class Places:
    """The paths of one store."""

    def __init__(self, root: Path, /) -> None:
        # Whole, so that a program may change its folder while the store is open.
        self.root = root = root.absolute()
        self.manifest = root / "manifest.json"
        self.locks = root / "locks"
        self.spaces = root / "spaces"
        self.incoming = root / "incoming"
        self.trash = root / "trash"
        self.quarantine = root / "quarantine"

    def lock_of(self, name: str, /) -> Path:
        """Return the lock of the space folder `name`; a few spaces share one, so locks need never be removed."""
        return self.locks / name[:2]

    def log_of(self, name: str, /) -> Path:
        return self.spaces / name / _LOG

    def blobs_of(self, name: str, /) -> Path:
        return self.spaces / name / "blobs"

    def blob_of(self, name: str, key: str, /) -> Path:
        return self.blobs_of(name) / f"{key}.blob"


def folder_name(space: SpaceId | str, /) -> str:
    """Return the folder name of a space: no character of its name can reach the file system."""
    return digest(space.encode())


def make_folder(path: Path, /) -> None:
    """Leave a folder at `path`, readable by its owner alone and durable; its parent is there."""
    if not is_folder(path):
        path.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        sync_folder(path.parent)


def create(path: Path, /) -> FileIO:
    """Open a new, empty file at `path` for reading and writing, readable by its owner alone."""
    return FileIO(path, "w+", opener=lambda name, flags: os.open(name, flags, _FILE_MODE))


def write_file(path: Path, data: bytes, /) -> None:
    """Leave a file with `data` at `path`, whole and for good, or what was there."""
    beside = path.with_name(f"{path.name}{NEW_SUFFIX}")
    with create(beside) as file:
        write_all(file, data)
        sync(file)
    move(beside, path)
