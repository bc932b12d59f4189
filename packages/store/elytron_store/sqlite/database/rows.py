"""The checksums in each row. Each covers the row's place too, so that a moved row is detected."""

from collections.abc import Sequence
from typing import Any

from elytron_core.canonical import checksum
from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt
from elytron_core.ports.store import Action, Document, JournalEntry, Ref

Row = tuple[str, str, int, bytes, bytes]
"""A document as it is selected: collection, key, revision, body, checksum."""

# Names hold no control characters, so a line break between them keeps them apart.
_ACTIONS = {action.value: action for action in Action}
_WORDS = {action: action.value for action in Action}
EntryRow = tuple[str, int, int, str, str, str, str, int, bytes]
"""A journal entry as it is inserted."""


def check_of(*place: str | int, body: bytes = b"") -> bytes:
    """Return the checksum of a row at `place` with `body`."""
    return checksum("\n".join(map(str, place)).encode(), body)


def document(space: str, row: Row, /) -> Document:
    """Return the document in a row. Raises StoreCorrupt where its checksum does not fit."""
    collection, key, revision, body, check = row
    if check_of(space, collection, key, revision, body=body) != check:
        raise StoreCorrupt(what=f"document {collection}/{key}")
    return Document(Ref(collection, key), revision, body)


def entry_row(space: str, entry: JournalEntry, /) -> EntryRow:
    """Return the row of a journal entry."""
    sequence, at, action, (collection, key) = entry.sequence, entry.at, _WORDS[entry.action], entry.ref
    check = check_of(space, sequence, at, action, collection, key, entry.digest, entry.covers)
    return space, sequence, at, action, collection, key, entry.digest, entry.covers, check


def entries(space: str, rows: Sequence[Any], /, *, after: int) -> Sequence[JournalEntry]:
    """Return the journal entries in `rows`. Raises StoreCorrupt for an altered one and for a gap behind `after`."""
    found: list[JournalEntry] = []
    for sequence, at, action, collection, key, digest, covers, check in rows:
        is_whole = check_of(space, sequence, at, action, collection, key, digest, covers) == check
        # The first may cover a run that contains `after`.
        is_next = sequence - covers == after if found else sequence - covers <= after < sequence
        if not is_whole or not is_next:
            raise StoreCorrupt(what=f"journal entry {after + 1}")
        found.append(JournalEntry(sequence, Instant(at), _ACTIONS[action], Ref(collection, key), digest, covers))
        after = sequence
    return found
