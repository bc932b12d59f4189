"""The last use of facts, stored by maintenance and at closing: uses within six hours count as one."""

import asyncio
from collections.abc import Iterable
from functools import partial

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.stored_values import values_at
from elytron.writes.settlement import Settled, settle
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.errors import Conflict, StoreError
from elytron_core.ids import FactId, SpaceId
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.long_term import FACT_USES, FactUse
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.skills.quality import TOUCH_MS
from elytron_core.ports.store import Action, Ref


def note_uses(ctx: OperationContext, space: SpaceId, hits: Iterable[RecallHit], /) -> None:
    """Remember that the facts among `hits` were shown now."""
    facts = [hit.id for hit in hits if hit.plane is Plane.LONG_TERM]
    if facts:
        ctx.fact_uses.note(space, facts, at=ctx.clock.now())


async def uses_of(ctx: OperationContext, space: SpaceId, facts: Iterable[FactId], /) -> dict[FactId, Instant]:
    """Return when each of up to a page of facts was last shown, if known."""
    asked = list(facts)
    found = await values_at(ctx.store, space, [Ref(FACT_USES, fact) for fact in asked], FactUse)
    kept = {FactId(ref.key): use.last_used_at for ref, use in found.items()}
    return kept | {fact: at for fact, at in ctx.fact_uses.of(space).items() if fact in asked}


async def keep_uses(ctx: OperationContext, space: SpaceId, /) -> None:
    """Store what is remembered of a space. Nothing is refused over it: what fails now is stored another time."""
    pending = dict(list(ctx.fact_uses.of(space).items())[-limits.SCAN_MAX :])
    try:
        if not pending or await ctx.spaces.find(space) is None:
            return
        await settle(ctx, space, partial(_plan, ctx, space, pending))
    except (Conflict, StoreError):
        return
    ctx.fact_uses.drop(space, pending)


async def keep_all_uses(ctx: OperationContext, /) -> None:
    """Store what is remembered of each space, before the runtime ends; after the bound, of no further one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.FACT_USES_CLOSE_WAIT_S
    for space in ctx.fact_uses.spaces():
        if loop.time() > end:
            return
        await keep_uses(ctx, space)


async def _plan(
    ctx: OperationContext, space: SpaceId, pending: dict[FactId, Instant], record: SpaceRecord
) -> Settled[None]:
    facts = await ctx.store.get(space, [Ref(long_term.FACTS, fact) for fact in pending])
    known = await ctx.store.get(space, [Ref(FACT_USES, fact) for fact in pending])
    changes = Changes(record)
    for (fact, at), stored, document in zip(pending.items(), facts, known, strict=True):
        if stored is None:
            continue
        before = FactUse.from_bytes(document.body) if document is not None else None
        if before is not None and at - before.last_used_at < TOUCH_MS:
            continue
        used = FactUse(last_used_at=at, uses=(before.uses if before is not None else 0) + 1)
        revision = document.revision if document is not None else 0
        # One entry in the journal is for all of them.
        action = None if changes else Action.MAINTENANCE
        changes.put(Ref(FACT_USES, fact), used, expects=revision, action=action)
    return Settled(None, changes)
