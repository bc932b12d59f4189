"""Survey of an archive: every line is read once before anything of it is written."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple, TypeVar

from elytron.documents.planes import BROUGHT
from elytron.journal.fingerprints import StateFingerprint
from elytron.state.space_records import REF
from elytron.transfer.archive import DOCUMENTS, JOURNAL, ArchiveReader
from elytron.transfer.space_fill import batch_count
from elytron_core.errors import UnreadableFile
from elytron_core.planes.admin.gateway import WITH_BLOBS
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import learning_rules, long_term, procedural
from elytron_core.planes.knowledge.records import RUNTIME_RECORDS
from elytron_core.planes.space import COLLECTIONS, SpaceRecord
from elytron_core.ports.store import Document, Ref

T = TypeVar("T")
_BROUGHT = frozenset({transcript.TURNS, long_term.FACTS, procedural.SKILLS, learning_rules.TOMBSTONES, *BROUGHT})


class Survey(NamedTuple):
    """The contents of an archive, in short."""

    counts: dict[str, int]
    """Number of documents of each collection."""
    record: Document | None
    """The space's record; None in an archive without private material."""
    brought: frozenset[Ref]
    """The documents that mode `bootstrap` may bring."""
    own: tuple[Ref, ...]
    """The runtime's own records."""
    fingerprint_without_own: str
    """The state's fingerprint without these."""


def surveyed(reader: ArchiveReader, /) -> Survey:
    """Return the survey of an archive. Raises UnreadableFile if it is damaged."""
    counts: Counter[str] = Counter()
    state, others = StateFingerprint(), StateFingerprint()
    own: list[Ref] = []
    record: Document | None = None
    brought: set[Ref] = set()
    unowned = {blob.key for blob in reader.manifest.blobs}
    for document in reader.documents():
        collection = document.ref.collection
        if collection not in COLLECTIONS:
            raise UnreadableFile(name="archive", problem="holds a collection that this version does not know")
        if collection in WITH_BLOBS:
            unowned.discard(document.ref.key)
        if collection in _BROUGHT:
            brought.add(document.ref)
        counts[collection] += 1
        state.add(document)
        if collection == RUNTIME_RECORDS:
            own.append(document.ref)
        else:
            others.add(document)
        if document.ref == REF:
            record = document
    if unowned:
        raise UnreadableFile(name="archive", problem="holds a file that none of its documents has")
    is_whole = reader.manifest.include_private
    if (record is not None) is not is_whole or state.hexdigest() != reader.manifest.state_fingerprint:
        raise UnreadableFile(name="archive", problem="is damaged: its documents do not give its fingerprint")
    if record is not None:
        SpaceRecord.from_bytes(record.body)
        if sum(1 for _ in reader.entries()) < batches_of(reader):
            raise UnreadableFile(name="archive", problem="has fewer journal entries than its documents need")
    return Survey(dict(sorted(counts.items())), record, frozenset(brought), tuple(own), others.hexdigest())


def batches_of(reader: ArchiveReader, /, *, more_entries: int = 0) -> int:
    """Return the number of batches of a full restore that adds `more_entries` to the journal."""
    entries = reader.count(JOURNAL) + more_entries
    return batch_count(documents=reader.count(DOCUMENTS), entries=entries, blobs=len(reader.manifest.blobs))


async def in_thread(items: Iterator[T], /) -> AsyncIterator[T]:
    """Yield `items`, each made in another thread, so that the event loop is free meanwhile."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item
