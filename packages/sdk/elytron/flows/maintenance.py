"""Maintain: every part of maintenance now, over unprocessed turns; unfinished parts are queued."""

from heapq import merge
from itertools import islice

from elytron.context import OperationContext
from elytron.intake.texts import admitting
from elytron.jobs.model_calls import Asker, BudgetReached
from elytron.jobs.queue import enqueue, move
from elytron.memories.chat_aliases import home, with_last
from elytron.passes.pass_context import Work, mark_maintained, read_maintained, read_turns, skipped
from elytron.passes.runner import PASSES
from elytron.state.conversation_heads import read_head
from elytron_core.contracts.admin.maintenance import (
    Extraction,
    MemoryMaintainRequest,
    MemoryMaintenanceReport,
    PassOutcome,
    PassStatus,
)
from elytron_core.errors import ModelError, Unsupported
from elytron_core.planes.admin.jobs import JobId, Pass
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.maintenance import due, job_states
from elytron_core.scope import Scope

NO_MODEL = "maintain with extraction 'model' needs a language model: open the runtime with language_model="
BUDGET_REACHED = "budget_reached"


@admitting
async def maintain(ctx: OperationContext, request: MemoryMaintainRequest, /) -> MemoryMaintenanceReport:
    """Run the parts of maintenance that were asked for, in their order, and report one outcome for each.

    Where the model cannot be reached or the day's budget is used up, the turns go to the durable queue and the report
    names the job. Raises Unsupported where a model is demanded and there is none.
    """
    if request.extraction is Extraction.MODEL and ctx.models.language is None:
        raise Unsupported(NO_MODEL)
    scope = await home(ctx, await with_last(ctx, ctx.scope_of(request)))
    channel, conversation = scope.conversation_key
    report = MemoryMaintenanceReport(space=scope.space, channel=channel, conversation=conversation)
    refused = due.refusal(request.mode_input)
    record = await ctx.spaces.find(scope.space)
    if refused is not None or record is None:
        none = tuple(skipped(of, "nothing_kept") for of in Pass if of in request.passes)
        return report.model_copy(update={"refused": refused, "passes": () if refused is not None else none})
    asks = uses_model(request.extraction) and ctx.models.language is not None
    numbers, has_more = await unseen(ctx, scope, record, most=request.turns_max, asks=asks)
    turns = await read_turns(ctx, scope, record, numbers)
    language = ctx.models.language
    is_asked = request.extraction is not Extraction.OFF  # rules are for facts: a summary needs the model all the same
    work = Work(
        ctx=ctx,
        scope=scope,
        record=record,
        turns=turns,
        extraction=request.extraction,
        asker=Asker(ctx, scope.space, language) if language is not None and is_asked else None,
        reuse=request.reuse,
        pressure=request.mode_input.pressure,
    )
    erased = sorted({*numbers} - {turn.turn.sequence for turn in turns})
    if erased:
        await mark_maintained(work, erased)
    outcomes, job = await _run(work, request)
    return report.model_copy(
        update={
            "passes": outcomes,
            "turns": len(turns),
            "has_more": has_more,
            "decisions": tuple(work.decisions),
            "job": job,
            "changed": any(outcome.status is PassStatus.DONE for outcome in outcomes) or job is not None,
            "spent": work.spent,
        }
    )


def uses_model(extraction: Extraction, /) -> bool:
    """Return whether maintenance may call the model at all."""
    return extraction in {Extraction.AUTO, Extraction.MODEL}


async def _run(work: Work, request: MemoryMaintainRequest) -> tuple[tuple[PassOutcome, ...], JobId | None]:
    """Run each part by itself: one that the model keeps from its work does not hold up those that need none."""
    outcomes: list[PassOutcome] = []
    job: JobId | None = None
    for of in Pass:
        if of not in request.passes:
            continue
        before = work.spent
        try:
            outcome = await PASSES[of](work)
        except (BudgetReached, ModelError) as error:
            reason = error.key if isinstance(error, ModelError) else BUDGET_REACHED
            job = job or await _put_off(work)
            status = PassStatus.QUEUED if job is not None else PassStatus.FAILED
            outcome = PassOutcome(of=of, status=status, reason=reason)
        outcomes.append(outcome.model_copy(update={"spent": work.spent.minus(before)}))
    return tuple(outcomes), job


async def _put_off(work: Work) -> JobId | None:
    """Queue the turns of a run that could not be finished; None if there are none, or no room."""
    if not work.turns:
        return None
    known = await enqueue(work.ctx, work.scope, [turn.turn.sequence for turn in work.turns])
    if known is not None and not known.job.state.is_active:
        # A job over these very turns ended before and left them: it is taken up again.
        now = work.ctx.clock.now()
        known = await move(work.ctx, work.space, known.id, lambda job: job_states.again(job, at=now))
    return known.id if known is not None else None


async def unseen(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, /, *, most: int, asks: bool
) -> tuple[list[int], bool]:
    """Return the numbers of the oldest unprocessed turns, up to `most`, and whether there are more.

    With `asks`, those that wait for a model are among them.
    """
    head = await read_head(ctx.store, scope.space, record.conversation_tag(scope.conversation_key))
    if head is None:
        return [], False
    seen = await read_maintained(ctx, scope, record)
    unseen = (number for number in range(seen.through + 1, head[0].next_sequence) if not seen.has(number))
    numbers = list(islice(merge(seen.waiting() if asks else (), unseen), most + 1))
    return numbers[:most], len(numbers) > most
