"""Full restore of an archive into an empty space."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeVar

from elytron.context import OperationContext
from elytron.documents.planes import BOOTSTRAP_HOMES
from elytron.journal.verification import StateFingerprint
from elytron.state.space_records import FILLING, REF
from elytron.transfer.archive import DOCUMENTS, JOURNAL, ArchiveReader
from elytron_core.clock import Instant
from elytron_core.contracts.archive import ImportMode, MemoryImportReport
from elytron_core.errors import Conflict, InvalidInput, SpaceInUse, UnreadableFile
from elytron_core.ids import SpaceId
from elytron_core.planes import facts, skills, transcript
from elytron_core.planes.records import RUNTIME_RECORDS
from elytron_core.planes.servers.gateway import WITH_BLOBS
from elytron_core.planes.space import COLLECTIONS, SPACE, SpaceRecord
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    PutChange,
    RequireRevision,
    Store,
)
from elytron_core.scope import Scope

BATCH = 1_000
"""Maximum number of documents or entries in one batch."""


async def take_over(store: Store, space: SpaceId, /, *, at: Instant) -> None:
    """Remove the remains of a filling that was killed or still runs: that one cannot continue. Raises Conflict."""
    if not await store.journal(space, after=0, limit=1):
        return
    (filling_mark,) = await store.get(space, (FILLING,))
    # From here on neither a first write nor the other filling succeeds, so the erasure removes no memories.
    batch = Batch(
        space=space,
        at=at,
        entries=(EntryDraft(JournalAction.LIFECYCLE, FILLING),),
        puts=(PutChange(FILLING, b"{}", filling_mark.revision if filling_mark is not None else 0),),
        requires=(RequireRevision(REF, 0),),
    )
    await store.commit(batch)
    await store.erase(ErasureTarget(space=space, at=at, whole_space=True))


def batch_count(*, documents: int, entries: int, blobs: int) -> int:
    """Return the number of batches of a filling of this size; each must have an entry."""
    # Blobs are written after the first batch and before the last.
    least_batches = 2 if blobs and entries > 1 else 1
    return max(-(-max(documents, entries) // BATCH), least_batches)


def batch_share(entry_total: int, batch_number: int, count: int, /) -> int:
    """Return how many of `entry_total` entries are in batch `batch_number` of `count`."""
    return entry_total * (batch_number + 1) // count - entry_total * batch_number // count


async def fill_space(
    store: Store, batches: AsyncIterator[Batch], /, *, count: int, own: str, files: Callable[[], Awaitable[object]]
) -> int:
    """Commit the `count` batches of a space, and `files` after the first; return the last sequence.

    The space's record is in the last batch. `own` is a unique id. Raises Conflict if the space was not empty, or others
    wrote to it.
    """
    # The second mark belongs only to this filling: if another one has started again, the first is stored again, but not
    # this.
    marks = (FILLING, DocumentRef(SPACE, own)) if count > 1 else ()
    sequence = 0
    batch_number = 0
    async for batch in batches:
        sequence = (await store.commit(_guard_batch(batch, marks, batch_number, count))).last
        # After the first batch, whose marks exclude all other writers.
        if batch_number == 0:
            await files()
        batch_number += 1
    return sequence


def _guard_batch(batch: Batch, marks: Sequence[DocumentRef], batch_number: int, count: int) -> Batch:
    """Return a batch of a filling that is rejected unless the space still belongs to it."""
    if count == 1:
        return replace(batch, requires=(RequireRevision(FILLING, 0),))
    if batch_number == 0:
        return replace(
            batch,
            puts=(*batch.puts, *(PutChange(mark_ref, b"{}", 0) for mark_ref in marks)),
            requires=(RequireRevision(REF, 0),),
        )
    if batch_number < count - 1:
        return replace(batch, requires=tuple(RequireRevision(mark_ref, 1) for mark_ref in marks))
    return replace(batch, deletes=tuple(DeleteChange(mark_ref, 1) for mark_ref in marks))


T = TypeVar("T")
_BOOTSTRAP_COLLECTIONS = frozenset({transcript.TURNS, facts.FACTS, skills.SKILLS, facts.TOMBSTONES, *BOOTSTRAP_HOMES})


class ArchiveSurvey(NamedTuple):
    """Summary of an archive's contents."""

    counts: dict[str, int]
    """Number of documents of each collection."""
    record: Document | None
    """The space's record; None in an archive without private material."""
    bootstrap_refs: frozenset[DocumentRef]
    """The documents that mode `bootstrap` may import."""
    own: tuple[DocumentRef, ...]
    """The runtime's own records."""
    fingerprint_without_own: str
    """The state's fingerprint without these."""


def survey_archive(reader: ArchiveReader, /) -> ArchiveSurvey:
    """Return the survey of an archive. Raises UnreadableFile if it is damaged."""
    counts: Counter[str] = Counter()
    state_fingerprint, shareable_fingerprint = StateFingerprint(), StateFingerprint()
    runtime_refs: list[DocumentRef] = []
    record: Document | None = None
    importable_refs: set[DocumentRef] = set()
    unowned_blobs = {blob.key for blob in reader.manifest.blobs}
    for document in reader.documents():
        collection = document.ref.collection
        if collection not in COLLECTIONS:
            raise UnreadableFile(name="archive", problem="contains a collection that is unknown to this version")
        if collection in WITH_BLOBS:
            unowned_blobs.discard(document.ref.key)
        if collection in _BOOTSTRAP_COLLECTIONS:
            importable_refs.add(document.ref)
        counts[collection] += 1
        state_fingerprint.add(document)
        if collection == RUNTIME_RECORDS:
            runtime_refs.append(document.ref)
        else:
            shareable_fingerprint.add(document)
        if document.ref == REF:
            record = document
    if unowned_blobs:
        raise UnreadableFile(name="archive", problem="contains a file that does not belong to any of its documents")
    includes_private = reader.manifest.include_private
    if (
        record is not None
    ) is not includes_private or state_fingerprint.hexdigest() != reader.manifest.state_fingerprint:
        raise UnreadableFile(name="archive", problem="is damaged: its documents do not match its fingerprint")
    if record is not None:
        SpaceRecord.from_bytes(record.body)
        if sum(1 for _ in reader.entries()) < batches_of(reader):
            raise UnreadableFile(name="archive", problem="has fewer journal entries than its documents require")
    return ArchiveSurvey(
        dict(sorted(counts.items())),
        record,
        frozenset(importable_refs),
        tuple(runtime_refs),
        shareable_fingerprint.hexdigest(),
    )


def contents_text(counts: Mapping[str, int], /) -> str:
    """Return an archive's contents in words, which say so if it contains no messages."""
    count_texts = [f"{count} {collection}" for collection, count in counts.items()]
    return ", ".join(count_texts if counts.get(transcript.TURNS) else [*count_texts, "no messages"])


def batches_of(reader: ArchiveReader, /, *, more_entries: int = 0) -> int:
    """Return the number of batches of a full restore that adds `more_entries` to the journal."""
    entry_count = reader.count(JOURNAL) + more_entries
    return batch_count(documents=reader.count(DOCUMENTS), entries=entry_count, blobs=len(reader.manifest.blobs))


async def in_thread(items: Iterator[T], /) -> AsyncIterator[T]:
    """Yield `items`, each produced in another thread, so that the event loop is free meanwhile."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item


_HOLDS = (
    "is not empty, but a full restore requires an empty space: name another space, erase this one, or use "
    "the mode bootstrap, which adds what is new"
)
_RACE_PROBLEM = "was changed by another caller during the restore, which stored nothing: check its content"


async def full_restore(
    ctx: OperationContext, scope: Scope, reader: ArchiveReader, /, *, with_agents: bool, dry_run: bool
) -> MemoryImportReport:
    """Restore documents and journal exactly as they were; the space must be empty.

    Without `with_agents` the runtime's own records are left out, and the journal says that they are gone: an agent acts
    on them, so they are only accepted from a store of the same owner.

    The space's record comes last: until then the space reads as empty, no other writer can write there, and the next
    restore removes the remains of a killed one. Of two concurrent ones, one completes. Raises SpaceInUse if the space
    has memories, and if another restore took the space over.
    """
    ctx.spaces.forget(scope.space)  # another process may have erased it
    if await ctx.spaces.find(scope.space) is not None:
        raise SpaceInUse(space=scope.space, problem=_HOLDS)
    survey = await asyncio.to_thread(survey_archive, reader)
    if survey.record is None:
        raise InvalidInput(
            field="mode",
            problem=(
                "must be bootstrap (import --mode bootstrap), because the archive does not contain a whole space. It "
                f"contains {contents_text(survey.counts)}, which can be added to a space but not restored as one"
            ),
        )
    omitted_refs = () if with_agents else survey.own
    imported_counts = {
        name: count for name, count in survey.counts.items() if name != RUNTIME_RECORDS or not omitted_refs
    }
    report = MemoryImportReport(
        space=scope.space,
        mode=ImportMode.FULL_RESTORE,
        contents=survey.counts,
        imported=imported_counts,
        skipped={RUNTIME_RECORDS: len(omitted_refs)} if omitted_refs else {},
        blobs=len(reader.manifest.blobs),
        changed=not dry_run,
        dry_run=dry_run,
        state_fingerprint=survey.fingerprint_without_own if omitted_refs else reader.manifest.state_fingerprint,
    )
    if dry_run:
        return report
    try:
        await take_over(ctx.store, scope.space, at=ctx.clock.now())
        sequence = await _restore_archive(ctx, scope.space, reader, survey.record, omitted_refs)
    except Conflict as conflict:
        raise SpaceInUse(space=scope.space, problem=_RACE_PROBLEM) from conflict
    return report.model_copy(update={"sequence": sequence})


async def _restore_archive(
    ctx: OperationContext, space: SpaceId, reader: ArchiveReader, record: Document, left_out: Sequence[DocumentRef]
) -> int:
    """Commit the archive, and return the last sequence. Raises Conflict if others wrote to the space."""

    async def files() -> None:
        for blob in reader.manifest.blobs:
            await ctx.store.write_blob(space, blob.key, _blob_pieces(reader, blob.key))

    count = batches_of(reader, more_entries=len(left_out))
    batches = in_thread(_restore_batches(space, reader, record, left_out, count))
    return await fill_space(ctx.store, batches, count=count, own=ctx.ids.new(), files=files)


async def _blob_pieces(reader: ArchiveReader, key: str) -> AsyncIterator[bytes]:
    for chunk in reader.blob(key):
        yield chunk


def _restore_batches(
    space: SpaceId, reader: ArchiveReader, record: Document, left_out: Sequence[DocumentRef], count: int
) -> Iterator[Batch]:
    """Yield the batches of a restore: documents and entries in parallel, the space's record in the last."""
    omitted_refs = frozenset(left_out)
    documents = (
        document for document in reader.documents() if document.ref != REF and document.ref not in omitted_refs
    )
    entries = _with_erasures(reader.entries(), left_out)
    entry_count = reader.count(JOURNAL) + len(left_out)
    for batch_number in range(count):
        batch_entries = list(islice(entries, batch_share(entry_count, batch_number, count)))
        puts = [PutChange(document.ref, document.body, 0) for document in islice(documents, BATCH)]
        if batch_number == count - 1:
            puts.append(PutChange(REF, record.body, 0))
        yield Batch(
            space=space,
            at=batch_entries[-1].at,
            entries=tuple(
                EntryDraft(entry.action, entry.ref, entry.digest, entry.at, entry.covers) for entry in batch_entries
            ),
            puts=tuple(puts),
        )


def _with_erasures(entries: Iterator[JournalEntry], refs: Sequence[DocumentRef]) -> Iterator[JournalEntry]:
    """Yield the entries of an archive, and after them an erasure of each document that is left out."""
    last_entry: JournalEntry | None = None
    for last_entry in entries:
        yield last_entry
    if last_entry is None:
        return
    for erasure_number, ref in enumerate(refs, start=1):
        yield JournalEntry(last_entry.sequence + erasure_number, last_entry.at, JournalAction.ERASE, ref, "")
