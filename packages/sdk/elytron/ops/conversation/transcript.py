"""The transcript: governed commits, views, the life of raw text, repair."""

from functools import partial

from elytron.context import OperationContext
from elytron.intake.texts import admitting
from elytron.memories.chat_aliases import home
from elytron.transcript.link_check import inspect_links
from elytron.transcript.page import read_page
from elytron.writes.commit import commit
from elytron.writes.transcript_lifecycle import turn_lives
from elytron.writes.transcripts import TurnRules, plan_turns
from elytron_core.contracts.conversation.transcript import (
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
    TranscriptReplayView,
)
from elytron_core.contracts.conversation.write import MemoryWriteRequest, Outcome, TranscriptWrite
from elytron_core.ids import TurnId
from elytron_core.planes.conversation import transcript


@admitting
async def commit_transcript(
    ctx: OperationContext, request: MemoryTranscriptCommitRequest, /
) -> MemoryTranscriptCommitReport:
    """Commit one turn as evidence. Raises TurnConflict, and Conflict if it would get another sequence than demanded."""
    scope = await home(ctx, ctx.scope_of(request))
    write = TranscriptWrite(turns=(request.delta.draft(),), title=request.title)
    asked = MemoryWriteRequest(
        scope=scope, write=write, idempotency_key=request.idempotency_key, dry_run=request.dry_run
    )
    plan = partial(plan_turns, ctx, scope, write, TurnRules(sequence=request.delta.sequence))
    written = await commit(ctx, scope.space, asked, plan)
    (decision,) = written.decisions
    if decision.id is not None and not request.dry_run:
        ctx.last_conversations.note(scope)
    turn = TurnId(decision.id) if decision.id is not None else None
    channel, conversation = scope.conversation_key
    kept = transcript.evidence_of(request.delta.messages, request.delta.delivery)
    return MemoryTranscriptCommitReport(
        space=scope.space,
        channel=channel,
        conversation=conversation,
        host_turn_id=request.delta.turn_id,
        turn_id=turn,
        sequence=transcript.sequence_of(turn) if turn is not None else 0,
        message_ids=tuple(transcript.message_id(turn, part) for part in range(len(kept))) if turn is not None else (),
        committed=turn is not None,
        changed=written.changed,
        duplicated=written.duplicated or decision.outcome is Outcome.DUPLICATE,
        dry_run=written.dry_run,
        skipped_reason=decision.reason if decision.outcome is not Outcome.STORED else "",
        journal_sequence=written.sequence,
    )


async def replay_transcript(
    ctx: OperationContext, request: MemoryTranscriptReplayRequest, /
) -> MemoryTranscriptReplayReport:
    """Return a page of a conversation as one view may see it. Raises InvalidInput for a cursor that no report gave."""
    return await read_page(ctx, request, request.view, MemoryTranscriptReplayReport)


async def export_transcript(
    ctx: OperationContext, request: MemoryTranscriptExportRequest, /
) -> MemoryTranscriptExportReport:
    """Return a page of a conversation in the export view. Raises InvalidInput as a replay does."""
    return await read_page(ctx, request, TranscriptReplayView.EXPORT, MemoryTranscriptExportReport)


@admitting
async def request_transcript_lifecycle(
    ctx: OperationContext, request: MemoryTranscriptLifecycleRequest, /
) -> MemoryTranscriptLifecycleReport:
    """Archive, restore, mask or delete the raw text of turns, or review what that would touch."""
    return await turn_lives(ctx, ctx.scope_of(request), request)


async def repair_transcript(
    ctx: OperationContext, request: MemoryTranscriptRepairRequest, /
) -> MemoryTranscriptRepairReport:
    """Say which links of the conversation are broken; nothing is changed."""
    return await inspect_links(ctx, ctx.scope_of(request))
