"""Finalize: a finished turn becomes evidence at once; what needs a model is left to a durable job."""

from collections.abc import Sequence
from functools import partial
from itertools import islice

from elytron.context import OperationContext
from elytron.flows.maintenance import uses_model
from elytron.intake import admit_texts
from elytron.jobs.queue import enqueue_turns
from elytron.memories.chat_aliases import home_scope
from elytron.ops.transcript import commit_turn
from elytron.passes.extraction import TurnReading, extract_facts
from elytron.passes.governance import note_reuse
from elytron.passes.pass_context import PassWork, read_maintained, read_turns, skipped_outcome
from elytron.writes.transcript import TurnCompanion
from elytron_core import limits
from elytron_core.contracts.maintenance import (
    CommitStatus,
    ExtractionMethod,
    MemoryFinalizeTurnReport,
    MemoryFinalizeTurnRequest,
    PassOutcome,
    PassStatus,
)
from elytron_core.contracts.transcript import MemoryTranscriptCommitReport, MemoryTranscriptCommitRequest, WriteDecision
from elytron_core.errors import NotFound
from elytron_core.planes.jobs import JobId, MaintenancePass
from elytron_core.planes.transcript import Turn
from elytron_core.policy import maintenance
from elytron_core.policy.extraction.model_facts import ReadingGate, gate_for_model
from elytron_core.profiles import MemoryPressure
from elytron_core.scope import Scope

LEFT_TO_MAINTAIN = "left_to_maintain"
QUEUE_FULL = "queue_full"


@admit_texts
async def finalize_turn_and_maintain(
    ctx: OperationContext, request: MemoryFinalizeTurnRequest, /
) -> MemoryFinalizeTurnReport:
    """Commit the turn, durably and without any model, then maintain memory with it.

    Rules read the turn at once. Where facts are to be drawn by the model, a durable job does that and all the rest of
    maintenance; a repeat of the same turn asks for the same job. A turn whose delivery leaves no evidence commits
    nothing and maintains nothing. Raises TurnConflict, and NotFound where the space is erased on the way.
    """
    return await finalize_turn(ctx, request)


async def finalize_turn(
    ctx: OperationContext,
    request: MemoryFinalizeTurnRequest,
    /,
    *,
    companions: Sequence[TurnCompanion] = (),
) -> MemoryFinalizeTurnReport:
    """Finalize a turn whose texts are admitted already; what `companions` bring is committed with it."""
    scope = await home_scope(ctx, ctx.scope_of(request))
    commit = MemoryTranscriptCommitRequest(scope=scope, delta=request.delta, title=request.title)
    refused = maintenance.maintenance_refusal(request.mode_input)
    reading = TurnReading(ctx, scope, partial(_extraction_here, ctx, request))
    own = (reading,) if refused is None else ()
    committed = await commit_turn(ctx, commit, companions=(*own, *companions))
    status = _commit_status(committed)
    outcomes: tuple[PassOutcome, ...] = ()
    decisions: tuple[WriteDecision, ...] = ()
    job: JobId | None = None
    if committed.committed and refused is None:
        outcomes, decisions, job = await _maintain_turn(ctx, scope, request, committed, reading.outcome)
    return MemoryFinalizeTurnReport(
        space=committed.space,
        channel=committed.channel,
        conversation=committed.conversation,
        host_turn_id=committed.host_turn_id,
        delivery=request.delta.delivery,
        turn_id=committed.turn_id,
        message_ids=committed.message_ids,
        session_commit=status,
        transcript_commit=status,
        skipped_reason=committed.skipped_reason,
        maintenance=outcomes,
        maintenance_refused=refused if committed.committed else None,
        decisions=decisions,
        job=job,
        changed=committed.changed or any(outcome.status is PassStatus.DONE for outcome in outcomes),
        scrubbed=committed.scrubbed,
        sequence=committed.journal_sequence,
    )


def _commit_status(committed: MemoryTranscriptCommitReport) -> CommitStatus:
    if not committed.committed:
        return CommitStatus.NOT_EVIDENCE
    return CommitStatus.DUPLICATE if committed.duplicated else CommitStatus.COMMITTED


async def _maintain_turn(
    ctx: OperationContext,
    scope: Scope,
    request: MemoryFinalizeTurnRequest,
    committed: MemoryTranscriptCommitReport,
    extracted: PassOutcome | None,
) -> tuple[tuple[PassOutcome, ...], tuple[WriteDecision, ...], JobId | None]:
    record = await ctx.spaces.find(scope.space)
    if record is None:
        raise NotFound(what="space", name=scope.space, way_out="it was erased since the turn was committed to it")
    # A turn that its own commit has read and marked is not read again.
    turns = await read_turns(ctx, scope, record, (committed.sequence,)) if extracted is None else ()
    needs_model = extracted is None and _needs_model(ctx, request, [turn.turn for turn in turns])
    work = PassWork(
        ctx=ctx,
        scope=scope,
        record=record,
        turns=turns,
        extraction=ExtractionMethod.OFF if needs_model else request.extraction,
        reuse=request.reuse,
        pressure=request.mode_input.pressure,
    )
    known = await enqueue_turns(ctx, scope, (committed.sequence,)) if needs_model else None
    if known is not None and ctx.models.language is not None:
        await _take_up(work)
    reused = await note_reuse(work) if committed.changed else skipped_outcome(MaintenancePass.SKILL_REUSE, "duplicate")
    extracted = extracted or await extract_facts(work)
    own = {MaintenancePass.SKILL_REUSE: reused}
    if not needs_model:
        own[MaintenancePass.EXTRACTION] = extracted
    rest = _not_run_here(needs_model=needs_model, is_queued=known is not None)
    outcomes = tuple(own.get(of) or rest.model_copy(update={"of": of}) for of in MaintenancePass)
    return outcomes, tuple(work.decisions), known.id if known is not None else None


def _needs_model(ctx: OperationContext, request: MemoryFinalizeTurnRequest, turns: Sequence[Turn]) -> bool:
    """Return whether a model is to draw the facts of these turns, in a job."""
    if request.extraction is ExtractionMethod.MODEL:
        return True
    if ctx.models.language is None or not uses_model(request.extraction):
        return False
    is_pressed = request.mode_input.pressure is not MemoryPressure.NORMAL
    return any(gate_for_model(turn, is_pressed=is_pressed) is ReadingGate.OPEN for turn in turns)


def _extraction_here(ctx: OperationContext, request: MemoryFinalizeTurnRequest, turn: Turn) -> ExtractionMethod:
    """Return how facts are drawn from a turn at once: not at all, if that is left to a model."""
    return ExtractionMethod.OFF if _needs_model(ctx, request, (turn,)) else request.extraction


async def _take_up(work: PassWork) -> None:
    """Queue the oldest turns of the conversation that wait for a model, now that there is one."""
    seen = await read_maintained(work.ctx, work.scope, work.record)
    waiting = tuple(islice(seen.waiting(), limits.MAINTAIN_TURNS))
    if waiting:
        await enqueue_turns(work.ctx, work.scope, waiting)


def _not_run_here(*, needs_model: bool, is_queued: bool) -> PassOutcome:
    """Return what is said of the parts that do not run here."""
    if not needs_model:
        return skipped_outcome(MaintenancePass.SUMMARY, LEFT_TO_MAINTAIN)
    if not is_queued:
        return PassOutcome(of=MaintenancePass.SUMMARY, status=PassStatus.FAILED, reason=QUEUE_FULL)
    return PassOutcome(of=MaintenancePass.SUMMARY, status=PassStatus.QUEUED)
