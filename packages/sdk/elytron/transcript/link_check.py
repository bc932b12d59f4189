"""Check of a conversation's links: read whole, judged purely, without a change."""

from elytron.context import OperationContext
from elytron.documents.prefix_scan import Sound, sound_documents
from elytron.memories.chat_aliases import meant
from elytron.memories.provenance_links import target_of
from elytron.transcript.clipper import Clipper
from elytron_core import limits
from elytron_core.contracts.conversation.transcript import MemoryTranscriptRepairReport
from elytron_core.errors import SealBroken, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.planes.conversation.attributes import TURN_ATTRIBUTES
from elytron_core.planes.conversation.transcript import TURNS
from elytron_core.planes.derived_refs import DERIVED_REFS
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.integrity.links import Links
from elytron_core.ports.store import Ref
from elytron_core.scope import Scope


async def inspect_links(ctx: OperationContext, scope: Scope, /) -> MemoryTranscriptRepairReport:
    """Return what is wrong with the scope's conversation. A chat that cannot be trusted closes by itself."""
    found = await meant(ctx, scope)
    record = await ctx.spaces.find(scope.space)
    report = MemoryTranscriptRepairReport(
        space=scope.space,
        channel=found.key.channel,
        conversation=found.key.conversation,
        alias=found.trust,
        fail_closed=not found.is_trusted,
    )
    if record is None or not found.is_trusted:
        return report
    prefix = f"{record.conversation_tag(found.key)}."
    links = Links(scope.space, found.key)
    turns = await _read(ctx, scope.space, TURNS, prefix, links)
    for document in turns.documents:
        links.turn(document.ref.key, document.body)
    derived = await _read(ctx, scope.space, DERIVED_REFS, prefix, links)
    for document in derived.documents:
        links.derived_ref(document.ref.key, document.body)
    links.targets(await _standing(ctx, scope.space, record, links))
    attributes = await _read(ctx, scope.space, TURN_ATTRIBUTES, prefix, links)
    for document in attributes.documents:
        links.attribute(document.ref.key, document.body)
    clipper = Clipper()
    shown = clipper.profile("issues", links.issues, ctx.profile.budget.transcript.repair_issues)
    return report.model_copy(
        update={
            "checked_turns": len(turns.documents) + len(turns.damaged),
            "checked_derived_refs": len(derived.documents) + len(derived.damaged),
            "checked_attributes": len(attributes.documents) + len(attributes.damaged),
            "issues": shown,
            "profile_budget_applied": clipper.is_by_profile,
            "clipped": tuple(clipper.clips),
            "fail_closed": bool(links.issues),
        }
    )


async def _read(ctx: OperationContext, space: SpaceId, collection: str, prefix: str, links: Links) -> Sound:
    """Return the records of a collection that can be read; the others are issues."""
    found = await sound_documents(ctx.store, space, collection, prefix)
    for key in found.damaged:
        links.damaged(collection, key)
    return found


async def _standing(ctx: OperationContext, space: SpaceId, record: SpaceRecord, links: Links) -> set[str]:
    """Return the keys of the links whose memory is there, or in a plane that keeps no document by its key."""
    targets = {key: target_of(record, ref) for key, ref in links.derived.items()}
    standing = {key for key, target in targets.items() if target is None}
    wanted = list(dict.fromkeys(target for target in targets.values() if target is not None))
    there: set[tuple[str, str]] = set()
    for start in range(0, len(wanted), limits.SCAN_MAX):
        there |= await _there(ctx, space, wanted[start : start + limits.SCAN_MAX])
    return standing | {key for key, target in targets.items() if target in there}


async def _there(ctx: OperationContext, space: SpaceId, refs: list[Ref]) -> set[tuple[str, str]]:
    """Return which of `refs` hold a document; a damaged one is there."""
    try:
        return {document.ref for document in await ctx.store.get(space, refs) if document is not None}
    except (StoreCorrupt, SealBroken):
        if len(refs) == 1:
            return set(refs)
    half = len(refs) // 2
    return await _there(ctx, space, refs[:half]) | await _there(ctx, space, refs[half:])
