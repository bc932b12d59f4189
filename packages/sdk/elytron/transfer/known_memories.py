"""Memories of an archive that a space has, or had: the rest is new to it."""

from bisect import bisect_left
from collections.abc import Sequence

from elytron.context import OperationContext
from elytron.documents.planes import BROUGHT
from elytron.state.space_records import REF
from elytron.transfer.archive import ArchiveReader
from elytron_core import limits
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term, procedural
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Document, JournalEntry, Ref
from elytron_core.ports.store_pages import entries
from elytron_core.scope import Scope

_BROUGHT = frozenset({transcript.TURNS, long_term.FACTS, procedural.SKILLS, *BROUGHT})


async def turns_here(ctx: OperationContext, scope: Scope, reader: ArchiveReader) -> set[Ref]:
    """Return which of the archive's turns this very space holds: keyed tags never meet by chance."""
    turns = [document.ref for document in reader.documents() if document.ref.collection == transcript.TURNS]
    return await _present(ctx, scope, turns)


async def erased_here(ctx: OperationContext, scope: Scope, reader: ArchiveReader) -> set[Ref]:
    """Return what of the archive this very space once held and holds no more: its journal still names it."""
    brought: set[Ref] = set()
    record: Document | None = None
    for document in reader.documents():
        if document.ref.collection in _BROUGHT:
            brought.add(document.ref)
        elif document.ref == REF:
            record = document
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
