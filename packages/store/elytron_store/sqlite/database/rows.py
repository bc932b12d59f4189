"""The checksums that stand in each row. Each covers the row's place too, so that a moved row is found out."""

from collections.abc import Sequence

from elytron_core.canonical import checksum
from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt
from elytron_core.ports.store import Action, Document, JournalEntry, Ref

Row = tuple[str, str, int, bytes, bytes]
"""A document as it is selected: collection, key, revision, body, checksum."""

# Names hold no control characters, so a line break between them keeps them apart.
_ACTIONS = {action.value: action for action in Action}


def check_of(*place: str | int, body: bytes = b"") -> bytes:
    """Return the checksum of a row that stands at `place` and holds `body`."""
    return checksum("\n".join(map(str, place)).encode(), body)


def document(space: str, row: Row, /) -> Document:
    """Return the document in a row. Raises StoreCorrupt where its checksum does not fit."""
    collection, key, revision, body, check = row
    if check_of(space, collection, key, revision, body=body) != check:
        raise StoreCorrupt(what=f"document {collection}/{key}")
    return Document(Ref(collection, key), revision, body)


def entries(
    space: str, rows: Sequence[tuple[int, int, str, str, str, str, bytes]], /, *, after: int
) -> Sequence[JournalEntry]:
    """Return the journal entries in `rows`. Raises StoreCorrupt for an altered one and for a gap behind `after`."""
    found: list[JournalEntry] = []
    for expected, (sequence, at, action, collection, key, digest, check) in enumerate(rows, after + 1):
        if sequence != expected or check_of(space, sequence, at, action, collection, key, digest) != check:
            raise StoreCorrupt(what=f"journal entry {expected}")
        found.append(JournalEntry(sequence, Instant(at), _ACTIONS[action], Ref(collection, key), digest))
    return found
