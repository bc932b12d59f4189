"""Reads, each one statement over one state; and checks, which read everything and quarantine what is damaged.

Damage is reported without content.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, JournalAction, JournalEntry
from elytron_core.ports.store_checks import CheckReport, CheckTally, DamageKind, StoreLoss, StoreProblem
from elytron_store.engine import DocumentPage, row_checksum, row_document
from elytron_store.losses import LossNote, pending_losses, quarantined_losses
from elytron_store.postgres import statements
from elytron_store.postgres.blobs import WINDOW_PARTS, read_window
from elytron_store.postgres.commits import entry_checksum
from elytron_store.postgres.connections import Connection, Row, text_array, wide_number
from elytron_store.postgres.statements import PartitionStatements

POSTGRES_CHECK_ROWS: Final = 1_000
"""Number of rows that a check reads at once."""


_BEHIND_ALL = "\U0010ffff"
_ACTIONS = {action.value: action for action in JournalAction}


async def find_documents(
    connection: Connection, partition: PartitionStatements, space: SpaceId, refs: Sequence[DocumentRef], /
) -> Sequence[Document | None]:
    """Return the documents at `refs`, in their order."""
    if not refs:
        return []
    if len(refs) == 1:
        cursor = await connection.execute(partition.of(statements.GET_ONE), (space, *refs[0]), binary=True)
    else:
        unique_refs = list(dict.fromkeys(refs))
        collections, keys = (
            text_array([ref.collection for ref in unique_refs]),
            text_array([ref.key for ref in unique_refs]),
        )
        cursor = await connection.execute(partition.of(statements.GET_SEVERAL), (collections, keys, space), binary=True)
    documents = {document.ref: document for document in [row_document(space, row) for row in await cursor.fetchall()]}
    return [documents.get(ref) for ref in refs]


async def scan_documents(
    connection: Connection, partition: PartitionStatements, space: SpaceId, page: DocumentPage, /
) -> Sequence[Document]:
    """Return a page of documents, as `Store.scan` does."""
    # Keys are ASCII, so other texts sort after them all; a NUL or a lone surrogate could not even be queried.
    prefix = page.prefix if _is_plain(page.prefix) else _BEHIND_ALL
    after_key = page.after if _is_plain(page.after) else _BEHIND_ALL
    scan, start_key = (
        (statements.SCAN_DOWN, after_key or _BEHIND_ALL) if page.descending else (statements.SCAN_UP, after_key)
    )
    parameters = (space, page.collection, prefix, prefix + _BEHIND_ALL, start_key, wide_number(page.limit))
    cursor = await connection.execute(partition.of(scan), parameters, binary=True)
    return [row_document(space, row) for row in await cursor.fetchall()]


async def count_documents(
    connection: Connection, partition: PartitionStatements, space: SpaceId, collection: str, /
) -> int:
    """Return the number of documents in a collection."""
    cursor = await connection.execute(partition.of(statements.COUNT), (space, collection))
    row = await cursor.fetchone()
    return int(row[0]) if row is not None else 0


def _is_plain(text: str) -> bool:
    return text.isascii() and "\0" not in text


async def read_journal(
    connection: Connection, partition: PartitionStatements, space: SpaceId, after: int, limit: int, /
) -> Sequence[JournalEntry]:
    """Return a page of the journal, as `Store.journal` does."""
    cursor = await connection.execute(
        partition.of(statements.JOURNAL_PAGE), (space, wide_number(after), wide_number(limit)), binary=True
    )
    rows = await cursor.fetchall()
    if len(rows) < limit:
        await _require_last_entry(connection, partition, space, rows[-1][0] if rows else after)
    return row_entries(space, rows, after=after) if rows else []


async def _require_last_entry(connection: Connection, partition: PartitionStatements, space: SpaceId, end: int) -> None:
    """Raise StoreCorrupt if the head says that the journal continues after `end`, but nothing is found there."""
    cursor = await connection.execute(
        partition.of(statements.JOURNAL_IS_CUT), (space, wide_number(end), wide_number(end)), binary=True
    )
    if await cursor.fetchone() is not None:
        raise StoreCorrupt(what=f"journal entry {end + 1}")


def row_entries(space: str, rows: Sequence[Row], /, *, after: int) -> Sequence[JournalEntry]:
    """Return the journal entries in `rows`. Raises StoreCorrupt for an altered one and for a gap after `after`."""
    entries: list[JournalEntry] = []
    for row in rows:
        entry = row_entry(row)
        # The first may cover a run that contains `after`.
        is_successor = entry.first == after + 1 if entries else entry.first <= after + 1 <= entry.sequence
        if entry_checksum(space, entry) != row[-1] or not is_successor:
            raise StoreCorrupt(what=f"journal entry {after + 1}")
        entries.append(entry)
        after = entry.sequence
    return entries


def row_entry(row: Row, /) -> JournalEntry:
    """Return the journal entry in a row, whose checksum the caller compares. Raises StoreCorrupt."""
    sequence, at, action, collection, key, digest, covers, _ = row
    journal_action = _ACTIONS.get(action)
    try:
        text = digest.decode()
    except UnicodeDecodeError:
        journal_action, text = None, ""
    if journal_action is None:
        raise StoreCorrupt(what=f"journal entry {sequence}")
    return JournalEntry(sequence, Instant(at), journal_action, DocumentRef(collection, key), text, covers)


class DamagedRow(NamedTuple):
    """A problem, and the location of the damaged row if it can be quarantined."""

    problem: StoreProblem
    own: PartitionStatements
    place: tuple[str, str, str] | None = None


@dataclass(slots=True)
class _StoreTally(CheckTally):
    """Findings of a pass."""

    damage: list[DamagedRow] = field(default_factory=list[DamagedRow])


async def check_partitions(connection: Connection, partitions: Sequence[PartitionStatements], /) -> CheckReport:
    """Read everything in one consistent state and report damage; change nothing."""
    async with connection.transaction():
        await connection.execute(statements.ONE_STATE)
        tally = await _read_partitions(connection, partitions)
    return tally.report([row.problem for row in tally.damage])


async def repair_partitions(
    connection: Connection, partitions: Sequence[PartitionStatements], at: Instant, /
) -> CheckReport:
    """Quarantine damaged documents and blobs in one transaction; report all damage."""
    async with connection.transaction():
        await connection.execute(statements.ONE_STATE_TO_WRITE)
        tally = await _read_partitions(connection, partitions)
        problems = [await _quarantine_row(connection, row, at) for row in tally.damage]
        losses = quarantined_losses(problems, at)
        owners = {row.problem.space: row.own for row in tally.damage}
        for loss in losses:
            loss_note = await _read_note(connection, owners[loss.space], loss.space or "")
            await _write_note(connection, owners[loss.space], loss_note.grown(loss, missing=loss.documents))
    return tally.report(problems, losses=losses)


async def read_losses(
    connection: Connection, schema: str, partition: PartitionStatements | None, space: SpaceId | None, /
) -> Sequence[StoreLoss]:
    """Return the unacknowledged losses, or only that of `space`, whose partition is `partition`."""
    if partition is None:
        cursor = await connection.execute(statements.find_losses(schema), binary=True)
    else:
        cursor = await connection.execute(partition.of(statements.FIND_LOSS), (space,), binary=True)
    return pending_losses(body for (body,) in await cursor.fetchall())


async def acknowledge_loss(connection: Connection, /, *, own: PartitionStatements, space: SpaceId, at: Instant) -> int:
    """Remove the loss of `space` up to `at`; return whether there was one, as a number."""
    async with connection.transaction():
        loss_note = await _read_note(connection, own, space)
        if loss_note.loss is None or loss_note.loss.at > at:
            return 0
        await _write_note(connection, own, loss_note.acknowledged())
    return 1


async def _read_note(connection: Connection, partition: PartitionStatements, space: str) -> LossNote:
    row = await (await connection.execute(partition.of(statements.FIND_LOSS), (space,), binary=True)).fetchone()
    return LossNote.read(None if row is None else row[0])


async def _write_note(connection: Connection, partition: PartitionStatements, note: LossNote) -> None:
    space = note.space or ""
    if note.loss is None and not note.missing:
        await connection.execute(partition.of(statements.FORGET_LOSS), (space,))
    else:
        await connection.execute(partition.of(statements.RECORD_LOSS), (space, wide_number(note.at), note.to_bytes()))


async def _read_partitions(connection: Connection, partitions: Sequence[PartitionStatements]) -> _StoreTally:
    tally = _StoreTally()
    for partition in partitions:
        for walk_part in (_walk_documents, _walk_journal, _walk_blobs):
            async for damage in walk_part(connection, partition, tally):
                tally.damage.append(damage)
    return tally


async def _walk_rows(
    connection: Connection, statement: bytes, last_key: tuple[object, ...], width: int
) -> AsyncIterator[Row]:
    """Yield the rows after `last_key`, ordered by their first `width` columns."""
    max_rows = POSTGRES_CHECK_ROWS
    while True:
        rows = await (await connection.execute(statement, (*last_key, wide_number(max_rows)), binary=True)).fetchall()
        for row in rows:
            yield row
        if len(rows) < max_rows:
            return
        last_key = tuple(wide_number(value) if isinstance(value, int) else value for value in rows[-1][:width])


async def _walk_documents(
    connection: Connection, partition: PartitionStatements, tally: _StoreTally
) -> AsyncIterator[DamagedRow]:
    document_rows = _walk_rows(connection, partition.of(statements.CHECK_DOCUMENTS), ("", "", ""), 3)
    async for space, collection, key, revision, body, checksum in document_rows:
        tally.documents += 1
        if row_checksum(space, collection, key, revision, body=body) != checksum:
            problem = StoreProblem(DamageKind.DOCUMENT, SpaceId(space), f"document {collection}/{key}")
            yield DamagedRow(problem, partition, (space, collection, key))


async def _walk_journal(
    connection: Connection, partition: PartitionStatements, tally: _StoreTally
) -> AsyncIterator[DamagedRow]:
    last_sequences: dict[str, int] = {}

    def damage(kind: DamageKind, space: str, what: str) -> DamagedRow:
        return DamagedRow(StoreProblem(kind, SpaceId(space), what), partition)

    async for space, *row in _walk_rows(connection, partition.of(statements.CHECK_JOURNAL), ("", wide_number(0)), 2):
        tally.entries += 1
        sequence, covers = row[0], row[6]
        last_sequence = last_sequences.get(space, 0)
        if sequence - covers != last_sequence:
            yield damage(DamageKind.JOURNAL_GAP, space, f"journal entries {last_sequence + 1} to {sequence - covers}")
        if not _is_whole_entry(space, tuple(row)):
            yield damage(DamageKind.JOURNAL_ENTRY, space, f"journal entry {sequence}")
        last_sequences[space] = sequence
    async for space, head_sequence in _walk_rows(connection, partition.of(statements.CHECK_HEADS), ("",), 1):
        tally.spaces += 1
        last_sequence = last_sequences.pop(space, 0)
        if head_sequence != last_sequence:
            yield damage(DamageKind.JOURNAL_GAP, space, f"the head of the journal, which ends at {last_sequence}")
    for space in last_sequences:
        yield damage(DamageKind.JOURNAL_GAP, space, "the head of the journal, which is missing")


def _is_whole_entry(space: str, row: Row) -> bool:
    try:
        return entry_checksum(space, row_entry(row)) == row[-1]
    except StoreCorrupt:
        return False


async def _walk_blobs(
    connection: Connection, partition: PartitionStatements, tally: _StoreTally
) -> AsyncIterator[DamagedRow]:
    async for space, key, _, part_count, _, _ in _walk_rows(
        connection, partition.of(statements.CHECK_BLOBS), ("", ""), 2
    ):
        tally.blobs += 1
        try:
            for first_part in range(0, max(part_count, 1), WINDOW_PARTS):
                await read_window(connection, own=partition, space=space, key=key, first=first_part)
        except StoreCorrupt:
            yield DamagedRow(StoreProblem(DamageKind.BLOB, SpaceId(space), f"blob {key}"), partition, (space, "", key))


async def _quarantine_row(connection: Connection, row: DamagedRow, quarantined_at: Instant) -> StoreProblem:
    """Quarantine `row` if possible; return the problem with the action taken."""
    problem, partition = row.problem, row.own
    if row.place is None:
        return problem
    space, collection, key = row.place
    if problem.damage is DamageKind.BLOB:
        # The parts stay; without the row no reader finds them.
        statement, row_key = statements.SET_BLOB_ASIDE, (space, key)
    else:
        statement, row_key = statements.SET_ASIDE, (space, collection, key)
    move_cursor = await connection.execute(
        partition.of(statement), (*row_key, wide_number(quarantined_at), problem.damage.value)
    )
    return StoreProblem(problem.damage, problem.space, problem.what, quarantined=bool(move_cursor.rowcount))
