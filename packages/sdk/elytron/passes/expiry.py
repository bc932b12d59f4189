"""Records whose time to live is over, removed physically."""

from elytron.erasing import erase_many
from elytron.keeping import id_of
from elytron.passes.working import Work
from elytron.record_shelf import records_below
from elytron_core import limits


async def remove_expired(work: Work, /) -> int:
    """Erase up to `limits.WRITES_PER_REQUEST` expired records of the space; return how many."""
    now = work.ctx.clock.now()
    expired: list[str] = []
    async for document, record in records_below(work.ctx, work.space, ()):
        if record.is_expired(now):
            expired.append(id_of(document.ref))
        if len(expired) == limits.WRITES_PER_REQUEST:
            break
    return await erase_many(work.ctx, work.scope, expired)
