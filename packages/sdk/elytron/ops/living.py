"""The life of a runtime: recover and close."""

from elytron.context import OperationContext
from elytron.health import check
from elytron.writes.fact_uses import keep_all_uses
from elytron_core.contracts.inspecting import (
    MemoryCloseRequest,
    MemoryLifecycleReport,
    MemoryRecoverRequest,
    RuntimePhase,
)
from elytron_core.errors import StoreError
from elytron_core.policy import modes


async def recover(ctx: OperationContext, request: MemoryRecoverRequest, /) -> MemoryLifecycleReport:
    """Check the whole store, forget what was remembered of the space, and build its index anew from its journal."""
    scope = ctx.scope_of(request)
    found = await check(ctx, scope.space, repair=False)
    ctx.spaces.forget(scope.space)
    ctx.heads.drop_space(scope.space)
    ctx.folds.drop(scope.space)
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
