"""The transcript: writes, governed commits, views, retention of raw text, repair."""

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from elytron.context import OperationContext
from elytron.intake import admit_texts
from elytron.memories.chat_aliases import home_scope
from elytron.transcript import inspect_links, read_page, without_unfounded
from elytron.writes.candidates import plan_candidates
from elytron.writes.commit import Plan, commit_write
from elytron.writes.continuity import (
    plan_capsules,
    plan_execution,
    plan_garden,
    plan_notes,
    plan_subjects,
    plan_summary,
)
from elytron.writes.facts import plan_facts
from elytron.writes.imported_messages import compare_import
from elytron.writes.lifecycle import turn_lives
from elytron.writes.skills import plan_skills
from elytron.writes.tools import plan_tool_feedback
from elytron.writes.transcript import ChangedTurn, TurnCompanion, TurnRules, plan_beside, plan_turns
from elytron_core.contracts.continuity import (
    CapsulesWrite,
    ExecutionWrite,
    GardenWrite,
    NotesWrite,
    SubjectsWrite,
    SummaryWrite,
)
from elytron_core.contracts.facts import CandidatesWrite
from elytron_core.contracts.tools import AgentToolUsageFeedbackWrite
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryTranscriptCommitReport,
    MemoryTranscriptCommitRequest,
    MemoryTranscriptExportReport,
    MemoryTranscriptExportRequest,
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptLifecycleRequest,
    MemoryTranscriptRepairReport,
    MemoryTranscriptRepairRequest,
    MemoryTranscriptReplayReport,
    MemoryTranscriptReplayRequest,
    MemoryWrite,
    MemoryWriteReport,
    MemoryWriteRequest,
    ProcedureSource,
    TranscriptReplayView,
    TranscriptWrite,
    WriteOutcome,
)
from elytron_core.errors import InvalidInput
from elytron_core.ids import TurnId
from elytron_core.planes import transcript
from elytron_core.planes.transcript import TurnOrigin
from elytron_core.scope import Scope


@admit_texts
async def commit_transcript(
    ctx: OperationContext, request: MemoryTranscriptCommitRequest, /
) -> MemoryTranscriptCommitReport:
    """Commit one turn as evidence. Raises TurnConflict, and Conflict if it would not get the required sequence."""
    return await commit_turn(ctx, request)


async def commit_turn(
    ctx: OperationContext,
    request: MemoryTranscriptCommitRequest,
    /,
    *,
    companions: Sequence[TurnCompanion] = (),
) -> MemoryTranscriptCommitReport:
    """Commit one turn, whose texts are already admitted, with the changes of `companions` in the same batch."""
    assert not companions or request.idempotency_key is None
    scope = await home_scope(ctx, ctx.scope_of(request))
    write = TranscriptWrite(turns=(request.delta.draft(),), title=request.title)
    write_request = MemoryWriteRequest(
        scope=scope, write=write, idempotency_key=request.idempotency_key, dry_run=request.dry_run
    )
    plan: Plan = partial(plan_turns, ctx, scope, write, TurnRules(sequence=request.delta.sequence))
    if companions:
        plan = partial(plan_beside, ctx, scope.space, plan, companions)
    write_report = await commit_write(ctx, scope.space, write_request, plan)
    (decision,) = write_report.decisions
    if decision.id is not None and not request.dry_run:
        ctx.last_conversations.note(scope)
    turn = TurnId(decision.id) if decision.id is not None else None
    channel, conversation = scope.conversation_key
    return MemoryTranscriptCommitReport(
        space=scope.space,
        channel=channel,
        conversation=conversation,
        host_turn_id=request.delta.turn_id,
        turn_id=turn,
        sequence=transcript.sequence_of(turn) if turn is not None else 0,
        message_ids=request.delta.message_ids(turn),
        committed=turn is not None,
        changed=write_report.changed,
        duplicated=write_report.duplicated or decision.outcome is WriteOutcome.DUPLICATE,
        dry_run=write_report.dry_run,
        skipped_reason=decision.reason if decision.outcome is not WriteOutcome.STORED else "",
        journal_sequence=write_report.sequence,
    )


async def replay_transcript(
    ctx: OperationContext, request: MemoryTranscriptReplayRequest, /
) -> MemoryTranscriptReplayReport:
    """Return a page of a conversation as one view may see it. Raises InvalidInput for a cursor that no report
    returned."""
    return await read_page(ctx, request, request.view, MemoryTranscriptReplayReport)


async def export_transcript(
    ctx: OperationContext, request: MemoryTranscriptExportRequest, /
) -> MemoryTranscriptExportReport:
    """Return a page of a conversation in the export view. Raises InvalidInput as a replay does."""
    return await read_page(ctx, request, TranscriptReplayView.EXPORT, MemoryTranscriptExportReport)


@admit_texts
async def request_transcript_lifecycle(
    ctx: OperationContext, request: MemoryTranscriptLifecycleRequest, /
) -> MemoryTranscriptLifecycleReport:
    """Archive, restore, mask or delete the raw text of turns, or preview what that would affect."""
    return await turn_lives(ctx, ctx.scope_of(request), request)


async def repair_transcript(
    ctx: OperationContext, request: MemoryTranscriptRepairRequest, /
) -> MemoryTranscriptRepairReport:
    """Report the broken links of the conversation; nothing is changed."""
    return await inspect_links(ctx, ctx.scope_of(request))


@admit_texts
async def write_memory(ctx: OperationContext, request: MemoryWriteRequest, /) -> MemoryWriteReport:
    """Admit the contents of the request and commit them as one batch; items that cite a missing message are
    rejected."""
    scope = await home_scope(ctx, ctx.scope_of(request))
    comparison = request.write.comparison if isinstance(request.write, TranscriptWrite) else None
    if comparison is not None and not request.dry_run:
        raise InvalidInput(field="comparison", problem="requires a dry run: pass dry_run")
    founded_write, refused_decisions = await without_unfounded(ctx, scope.space, request.write)
    if founded_write is not None:
        report = await commit_write(ctx, scope.space, request, _plan_of(ctx, scope, founded_write))
        if comparison is not None and isinstance(founded_write, TranscriptWrite):
            report = await compare_import(ctx, scope, founded_write, report)
    else:
        report = MemoryWriteReport(space=scope.space, decisions=(), sequence=0, changed=False, dry_run=request.dry_run)
    if not refused_decisions:
        return report
    decisions = list(report.decisions)
    for position, decision in refused_decisions.items():
        decisions.insert(position, decision)
    return report.model_copy(update={"decisions": tuple(decisions)})


def _plan_of(ctx: OperationContext, scope: Scope, write: MemoryWrite) -> Plan:
    """Return the function that plans `write` once the space's record is known."""
    match write:
        case TranscriptWrite():
            is_import = write.origin is TurnOrigin.IMPORTED
            return partial(
                plan_turns, ctx, scope, write, TurnRules(ChangedTurn.REPLACE if is_import else ChangedTurn.REFUSE)
            )
        case LongTermExtraction():
            return partial(plan_facts, ctx, scope, write)
        case ProcedureSource():
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
