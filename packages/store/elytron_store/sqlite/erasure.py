"""Erasure: rows are removed, then every page that ever held them is rewritten, then the journal file is cut."""

from collections.abc import Sequence

from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, ErasureReceipt, ErasureTarget, JournalAction
from elytron_store import limits as store_limits
from elytron_store.engine import ERASURE_REF
from elytron_store.sqlite import blobs, schema
from elytron_store.sqlite.driver import FileAccess, HeldByOthers, Raw, retry_while_held, write_transaction
from elytron_store.sqlite.schema import OF_SPACE, PAD, JournalAppending, create_table, page_bytes

_NAMED = (
    "SELECT sequence, at, action, collection, key, covers FROM journal "
    "WHERE space = ? AND digest <> '' AND (collection, key) IN (VALUES {})"
)
_REFS_AT_ONCE = 5_000
_SCRUB = "UPDATE journal SET digest = '', \"check\" = ? WHERE space = ? AND sequence = ?"


def erase_rows(raw: Raw, access: FileAccess, erasure: ErasureTarget, /) -> ErasureReceipt:
    """Remove what `erasure` names in one transaction; `purge_file` then takes its remains.

    Raises StoreCorrupt where the space's head cannot be read.
    """
    with write_transaction(raw, access):
        return _erase_space(raw, erasure.space) if erasure.whole_space else _erase_named(raw, erasure)


def purge_file(raw: Raw, access: FileAccess, erasure: ErasureTarget, /) -> None:
    """Leave no byte in the file that no row holds. Raises StoreBusy while a reader holds an older state.

    `secure_delete` alone does not: when SQLite rebuilds a page to balance a tree, copies of its rows stay behind in
    the page's free room, and outlive the rows. So the tables are rewritten and their old pages overwritten: in
    memory if the file has up to `VACUUM_BYTES`, else in the file. Of the latter's tables those with blobs are left out
    unless a whole space goes: their bytes are on separate pages, which are overwritten as they are freed.
    """
    # Even a look at the page count needs a lock, which a commit of others holds if there is no WAL.
    pages: int = retry_while_held(lambda: raw.execute("PRAGMA page_count").fetchone()[0], wait_s=access.busy_wait_s)
    if pages * page_bytes(raw) <= store_limits.VACUUM_BYTES:
        retry_while_held(lambda: raw.execute("VACUUM"), wait_s=access.busy_wait_s)
    else:
        kept: set[str] = set() if erasure.whole_space else {"chunks", "quarantine"}
        for name in (name for name in OF_SPACE if name not in kept):
            with write_transaction(raw, access):
                _rebuild_table(raw, name)
    truncate_wal(raw, wait_s=access.busy_wait_s)


def truncate_wal(raw: Raw, /, *, wait_s: float) -> None:
    """Move everything into the database file and empty the WAL. Raises StoreBusy when readers do not let go of it."""

    def checkpoint() -> None:
        if raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise HeldByOthers

    retry_while_held(checkpoint, wait_s=wait_s)


def _rebuild_table(raw: Raw, name: str) -> None:
    """Rewrite the table `name`, row by row, and free its old pages, which overwrites them."""
    raw.execute(create_table(name, name=f"fresh_{name}"))
    # A pad that was made for another order of the table may be too short for this one.
    columns = f'space, upload, part, "check", {PAD}, bytes' if name == "chunks" else "*"
    raw.execute(f"INSERT INTO fresh_{name} SELECT {columns} FROM {name}")  # noqa: S608 - our own names
    raw.execute(f"DROP TABLE {name}")
    raw.execute(f"ALTER TABLE fresh_{name} RENAME TO {name}")


def _erase_space(raw: Raw, space: str) -> ErasureReceipt:
    # An upload under way in another process is no blob yet, and goes with the rest.
    gone = {
        name: raw.execute(f"DELETE FROM {name} WHERE space = ?", (space,)).rowcount  # noqa: S608 - our own names
        for name in OF_SPACE
    }
    return ErasureReceipt(
        documents=gone["documents"], blobs=gone["blobs"], entries_scrubbed=gone["journal"], sequence=0
    )


def _erase_named(raw: Raw, erasure: ErasureTarget) -> ErasureReceipt:
    space = erasure.space
    refs = list(dict.fromkeys(erasure.refs))
    documents = scrubbed = 0
    for ref in refs:
        place = (space, *ref)
        gone = raw.execute("DELETE FROM documents WHERE space = ? AND collection = ? AND key = ?", place)
        documents += gone.rowcount
        raw.execute("DELETE FROM quarantine WHERE space = ? AND collection = ? AND key = ?", place)
    for start in range(0, len(refs), _REFS_AT_ONCE):
        scrubbed += _scrub_digests(raw, space, refs[start : start + _REFS_AT_ONCE])
    removed = sum(_erase_blob(raw, space, key) for key in dict.fromkeys(erasure.blobs))
    appending = JournalAppending(raw)
    entry = EntryDraft(action=JournalAction.ERASE, ref=ERASURE_REF)
    _, sequence = appending.append(Batch(space=space, at=erasure.at, entries=(entry,)))
    appending.finish()
    return ErasureReceipt(documents=documents, blobs=removed, entries_scrubbed=scrubbed, sequence=sequence)


def _scrub_digests(raw: Raw, space: str, refs: Sequence[DocumentRef]) -> int:
    """Take the digests out of the entries that name `refs`; return how many had one."""
    named = _NAMED.format(",".join(["(?,?)"] * len(refs)))
    found = raw.execute(named, (space, *(part for ref in refs for part in ref))).fetchall()
    raw.executemany(
        _SCRUB,
        [
            (schema.check_of(space, sequence, at, action, collection, key, "", covers), space, sequence)
            for sequence, at, action, collection, key, covers in found
        ],
    )
    return len(found)


def _erase_blob(raw: Raw, space: str, key: str) -> int:
    """Delete a blob with what is under way or set aside under its key; return how many blobs that were."""
    place = (space, key)
    removed = 0
    for table, where in (("blobs", "key = ?"), ("uploads", "key = ?"), ("quarantine", "collection = '' AND key = ?")):
        found = raw.execute(f"SELECT upload FROM {table} WHERE space = ? AND {where}", place).fetchall()  # noqa: S608 - ours
        for (upload,) in found:
            blobs.drop_chunks(raw, space, upload)
        raw.execute(f"DELETE FROM {table} WHERE space = ? AND {where}", place)  # noqa: S608 - ours
        removed += len(found) if table == "blobs" else 0
    return removed
