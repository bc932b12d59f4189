"""Write: evidence, facts, procedures."""

from typing import assert_never

from elytron.context import OperationContext
from elytron.scrubbing import scrub_write
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
    """Black out secrets, admit what the request holds and commit it as one batch."""
    scope = ctx.scope_of(request)
    write, scrubbed = scrub_write(request.write)
    match write:
        case TranscriptWrite():
            report = await write_turns(ctx, scope, request, write)
        case LongTermExtraction():
            report = await write_facts(ctx, scope, request, write)
        case Procedural():
            report = await write_skills(ctx, scope, request, write)
        case _:
            assert_never(write)
    return report.model_copy(update={"scrubbed": scrubbed}) if scrubbed else report
