"""Erasure of everything that came through one origin, through all planes, after a dry run has named it."""

from collections import Counter

from elytron.context import OperationContext
from elytron.documents.planes import id_of
from elytron.erasure.removal import erase_many, erase_memories, space_dependants
from elytron_core import limits
from elytron_core.contracts.control import (
    ControlDecision,
    ControlOutcome,
    MemoryControlReport,
    MemoryEraseRequest,
    OriginKind,
    OutsideOrigin,
)
from elytron_core.contracts.recall import RecallPlane
from elytron_core.errors import InvalidInput
from elytron_core.ids import TurnId
from elytron_core.planes import tools, transcript
from elytron_core.policy.integrity import parts_through
from elytron_core.ports import store
from elytron_core.scope import Scope

_STALE = "is of no dry run that named just these memories: run it dry again, and look at what it names"


async def erase_origin(
    ctx: OperationContext, scope: Scope, origin: OutsideOrigin, request: MemoryEraseRequest, /
) -> MemoryControlReport:
    """Erase what came through `origin`, and what rests on that alone. Raises InvalidInput for a stale token.

    What rests on something else too stays, and the report names it in `derived`. Killed half-way, a new dry run and
    call finish the work.
    """
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return MemoryControlReport(space=scope.space, decisions=(), changed=False, dry_run=request.dry_run)
    ids, others = await _resting_on(ctx, scope, origin)
    token = record.tag("erased origin", origin.kind, origin.name, *ids)
    if not request.dry_run and request.token != token:
        raise InvalidInput(field="token", problem=_STALE)
    decisions: list[ControlDecision] = []
    removed: Counter[str] = Counter()
    for start in range(0, len(ids), limits.WRITES_PER_REQUEST):
        some = ids[start : start + limits.WRITES_PER_REQUEST]
        told = await erase_memories(ctx, scope, MemoryEraseRequest(scope=scope, ids=some, dry_run=True))
        decisions += told.decisions
        removed.update(told.removed)
    if not request.dry_run:
        await erase_many(ctx, scope, ids)
    changed = any(decision.outcome is ControlOutcome.CHANGED for decision in decisions)
    return MemoryControlReport(
        space=scope.space,
        decisions=tuple(decisions[: limits.WRITES_PER_REQUEST]),
        changed=changed and not request.dry_run,
        dry_run=request.dry_run,
        removed=dict(sorted(removed.items())),
        derived=others,
        token=token if request.dry_run else None,
        planes=tuple(plane for plane in RecallPlane if any(decision.plane is plane for decision in decisions)),
    )


async def _resting_on(
    ctx: OperationContext, scope: Scope, origin: OutsideOrigin
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the memories that came through `origin` or rest on it alone, and those that rest on it among others."""
    gone: dict[str, None] = {}
    async for document in store.scan_documents(ctx.store, scope.space, transcript.TURNS):
        turn = transcript.Turn.from_bytes(document.body)
        parts = (part for part in parts_through(turn, origin) if part not in turn.erased)
        gone |= dict.fromkeys(transcript.message_id(TurnId(document.ref.key), part) for part in parts)
    every = [one async for one in space_dependants(ctx, scope.space)]
    citing = {one.id: one.citations for one in every if one.is_belief}
    drawn = [one for one in every if not one.is_belief]
    if origin.kind is OriginKind.TOOL:
        async for document in store.scan_documents(ctx.store, scope.space, tools.EXPERIENCES):
            if tools.ToolExperience.from_bytes(document.body).tool_id == origin.name:
                gone[id_of(document.ref)] = None
    while True:
        known = gone.keys() | {origin.name}
        resting = [one for one, cited in citing.items() if one not in gone and cited and cited <= known]
        # A memory that was partly drawn from erased messages may repeat them, and can be drawn again.
        resting += [one.id for one in drawn if one.id not in gone and one.rests_on(gone.keys())]
        if not resting:
            told = known | {one.partition("#")[0] for one in gone}
            others = tuple(one for one, cited in citing.items() if one not in gone and not cited.isdisjoint(told))
            return tuple(gone), others
        gone |= dict.fromkeys(resting)
