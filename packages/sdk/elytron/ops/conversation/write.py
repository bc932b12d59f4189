"""Write: evidence, facts, procedures, candidates, and what the other planes keep."""

from functools import partial
from typing import assert_never

from elytron.context import OperationContext
from elytron.intake.texts import admitting
from elytron.memories.chat_aliases import home
from elytron.transcript.evidence import without_unfounded
from elytron.writes.candidates import plan_candidates
from elytron.writes.capsules import plan_capsules
from elytron.writes.commit import Plan, commit
from elytron.writes.conversation_planes import plan_execution, plan_garden, plan_notes, plan_summary
from elytron.writes.knowledge.facts import plan_facts
from elytron.writes.knowledge.skills import plan_skills
from elytron.writes.knowledge.subjects import plan_subjects
from elytron.writes.tools import plan_tool_feedback
from elytron.writes.transcripts import TurnRules, plan_turns
from elytron_core.contracts.conversation.candidates import CandidatesWrite
from elytron_core.contracts.conversation.write import (
    LongTermExtraction,
    MemoryWrite,
    MemoryWriteReport,
    MemoryWriteRequest,
    Procedural,
    TranscriptWrite,
)
from elytron_core.contracts.planes import (
    CapsulesWrite,
    ExecutionWrite,
    GardenWrite,
    NotesWrite,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.contracts.tools import AgentToolUsageFeedbackWrite
from elytron_core.scope import Scope


@admitting
async def write(ctx: OperationContext, request: MemoryWriteRequest, /) -> MemoryWriteReport:
    """Admit what the request holds and commit it as one batch; what cites a message that is not there is refused."""
    scope = await home(ctx, ctx.scope_of(request))
    founded, refused = await without_unfounded(ctx, scope.space, request.write)
    if founded is not None:
        report = await commit(ctx, scope.space, request, _plan_of(ctx, scope, founded))
    else:
        report = MemoryWriteReport(space=scope.space, decisions=(), sequence=0, changed=False, dry_run=request.dry_run)
    if not refused:
        return report
    decisions = list(report.decisions)
    for place, decision in refused.items():
        decisions.insert(place, decision)
    return report.model_copy(update={"decisions": tuple(decisions)})


def _plan_of(ctx: OperationContext, scope: Scope, write: MemoryWrite) -> Plan:
    """Return how `write` is planned once the space's record is known."""
    match write:
        case TranscriptWrite():
            return partial(plan_turns, ctx, scope, write, TurnRules())
        case LongTermExtraction():
            return partial(plan_facts, ctx, scope, write)
        case Procedural():
            return partial(plan_skills, ctx, scope, write)
        case AgentToolUsageFeedbackWrite():
            return partial(plan_tool_feedback, ctx, scope, write)
        case CandidatesWrite():
            return partial(plan_candidates, ctx, scope, write)
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
