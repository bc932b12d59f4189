"""Removal of the vectors of erased memories."""

from collections.abc import Iterable

from elytron.documents.prefix_scan import documents_under
from elytron.indexing.vector_places import vectors_prefix
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import VECTORS
from elytron_core.ports.store import Ref, Store


async def vectors_of(store: Store, space: SpaceId, sources: Iterable[Ref], /) -> dict[Ref, int]:
    """Return the references of vectors of the documents `sources`, of all models, with their revisions."""
    if not await store.scan(space, VECTORS, limit=1):
        return {}
    found = await documents_under(store, space, VECTORS, map(vectors_prefix, sources))
    return {document.ref: document.revision for document in found}
