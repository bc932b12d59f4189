"""What a file store knows of its spaces beside their logs: which have begun, and what repairs could not save.

    record = checksum ∙ name of the space      records/<sha-256 of the space>
    loss   = a note as JSON                    losses/<sha-256 of the space>

A record is written behind the first log of a space and before its first commit is acknowledged, and removed before the
folder of an erased space: so a recorded space without a log was damaged, and one that died while it began was not.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from elytron_core.clock import Instant
from elytron_core.errors import PermissionRefused, StoreBusy, StoreCorrupt, StoreFull
from elytron_core.ids import SpaceId
from elytron_core.ports.store_checks import StoreLoss
from elytron_core.strict_json import frame_checksum
from elytron_store.file import disk
from elytron_store.file.disk import (
    FULL,
    NEW_SUFFIX,
    StorePaths,
    folder_name,
    locked_file,
    while_reading,
    while_writing,
    write_all,
)
from elytron_store.file.frame import CHECKSUM_BYTES
from elytron_store.file.log import GenerationLog
from elytron_store.losses import LossNote, pending_losses
from elytron_store.manifest import is_folder, is_there
from elytron_store.private_files import sync_path


def record_space(paths: StorePaths, space: SpaceId, /) -> None:
    """Write the record of `space`, which has a log, durably. Raises OSError."""
    path = paths.record_of(folder_name(space))
    if not is_there(path):
        disk.make_folder(paths.records)
        _write_record(path, space)
        sync_path(paths.records)


def record_earlier(paths: StorePaths, /, *, busy_wait_s: float) -> None:
    """Record the spaces of earlier builds, or of a process that died while creating one.

    What cannot be recorded now is left to a later opening. Raises OSError.
    """
    recorded_names = set(_file_names(paths.records))
    names = [name for name in _file_names(paths.spaces) if name not in recorded_names]
    try:
        for name in names:
            # An erasure removes the record before the log; under the lock, none is written between the two.
            with suppress(StoreBusy, StoreCorrupt), locked_file(paths.lock_of(name), wait_s=busy_wait_s):
                log = GenerationLog.open(paths.log_of(name))
                if log is not None:
                    log.close()
                    disk.make_folder(paths.records)
                    _write_record(paths.record_of(name), log.header.space)
        if names and is_folder(paths.records):
            sync_path(paths.records)
    except (StoreFull, PermissionRefused):
        return
    except OSError as error:
        if error.errno not in FULL:
            raise


def space_names(paths: StorePaths, /) -> list[str]:
    """Return the names of all spaces that have a folder or a record, in order. Raises OSError."""
    return sorted({*_file_names(paths.spaces), *_file_names(paths.records)})


def is_recorded(paths: StorePaths, name: str, /) -> bool:
    """Return whether the space with this folder name has a record."""
    return is_there(paths.record_of(name))


def recorded_space(paths: StorePaths, name: str, /) -> SpaceId | None:
    """Return the name in a record, None if there is no record or it is empty. Raises StoreCorrupt."""
    data = _read_file(paths.record_of(name))
    if not data:
        return None
    text = data[CHECKSUM_BYTES:]
    if data[:CHECKSUM_BYTES] != frame_checksum(text):
        raise StoreCorrupt(what="the record of a space")
    return SpaceId(text.decode())


def forget_space(paths: StorePaths, name: str, /) -> None:
    """Remove the record of a space and of its losses, durably. Raises OSError."""
    drop_record(paths, name)
    _remove_file(paths.loss_of(name))


def drop_record(paths: StorePaths, name: str, /) -> None:
    """Remove the record of a space, durably. Raises OSError."""
    _remove_file(paths.record_of(name))


def read_note(paths: StorePaths, name: str, /) -> LossNote:
    """Return the note of the losses of the space with this folder name."""
    return LossNote.read(_read_file(paths.loss_of(name)))


def record_loss(paths: StorePaths, name: str, loss: StoreLoss, /, *, missing: int) -> None:
    """Add `loss` to the note of its space; the journal still names `missing` of its documents. Raises OSError."""
    disk.make_folder(paths.losses)
    disk.write_file(paths.loss_of(name), read_note(paths, name).grown(loss, missing=missing).to_bytes())


def read_losses(paths: StorePaths, space: SpaceId | None, /) -> Sequence[StoreLoss]:
    """Return the unacknowledged losses, or only that of `space`."""
    with while_reading("the record of losses"):
        names = _file_names(paths.losses) if space is None else [folder_name(space)]
        return pending_losses(data for name in names if (data := _read_file(paths.loss_of(name))) is not None)


def acknowledge_losses(paths: StorePaths, space: SpaceId | None, /, *, at: Instant, busy_wait_s: float) -> int:
    """Remove the losses up to `at` of `space`, or all; return their number. Raises StoreBusy, StoreFull."""
    count = 0
    with while_writing("acknowledging losses"):
        for name in _file_names(paths.losses) if space is None else [folder_name(space)]:
            with locked_file(paths.lock_of(name), wait_s=busy_wait_s):
                loss_note = read_note(paths, name)
                if loss_note.loss is None or loss_note.loss.at > at:
                    continue
                count += 1
                if loss_note.missing:
                    disk.write_file(paths.loss_of(name), loss_note.acknowledged().to_bytes())
                else:
                    _remove_file(paths.loss_of(name))
    return count


def _write_record(path: Path, space: SpaceId) -> None:
    # Its bytes are not synced, because a second sync would double the time of a space's first commit: a record emptied
    # by a power cut has lost the space's name, but still says that the space exists.
    name = space.encode()
    with disk.create_file(path) as file:
        write_all(file, frame_checksum(name) + name)


def _remove_file(path: Path) -> None:
    if is_there(path):
        path.unlink()
        sync_path(path.parent)


def _file_names(folder: Path) -> list[str]:
    if not is_folder(folder):
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(NEW_SUFFIX))


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
