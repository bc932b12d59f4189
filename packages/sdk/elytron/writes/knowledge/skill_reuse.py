"""Uses of runtime skills: shown by recall, and their outcomes."""

from collections.abc import Iterable, Sequence
from functools import partial

from elytron.context import OperationContext
from elytron.memories.skills import shelf_of
from elytron.writes.knowledge.fact_uses import note_uses
from elytron.writes.settlement import Settled, settle, settle_report
from elytron_core import limits
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.contracts.knowledge.skills import RuntimeSkillReuseReport
from elytron_core.errors import Conflict, StoreError
from elytron_core.planes.knowledge.procedural import ReuseOutcome
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.skills import quality
from elytron_core.ports.store import Action
from elytron_core.scope import Scope


async def record_reuse(
    ctx: OperationContext, scope: Scope, names: Iterable[str], outcome: ReuseOutcome, /, *, note: str = ""
) -> RuntimeSkillReuseReport:
    """Record the outcome of the skills of these names; `note` must be free of secrets.

    A success counts and takes back a pending revision, a mismatch counts and asks for one, a neutral outcome is only
    noted.
    """
    asked = tuple(dict.fromkeys(names))

    async def plan(record: SpaceRecord) -> Settled[RuntimeSkillReuseReport]:
        shelf = await shelf_of(ctx, scope.space, record, asked)
        known = tuple(skill for skill in shelf)
        for skill in known:
            learned = quality.with_outcome(skill, outcome, at=ctx.clock.now(), note=note)
            shelf.put(learned, Action.MAINTENANCE)
        recorded = tuple(skill.name for skill in known)
        report = RuntimeSkillReuseReport(
            space=scope.space,
            changed=bool(known),
            recorded=recorded,
            unknown=tuple(name for name in asked if name not in recorded),
        )
        return Settled(report, shelf.changes)

    return await settle_report(ctx, scope.space, plan)


async def note_shown(ctx: OperationContext, scope: Scope, hits: Sequence[RecallHit], /) -> None:
    """Count one use of each likely skill among `hits`, and remember that of each likely fact; within six hours, as one.

    Recall is never refused over it: where the store takes no write now, or others keep winning the race, the use is
    counted another time.
    """
    likely = [hit for hit in hits if hit.score >= limits.PROJECTED_SCORE]
    note_uses(ctx, scope.space, likely)
    names = tuple(hit.id for hit in likely if hit.plane is Plane.PROCEDURAL)
    if not names:
        return
    try:
        await settle(ctx, scope.space, partial(_touch, ctx, scope, names))
    except (Conflict, StoreError):
        return


async def _touch(ctx: OperationContext, scope: Scope, names: tuple[str, ...], record: SpaceRecord) -> Settled[None]:
    shelf = await shelf_of(ctx, scope.space, record, names)
    now = ctx.clock.now()
    for skill in tuple(shelf):
        used = quality.touched(skill, at=now)
        if used is not skill:
            shelf.put(used, Action.MAINTENANCE)
    return Settled(None, shelf.changes)
