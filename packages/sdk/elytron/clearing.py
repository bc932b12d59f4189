"""mem0's delete_all: a user's whole space, or an agent's or run's part of it. A flow of list and erase."""

from elytron import ops, plain
from elytron.context import OperationContext
from elytron_core import limits
from elytron_core.contracts.control import (
    ControlDecision,
    MemoryControlReport,
    MemoryEraseRequest,
    MemoryListRequest,
)
from elytron_core.errors import ScopeMissing


async def delete_all(
    ctx: OperationContext, *, user_id: str | None, agent_id: str | None, run_id: str | None
) -> MemoryControlReport:
    """Erase what the ids name; none named is refused, so that nobody clears everything by leaving something out."""
    scope = plain.scope_of(ctx.default_scope, user_id=user_id)
    if scope is None or (user_id is None and agent_id is None and run_id is None):
        raise ScopeMissing(operation="delete_all", way_out="name a user_id, agent_id or run_id, or erase a whole space")
    if agent_id is None and run_id is None:
        return await ops.erase(ctx, MemoryEraseRequest(scope=scope, whole_space=scope.space))
    filters = plain.filters_of(None, agent_id=agent_id, run_id=run_id)
    decisions: list[ControlDecision] = []
    removed: dict[str, int] = {}
    derived: list[str] = []
    sequence = 0
    while True:
        page = await ops.list_memories(
            ctx, MemoryListRequest(scope=scope, limit=limits.WRITES_PER_REQUEST, filters=filters)
        )
        if not page.items:
            break
        erased = await ops.erase(ctx, MemoryEraseRequest(scope=scope, ids=tuple(item.id for item in page.items)))
        decisions += erased.decisions
        derived += erased.derived
        sequence = erased.sequence
        for name, count in erased.removed.items():
            removed[name] = removed.get(name, 0) + count
    return MemoryControlReport(
        space=scope.space,
        decisions=tuple(decisions),
        changed=bool(decisions),
        sequence=sequence,
        removed=removed,
        derived=tuple(derived),
    )
