"""mem0's delete_all: a user's whole space, or an agent's or run's part of it. A flow of list and erase."""

from elytron.api import arguments
from elytron.api.base import Face
from elytron_core import limits
from elytron_core.contracts.knowledge.control import (
    ControlDecision,
    Hidden,
    MemoryControlReport,
    MemoryEraseRequest,
    MemoryListReport,
    MemoryListRequest,
)
from elytron_core.errors import ScopeMissing


async def delete_all(
    memory: Face, /, *, user_id: str | None, agent_id: str | None, run_id: str | None
) -> MemoryControlReport:
    """Erase the memories of the ids; a call without ids is refused, so that an omission does not clear everything."""
    scope = arguments.scope_of(memory.scope, user_id=user_id)
    if user_id is None and agent_id is None and run_id is None:
        raise ScopeMissing(operation="delete_all", way_out="name a user_id, agent_id or run_id, or erase a whole space")
    if scope is None:
        raise ScopeMissing(operation="delete_all", way_out=arguments.NO_USER)
    if agent_id is None and run_id is None:
        return await memory.operate(MemoryEraseRequest(scope=scope, whole_space=scope.space), MemoryControlReport)
    _, filters = arguments.narrowed_by(None, agent_id=agent_id, run_id=run_id)
    decisions: list[ControlDecision] = []
    removed: dict[str, int] = {}
    derived: list[str] = []
    sequence = 0
    while True:
        listing = MemoryListRequest(
            scope=scope,
            limit=limits.WRITES_PER_REQUEST,
            filters=filters,
            hidden=Hidden.LISTED,
            include_private=True,
        )
        page = await memory.operate(listing, MemoryListReport)
        if not page.items:
            break
        erasure = MemoryEraseRequest(scope=scope, ids=tuple(item.id for item in page.items))
        erased = await memory.operate(erasure, MemoryControlReport)
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
