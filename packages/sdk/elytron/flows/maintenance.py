"""Maintenance: a finished turn becomes evidence at once, and every maintenance pass runs over unprocessed turns.

Finalizing a turn leaves model work to a durable job. Unfinished passes are queued.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from heapq import merge
from itertools import islice

from elytron import ops
from elytron.context import OperationContext
from elytron.intake import admit_texts
from elytron.jobs.queue import enqueue_turns, move_job
from elytron.jobs.spending_budget import BudgetReached, ModelAsker
from elytron.memories.chat_aliases import home_scope, with_last
from elytron.ops.transcript import commit_turn
from elytron.passes.continuity import encapsulate_work, keep_state, sum_up
from elytron.passes.extraction import TurnReading, extract_facts, learn_procedure
from elytron.passes.governance import govern_space, maintain_space, note_reuse
from elytron.passes.pass_work import PassWork, mark_maintained, read_maintained, read_turns, skipped_outcome
from elytron.state.conversation_heads import read_head, read_heads
from elytron.writes.transcript import TurnCompanion
from elytron_core import limits
from elytron_core.contracts.inspection import MemoryInspectionReport, MemoryInspectionRequest
from elytron_core.contracts.maintenance.maintenance import (
    CommitStatus,
    ExtractionMethod,
    MemoryFinalizeTurnReport,
    MemoryFinalizeTurnRequest,
    MemoryMaintainRequest,
    MemoryMaintenanceReport,
    PassOutcome,
    PassStatus,
)
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.transcript import MemoryTranscriptCommitReport, MemoryTranscriptCommitRequest, WriteDecision
from elytron_core.errors import ModelError, NotFound, Unsupported
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes import transcript
from elytron_core.planes.jobs import NOTHING, JobId, MaintenancePass, ModelUsage
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import Turn
from elytron_core.policy import job_states, maintenance
from elytron_core.policy.extraction import model_facts
from elytron_core.policy.extraction.model_facts import ReadingGate, extraction_prompt, gate_for_model
from elytron_core.policy.spending_budget import estimate_tokens
from elytron_core.ports.store import DocumentRef
from elytron_core.profiles import MemoryPressure
from elytron_core.scope import Scope
from elytron_core.text import similarity

PASSES: dict[MaintenancePass, Callable[[PassWork], Awaitable[PassOutcome]]] = {
    MaintenancePass.SUMMARY: sum_up,
    MaintenancePass.EXECUTION_STATE: keep_state,
    MaintenancePass.GOVERNANCE: govern_space,
    MaintenancePass.SKILL_REUSE: note_reuse,
    MaintenancePass.EXTRACTION: extract_facts,
    MaintenancePass.HYGIENE: maintain_space,
    MaintenancePass.TASK_LEARNING: learn_procedure,
    MaintenancePass.CAPSULES: encapsulate_work,
}
"""The parts of maintenance, in their order."""
NO_MODEL = "maintain with extraction 'model' needs a language model: open the runtime with language_model="
BUDGET_REACHED = "budget_reached"


@admit_texts
async def run_maintenance(ctx: OperationContext, request: MemoryMaintainRequest, /) -> MemoryMaintenanceReport:
    """Run the requested parts of maintenance in order, and report one outcome for each.

    If the model cannot be reached or the day's budget is used up, the turns go to the durable queue and the report
    names the job. Raises Unsupported if a required model is missing.
    """
    if request.extraction is ExtractionMethod.MODEL and ctx.models.language is None:
        raise Unsupported(NO_MODEL)
    scope = await home_scope(ctx, await with_last(ctx, ctx.scope_of(request)))
    channel, conversation = scope.conversation_key
    report = MemoryMaintenanceReport(space=scope.space, channel=channel, conversation=conversation)
    refusal = maintenance.maintenance_refusal(request.mode_input)
    record = await ctx.spaces.find(scope.space)
    if refusal is not None or record is None:
        skipped_outcomes = tuple(
            skipped_outcome(pass_kind, "nothing_kept") for pass_kind in MaintenancePass if pass_kind in request.passes
        )
        return report.model_copy(update={"refused": refusal, "passes": () if refusal is not None else skipped_outcomes})
    asks_model = uses_model(request.extraction) and ctx.models.language is not None
    turn_numbers, has_more = await unseen_turns(ctx, scope, record, most=request.turns_max, asks=asks_model)
    turns = await read_turns(ctx, scope, record, turn_numbers)
    language = ctx.models.language
    uses_asker = (
        request.extraction is not ExtractionMethod.OFF
    )  # rules only extract facts: a summary needs the model anyway
    pass_work = PassWork(
        ctx=ctx,
        scope=scope,
        record=record,
        turns=turns,
        extraction=request.extraction,
        asker=ModelAsker(ctx, scope.space, language) if language is not None and uses_asker else None,
        reuse=request.reuse,
        pressure=request.mode_input.pressure,
    )
    # Numbers without a turn were erased: recorded as seen, they are not looked for again.
    erased_numbers = sorted({*turn_numbers} - {turn.turn.sequence for turn in turns})
    if erased_numbers:
        await mark_maintained(pass_work, erased_numbers)
    outcomes, job = await _run_parts(pass_work, request)
    return report.model_copy(
        update={
            "passes": outcomes,
            "turns": len(turns),
            "has_more": has_more,
            "decisions": tuple(pass_work.decisions),
            "job": job,
            "changed": any(outcome.status is PassStatus.DONE for outcome in outcomes) or job is not None,
            "spent": pass_work.spent,
        }
    )


def uses_model(extraction: ExtractionMethod, /) -> bool:
    """Return whether maintenance may call the model at all."""
    return extraction in {ExtractionMethod.AUTO, ExtractionMethod.MODEL}


async def _run_parts(
    pass_work: PassWork, request: MemoryMaintainRequest
) -> tuple[tuple[PassOutcome, ...], JobId | None]:
    """Run each part independently: one blocked by the model does not delay those that need none."""
    outcomes: list[PassOutcome] = []
    job: JobId | None = None
    for pass_kind in MaintenancePass:
        if pass_kind not in request.passes:
            continue
        spent_before = pass_work.spent
        try:
            outcome = await PASSES[pass_kind](pass_work)
        except (BudgetReached, ModelError) as error:
            reason = error.key if isinstance(error, ModelError) else BUDGET_REACHED
            job = job or await _put_off(pass_work)
            status = PassStatus.QUEUED if job is not None else PassStatus.FAILED
            outcome = PassOutcome(of=pass_kind, status=status, reason=reason)
        outcomes.append(outcome.model_copy(update={"spent": pass_work.spent.minus(spent_before)}))
    return tuple(outcomes), job


async def _put_off(pass_work: PassWork) -> JobId | None:
    """Queue the turns of an unfinished run; None if there are none, or no room."""
    if not pass_work.turns:
        return None
    queued_job = await enqueue_turns(pass_work.ctx, pass_work.scope, [turn.turn.sequence for turn in pass_work.turns])
    if queued_job is not None and not queued_job.job.state.is_active:
        # A job over the same turns ended before without them: it is resumed.
        now = pass_work.ctx.clock.now()
        queued_job = await move_job(
            pass_work.ctx, pass_work.space, queued_job.id, lambda job: job_states.retry_job(job, at=now)
        )
    return queued_job.id if queued_job is not None else None


async def unseen_turns(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, /, *, most: int, asks: bool
) -> tuple[list[int], bool]:
    """Return the sequences of the oldest unprocessed turns, up to `most`, and whether there are more.

    With `asks`, those that wait for a model are among them.
    """
    head = await read_head(ctx.store, scope.space, record.conversation_tag(scope.conversation_key))
    if head is None:
        return [], False
    progress = await read_maintained(ctx, scope, record)
    unseen_numbers = (
        sequence for sequence in range(progress.through + 1, head[0].next_sequence) if not progress.has(sequence)
    )
    turn_numbers = list(islice(merge(progress.waiting() if asks else (), unseen_numbers), most + 1))
    return turn_numbers[:most], len(turn_numbers) > most


CALLS_A_ROUND = 2
"""At most one summary and one state for each round of turns."""
Progress = Callable[[int, int], None]
"""Called with the number of processed turns, and the total."""
Maintain = Callable[[MemoryMaintainRequest], Awaitable[MemoryMaintenanceReport]]


class ConversationBacklog(Value):
    """Number of unprocessed turns of a conversation."""

    channel: str
    conversation: str
    turns: int


class MaintenanceBacklog(Value):
    """Backlog of a space. `calls` is an upper bound of model calls, `tokens` an estimate of what they read."""

    space: str
    conversations: tuple[ConversationBacklog, ...] = ()
    turns: int = 0
    calls: int = 0
    tokens: int = 0


class BacklogReport(Value):
    """Result of processing a backlog. The rest is done by the next run."""

    space: str
    backlog: MaintenanceBacklog
    conversations: int = 0
    turns: int = 0
    left: int = 0
    decisions: dict[str, int] = {}
    stopped: str = ""
    """Why it stopped early: an error key, or the key of a limit."""
    changed: bool = False
    dry_run: bool = False
    spent: ModelUsage = NOTHING


async def read_backlog(ctx: OperationContext, scope: Scope, /, *, of: ExtractionMethod) -> MaintenanceBacklog:
    """Return the backlog of every conversation in the scope's space, oldest conversation first."""
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return MaintenanceBacklog(space=scope.space)
    backlogs: list[ConversationBacklog] = []
    calls = tokens = 0
    asks_model = uses_model(of) and ctx.models.language is not None
    heads = [head async for head in read_heads(ctx.store, scope.space)]
    for head in await oldest_first(ctx, scope.space, record, heads):
        conversation_scope = Scope(space=scope.space, channel=head.channel, conversation=head.conversation)
        turn_numbers, _ = await unseen_turns(ctx, conversation_scope, record, most=head.next_sequence, asks=asks_model)
        if not turn_numbers:
            continue
        backlogs.append(
            ConversationBacklog(channel=head.channel, conversation=head.conversation, turns=len(turn_numbers))
        )
        if asks_model:
            more_calls, more_tokens = await _model_cost(ctx, conversation_scope, record, turn_numbers)
            calls, tokens = calls + more_calls, tokens + more_tokens
    turns = sum(one.turns for one in backlogs)
    return MaintenanceBacklog(space=scope.space, conversations=tuple(backlogs), turns=turns, calls=calls, tokens=tokens)


async def oldest_first(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, heads: Sequence[transcript.Conversation], /
) -> list[transcript.Conversation]:
    """Return conversations in the order in which they began; the journal decides between equal times."""
    start_times = {head.first_at or 0 for head in heads}
    # The index knows the positions in the journal, and is only read for equal times.
    index = await ctx.folds.current(space) if len(start_times) < len(heads) else None

    def beginning(head: transcript.Conversation) -> tuple[int, int, str, str]:
        turn = DocumentRef(transcript.TURNS, transcript.turn_id(record.conversation_tag(head.key), 1))
        first_sequence = index.sequence_of(turn) if index is not None else 0
        return head.first_at or 0, first_sequence, head.channel, head.conversation

    return sorted(heads, key=beginning)


async def work_off(
    maintain: Maintain, request: MemoryMaintainRequest, backlog: MaintenanceBacklog, /, *, progress: Progress
) -> BacklogReport:
    """Maintain each conversation of `backlog` until it is processed; stop if the model cannot continue."""
    report = BacklogReport(space=backlog.space, backlog=backlog)
    for waiting_conversation in backlog.conversations:
        scope = Scope(
            space=backlog.space, channel=waiting_conversation.channel, conversation=waiting_conversation.conversation
        )
        turns_before = report.turns
        # New turns that arrive meanwhile are left to the next run.
        while report.turns - turns_before < waiting_conversation.turns:
            step_report = await maintain(request.model_copy(update={"scope": scope}))
            report = _add_backlog(report, step_report)
            if not step_report.turns or not step_report.has_more or report.stopped:
                break
            progress(report.turns, backlog.turns)
        report = report.model_copy(update={"conversations": report.conversations + 1})
        progress(min(report.turns, backlog.turns), backlog.turns)
        if report.stopped:
            break
    return report.model_copy(update={"left": max(0, backlog.turns - report.turns)})


async def _model_cost(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, turn_numbers: list[int], /
) -> tuple[int, int]:
    """Return the maximum number of model calls for these turns, and an estimate of the tokens read."""
    round_count = -(-len(turn_numbers) // limits.MAINTAIN_TURNS)
    calls, tokens = round_count * CALLS_A_ROUND, 0
    # Pages overlap by one: a turn is judged with the one that follows it, and `calls` is an upper bound.
    for start in range(0, len(turn_numbers), limits.SCAN_MAX - 1):
        page = turn_numbers[start : start + limits.SCAN_MAX]
        turns = [stored_turn.turn for stored_turn in await read_turns(ctx, scope, record, page)]
        for turn, next_turn in zip(turns, [*turns[1:], None], strict=True):
            if model_facts.gate_for_model(turn, is_pressed=False, following=next_turn) is model_facts.ReadingGate.OPEN:
                prompt = extraction_prompt(turn, before=(), facts=(), most=ctx.profile.budget.maintenance_chars)
                calls += 1
                tokens += estimate_tokens(prompt.instruction) + estimate_tokens(prompt.data)
            tokens += sum(estimate_tokens(message.text) for message in turn.messages) * CALLS_A_ROUND
    return calls, tokens


def _add_backlog(report: BacklogReport, step_report: MemoryMaintenanceReport) -> BacklogReport:
    decisions = dict(report.decisions)
    for decision in step_report.decisions:
        decisions[decision.outcome.value] = decisions.get(decision.outcome.value, 0) + 1
    stop_reasons = (
        outcome.reason for outcome in step_report.passes if outcome.status in {PassStatus.FAILED, PassStatus.QUEUED}
    )
    return report.model_copy(
        update={
            "turns": report.turns + step_report.turns,
            "decisions": decisions,
            "stopped": step_report.refused.value
            if step_report.refused is not None
            else next(filter(None, stop_reasons), ""),
            "changed": report.changed or step_report.changed,
            "spent": report.spent.plus(step_report.spent),
        }
    )


async def maintenance_inspection(ctx: OperationContext, request: MemoryInspectionRequest, /) -> MemoryInspectionReport:
    """Report what the space contains, and with a `query` its projection. Raises as `ops.inspect`."""
    report = await ops.inspection.inspect_space(ctx, request)
    if similarity.is_blank(request.query):
        return report
    projection_request = MemoryProjectionRequest(
        scope=request.scope,
        query=request.query,
        max_chars=request.max_chars,
        pressure=request.pressure,
        mode_input=request.mode_input,
    )
    return report.model_copy(update={"projection": await ops.projection.build_projection(ctx, projection_request)})


@admit_texts
async def finalize_turn_and_maintain(
    ctx: OperationContext, request: MemoryFinalizeTurnRequest, /
) -> MemoryFinalizeTurnReport:
    """Commit the turn, durably and without any model, then maintain memory with it.

    Rules read the turn at once. If a model is to extract the facts, a durable job does that and all other maintenance;
    a repeat of the same turn requests the same job. A turn whose delivery creates no evidence commits nothing and
    maintains nothing. Raises TurnConflict, and NotFound if the space is erased meanwhile.
    """
    return await finalize_turn(ctx, request)


async def finalize_turn(
    ctx: OperationContext,
    request: MemoryFinalizeTurnRequest,
    /,
    *,
    companions: Sequence[TurnCompanion] = (),
) -> MemoryFinalizeTurnReport:
    """Finalize a turn whose texts are already admitted; changes of `companions` are committed with it."""
    scope = await home_scope(ctx, ctx.scope_of(request))
    commit_request = MemoryTranscriptCommitRequest(scope=scope, delta=request.delta, title=request.title)
    refusal = maintenance.maintenance_refusal(request.mode_input)
    turn_reading = TurnReading(ctx, scope, partial(_extraction_here, ctx, request))
    own_companions = (turn_reading,) if refusal is None else ()
    commit_report = await commit_turn(ctx, commit_request, companions=(*own_companions, *companions))
    status = _commit_status(commit_report)
    outcomes: tuple[PassOutcome, ...] = ()
    decisions: tuple[WriteDecision, ...] = ()
    job: JobId | None = None
    if commit_report.committed and refusal is None:
        outcomes, decisions, job = await _maintain_turn(ctx, scope, request, commit_report, turn_reading.outcome)
    return MemoryFinalizeTurnReport(
        space=commit_report.space,
        channel=commit_report.channel,
        conversation=commit_report.conversation,
        host_turn_id=commit_report.host_turn_id,
        delivery=request.delta.delivery,
        turn_id=commit_report.turn_id,
        message_ids=commit_report.message_ids,
        session_commit=status,
        transcript_commit=status,
        skipped_reason=commit_report.skipped_reason,
        maintenance=outcomes,
        maintenance_refused=refusal if commit_report.committed else None,
        decisions=decisions,
        job=job,
        changed=commit_report.changed or any(outcome.status is PassStatus.DONE for outcome in outcomes),
        scrubbed=commit_report.scrubbed,
        sequence=commit_report.journal_sequence,
    )


def _commit_status(commit_report: MemoryTranscriptCommitReport) -> CommitStatus:
    if not commit_report.committed:
        return CommitStatus.NOT_EVIDENCE
    return CommitStatus.DUPLICATE if commit_report.duplicated else CommitStatus.COMMITTED


async def _maintain_turn(
    ctx: OperationContext,
    scope: Scope,
    request: MemoryFinalizeTurnRequest,
    commit_report: MemoryTranscriptCommitReport,
    extraction_outcome: PassOutcome | None,
) -> tuple[tuple[PassOutcome, ...], tuple[WriteDecision, ...], JobId | None]:
    record = await ctx.spaces.find(scope.space)
    if record is None:
        raise NotFound(what="space", name=scope.space, way_out="it was erased after the turn was committed to it")
    # A turn that its own commit has read and marked is not read again.
    turns = await read_turns(ctx, scope, record, (commit_report.sequence,)) if extraction_outcome is None else ()
    needs_model = extraction_outcome is None and _needs_model(ctx, request, [turn.turn for turn in turns])
    pass_work = PassWork(
        ctx=ctx,
        scope=scope,
        record=record,
        turns=turns,
        extraction=ExtractionMethod.OFF if needs_model else request.extraction,
        reuse=request.reuse,
        pressure=request.mode_input.pressure,
    )
    queued_job = await enqueue_turns(ctx, scope, (commit_report.sequence,)) if needs_model else None
    if queued_job is not None and ctx.models.language is not None:
        await _take_up(pass_work)
    reuse_outcome = (
        await note_reuse(pass_work)
        if commit_report.changed
        else skipped_outcome(MaintenancePass.SKILL_REUSE, "duplicate")
    )
    extraction_outcome = extraction_outcome or await extract_facts(pass_work)
    own_outcomes = {MaintenancePass.SKILL_REUSE: reuse_outcome}
    if not needs_model:
        own_outcomes[MaintenancePass.EXTRACTION] = extraction_outcome
    not_run_outcome = _not_run_here(needs_model=needs_model, is_queued=queued_job is not None)
    outcomes = tuple(
        own_outcomes.get(pass_kind) or not_run_outcome.model_copy(update={"of": pass_kind})
        for pass_kind in MaintenancePass
    )
    return outcomes, tuple(pass_work.decisions), queued_job.id if queued_job is not None else None


def _needs_model(ctx: OperationContext, request: MemoryFinalizeTurnRequest, turns: Sequence[Turn]) -> bool:
    """Return whether a model is to extract the facts of these turns, in a job."""
    if request.extraction is ExtractionMethod.MODEL:
        return True
    if ctx.models.language is None or not uses_model(request.extraction):
        return False
    is_under_pressure = request.mode_input.pressure is not MemoryPressure.NORMAL
    return any(gate_for_model(turn, is_pressed=is_under_pressure) is ReadingGate.OPEN for turn in turns)


def _extraction_here(ctx: OperationContext, request: MemoryFinalizeTurnRequest, turn: Turn) -> ExtractionMethod:
    """Return how facts are extracted from a turn immediately: not at all, if that is left to a model."""
    return ExtractionMethod.OFF if _needs_model(ctx, request, (turn,)) else request.extraction


async def _take_up(pass_work: PassWork) -> None:
    """Queue the conversation's oldest turns that wait for a model, now that there is one."""
    progress = await read_maintained(pass_work.ctx, pass_work.scope, pass_work.record)
    waiting_turns = tuple(islice(progress.waiting(), limits.MAINTAIN_TURNS))
    if waiting_turns:
        await enqueue_turns(pass_work.ctx, pass_work.scope, waiting_turns)


def _not_run_here(*, needs_model: bool, is_queued: bool) -> PassOutcome:
    """Return the outcomes of the parts that do not run here."""
    if not needs_model:
        return skipped_outcome(MaintenancePass.SUMMARY, "left_to_maintain")
    if not is_queued:
        return PassOutcome(of=MaintenancePass.SUMMARY, status=PassStatus.FAILED, reason="queue_full")
    return PassOutcome(of=MaintenancePass.SUMMARY, status=PassStatus.QUEUED)
