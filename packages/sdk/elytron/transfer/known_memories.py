"""Memories of an archive that a space has, or had: the rest is new to it."""

from bisect import bisect_left
from collections.abc import Sequence

from elytron.context import OperationContext
from elytron.transfer.archive import ArchiveReader
from elytron.transfer.survey import Survey
from elytron_core import limits
from elytron_core.planes.conversation import transcript
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import JournalEntry, Ref
from elytron_core.ports.store_pages import entries
from elytron_core.scope import Scope


async def turns_here(ctx: OperationContext, scope: Scope, survey: Survey) -> set[Ref]:
    """Return which of the archive's turns this very space holds: keyed tags never meet by chance."""
    return await _present(ctx, scope, [ref for ref in survey.brought if ref.collection == transcript.TURNS])


async def erased_here(ctx: OperationContext, scope: Scope, reader: ArchiveReader, survey: Survey) -> set[Ref]:
    """Return what of the archive this very space once held and holds no more: its journal still names it."""
    brought, record = survey.brought, survey.record
    named: set[Ref] = set()
    runs: list[JournalEntry] = []
    async for entry in entries(ctx.store, scope.space):
        if entry.covers > 1:
            runs.append(entry)
        elif entry.ref in brought:
            named.add(entry.ref)
    if runs and record is not None and await ctx.spaces.find(scope.space) == SpaceRecord.from_bytes(record.body):
        # Entries of the archive's journal at a compacted run of ours were erased here too.
        ends = [run.sequence for run in runs]
        for entry in reader.entries():
            place = bisect_left(ends, entry.sequence)
            if place < len(runs) and runs[place].first <= entry.sequence and entry.ref in brought:
                named.add(entry.ref)
    return named - await _present(ctx, scope, sorted(named))


async def _present(ctx: OperationContext, scope: Scope, refs: Sequence[Ref]) -> set[Ref]:
    present: set[Ref] = set()
    for start in range(0, len(refs), limits.SCAN_MAX):
        found = await ctx.store.get(scope.space, refs[start : start + limits.SCAN_MAX])
        present |= {document.ref for document in found if document is not None}
    return present
