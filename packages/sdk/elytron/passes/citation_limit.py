"""The evidence of facts, kept to the newest citations, with the links of those that go."""

from elytron.documents.change_set import Changes
from elytron.memories.provenance_links import Resting, unlink_left
from elytron.passes.pass_context import Work
from elytron.writes.settlement import Settled, settle
from elytron_core import limits
from elytron_core.planes.derived_refs import DerivedMemoryPlane
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store_pages
from elytron_core.ports.store import Action


async def trim_evidence(work: Work, /) -> int:
    """Cut the citations of the space's facts at what a fact keeps; return how many facts had more."""

    async def plan(record: SpaceRecord) -> Settled[int]:
        changes = Changes(record)
        trimmed = 0
        async for document in store_pages.documents(work.ctx.store, work.space, long_term.FACTS):
            fact = long_term.Fact.from_bytes(document.body)
            kept = long_term.newest_citations(fact.citations)
            if kept == fact.citations or trimmed == limits.WRITES_PER_REQUEST:
                continue
            trimmed += 1
            cut = fact.model_copy(update={"citations": kept})
            changes.put(document.ref, cut, expects=document.revision, action=Action.MAINTENANCE)
            before = Resting(DerivedMemoryPlane.SHARED_FACT, fact.id, fact.citations)
            await unlink_left(work.ctx, work.space, record, changes, before, after=kept)
        return Settled(trimmed, changes)

    trimmed, _ = await settle(work.ctx, work.space, plan)
    return trimmed
