"""Write: evidence, facts, procedures."""

from typing import assert_never

from elytron.context import OperationContext
from elytron.writes.facts import write_facts
from elytron.writes.skills import write_skills
from elytron.writes.transcripts import write_turns
from elytron_core.contracts.writing import (
    LongTermExtraction,
    MemoryWriteReport,
    MemoryWriteRequest,
    Procedural,
    TranscriptWrite,
)


async def write(ctx: OperationContext, request: MemoryWriteRequest, /) -> MemoryWriteReport:
    """Admit what the request holds and commit it as one batch."""
    scope = ctx.scope_of(request)
    match request.write:
        case TranscriptWrite() as turns:
            return await write_turns(ctx, scope, request, turns)
        case LongTermExtraction() as facts:
            return await write_facts(ctx, scope, request, facts)
        case Procedural() as skills:
            return await write_skills(ctx, scope, request, skills)
        case _:
            assert_never(request.write)
