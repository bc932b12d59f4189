"""Copies between stores of any engines and keys: every space exactly, verified by its fingerprints."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self, TypeVar

from elytron.indexing.checkpoints import Progress, end_of
from elytron.journal.verification import EventFingerprint, StateFingerprint, space_documents
from elytron.state.space_records import FILLING, REF
from elytron.transfer import restore
from elytron.transfer.restore import batch_count, batch_share, fill_space, take_over
from elytron_core.clock import Clock
from elytron_core.errors import (
    Conflict,
    InvalidInput,
    LimitExceeded,
    NotFound,
    SpaceIncomplete,
    SpaceInUse,
    SpaceLocked,
)
from elytron_core.ids import IdSource, RandomIds, SpaceId
from elytron_core.model import Value
from elytron_core.planes.servers import gateway
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports import store as ports_store
from elytron_core.ports.store import Batch, EntryDraft, KeyProvider, PutChange, Store
from elytron_store import WhenMissing, open_as_made, parse_url
from elytron_store.backup import is_free, staged_store
from elytron_store.secret.records import SECRET_SLOT, SecretSlotState, read_secret_slot
from elytron_store.secret.sessions import incomplete_space
from elytron_store.secret.store import SecretStore

T = TypeVar("T")

_ALONE = "stop all writers to both stores, and run it again"


class CopiedSpace(Value):
    """Copy of one space: its counts, and the fingerprint that both have."""

    space: str
    documents: int
    entries: int
    sequence: int
    """Sequence of its last entry."""
    blobs: int
    state_fingerprint: str
    event_fingerprint: str


class CopyAccount:
    """Progress of a copy in journal entries, and their total."""

    def __init__(self, journal_ends: Mapping[SpaceId, int], progress: Progress | None, /) -> None:
        self._ends = journal_ends
        self._total = sum(journal_ends.values())
        self._progress = progress
        self._behind = 0

    @classmethod
    async def of(cls, source: Store, spaces: Sequence[SpaceId], progress: Progress | None, /) -> Self:
        """Return the account of a copy that is about to begin; without `progress` it counts nothing."""
        if progress is None:
            return cls({}, None)
        journal_ends = {
            space: await end_of(source, space, 1) for space in spaces if await source.journal(space, after=0, limit=1)
        }
        return cls(journal_ends, progress)

    def reach(self, sequence: int, /) -> None:
        """Report that the current space is copied up to `sequence`."""
        if self._progress is not None:
            self._progress(self._behind + sequence, self._total)

    def finish(self, space: SpaceId, /) -> None:
        """Report that `space` is copied and compared."""
        self._behind += self._ends.get(space, 0)
        self.reach(0)


async def migrate_store(
    source: str,
    target: str,
    /,
    *,
    clock: Clock,
    keys: KeyProvider | None = None,
    target_keys: KeyProvider | None = None,
    progress: Progress | None = None,
) -> tuple[CopiedSpace, ...]:
    """Copy every space of the store `source` to `target`, which appears whole if there is no store yet.

    `progress` is called with the number of copied entries of all journals, and the total. An existing store must meet
    the conditions of `copy_store`. Raises what opening, `staged_store` and `copy_store` raise.
    """
    source_store = await open_as_made(source, clock=clock, keys=keys, when_missing=WhenMissing.REFUSE)
    try:
        async for space in ports_store.scan_spaces(source_store):
            await SecretStore(source_store, clock=clock).settle_slot(space)
        address = parse_url(target)
        if address.path is None or not is_free(address.path):
            return await _copied_into(source_store, target, clock=clock, keys=target_keys, progress=progress)
        async with staged_store(address.path) as stage:
            staging_url = address.url_at(stage.path)
            copied_spaces = await _copied_into(
                source_store, staging_url, clock=clock, keys=target_keys, progress=progress
            )
            await stage.place()
            return copied_spaces
    finally:
        await source_store.close()


async def _copied_into(
    source: Store, target: str, /, *, clock: Clock, keys: KeyProvider | None, progress: Progress | None
) -> tuple[CopiedSpace, ...]:
    target_store = await open_as_made(target, clock=clock, keys=keys)
    try:
        return await copy_store(source, target_store, ids=RandomIds(clock), progress=progress)
    finally:
        await target_store.close()


async def copy_store(
    source: Store, target: Store, /, *, ids: IdSource, progress: Progress | None = None
) -> tuple[CopiedSpace, ...]:
    """Copy every space of `source` to `target`: documents, journal, and blobs of documents.

    Indexes are rebuilt and receipts of repeated calls are not copied. No caller may write to either meanwhile. A space
    appears whole: the next copy removes the remains of an interrupted one and continues after the complete spaces.
    Raises InvalidInput if the target contains anything else, SpaceInUse if a caller wrote meanwhile, SpaceIncomplete if
    a space of the source is itself incomplete, SpaceLocked if one is under a secret.
    """
    spaces = [space async for space in ports_store.scan_spaces(source)]
    await _require_no_secret(source, spaces)
    earlier_copies = await _whole_spaces(source, target, spaces)
    copy_account = await CopyAccount.of(source, spaces, progress)
    copied_spaces: list[CopiedSpace] = []
    for space in spaces:
        copied_spaces.append(
            earlier_copies.get(space) or await _copy_space(source, target, space, copy_account, own=ids.new())
        )
        copy_account.finish(space)
    for space in {space async for space in ports_store.scan_spaces(target)}.difference(spaces):
        raise SpaceInUse(space=space, problem=f"appeared in the target during the copy: {_ALONE}")
    return tuple(copied_spaces)


async def _require_no_secret(source: Store, spaces: Sequence[SpaceId]) -> None:
    """Raise SpaceLocked for a space under its user's secret: sealed content is bound to its place in this store."""
    for space in spaces:
        (document,) = await source.get(space, (SECRET_SLOT,))
        if document is not None and read_secret_slot(document).state is SecretSlotState.MAKING:
            raise incomplete_space(space)
        if document is not None:
            raise SpaceLocked(space=space)


async def copy_space(source: Store, target: Store, space: SpaceId, /, *, own: str) -> CopiedSpace:
    """Copy one space of `source` to `target`, where it must be empty, and compare both. `own` is a unique id."""
    return await _copy_space(source, target, space, CopyAccount({}, None), own=own)


async def _whole_spaces(source: Store, target: Store, spaces: list[SpaceId]) -> dict[SpaceId, CopiedSpace]:
    """Return the spaces that an earlier copy completed. Raises InvalidInput if the target contains others."""
    copies: dict[SpaceId, CopiedSpace] = {}
    expected_spaces = set(spaces)
    async for space in ports_store.scan_spaces(target):
        (filling_mark,) = await target.get(space, (FILLING,))
        if space in expected_spaces and filling_mark is not None:
            continue  # begun, and not finished
        source_summary = await _copied_space(source, space) if space in expected_spaces else None
        target_summary = await _copied_space(target, space)
        if target_summary != source_summary:
            raise InvalidInput(field="target", problem="is not empty: name an empty or new store")
        copies[space] = target_summary
    return copies


async def _copy_space(source: Store, target: Store, space: SpaceId, account: "CopyAccount", *, own: str) -> CopiedSpace:
    (filling_mark,) = await source.get(space, (FILLING,))
    if filling_mark is not None:
        raise SpaceIncomplete(space=space)
    summary = await _copied_space(source, space)
    batches_needed = batch_count(documents=summary.documents, entries=summary.entries, blobs=summary.blobs)
    if summary.entries < batches_needed:
        bound_name = "documents for each entry of a journal"
        raise LimitExceeded(what=bound_name, limit=restore.BATCH, found=summary.documents)

    async def files() -> None:
        async for key, chunks in _space_files(source, space):
            await target.write_blob(space, key, chunks)

    (last_entry,) = await source.journal(space, after=summary.sequence - 1, limit=1)
    try:
        await take_over(target, space, at=last_entry.at)
        await fill_space(
            target,
            _copy_batches(source, space, summary, batches_needed, account),
            count=batches_needed,
            own=own,
            files=files,
        )
    except SpaceInUse:
        raise
    except Conflict as conflict:
        raise SpaceInUse(space=space, problem=f"was changed in the target during the copy: {_ALONE}") from conflict
    # Both are read again from front to back instead of trusting either store.
    if await _copied_space(target, space) != summary or await _has_grown(source, space, summary):
        raise _changed_space(space)
    return summary


async def _copy_batches(
    source: Store, space: SpaceId, summary: CopiedSpace, count: int, account: "CopyAccount"
) -> AsyncIterator[Batch]:
    """Yield the space of `summary` in `count` batches of documents and entries; the last has the space's record.

    Raises SpaceInUse instead of yielding the last if the space has changed, so that nothing of it appears.
    """
    collections = await _space_collections(source, space)
    other_documents = (
        item async for item in space_documents(source, space, collections=collections) if item.ref != REF
    )
    journal_entries = ports_store.scan_entries(source, space)
    for batch_number in range(count):
        batch_entries = await _next_items(journal_entries, batch_share(summary.entries, batch_number, count))
        documents = await _next_items(other_documents, restore.BATCH)
        if batch_number == count - 1:
            documents += [record for record in await source.get(space, (REF,)) if record is not None]
        if not batch_entries or (batch_number == count - 1 and await _has_grown(source, space, summary)):
            raise _changed_space(space)
        yield Batch(
            space=space,
            at=batch_entries[-1].at,
            entries=tuple(
                EntryDraft(entry.action, entry.ref, entry.digest, entry.at, entry.covers) for entry in batch_entries
            ),
            puts=tuple(PutChange(document.ref, document.body, 0) for document in documents),
        )
        account.reach(batch_entries[-1].sequence)


async def _has_grown(source: Store, space: SpaceId, summary: CopiedSpace) -> bool:
    return bool(await source.journal(space, after=summary.sequence, limit=1))


def _changed_space(space: SpaceId) -> SpaceInUse:
    return SpaceInUse(space=space, problem=f"was changed during the copy: {_ALONE}")


async def _next_items(items: AsyncIterator[T], items_max: int) -> list[T]:
    """Return the next `items_max` of `items`, fewer at their end."""
    page: list[T] = []
    while len(page) < items_max and (item := await anext(items, None)) is not None:
        page.append(item)
    return page


async def _space_collections(store: Store, space: SpaceId) -> tuple[str, ...]:
    # In addition to every space's collections, those that its journal names: the server's own space contains keys and
    # users.
    return tuple(
        dict.fromkeys(COLLECTIONS)
        | {entry.ref.collection: None async for entry in ports_store.scan_entries(store, space)}
    )


async def _space_files(store: Store, space: SpaceId) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
    """Yield the keys of the documents that have blobs, with these, which are read before the next."""
    async for document in space_documents(store, space, collections=sorted(gateway.WITH_BLOBS)):
        chunks = store.read_blob(space, document.ref.key)
        # The first chunk is read now, since only that shows whether there is a blob.
        try:
            first_chunk = await anext(chunks, b"")
        except NotFound:
            continue  # an address, or a file whose bytes never came
        yield document.ref.key, _chain_chunks(first_chunk, chunks)


async def _chain_chunks(first_chunk: bytes, later_chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first_chunk
    async for chunk in later_chunks:
        yield chunk


async def _copied_space(store: Store, space: SpaceId) -> CopiedSpace:
    """Return the summary of the space in `store`, every byte of it read."""
    event_fingerprint, state_fingerprint = EventFingerprint(), StateFingerprint()
    collections: dict[str, None] = dict.fromkeys(COLLECTIONS)
    async for entry in ports_store.scan_entries(store, space):
        event_fingerprint.add(entry)
        collections[entry.ref.collection] = None
    async for document in space_documents(store, space, collections=collections):
        state_fingerprint.add(document)
    blob_count = 0
    async for _, chunks in _space_files(store, space):
        async for _ in chunks:
            pass
        blob_count += 1
    return CopiedSpace(
        space=space,
        documents=state_fingerprint.count,
        entries=event_fingerprint.count,
        sequence=event_fingerprint.sequence,
        blobs=blob_count,
        state_fingerprint=state_fingerprint.hexdigest(),
        event_fingerprint=event_fingerprint.hexdigest(),
    )
