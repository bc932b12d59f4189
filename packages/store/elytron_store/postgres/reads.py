"""Reads: each is one statement, and sees one state."""

from collections.abc import Sequence

from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, JournalAction, JournalEntry
from elytron_store.engine import DocumentPage
from elytron_store.postgres import statements
from elytron_store.postgres.connections import Connection, Row, text_array, wide_number
from elytron_store.postgres.plan import entry_checksum, row_checksum
from elytron_store.postgres.statements import PartitionStatements

_BEHIND_ALL = "\U0010ffff"
_ACTIONS = {action.value: action for action in JournalAction}


async def find_documents(
    connection: Connection, own: PartitionStatements, space: SpaceId, refs: Sequence[DocumentRef], /
) -> Sequence[Document | None]:
    """Return the documents at `refs`, in their order."""
    if not refs:
        return []
    if len(refs) == 1:
        found = await connection.execute(own.of(statements.GET_ONE), (space, *refs[0]), binary=True)
    else:
        wanted = list(dict.fromkeys(refs))
        collections, keys = text_array([ref.collection for ref in wanted]), text_array([ref.key for ref in wanted])
        found = await connection.execute(own.of(statements.GET_SEVERAL), (collections, keys, space), binary=True)
    documents = {kept.ref: kept for kept in [row_document(space, row) for row in await found.fetchall()]}
    return [documents.get(ref) for ref in refs]


async def scan_documents(
    connection: Connection, own: PartitionStatements, space: SpaceId, page: DocumentPage, /
) -> Sequence[Document]:
    """Return a page of documents, as `Store.scan` does."""
    # Keys are ASCII, so other texts are behind them all; a NUL or a lone surrogate could not even be queried.
    prefix = page.prefix if _is_plain(page.prefix) else _BEHIND_ALL
    after = page.after if _is_plain(page.after) else _BEHIND_ALL
    scan, start = (statements.SCAN_DOWN, after or _BEHIND_ALL) if page.descending else (statements.SCAN_UP, after)
    asked = (space, page.collection, prefix, prefix + _BEHIND_ALL, start, wide_number(page.limit))
    found = await connection.execute(own.of(scan), asked, binary=True)
    return [row_document(space, row) for row in await found.fetchall()]


async def count_documents(connection: Connection, own: PartitionStatements, space: SpaceId, collection: str, /) -> int:
    """Return the number of documents in a collection."""
    found = await connection.execute(own.of(statements.COUNT), (space, collection))
    row = await found.fetchone()
    return int(row[0]) if row is not None else 0


def _is_plain(text: str) -> bool:
    return text.isascii() and "\0" not in text


def row_document(space: str, row: Row, /) -> Document:
    """Return the document in a row. Raises StoreCorrupt where its checksum does not fit."""
    collection, key, revision, body, checksum = row
    if row_checksum(space, collection, key, revision, body=body) != checksum:
        raise StoreCorrupt(what=f"document {collection}/{key}")
    return Document(DocumentRef(collection, key), revision, body)


async def read_journal(
    connection: Connection, own: PartitionStatements, space: SpaceId, after: int, limit: int, /
) -> Sequence[JournalEntry]:
    """Return a page of the journal, as `Store.journal` does."""
    found = await connection.execute(
        own.of(statements.JOURNAL_PAGE), (space, wide_number(after), wide_number(limit)), binary=True
    )
    rows = await found.fetchall()
    if len(rows) < limit:
        await _require_last_entry(connection, own, space, rows[-1][0] if rows else after)
    return row_entries(space, rows, after=after) if rows else []


async def _require_last_entry(connection: Connection, own: PartitionStatements, space: SpaceId, end: int) -> None:
    """Raise StoreCorrupt where the journal goes on behind `end`, says its head, and nothing of that is found."""
    cut = await connection.execute(
        own.of(statements.JOURNAL_IS_CUT), (space, wide_number(end), wide_number(end)), binary=True
    )
    if await cut.fetchone() is not None:
        raise StoreCorrupt(what=f"journal entry {end + 1}")


def row_entries(space: str, rows: Sequence[Row], /, *, after: int) -> Sequence[JournalEntry]:
    """Return the journal entries in `rows`. Raises StoreCorrupt for an altered one and for a gap behind `after`."""
    entries: list[JournalEntry] = []
    for row in rows:
        entry = row_entry(row)
        # The first may cover a run that contains `after`.
        is_next = entry.first == after + 1 if entries else entry.first <= after + 1 <= entry.sequence
        if entry_checksum(space, entry) != row[-1] or not is_next:
            raise StoreCorrupt(what=f"journal entry {after + 1}")
        entries.append(entry)
        after = entry.sequence
    return entries


def row_entry(row: Row, /) -> JournalEntry:
    """Return the journal entry in a row, whose checksum is the caller's to compare. Raises StoreCorrupt."""
    sequence, at, action, collection, key, digest, covers, _ = row
    known = _ACTIONS.get(action)
    try:
        text = digest.decode()
    except UnicodeDecodeError:
        known, text = None, ""
    if known is None:
        raise StoreCorrupt(what=f"journal entry {sequence}")
    return JournalEntry(sequence, Instant(at), known, DocumentRef(collection, key), text, covers)
