"""Runs of the jobs in the queue: one holder each, progress stored after every part, and how each ended."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from elytron.context import OperationContext
from elytron.jobs.model_calls import Asker, BudgetReached
from elytron.jobs.queue import KnownJob, claim, move, read_jobs, read_queue, view
from elytron.passes.pass_context import Work, read_turns
from elytron.passes.runner import PASSES
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.admin.maintenance import Extraction, JobRunReport, JobRunRequest, PassStatus
from elytron_core.errors import ElytronError, StoreError
from elytron_core.ids import SpaceId
from elytron_core.planes.admin.jobs import MAINTENANCE, NOTHING, Job, JobId, Pass, Spent
from elytron_core.policy.maintenance import job_states

NO_MODEL = "no_language_model"
BUDGET_REACHED = "budget_reached"


class LeaseLost(Exception):
    """Another worker has the job now, or it was given up."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A job that this worker has, and by which name."""

    space: SpaceId
    id: JobId
    holder: str


async def run_jobs(ctx: OperationContext, request: JobRunRequest, /) -> JobRunReport:
    """Do the jobs that are due, oldest first, until none is left or `limit` were done.

    Several workers, in any number of processes, may do this at once. Each job has one holder at a time, and its work
    is committed once, also if a worker that seemed dead goes on.
    """
    scope = ctx.scope_of(request)
    only = JobId(request.id) if request.id is not None else None
    done: list[KnownJob] = []
    while len(done) < request.limit and (only is None or not done):
        known = await run_next(ctx, scope.space, only=only)
        if known is None:
            break
        done.append(known)
    queue = await read_queue(ctx, scope.space)
    spent = NOTHING
    for known in done:
        spent = spent.plus(known.job.spent)
    return JobRunReport(
        space=scope.space,
        jobs=tuple(view(known) for known in done),
        waiting=len(queue.active),
        changed=bool(done),
        spent=spent,
    )


async def run_next(ctx: OperationContext, space: SpaceId, /, *, only: JobId | None = None) -> KnownJob | None:
    """Do the next job that is due and return its new state; None if none is due."""
    if await ctx.spaces.find(space) is None:
        return None
    holder = ctx.ids.new()
    known = await claim(ctx, space, holder, only=only)
    if known is None:
        return None
    held = _Held(space, known.id, holder)
    if not job_states.is_held(known.job, holder):
        return known  # given up: it was taken too often and never ended
    try:
        ending = await _perform(ctx, held, known.job)
    except LeaseLost:
        (known,) = await read_jobs(ctx, space, (known.id,)) or (known,)
        return known
    except asyncio.CancelledError:
        # The runtime closes: give the job back, so that no worker has to wait for its lease to end.
        with suppress(ElytronError, LeaseLost):
            await asyncio.shield(_end(ctx, held, lambda job: job_states.again(job, at=ctx.clock.now())))
        raise
    return await _end(ctx, held, ending)


_Ending = Callable[[Job], Job]


async def _perform(ctx: OperationContext, held: _Held, job: Job) -> _Ending:
    """Do what is left of the job, and return how it ended. Raises LeaseLost, StoreError."""
    try:
        if job.kind == MAINTENANCE:
            return await _maintained(ctx, held, job)
        await ctx.runners[job.kind](job.scope(held.space), job.payload, partial(_beat, ctx, held))
    except StoreError:
        raise
    except ElytronError as error:
        return _failed(ctx, error.key, retryable=error.retryable)
    return lambda job: job_states.succeeded(job, at=ctx.clock.now())


async def _beat(ctx: OperationContext, held: _Held) -> None:
    """Count the lease from now on."""
    await _step(ctx, held, lambda job: job_states.renewed(job, at=ctx.clock.now()))


async def _maintained(ctx: OperationContext, held: _Held, job: Job) -> _Ending:
    """Do the passes that are left."""
    language = ctx.models.language
    now = ctx.clock.now()
    if language is None:
        until = Instant(now + limits.JOB_WAIT_MAX_MS)
        return lambda job: job_states.blocked(job, at=ctx.clock.now(), until=until, error=NO_MODEL)
    record = await ctx.spaces.find(held.space)
    if record is None:
        raise LeaseLost  # the space was erased, and the job with it
    scope = job.scope(held.space)
    work = Work(
        ctx=ctx,
        scope=scope,
        record=record,
        turns=await read_turns(ctx, scope, record, job.turns),
        extraction=Extraction.AUTO,
        asker=Asker(ctx, held.space, language),
        leaves_refused=True,
        beat=partial(_beat, ctx, held),
    )
    failure = ""
    try:
        for of in job.passes:
            if of in job.done or of is Pass.SKILL_REUSE:
                continue
            before = work.spent
            try:
                outcome = await PASSES[of](work)
            finally:
                await _keep_cost(ctx, held, work.spent.minus(before))
            if outcome.status is PassStatus.FAILED:
                failure = outcome.reason
            else:
                await _step(ctx, held, lambda job, of=of: job.model_copy(update={"done": (*job.done, of)}))
    except BudgetReached:
        until = job_states.next_day(ctx.clock.now())
        return lambda job: job_states.blocked(job, at=ctx.clock.now(), until=until, error=BUDGET_REACHED)
    if failure:
        return _failed(ctx, failure, retryable=False)
    return lambda job: job_states.succeeded(job, at=ctx.clock.now())


def _failed(ctx: OperationContext, error: str, *, retryable: bool) -> _Ending:
    jitter = ctx.ids.secret(1)[0]
    return lambda job: job_states.failed(job, at=ctx.clock.now(), error=error, retryable=retryable, jitter=jitter)


async def _keep_cost(ctx: OperationContext, held: _Held, spent: Spent) -> None:
    if spent != NOTHING:
        with suppress(LeaseLost):
            await _step(ctx, held, lambda job: job.model_copy(update={"spent": job.spent.plus(spent)}))


async def _step(ctx: OperationContext, held: _Held, change: Callable[[Job], Job]) -> KnownJob:
    """Change the job while it is held. Raises LeaseLost."""
    is_held = True

    def step(job: Job) -> Job | None:
        nonlocal is_held
        is_held = job_states.is_held(job, held.holder)
        return change(job) if is_held else None

    known = await move(ctx, held.space, held.id, step)
    if not is_held:
        raise LeaseLost
    return known


async def _end(ctx: OperationContext, held: _Held, ending: _Ending) -> KnownJob:
    """Store how the job ended, unless another worker has it by now."""
    return await move(
        ctx, held.space, held.id, lambda job: ending(job) if job_states.is_held(job, held.holder) else None
    )
