"""Write: evidence, facts, procedures, candidates, and what the other planes keep."""

from typing import assert_never

from elytron.admission.texts import admitting
from elytron.context import OperationContext
from elytron.memories.chat_aliases import home
from elytron.transcript.evidence import without_unfounded
from elytron.writes.candidates import write_candidates
from elytron.writes.knowledge.facts import write_facts
from elytron.writes.knowledge.skills import write_skills
from elytron.writes.plans import write_plane
from elytron.writes.tools import write_tool_feedback
from elytron.writes.transcripts import write_turns
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
        report = await _written(ctx, scope, request, founded)
    else:
        report = MemoryWriteReport(space=scope.space, decisions=(), sequence=0, changed=False, dry_run=request.dry_run)
    if not refused:
        return report
    decisions = list(report.decisions)
    for place, decision in refused.items():
        decisions.insert(place, decision)
    return report.model_copy(update={"decisions": tuple(decisions)})


async def _written(
    ctx: OperationContext, scope: Scope, request: MemoryWriteRequest, write: MemoryWrite
) -> MemoryWriteReport:
    match write:
        case TranscriptWrite():
            return await write_turns(ctx, scope, request, write)
        case LongTermExtraction():
            return await write_facts(ctx, scope, request, write)
        case Procedural():
            return await write_skills(ctx, scope, request, write)
        case AgentToolUsageFeedbackWrite():
            return await write_tool_feedback(ctx, scope, request, write)
        case CandidatesWrite():
            return await write_candidates(ctx, scope, request, write)
        case CapsulesWrite() | ExecutionWrite() | SummaryWrite() | NotesWrite() | GardenWrite() | SubjectsWrite():
            return await write_plane(ctx, scope, request, write)
        case _:
            assert_never(write)
