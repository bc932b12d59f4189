"""Records whose time to live is over, removed physically."""

from elytron.documents.plane_documents import id_of
from elytron.erasure.removal import erase_many
from elytron.memories.records import records_below
from elytron.passes.pass_context import Work
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
