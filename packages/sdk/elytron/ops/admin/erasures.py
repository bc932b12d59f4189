"""Erasures recorded outside of the store, and done again in a copy of it that was put back."""

import asyncio
from pathlib import Path

from elytron.context import OperationContext
from elytron.erasure.log_file import known_erasures, read_erasures, write_erasures
from elytron.erasure.reapplication import erase_again, gather_erasures, note_gone
from elytron_core.contracts.admin.erasures import (
    MemoryErasuresApplyReport,
    MemoryErasuresApplyRequest,
    MemoryErasuresKeepReport,
    MemoryErasuresKeepRequest,
)
from elytron_core.errors import InvalidInput, NotFound

_NEVER_WRITTEN = "nothing was ever written to it in this store; if it was erased as a whole, repeat whole_space"


async def keep_erasures(ctx: OperationContext, request: MemoryErasuresKeepRequest, /) -> MemoryErasuresKeepReport:
    """Add the space's erasures to a file, and leave its others. Raises NotFound, UnreadableFile."""
    scope = ctx.scope_of(request)
    if request.whole_space is not None and request.whole_space != scope.space:
        raise InvalidInput(field="whole_space", problem="is not the name of the scope's space: repeat that name")
    path = Path(request.path)
    kept = await asyncio.to_thread(known_erasures, path)
    gather = note_gone if request.whole_space is not None else gather_erasures
    told = await gather(ctx, scope, kept)
    if told is None:
        raise NotFound(what="space", name=scope.space, way_out=_NEVER_WRITTEN)
    await asyncio.to_thread(write_erasures, path, kept)
    return MemoryErasuresKeepReport(
        space=scope.space, path=request.path, erased=told.by_plane(), is_whole=told.whole_at is not None
    )


async def apply_erasures(ctx: OperationContext, request: MemoryErasuresApplyRequest, /) -> MemoryErasuresApplyReport:
    """Erase again what the file lists as erased in the space and is there. Raises UnreadableFile."""
    scope = ctx.scope_of(request)
    kept = await asyncio.to_thread(read_erasures, Path(request.path))
    return await erase_again(ctx, scope, kept, dry_run=request.dry_run)
