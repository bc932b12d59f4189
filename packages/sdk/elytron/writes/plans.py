"""Each plane's write becomes one batch of its own plan."""

from functools import partial
from typing import assert_never

from elytron.context import OperationContext
from elytron.writes.capsules import plan_capsules
from elytron.writes.commit import Plan, commit
from elytron.writes.conversation_planes import plan_execution, plan_garden, plan_notes, plan_summary
from elytron.writes.knowledge.subjects import plan_subjects
from elytron_core.contracts.conversation.write import MemoryWriteReport, MemoryWriteRequest, PlaneWrite
from elytron_core.contracts.planes import (
    CapsulesWrite,
    ExecutionWrite,
    GardenWrite,
    NotesWrite,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.scope import Scope


async def write_plane(
    ctx: OperationContext, scope: Scope, request: MemoryWriteRequest, write: PlaneWrite, /
) -> MemoryWriteReport:
    """Commit what the planes keep one of per matter, conversation or name."""
    return await commit(ctx, scope.space, request, plan_of(ctx, scope, write))


def plan_of(ctx: OperationContext, scope: Scope, write: PlaneWrite, /) -> Plan:
    """Return how `write` is planned once the space's record is known."""
    match write:
        case CapsulesWrite():
            return partial(plan_capsules, ctx, scope, write)
        case ExecutionWrite():
            return partial(plan_execution, ctx, scope, write)
        case SummaryWrite():
            return partial(plan_summary, ctx, scope, write)
        case NotesWrite():
            return partial(plan_notes, ctx, scope, write)
        case GardenWrite():
            return partial(plan_garden, ctx, scope, write)
        case SubjectsWrite():
            return partial(plan_subjects, ctx, scope, write)
        case _:
            assert_never(write)
