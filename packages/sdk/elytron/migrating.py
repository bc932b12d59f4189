"""From one store to another, whatever their engines and keys: every space exactly, proved by its fingerprints."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TypeVar

from elytron.filling import BATCH, fill, take_over
from elytron.fingerprints import EventFingerprint, document_line, documents, entries, state_fingerprint
from elytron.spaces import FILLING, REF
from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.errors import Conflict, InvalidInput, LimitExceeded, NotFound, SpaceIncomplete, SpaceInUse
from elytron_core.ids import Ids, RandomIds, SpaceId
from elytron_core.model import Value
from elytron_core.planes import gateway
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.keys import KeyProvider
from elytron_core.ports.store import Batch, Document, Entry, JournalEntry, Put, Store
from elytron_store import WhenMissing, open_store, parse_url
from elytron_store.staging import is_free, staged

T = TypeVar("T")

_ALONE = "let nobody write to either store meanwhile, and do it again"


class CopiedSpace(Value):
    """What was copied of one space, and what its content is there, as it is here."""

    space: str
    documents: int
    entries: int
    blobs: int
    state_fingerprint: str
    event_fingerprint: str


async def migrate(
    source: str,
    target: str,
    /,
    *,
    clock: Clock,
    keys: KeyProvider | None = None,
    target_keys: KeyProvider | None = None,
) -> tuple[CopiedSpace, ...]:
    """Copy every space of the store `source` to `target`, which comes to its place whole where nothing is there yet.

    A store that is there must be as `copy_store` wants it. Raises what opening, `staged` and `copy_store` raise.
    """
    there = await open_store(source, clock=clock, keys=keys, when_missing=WhenMissing.REFUSE)
    try:
        address = parse_url(target)
        if address.path is None or not is_free(address.path):
            return await _copied_into(there, target, clock=clock, keys=target_keys)
        async with staged(address.path) as stage:
            copied = await _copied_into(there, address.url_at(stage.path), clock=clock, keys=target_keys)
            await stage.place()
            return copied
    finally:
        await there.close()


async def _copied_into(
    source: Store, target: str, /, *, clock: Clock, keys: KeyProvider | None
) -> tuple[CopiedSpace, ...]:
    into = await open_store(target, clock=clock, keys=keys)
    try:
        return await copy_store(source, into, ids=RandomIds(clock))
    finally:
        await into.close()


async def copy_store(source: Store, target: Store, /, *, ids: Ids) -> tuple[CopiedSpace, ...]:
    """Copy every space of `source` to `target`: documents, journal, and the bytes beside documents.

    Indexes are built anew and receipts of repeated calls stay behind. Nobody may write to either meanwhile. A space
    comes to light whole: what a copy left that was broken off is removed by the next one, which goes on behind what it
    finds whole. Raises InvalidInput where the target holds anything else, SpaceInUse where somebody wrote meanwhile,
    SpaceIncomplete where a space of the source is itself there in part only.
    """
    spaces = [space async for space in _spaces(source)]
    found = await _whole(source, target, spaces)
    copied = [found.get(space) or await _copy(source, target, space, own=ids.new()) for space in spaces]
    for space in {space async for space in _spaces(target)}.difference(spaces):
        raise SpaceInUse(space=space, problem=f"came to the target from elsewhere meanwhile: {_ALONE}")
    return tuple(copied)


async def _spaces(store: Store) -> AsyncIterator[SpaceId]:
    after = ""
    while page := await store.spaces(after=after, limit=limits.SCAN_MAX):
        after = page[-1]
        for space in page:
            yield space


async def _whole(source: Store, target: Store, spaces: list[SpaceId]) -> dict[SpaceId, CopiedSpace]:
    """Return the spaces that an earlier copy brought whole. Raises InvalidInput where the target holds others."""
    found: dict[SpaceId, CopiedSpace] = {}
    expected = set(spaces)
    async for space in _spaces(target):
        (mark,) = await target.get(space, (FILLING,))
        if space in expected and mark is not None:
            continue  # begun, and not seen through
        sent = await _told(source, space) if space in expected else None
        here = await _told(target, space)
        if here != sent:
            raise InvalidInput(field="target", problem="holds something already: name an empty or a new store")
        found[space] = here
    return found


async def _copy(source: Store, target: Store, space: SpaceId, *, own: str) -> CopiedSpace:
    journal = [entry async for entry in entries(source, space)]
    (mark,) = await source.get(space, (FILLING,))
    if mark is not None:
        raise SpaceIncomplete(space=space)
    kept = [item async for item in documents(source, space, collections=_collections(journal))]

    async def files() -> None:
        async for key, chunks in _files(source, space):
            await target.write_blob(space, key, chunks)
        if await source.journal(space, after=len(journal), limit=1):
            raise SpaceInUse(space=space, problem=f"changed while it was copied: {_ALONE}")

    batches = list(_batches(space, journal, kept))
    try:
        await take_over(target, space, at=batches[-1].at)
        await fill(target, batches, count=len(batches), own=own, files=files)
    except SpaceInUse:
        raise
    except Conflict as conflict:
        raise SpaceInUse(space=space, problem=f"was written to in the target meanwhile: {_ALONE}") from conflict
    sent = await _told(source, space)
    if await _told(target, space) != sent:
        raise SpaceInUse(space=space, problem=f"changed while it was copied: {_ALONE}")
    return sent


def _collections(journal: Iterable[JournalEntry]) -> tuple[str, ...]:
    # Beside what every space may hold, what its journal names: the server's own space keeps keys and users.
    return tuple(dict.fromkeys((*COLLECTIONS, *(entry.ref.collection for entry in journal))))


def _batches(space: SpaceId, journal: list[JournalEntry], kept: list[Document]) -> Iterator[Batch]:
    """Yield documents and entries side by side, the space's record in the last batch.

    Raises LimitExceeded where there are too few entries: each batch needs one.
    """
    ordered = sorted(kept, key=lambda document: document.ref == REF)
    has_files = any(document.ref.collection in gateway.WITH_BLOBS for document in kept)
    fewest = min(2, len(journal)) if has_files else 1
    count = max(-(-max(len(kept), len(journal)) // BATCH), fewest)
    if len(journal) < count:
        raise LimitExceeded(what="documents for each entry of a journal", limit=BATCH, found=len(kept))
    for number in range(count):
        lines = _share(journal, number, count)
        yield Batch(
            space=space,
            at=lines[-1].at,
            entries=tuple(Entry(line.action, line.ref, line.digest, line.at) for line in lines),
            puts=tuple(Put(document.ref, document.body, 0) for document in _share(ordered, number, count)),
        )


def _share(items: list[T], number: int, count: int) -> list[T]:
    return items[len(items) * number // count : len(items) * (number + 1) // count]


async def _files(store: Store, space: SpaceId) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
    """Yield the keys of the documents that have bytes beside them, with these, which are read before the next."""
    async for document in documents(store, space, collections=sorted(gateway.WITH_BLOBS)):
        chunks = store.read_blob(space, document.ref.key)
        try:
            first = await anext(chunks, b"")
        except NotFound:
            continue  # an address, or a file whose bytes never came
        yield document.ref.key, _with(first, chunks)


async def _with(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def _told(store: Store, space: SpaceId) -> CopiedSpace:
    """Return what the space is in `store`, every byte of it read."""
    events = EventFingerprint()
    journal: list[JournalEntry] = []
    async for entry in entries(store, space):
        events.add(entry)
        journal.append(entry)
    lines = [document_line(item) async for item in documents(store, space, collections=_collections(journal))]
    blobs = 0
    async for _, chunks in _files(store, space):
        async for _ in chunks:
            pass
        blobs += 1
    return CopiedSpace(
        space=space,
        documents=len(lines),
        entries=events.count,
        blobs=blobs,
        state_fingerprint=state_fingerprint(lines),
        event_fingerprint=events.hexdigest(),
    )
