"""Content that a repair quarantined, and the record of what it could not save: rows of the table `quarantine`.

Pieces of a space are numbered from 1. Number 0 is the record of its losses, so it is erased with the space, copied with
the file, and needs no table that earlier builds do not know. Losses of unknown spaces are recorded under the empty
name, which no space has.
"""

from collections.abc import Sequence

from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store_checks import DamageKind, StoreLoss, StoreProblem
from elytron_store.engine import LOST_REF
from elytron_store.losses import LossNote, pending_losses
from elytron_store.sqlite.driver import FileAccess, Raw, write_transaction
from elytron_store.sqlite.schema import PAD

_PIECE = "(SELECT coalesce(max(number), 0) + 1 FROM quarantine WHERE space = ?)"
_KEEP = f"INSERT INTO quarantine VALUES (?, {_PIECE}, ?, ?, ?, ?, ?, ?, {PAD}, ?)"  # noqa: S608 - ours
_LOSS = "loss"
_READ_ALL = "SELECT body FROM quarantine WHERE number = 0 ORDER BY space"
_READ_ONE = "SELECT body FROM quarantine WHERE space = ? AND number = 0"
_RECORD = "INSERT OR REPLACE INTO quarantine VALUES (?, 0, ?, ?, ?, ?, 0, 0, x'', ?)"
_FORGET = "DELETE FROM quarantine WHERE space = ? AND number = 0"


def set_aside(raw: Raw, problem: StoreProblem, place: tuple[str, str, str], at: Instant, /) -> StoreProblem:
    """Quarantine the damaged row of `problem` at `place`; return the problem with the action taken."""
    space, collection, key = place
    if problem.damage is DamageKind.BLOB:
        # The chunks stay; without the row no reader finds them.
        row = raw.execute("SELECT upload FROM blobs WHERE space = ? AND key = ?", (space, key)).fetchone()
        content = None if row is None else (0, row[0], b"")
        table, condition, names = "blobs", "space = ? AND key = ?", (space, key)
    else:
        condition, names = "space = ? AND collection = ? AND key = ?", place
        row = raw.execute(f"SELECT revision, body FROM documents WHERE {condition}", names).fetchone()  # noqa: S608 - ours
        content = None if row is None else (row[0], 0, row[1])
        table = "documents"
    if content is None:
        return problem  # reached by walking the table, not by its key: the tree itself is damaged
    raw.execute(_KEEP, (space, space, at, problem.damage.value, collection, key, *content))
    raw.execute(f"DELETE FROM {table} WHERE {condition}", names)  # noqa: S608 - our own names
    return StoreProblem(problem.damage, problem.space, problem.what, quarantined=True)


def read_note(raw: Raw, space: SpaceId | str, /) -> LossNote:
    """Return the record of the losses of `space`."""
    row = raw.execute(_READ_ONE, (space,)).fetchone()
    return LossNote.read(None if row is None else row[0])


def record_loss(raw: Raw, loss: StoreLoss, /, *, missing: int) -> None:
    """Add `loss` to the record, in the caller's transaction; the journal still names `missing` of its documents."""
    _write_note(raw, loss.space or "", read_note(raw, loss.space or "").grown(loss, missing=missing))


def read_losses(raw: Raw, space: SpaceId | None, /) -> Sequence[StoreLoss]:
    """Return the unacknowledged losses, or only that of `space`."""
    rows = raw.execute(_READ_ALL) if space is None else raw.execute(_READ_ONE, (space,))
    return pending_losses(body for (body,) in rows.fetchall())


def acknowledge_losses(raw: Raw, access: FileAccess, space: SpaceId | None, at: Instant, /) -> int:
    """Remove the losses up to `at` of `space`, or all; return their number."""
    with write_transaction(raw, access):
        pending_losses = [loss for loss in read_losses(raw, space) if loss.at <= at]
        for loss in pending_losses:
            _write_note(raw, loss.space or "", read_note(raw, loss.space or "").acknowledged())
    return len(pending_losses)


def _write_note(raw: Raw, space: str, note: LossNote) -> None:
    if note.loss is None and not note.missing:
        raw.execute(_FORGET, (space,))
    else:
        raw.execute(_RECORD, (space, note.at, _LOSS, *LOST_REF, note.to_bytes()))
