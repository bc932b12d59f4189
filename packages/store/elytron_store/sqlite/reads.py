"""Reads of the read connections: each function is one hop and sees one state."""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, JournalEntry
from elytron_store.engine import DocumentPage
from elytron_store.sqlite import schema
from elytron_store.sqlite.driver import Raw, read_snapshot
from elytron_store.sqlite.schema import Row

_DOCUMENT = 'SELECT collection, key, revision, body, "check" FROM documents WHERE space = ? AND '
# Of a body only the length is looked at before it is known to be small.
_SMALL = _DOCUMENT.replace("body", "CASE WHEN length(body) <= ? THEN body END")
_ONE = _DOCUMENT + "collection = ? AND key = ?"
_UP = "collection = ? AND key >= ? AND key < ? AND key > ? ORDER BY key LIMIT ?"
_DOWN = "collection = ? AND key >= ? AND key < ? AND key < ? ORDER BY key DESC LIMIT ?"
_EXACT = 16
"""Up to this many documents have a statement for each number of them."""
_BEHIND_ALL = "\U0010ffff"
_COUNT = "SELECT count(*) FROM documents WHERE space = ? AND collection = ?"
_JOURNAL = (
    'SELECT sequence, at, action, collection, key, digest, covers, "check" FROM journal '
    "WHERE space = ? AND sequence > ? ORDER BY sequence LIMIT ?"
)
_HEAD = "SELECT sequence FROM heads WHERE space = ?"
_SPACES = "SELECT space FROM heads WHERE space > ? ORDER BY space LIMIT ?"


def get_documents(raw: Raw, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
    """Return the documents at `refs`, in their order."""
    if len(refs) == 1:
        row = raw.execute(_ONE, (space, *refs[0])).fetchone()
        return [None if row is None else schema.row_document(space, row)]
    return _place_documents(space, refs, _find_rows(raw, _DOCUMENT, (space,), refs))


def get_small(raw: Raw, space: SpaceId, refs: Sequence[DocumentRef], most: int, /) -> Sequence[Document | None] | None:
    """Return the same if no body has more than `most` bytes; else None, and the long one is not read."""
    found = _find_rows(raw, _SMALL, (most, space), refs)
    return _place_documents(space, refs, found) if _is_whole(found) else None


def _find_rows(raw: Raw, select: str, within: tuple[str | int, ...], refs: Sequence[DocumentRef]) -> Sequence[Any]:
    wanted = list(dict.fromkeys(refs))
    if not wanted:
        return []
    size = len(wanted)
    if size > _EXACT:
        # Padded to a power of two, so that few statements serve all lengths and stay prepared.
        size = 1 << (size - 1).bit_length()
        wanted += [wanted[-1]] * (size - len(wanted))
    return raw.execute(_several_refs(select, size), (*within, *chain.from_iterable(wanted))).fetchall()


@cache
def _several_refs(select: str, size: int) -> str:
    places = ",".join(["(?,?)"] * size)
    return f"{select}(collection, key) IN (VALUES {places})"


def _place_documents(space: SpaceId, refs: Sequence[DocumentRef], found: Sequence[Row]) -> Sequence[Document | None]:
    documents = {kept.ref: kept for kept in (schema.row_document(space, row) for row in found)}
    return [documents.get(ref) for ref in refs]


def scan_documents(raw: Raw, space: SpaceId, page: DocumentPage, /) -> Sequence[Document]:
    """Return a page of documents, as `Store.scan` does."""
    return [schema.row_document(space, row) for row in _scan_rows(raw, _DOCUMENT, (space,), page)]


def scan_small(raw: Raw, space: SpaceId, page: DocumentPage, most: int, /) -> Sequence[Document] | None:
    """Return the same if no body has more than `most` bytes; else None, and the long one is not read."""
    found = _scan_rows(raw, _SMALL, (most, space), page)
    return [schema.row_document(space, row) for row in found] if _is_whole(found) else None


def _is_whole(found: Sequence[Any]) -> bool:
    """Return whether every body was read."""
    return all(body is not None for _, _, _, body, _ in found)


def _scan_rows(raw: Raw, select: str, within: tuple[str | int, ...], page: DocumentPage) -> Sequence[Any]:
    # Keys are ASCII, so other texts are behind them all; a lone surrogate could not even be queried.
    prefix = page.prefix if page.prefix.isascii() else _BEHIND_ALL
    after = page.after if page.after.isascii() else _BEHIND_ALL
    order, start = (_DOWN, after or _BEHIND_ALL) if page.descending else (_UP, after)
    asked = (page.collection, prefix, prefix + _BEHIND_ALL, start, page.limit)
    return raw.execute(select + order, (*within, *asked)).fetchall()


def count_documents(raw: Raw, space: SpaceId, collection: str, /) -> int:
    """Return the number of documents in a collection; the keys alone are walked."""
    (number,) = raw.execute(_COUNT, (space, collection)).fetchone()
    return number


def journal_page(raw: Raw, space: SpaceId, after: int, limit: int, /) -> Sequence[JournalEntry]:
    """Return a page of the journal, as `Store.journal` does."""
    found = raw.execute(_JOURNAL, (space, after, limit)).fetchall()
    entries = schema.journal_row_entries(space, found, after=after)
    if len(found) < limit:
        _require_end(raw, space, entries[-1].sequence if entries else after)
    return entries


def _require_end(raw: Raw, space: SpaceId, end: int) -> None:
    """Raise StoreCorrupt where the journal goes on behind `end`, says its head, and nothing of that is found."""
    if not _is_cut(raw, space, end):
        return
    # Another process may have written, or erased the space, between two reads: only one state of both is valid.
    with read_snapshot(raw):
        if _is_cut(raw, space, end) and not raw.execute(_JOURNAL, (space, end, 1)).fetchall():
            raise StoreCorrupt(what=f"journal entry {end + 1}")


def _is_cut(raw: Raw, space: SpaceId, end: int) -> bool:
    head = raw.execute(_HEAD, (space,)).fetchone()
    if head is not None and not isinstance(head[0], int):
        raise StoreCorrupt(what="the head of the journal")
    return head is not None and head[0] > end


def spaces_page(raw: Raw, after: str, limit: int, /) -> Sequence[SpaceId]:
    """Return a page of the spaces, in the order of their names' UTF-8."""
    found = [space for (space,) in raw.execute(_SPACES, (after, limit)).fetchall()]
    if not all(isinstance(space, str) for space in found):
        raise StoreCorrupt(what="the list of spaces")
    return found
