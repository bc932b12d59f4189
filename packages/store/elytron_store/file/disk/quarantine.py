"""Damaged pieces that `repair` moved aside: kept for manual recovery, never served.

quarantine/<space folder>/document.<collection>.<key>.<revision>
quarantine/<space folder>/log.<offset>.<salt>          a stretch of a log in which no frame was recognised
quarantine/<space folder>/blob.<key>
"""

import shutil
from collections.abc import Collection
from pathlib import Path

from elytron_core.ports.store import Ref
from elytron_store.file.disk import places
from elytron_store.file.disk.places import Places
from elytron_store.file.disk.sync import move, sync_folder
from elytron_store.path_probe import is_folder

_STRETCH = "log."


def keep(where: Places, name: str, label: str, data: bytes, /) -> None:
    """Leave `data` aside under `label`. Raises OSError."""
    places.write_file(folder_of(where, name) / label, data)


def keep_file(where: Places, name: str, label: str, path: Path, /) -> None:
    """Move the file at `path` aside under `label`. Raises OSError."""
    move(path, folder_of(where, name) / label)


def document_label(ref: Ref, revision: int, /) -> str:
    return f"document.{ref.collection}.{ref.key}.{revision}"


def stretch_label(offset: int, salt: bytes, /) -> str:
    return f"{_STRETCH}{offset}.{salt.hex()}"


def blob_label(key: str, /) -> str:
    return f"blob.{key}"


def forget(where: Places, name: str, /, *, refs: Collection[Ref], blobs: Collection[str]) -> None:
    """Remove what an erasure names, and every stretch that could hold some of it. Raises OSError."""
    folder = where.quarantine / name
    if not is_folder(folder):
        return
    for path in folder.iterdir():
        if is_named(path.name, refs=refs, blobs=blobs):
            path.unlink(missing_ok=True)
    sync_folder(folder)


def is_named(label: str, /, *, refs: Collection[Ref], blobs: Collection[str]) -> bool:
    """Return whether an erasure of `refs` and `blobs` concerns the piece under `label`; each stretch may have some."""
    # A document's label ends in its revision; keys may hold dots, so the rest must be that number alone.
    stem = label.rpartition(".")[0]
    is_document = any(stem == f"document.{ref.collection}.{ref.key}" for ref in refs)
    return is_document or label.startswith(_STRETCH) or any(label == blob_label(key) for key in blobs)


def clear(where: Places, name: str, /) -> None:
    """Remove everything of a space. Raises OSError."""
    folder = where.quarantine / name
    if is_folder(folder):
        shutil.rmtree(folder)
        sync_folder(where.quarantine)


def folder_of(where: Places, name: str, /) -> Path:
    """Return the folder for the damaged pieces of a space, which is there afterwards. Raises OSError."""
    places.make_folder(where.quarantine)
    folder = where.quarantine / name
    places.make_folder(folder)
    return folder
