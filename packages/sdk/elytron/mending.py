"""Whether the links of a conversation hold: read whole, judged purely, changed by nobody."""

from elytron.aliases import meant
from elytron.clipping import Clipper
from elytron.context import OperationContext
from elytron.deriving import target_of
from elytron.prefixes import documents_under
from elytron_core import limits
from elytron_core.contracts.transcript import MemoryTranscriptRepairReport
from elytron_core.ids import SpaceId
from elytron_core.planes.attributes import TURN_ATTRIBUTES
from elytron_core.planes.derived_refs import DERIVED_REFS
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import TURNS
from elytron_core.policy.repairing import Links
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
    turns = await documents_under(ctx.store, scope.space, TURNS, (prefix,))
    for document in turns:
        links.turn(document.ref.key, document.body)
    derived = await documents_under(ctx.store, scope.space, DERIVED_REFS, (prefix,))
    for document in derived:
        links.derived_ref(document.ref.key, document.body)
    links.targets(await _standing(ctx, scope.space, record, links))
    attributes = await documents_under(ctx.store, scope.space, TURN_ATTRIBUTES, (prefix,))
    for document in attributes:
        links.attribute(document.ref.key, document.body)
    clipper = Clipper()
    shown = clipper.profile("issues", links.issues, ctx.profile.budget.transcript.repair_issues)
    return report.model_copy(
        update={
            "checked_turns": len(turns),
            "checked_derived_refs": len(derived),
            "checked_attributes": len(attributes),
            "issues": shown,
            "profile_budget_applied": clipper.is_by_profile,
            "clipped": tuple(clipper.clips),
            "fail_closed": bool(links.issues),
        }
    )


async def _standing(ctx: OperationContext, space: SpaceId, record: SpaceRecord, links: Links) -> set[str]:
    """Return the keys of the links whose memory is there, or in a plane that keeps no document by its key."""
    targets = {key: target_of(record, ref) for key, ref in links.derived.items()}
    standing = {key for key, target in targets.items() if target is None}
    wanted = list(dict.fromkeys(target for target in targets.values() if target is not None))
    there: set[tuple[str, str]] = set()
    for start in range(0, len(wanted), limits.SCAN_MAX):
        page = await ctx.store.get(space, wanted[start : start + limits.SCAN_MAX])
        there |= {document.ref for document in page if document is not None}
    return standing | {key for key, target in targets.items() if target in there}
