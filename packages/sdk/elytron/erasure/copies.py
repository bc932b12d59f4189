"""Copies that an erasure takes along: records that repeat turns, conversations or blocks, and vectors."""

from collections.abc import Iterable

from elytron.context import OperationContext
from elytron.documents.plane_documents import KeptMemory
from elytron.documents.prefix_scan import documents_under
from elytron.indexing.vector_places import vectors_prefix
from elytron.memories.lookup import Memory, TurnMemory
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import VECTORS
from elytron_core.planes.knowledge.records import (
    COPIES_OF_BLOCKS,
    RECORDS,
    RUNTIME_RECORDS,
    Record,
    copies_of_conversation,
    copies_of_turn,
    is_copy,
)
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store_pages
from elytron_core.ports.store import Ref, Store


async def copies_of(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, memories: Iterable[Memory], /
) -> dict[Ref, int]:
    """Return where copies of `memories` stand, with their revisions: of words that were said, and of shown blocks."""
    prefixes: set[str] = set()
    for memory in memories:
        if isinstance(memory, KeptMemory) and isinstance(memory.value, Record):
            continue
        prefixes.add(_below(record, COPIES_OF_BLOCKS))
        if isinstance(memory, TurnMemory):
            prefixes.add(record.namespace_key(copies_of_conversation(memory.turn.conversation)))
            if memory.turn.host_id is not None:
                namespace = copies_of_turn(memory.turn.host_id, memory.turn.conversation)
                # Earlier builds named a run by its id alone.
                prefixes |= {record.namespace_key(namespace), record.namespace_key(namespace[:1])}
    # Builds before the runtime had a collection of its own stored copies in the host's.
    found = [
        document
        for collection in (RUNTIME_RECORDS, RECORDS)
        for document in (await documents_under(ctx.store, space, collection, prefixes) if prefixes else ())
    ]
    return {document.ref: document.revision for document in found}


async def every_copy(ctx: OperationContext, space: SpaceId, /) -> tuple[Ref, ...]:
    """Return where all copies of turns, conversations and blocks of a space stand."""
    documents = store_pages.documents(ctx.store, space, RUNTIME_RECORDS)
    return tuple([each.ref async for each in documents if is_copy(Record.from_bytes(each.body).namespace)])


async def vectors_of(store: Store, space: SpaceId, sources: Iterable[Ref], /) -> dict[Ref, int]:
    """Return the references of vectors of the documents `sources`, of all models, with their revisions."""
    if not await store.scan(space, VECTORS, limit=1):
        return {}
    found = await documents_under(store, space, VECTORS, map(vectors_prefix, sources))
    return {document.ref: document.revision for document in found}


def _below(record: SpaceRecord, namespace: tuple[str, ...]) -> str:
    """Return how the keys begin of all records whose namespace has the first part of `namespace`."""
    return record.namespace_key(namespace).partition(".")[0] + "."
