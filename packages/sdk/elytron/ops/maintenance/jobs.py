"""The queue of deferred jobs: list, retry, cancel; and compaction of the journal."""

from elytron.context import OperationContext
from elytron.jobs.queue import Step, job_view, move_job, read_jobs, read_queue, work_of
from elytron.jobs.spending_budget import spent_on
from elytron.journal.compaction import compact_space
from elytron_core.contracts.maintenance.jobs import (
    JobCancelRequest,
    JobListReport,
    JobListRequest,
    JobReport,
    JobRetryRequest,
)
from elytron_core.contracts.maintenance.maintenance import JournalCompactReport, JournalCompactRequest
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import Job, JobId, JobState
from elytron_core.policy import job_states, spending_budget


async def list_jobs(ctx: OperationContext, request: JobListRequest, /) -> JobListReport:
    """Return the jobs of the space, their health, and what models may still cost today."""
    scope = ctx.scope_of(request)
    queue = await read_queue(ctx, scope.space)
    work_health, state_counts = await work_of(ctx, scope.space)
    job_ids = (*(job.id for job in queue.active), *reversed(queue.over))
    job_records = await read_jobs(ctx, scope.space, job_ids)
    matches = [job for job in job_records if not request.states or job.job.state in request.states]
    now = ctx.clock.now()
    spent_today = spending_budget.spent_today(await spent_on(ctx, scope.space), now)
    return JobListReport(
        space=scope.space,
        health=work_health,
        jobs=tuple(job_view(job) for job in matches[: request.limit]),
        counts=state_counts,
        clipped=len(matches) > request.limit,
        spent_today=spent_today.spent,
        calls_left=max(0, ctx.budget.calls_per_day - spent_today.spent.calls - spent_today.held_calls),
        tokens_left=max(0, ctx.budget.tokens_per_day - spent_today.spent.tokens - spent_today.held_tokens),
    )


async def retry_job(ctx: OperationContext, request: JobRetryRequest, /) -> JobReport:
    """Make the job due immediately; a running or finished one is unchanged. Raises NotFound."""
    unretried_states = {JobState.LEASED, JobState.SUCCEEDED, JobState.PENDING}

    def step(job: Job) -> Job | None:
        return None if job.state in unretried_states else job_states.retry_job(job, at=ctx.clock.now())

    return await _move_job(ctx, ctx.scope_of(request).space, request.id, step)


async def cancel_job(ctx: OperationContext, request: JobCancelRequest, /) -> JobReport:
    """Cancel the job; a finished one is unchanged. Raises NotFound."""

    def step(job: Job) -> Job | None:
        return job_states.cancel_job(job, at=ctx.clock.now()) if job.state.is_active else None

    return await _move_job(ctx, ctx.scope_of(request).space, request.id, step)


async def _move_job(ctx: OperationContext, space: SpaceId, name: str, step: Step) -> JobReport:
    changed = False

    def watched(job: Job) -> Job | None:
        nonlocal changed
        moved = step(job)
        changed = moved is not None
        return moved

    current_job = await move_job(ctx, space, JobId(name), watched)
    return JobReport(space=space, job=job_view(current_job), changed=changed)


async def compact_journal(ctx: OperationContext, request: JournalCompactRequest, /) -> JournalCompactReport:
    """Replace each run of entries without content by one. Raises Conflict if another call compacts it meanwhile."""
    space = ctx.scope_of(request).space
    # An index that has not read the compacted entries would be rebuilt from the start.
    await ctx.folds.settle_erasure(space)
    removed_count = await compact_space(ctx.store, space)
    record = await ctx.spaces.find(space)
    sequence = (await ctx.folds.current(space)).watermark if record is not None else 0
    return JournalCompactReport(space=space, removed=removed_count, changed=removed_count > 0, sequence=sequence)
