"""The life of a runtime: recover and close."""

from contextlib import suppress

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.intake.texts import admitting
from elytron.memories.audit_trail import event_of, note
from elytron.state.space_records import REF
from elytron.store_check import check
from elytron.writes.knowledge.fact_uses import keep_all_uses
from elytron.writes.settlement import Settled, settle
from elytron_core.contracts.admin.inspection import (
    MemoryCloseRequest,
    MemoryLifecycleReport,
    MemoryRecoverRequest,
    RuntimePhase,
)
from elytron_core.errors import Conflict, StoreError
from elytron_core.planes.admin.audit import AuditAction
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.host import modes
from elytron_core.ports.store import Action
from elytron_core.scope import Scope


@admitting
async def recover(ctx: OperationContext, request: MemoryRecoverRequest, /) -> MemoryLifecycleReport:
    """Check the whole store, drop the space's caches, and rebuild its index from its journal.

    Its caller, reason and time are in the history of the space.
    """
    scope = ctx.scope_of(request)
    found = await check(ctx, scope.space, repair=False)
    ctx.spaces.forget(scope.space)
    ctx.heads.drop_space(scope.space)
    ctx.folds.drop(scope.space)
    await _note_recovery(ctx, scope, request)
    units = 0
    if await ctx.spaces.find(scope.space) is not None:
        units = (await ctx.folds.rebuild(scope.space)).units
    return MemoryLifecycleReport(
        phase=RuntimePhase.RECOVERED,
        reason=request.trigger,
        spaces=(scope.space,),
        indexed_units=units,
        checkpoints_written=await ctx.folds.checkpoint(),
        store_check=found,
        lifecycle=modes.admissions(request.mode_input) if request.mode_input is not None else (),
    )


async def _note_recovery(ctx: OperationContext, scope: Scope, request: MemoryRecoverRequest) -> None:
    """Store who requested a recovery. A store too damaged or full for that is recovered too."""

    async def plan(record: SpaceRecord) -> Settled[None]:
        changes = Changes(record)
        event = event_of(ctx, AuditAction.RECOVERED, at=ctx.clock.now(), reason=request.trigger)
        await note(ctx, scope.space, record, changes, {REF: (event,)}, action=Action.OPERATOR)
        return Settled(None, changes)

    with suppress(Conflict, StoreError):
        if await ctx.spaces.find(scope.space) is not None:
            await settle(ctx, scope.space, plan)


async def close(ctx: OperationContext, request: MemoryCloseRequest, /) -> MemoryLifecycleReport:
    """Store the last use of facts and the indexes' checkpoints, and close the store; a second close does nothing."""
    if ctx.closing:
        return MemoryLifecycleReport(phase=RuntimePhase.CLOSED, reason=request.reason)
    ctx.closing.append(request.reason)
    for stop in ctx.closers:
        await stop()
    await ctx.encoders.close()
    await keep_all_uses(ctx)
    try:
        written = await ctx.folds.checkpoint()
    except StoreError:
        # A checkpoint saves time at the next opening and nothing else; closing must not fail for want of one.
        written = 0
    finally:
        await ctx.store.close()
    return MemoryLifecycleReport(phase=RuntimePhase.CLOSED, reason=request.reason, checkpoints_written=written)
