"""Store checks as reports say them."""

from elytron.context import OperationContext
from elytron_core.contracts.admin.inspection import DamageItem, StoreCheck
from elytron_core.ids import SpaceId
from elytron_core.ports.store import CheckReport


async def check(ctx: OperationContext, space: SpaceId, /, *, repair: bool) -> StoreCheck:
    """Read every byte of the store; with `repair`, move what is damaged aside. Other spaces' names are not shown."""
    found = await ctx.store.repair() if repair else await ctx.store.check()
    return _shown(found, space)


def _shown(report: CheckReport, space: SpaceId) -> StoreCheck:
    return StoreCheck(
        ok=report.ok,
        documents=report.documents,
        entries=report.entries,
        blobs=report.blobs,
        problems=tuple(
            DamageItem(
                damage=problem.damage,
                what=problem.what if problem.space in {None, space} else "in another space",
                quarantined=problem.quarantined,
            )
            for problem in report.problems
        ),
        clipped=report.clipped,
    )
