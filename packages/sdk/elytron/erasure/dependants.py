"""Memories that rest on others: what they cite, and whose conversation they were drawn from."""

from collections.abc import AsyncIterator, Collection
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.documents.plane_documents import citations_of, id_of, is_forgotten
from elytron.documents.planes import HOMES
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term, procedural
from elytron_core.ports import store_pages
from elytron_core.ports.store import Ref


class Dependant(NamedTuple):
    """A memory that may rest on others."""

    id: str
    ref: Ref
    citations: frozenset[str]
    conversation: str | None = None
    """Tag of the conversation that it was drawn from as a whole."""
    is_hidden: bool = False
    """True if recall gives it for no time."""
    is_belief: bool = False
    """True of a fact or skill."""

    def rests_on(self, names: Collection[str], /) -> bool:
        """Return whether it cites one of these turns or messages, or was drawn from the conversation of one."""
        if self.conversation is not None:
            return any(transcript.tag_of(TurnId(name)) == self.conversation for name in names if ":" not in name)
        return not self.citations.isdisjoint(names)


async def dependants(ctx: OperationContext, space: SpaceId, /) -> AsyncIterator[Dependant]:
    """Yield the memories of a space that may rest on others, in storing order."""
    async for document in store_pages.documents(ctx.store, space, long_term.FACTS):
        fact = long_term.Fact.from_bytes(document.body)
        cited = frozenset(fact.citations)
        yield Dependant(fact.id, document.ref, cited, is_hidden=not fact.is_believed, is_belief=True)
    async for document in store_pages.documents(ctx.store, space, procedural.SKILLS):
        skill = procedural.Skill.from_bytes(document.body)
        cited = frozenset(skill.citations)
        yield Dependant(skill.name, document.ref, cited, is_hidden=not skill.is_recallable, is_belief=True)
    for collection, home in HOMES.items():
        async for document in store_pages.documents(ctx.store, space, collection):
            value = home.kind.from_bytes(document.body)
            tag = document.ref.key if home.is_of_all else None
            cited = frozenset(citations_of(value))
            yield Dependant(id_of(document.ref), document.ref, cited, tag, is_hidden=is_forgotten(value))
