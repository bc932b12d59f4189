"""Dependants of memories: copies of their words, their vectors, and memories derived from them."""

from collections.abc import AsyncIterator, Collection, Iterable
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.documents.planes import HOMES, StoredMemory, citations_of, id_of, is_forgotten
from elytron.documents.stored_values import documents_under
from elytron.indexing.units import vectors_prefix
from elytron.memories.lookup import Memory, MessageMemory
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes import skills, transcript
from elytron_core.planes.embedding import VECTORS
from elytron_core.planes.facts import FACTS, Fact
from elytron_core.planes.records import (
    COPIES_OF_BLOCKS,
    RECORDS,
    RUNTIME_RECORDS,
    Record,
    copies_of_conversation,
    copies_of_turn,
    is_copy,
)
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store
from elytron_core.ports.store import DocumentRef, Store


async def copies_of(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, memories: Iterable[Memory], /
) -> dict[DocumentRef, int]:
    """Return the places of copies of `memories`, with their revisions: of quoted words, and of shown blocks."""
    prefixes: set[str] = set()
    for memory in memories:
        if isinstance(memory, StoredMemory) and isinstance(memory.value, Record):
            continue
        prefixes.add(record.namespace_key(COPIES_OF_BLOCKS).partition(".")[0] + ".")
        if isinstance(memory, MessageMemory):
            prefixes.add(record.namespace_key(copies_of_conversation(memory.turn.conversation)))
            if memory.turn.host_id is not None:
                namespace = copies_of_turn(memory.turn.host_id, memory.turn.conversation, memory.turn.channel)
                # Earlier builds named a run only by its id.
                prefixes |= {record.namespace_key(namespace[:part_count]) for part_count in (1, 2, 3)}
    # Builds before the runtime had its own collection stored copies in the host's.
    copy_documents = [
        document
        for collection in (RUNTIME_RECORDS, RECORDS)
        for document in (await documents_under(ctx.store, space, collection, prefixes) if prefixes else ())
    ]
    return {document.ref: document.revision for document in copy_documents}


async def every_copy(ctx: OperationContext, space: SpaceId, /) -> tuple[DocumentRef, ...]:
    """Return the places of all copies of turns, conversations and blocks in a space."""
    documents = store.scan_documents(ctx.store, space, RUNTIME_RECORDS)
    return tuple([each.ref async for each in documents if is_copy(Record.from_bytes(each.body).namespace)])


async def vectors_of(store: Store, space: SpaceId, sources: Iterable[DocumentRef], /) -> dict[DocumentRef, int]:
    """Return the references of vectors of the documents `sources`, of all models, with their revisions."""
    # Most spaces have no vectors: one small read saves a scan per source.
    if not await store.scan(space, VECTORS, limit=1):
        return {}
    documents = await documents_under(store, space, VECTORS, map(vectors_prefix, sources))
    return {document.ref: document.revision for document in documents}


class DependantMemory(NamedTuple):
    """A memory that may be based on others."""

    id: str
    ref: DocumentRef
    citations: frozenset[str]
    conversation: str | None = None
    """Tag of the conversation that it was derived from as a whole."""
    is_hidden: bool = False
    """True if recall returns it for no time."""
    is_belief: bool = False
    """True for a fact or skill."""

    def rests_on(self, names: Collection[str], /) -> bool:
        """Return whether it cites one of these turns or messages, or was derived from the conversation of one."""
        if self.conversation is not None:
            # A name with a colon is no turn's.
            return any(transcript.tag_of(TurnId(name)) == self.conversation for name in names if ":" not in name)
        return not self.citations.isdisjoint(names)


async def space_dependants(ctx: OperationContext, space: SpaceId, /) -> AsyncIterator[DependantMemory]:
    """Yield the memories of a space that may be based on others, in storage order."""
    async for document in store.scan_documents(ctx.store, space, FACTS):
        fact = Fact.from_bytes(document.body)
        citations = frozenset(fact.citations)
        yield DependantMemory(fact.id, document.ref, citations, is_hidden=not fact.is_believed, is_belief=True)
    async for document in store.scan_documents(ctx.store, space, skills.SKILLS):
        skill = skills.Skill.from_bytes(document.body)
        citations = frozenset(skill.citations)
        yield DependantMemory(skill.name, document.ref, citations, is_hidden=not skill.is_recallable, is_belief=True)
    for collection, plane_home in HOMES.items():
        async for document in store.scan_documents(ctx.store, space, collection):
            value = plane_home.kind.from_bytes(document.body)
            tag = document.ref.key if plane_home.is_of_all else None
            citations = frozenset(citations_of(value))
            yield DependantMemory(id_of(document.ref), document.ref, citations, tag, is_hidden=is_forgotten(value))
