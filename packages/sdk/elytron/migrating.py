"""From one store to another, whatever their engines and keys: every space exactly, proved by its fingerprints."""

from collections.abc import AsyncIterator
from typing import TypeVar

from elytron.fingerprints import EventFingerprint, document_line, documents, entries, state_fingerprint
from elytron_core import limits
from elytron_core.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes import gateway
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.store import Batch, Document, Entry, JournalEntry, Put, Store

T = TypeVar("T")

BATCH = 1_000


class CopiedSpace(Value):
    """What was copied of one space, and what its content is there, as it is here."""

    space: str
    documents: int
    entries: int
    blobs: int
    state_fingerprint: str
    event_fingerprint: str


async def copy_store(source: Store, target: Store, /) -> tuple[CopiedSpace, ...]:
    """Copy every space of `source` to the empty `target`: documents, journal, and the bytes beside documents.

    Indexes are built anew and receipts of repeated calls stay behind. Nobody may write to either meanwhile. Raises
    InvalidInput where the target holds anything, Conflict where a space changed while it was copied.
    """
    if await target.spaces(limit=1):
        raise InvalidInput(field="target", problem="holds something already: name an empty or a new store")
    found: list[CopiedSpace] = []
    after = ""
    while page := await source.spaces(after=after, limit=limits.SCAN_MAX):
        after = page[-1]
        found += [await _copy(source, target, space) for space in page]
    return tuple(found)


async def _copy(source: Store, target: Store, space: SpaceId) -> CopiedSpace:
    journal = [entry async for entry in entries(source, space)]
    # Beside what every space may hold, what its journal names: the server's own space keeps keys and users.
    collections = tuple(dict.fromkeys((*COLLECTIONS, *(entry.ref.collection for entry in journal))))
    blobs = await _copy_blobs(source, target, space)
    await _commit(target, space, journal, [item async for item in documents(source, space, collections=collections)])
    sent = await _fingerprints(source, space, collections)
    if await _fingerprints(target, space, collections) != sent:
        raise Conflict(
            what=f"space {space!r} changed while it was copied and", expected=len(journal), found=sent.entries
        )
    return sent.model_copy(update={"blobs": blobs})


async def _commit(target: Store, space: SpaceId, journal: list[JournalEntry], kept: list[Document]) -> None:
    """Commit documents and entries side by side, as many batches as the longer of them needs."""
    count = max(-(-max(len(kept), len(journal)) // BATCH), 1)
    if len(journal) < count:
        raise LimitExceeded(what="documents for each entry of a journal", limit=BATCH, found=len(kept))
    for number in range(count):
        lines = _share(journal, number, count)
        batch = Batch(
            space=space,
            at=lines[-1].at,
            entries=tuple(Entry(line.action, line.ref, line.digest, line.at) for line in lines),
            puts=tuple(Put(document.ref, document.body, 0) for document in _share(kept, number, count)),
        )
        await target.commit(batch)


def _share(items: list[T], number: int, count: int) -> list[T]:
    return items[len(items) * number // count : len(items) * (number + 1) // count]


async def _copy_blobs(source: Store, target: Store, space: SpaceId) -> int:
    copied = 0
    async for document in documents(source, space, collections=sorted(gateway.WITH_BLOBS)):
        chunks = source.read_blob(space, document.ref.key)
        try:
            first = await anext(chunks, b"")
        except NotFound:
            continue  # an address, or a file whose bytes never came
        await target.write_blob(space, document.ref.key, _with(first, chunks))
        copied += 1
    return copied


async def _with(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def _fingerprints(store: Store, space: SpaceId, collections: tuple[str, ...]) -> CopiedSpace:
    lines = [document_line(document) async for document in documents(store, space, collections=collections)]
    events = EventFingerprint()
    async for entry in entries(store, space):
        events.add(entry)
    return CopiedSpace(
        space=space,
        documents=len(lines),
        entries=events.count,
        blobs=0,
        state_fingerprint=state_fingerprint(lines),
        event_fingerprint=events.hexdigest(),
    )
