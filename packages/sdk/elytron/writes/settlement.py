"""Commit of an operation's decision: read and planned again while others win the race."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.state.space_records import opening_changes
from elytron_core.errors import Conflict
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Batch

SettledT = TypeVar("SettledT")
ReportT = TypeVar("ReportT", bound=Value)


@dataclass(frozen=True, slots=True)
class Settled(Generic[SettledT]):
    """A report, and the changes to commit before it, if any."""

    report: SettledT
    changes: Changes | None = None


async def settle_report(
    ctx: OperationContext,
    space: SpaceId,
    plan: Callable[[SpaceRecord], Awaitable[Settled[ReportT]]],
    /,
    *,
    takes_back: bool = False,
) -> ReportT:
    """Settle `plan` as `settle` does and return its report with the journal sequence."""
    report, sequence = await settle(ctx, space, plan, takes_back=takes_back)
    return report.model_copy(update={"sequence": sequence})


async def settle(
    ctx: OperationContext,
    space: SpaceId,
    plan: Callable[[SpaceRecord], Awaitable[Settled[SettledT]]],
    /,
    *,
    takes_back: bool = False,
) -> tuple[SettledT, int]:
    """Plan and commit until no other commit interferes; return report and journal sequence (0: nothing to commit).

    With `takes_back`, a store that is full takes it too (see `Batch`).
    Raises the last Conflict after `RACES` lost ones.
    """
    async with ctx.lines.race(space) as race:
        while True:
            record, is_new = await ctx.spaces.found_or_new(space)
            settled = await plan(record)
            made = settled.changes or Changes(record)
            changed = (*made.deletes, *made.puts)
            if not changed:
                return settled.report, 0
            # A plan writes last the documents that similar plans write too: the queue, a count, a candidate.
            about = changed[-1].ref
            if await race.waited(about):
                continue
            opening, requires, opened = opening_changes(record, is_new=is_new)
            batch = Batch(
                space=space,
                at=ctx.clock.now(),
                entries=(*opened, *made.entries),
                puts=(*opening, *made.puts),
                deletes=made.deletes,
                requires=(*requires, *made.requires),
                takes_back=takes_back,
            )
            try:
                return settled.report, (await ctx.store.commit(batch)).last
            except Conflict as conflict:
                ctx.spaces.forget(space)
                await race.lost(conflict, about)
