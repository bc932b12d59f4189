"""Shared parts of all engines: argument checks, the checksum of a document, an erasure's journal entry."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from elytron_core import limits
from elytron_core.canonical import checksum
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.gc_pause import Uncollected, settle
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, Erasure, Ref, require_ref, require_space

P = TypeVar("P")
T = TypeVar("T")

ERASURE_REF = Ref("erasure", "0")
"""Subject of an erasure's journal entry: it says that something was removed, not what."""


async def off_loop(work: Callable[[Batch], T], batch: Batch, /) -> T:
    """Return `work(batch)`: at once, without waiting, but of an import, which may be large, in another thread."""
    return await asyncio.to_thread(uncollected, work, batch) if batch.is_import else work(batch)


def uncollected(work: Callable[[P], T], part: P, /) -> T:
    """Return `work(part)` of an import: a search for garbage in all that it makes would hold up the event loop."""
    with Uncollected():
        made = work(part)
    settle()
    return made


def document_checksum(ref: Ref, revision: int, body: bytes, /) -> bytes:
    """Return eight bytes that change when the body is altered or is at another place or revision."""
    return checksum(ref.collection.encode(), ref.key.encode(), revision.to_bytes(8, "big"), body)


def require_limit(limit: int, /, *, most: int) -> None:
    """Raise InvalidInput below 1 and LimitExceeded above `most`."""
    if limit < 1:
        raise InvalidInput(field="limit", problem="is below 1")
    if limit > most:
        raise LimitExceeded(what="limit", limit=most, found=limit)


def require_get(space: SpaceId, refs: Sequence[Ref], /) -> None:
    """Raise InvalidInput for an unusable space or ref, LimitExceeded for more refs than one read takes."""
    require_space(space)
    if len(refs) > limits.SCAN_MAX:
        raise LimitExceeded(what="documents in one read", limit=limits.SCAN_MAX, found=len(refs))
    for ref in refs:
        require_ref(ref)


def require_scan(space: SpaceId, collection: str, /, *, limit: int) -> None:
    """Raise InvalidInput for an unusable space or collection; for the limit see `require_limit`."""
    require_space(space)
    require_ref(Ref(collection, "0"))
    require_limit(limit, most=limits.SCAN_MAX)


def require_journal(space: SpaceId, /, *, after: int, limit: int) -> None:
    """Raise InvalidInput for an unusable space or a sequence below 0; for the limit see `require_limit`."""
    require_space(space)
    if after < 0:
        raise InvalidInput(field="after", problem="is below 0")
    require_limit(limit, most=limits.JOURNAL_MAX)


def require_blob(space: SpaceId, key: str, /) -> None:
    """Raise InvalidInput unless `space` is usable and `key` is written like a document's key."""
    require_space(space)
    require_ref(Ref("blob", key))


def require_erasure(erasure: Erasure, /) -> None:
    """Raise InvalidInput for an unusable space, ref or blob key."""
    require_space(erasure.space)
    for ref in erasure.refs:
        require_ref(ref)
    for key in erasure.blobs:
        require_blob(erasure.space, key)
