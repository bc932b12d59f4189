"""Full restore of an archive: all of it, into an empty space."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice

from elytron.context import OperationContext
from elytron.state.space_records import REF
from elytron.transfer import space_fill
from elytron.transfer.archive import JOURNAL, ArchiveReader
from elytron.transfer.space_fill import fill, share, take_over
from elytron.transfer.survey import batches_of, in_thread, surveyed
from elytron_core.contracts.admin.archive import ImportMode, MemoryImportReport
from elytron_core.errors import Conflict, InvalidInput, SpaceInUse
from elytron_core.ids import SpaceId
from elytron_core.planes.knowledge.records import RUNTIME_RECORDS
from elytron_core.ports.store import Action, Batch, Document, Entry, JournalEntry, Put, Ref
from elytron_core.scope import Scope

_HOLDS = (
    "holds memories, and a full restore fills an empty one only: name another space, erase this one, "
    "or take the mode bootstrap, which adds what is new"
)
_TAKEN = (
    "was written to or restored by another caller meanwhile, and this restore left nothing there: "
    "look at what it holds now"
)


async def full_restore(
    ctx: OperationContext, scope: Scope, reader: ArchiveReader, /, *, with_agents: bool, dry_run: bool
) -> MemoryImportReport:
    """Bring documents and journal back exactly as they were; the space must be empty.

    Without `with_agents` the runtime's own records are left out, and the journal says that they are gone: an agent acts
    on them, so they come from a store of the same owner alone.

    The space's record comes last: until then the space reads as empty, no other writer can write there, and what a
    killed restore left behind is removed by the next one. Of two at the same time one gets through whole. Raises
    SpaceInUse if the space has memories, and if another restore took the space over.
    """
    if await ctx.spaces.find(scope.space) is not None:
        raise SpaceInUse(space=scope.space, problem=_HOLDS)
    survey = await asyncio.to_thread(surveyed, reader)
    if survey.record is None:
        raise InvalidInput(
            field="mode",
            problem="must be bootstrap (import --mode bootstrap): this archive holds the public part of a space",
        )
    left_out = () if with_agents else survey.own
    kept = {name: count for name, count in survey.counts.items() if name != RUNTIME_RECORDS or not left_out}
    report = MemoryImportReport(
        space=scope.space,
        mode=ImportMode.FULL_RESTORE,
        imported=kept,
        skipped={RUNTIME_RECORDS: len(left_out)} if left_out else {},
        blobs=len(reader.manifest.blobs),
        changed=not dry_run,
        dry_run=dry_run,
        state_fingerprint=survey.fingerprint_without_own if left_out else reader.manifest.state_fingerprint,
    )
    if dry_run:
        return report
    try:
        await take_over(ctx.store, scope.space, at=ctx.clock.now())
        sequence = await _restore(ctx, scope.space, reader, survey.record, left_out)
    except Conflict as conflict:
        raise SpaceInUse(space=scope.space, problem=_TAKEN) from conflict
    return report.model_copy(update={"sequence": sequence})


async def _restore(
    ctx: OperationContext, space: SpaceId, reader: ArchiveReader, record: Document, left_out: Sequence[Ref]
) -> int:
    """Commit the archive, and return the last sequence. Raises Conflict where the space was not left alone."""

    async def files() -> None:
        for blob in reader.manifest.blobs:
            await ctx.store.write_blob(space, blob.key, _pieces(reader, blob.key))

    count = batches_of(reader, more_entries=len(left_out))
    batches = in_thread(_batches(space, reader, record, left_out, count))
    return await fill(ctx.store, batches, count=count, own=ctx.ids.new(), files=files)


async def _pieces(reader: ArchiveReader, key: str) -> AsyncIterator[bytes]:
    for chunk in reader.blob(key):
        yield chunk


def _batches(
    space: SpaceId, reader: ArchiveReader, record: Document, left_out: Sequence[Ref], count: int
) -> Iterator[Batch]:
    """Yield the batches of a restore: documents and entries side by side, the space's record in the last."""
    gone = frozenset(left_out)
    documents = (document for document in reader.documents() if document.ref != REF and document.ref not in gone)
    entries = _with_erasures(reader.entries(), left_out)
    total = reader.count(JOURNAL) + len(left_out)
    for number in range(count):
        lines = list(islice(entries, share(total, number, count)))
        puts = [Put(document.ref, document.body, 0) for document in islice(documents, space_fill.BATCH)]
        if number == count - 1:
            puts.append(Put(REF, record.body, 0))
        yield Batch(space=space, at=lines[-1].at, entries=tuple(_entry(line) for line in lines), puts=tuple(puts))


def _with_erasures(entries: Iterator[JournalEntry], gone: Sequence[Ref]) -> Iterator[JournalEntry]:
    """Yield the entries of an archive, and behind them an erasure of each document that is left out."""
    last: JournalEntry | None = None
    for last in entries:
        yield last
    if last is None:
        return
    for number, ref in enumerate(gone, start=1):
        yield JournalEntry(last.sequence + number, last.at, Action.ERASE, ref, "")


def _entry(line: JournalEntry) -> Entry:
    return Entry(line.action, line.ref, line.digest, line.at, line.covers)
