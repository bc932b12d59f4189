"""Which vectors go with a memory that is erased."""

from collections.abc import Iterable

from elytron.embedding.places import vectors_prefix
from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import VECTORS
from elytron_core.ports.store import Ref, Store


async def vectors_of(store: Store, space: SpaceId, sources: Iterable[Ref], /) -> dict[Ref, int]:
    """Return where vectors of the documents `sources` stand, by whatever model, with their revisions."""
    if not await store.scan(space, VECTORS, limit=1):
        return {}
    found: dict[Ref, int] = {}
    for source in dict.fromkeys(sources):
        for document in await store.scan(space, VECTORS, prefix=vectors_prefix(source), limit=limits.SCAN_MAX):
            found[document.ref] = document.revision
    return found
