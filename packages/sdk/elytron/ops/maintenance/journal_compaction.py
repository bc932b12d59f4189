"""Compaction of the journal of a space."""

from elytron.context import OperationContext
from elytron.journal.compaction import compact_space
from elytron_core.contracts.maintenance.journal_compaction import JournalCompactReport, JournalCompactRequest


async def compact_journal(ctx: OperationContext, request: JournalCompactRequest, /) -> JournalCompactReport:
    """Replace each run of entries without content by one. Raises Conflict if another call compacts it meanwhile."""
    space = ctx.scope_of(request).space
    # An index that has not read the compacted entries would be rebuilt from the start.
    await ctx.folds.settle_erasure(space)
    removed = await compact_space(ctx.store, space)
    record = await ctx.spaces.find(space)
    sequence = (await ctx.folds.current(space)).watermark if record is not None else 0
    return JournalCompactReport(space=space, removed=removed, changed=removed > 0, sequence=sequence)
