"""Write: evidence, facts, procedures, candidates, and what the other planes keep."""

from typing import assert_never

from elytron.aliases import home
from elytron.context import OperationContext
from elytron.text_admission import admitting
from elytron.writes.candidates import write_candidates
from elytron.writes.facts import write_facts
from elytron.writes.planes import write_plane
from elytron.writes.skills import write_skills
from elytron.writes.tools import write_tool_feedback
from elytron.writes.transcripts import write_turns
from elytron_core.contracts.governing import CandidatesWrite
from elytron_core.contracts.planes import (
    CapsulesWrite,
    ExecutionWrite,
    GardenWrite,
    NotesWrite,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.contracts.tools import AgentToolUsageFeedbackWrite
from elytron_core.contracts.writing import (
    LongTermExtraction,
    MemoryWriteReport,
    MemoryWriteRequest,
    Procedural,
    TranscriptWrite,
)


@admitting
async def write(ctx: OperationContext, request: MemoryWriteRequest, /) -> MemoryWriteReport:
    """Admit what the request holds and commit it as one batch."""
    scope = await home(ctx, ctx.scope_of(request))
    match request.write:
        case TranscriptWrite() as write:
            return await write_turns(ctx, scope, request, write)
        case LongTermExtraction() as write:
            return await write_facts(ctx, scope, request, write)
        case Procedural() as write:
            return await write_skills(ctx, scope, request, write)
        case AgentToolUsageFeedbackWrite() as write:
            return await write_tool_feedback(ctx, scope, request, write)
        case CandidatesWrite() as write:
            return await write_candidates(ctx, scope, request, write)
        case (
            CapsulesWrite() | ExecutionWrite() | SummaryWrite() | NotesWrite() | GardenWrite() | SubjectsWrite()
        ) as write:
            return await write_plane(ctx, scope, request, write)
        case _:
            assert_never(request.write)
