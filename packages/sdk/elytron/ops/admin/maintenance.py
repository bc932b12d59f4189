"""The queue of deferred jobs: read, retried, cancelled; and the journal, compacted."""

from elytron.context import OperationContext
from elytron.jobs.model_calls import spent_on
from elytron.jobs.queue import Step, move, read_jobs, read_queue, view, work_of
from elytron.journal.compaction import compact
from elytron_core.contracts.admin.compaction import JournalCompactReport, JournalCompactRequest
from elytron_core.contracts.admin.maintenance import (
    JobCancelRequest,
    JobListReport,
    JobListRequest,
    JobReport,
    JobRetryRequest,
)
from elytron_core.ids import SpaceId
from elytron_core.planes.admin.jobs import Job, JobId, JobState
from elytron_core.policy.maintenance import budget, job_states


async def list_jobs(ctx: OperationContext, request: JobListRequest, /) -> JobListReport:
    """Return the jobs of the space, whether they get done, and what models may still cost today."""
    scope = ctx.scope_of(request)
    queue = await read_queue(ctx, scope.space)
    health, counts = await work_of(ctx, scope.space)
    ids = (*(job.id for job in queue.active), *reversed(queue.over))
    known = await read_jobs(ctx, scope.space, ids)
    wanted = [job for job in known if not request.states or job.job.state in request.states]
    now = ctx.clock.now()
    day = budget.today(await spent_on(ctx, scope.space), now)
    return JobListReport(
        space=scope.space,
        health=health,
        jobs=tuple(view(job) for job in wanted[: request.limit]),
        counts=counts,
        clipped=len(wanted) > request.limit,
        spent_today=day.spent,
        calls_left=max(0, ctx.budget.calls_per_day - day.spent.calls - day.held_calls),
        tokens_left=max(0, ctx.budget.tokens_per_day - day.spent.tokens - day.held_tokens),
    )


async def retry_job(ctx: OperationContext, request: JobRetryRequest, /) -> JobReport:
    """Let the job be tried again at once; one that is being worked on or has succeeded stays. Raises NotFound."""
    stays = {JobState.LEASED, JobState.SUCCEEDED, JobState.PENDING}

    def step(job: Job) -> Job | None:
        return None if job.state in stays else job_states.again(job, at=ctx.clock.now())

    return await _moved(ctx, ctx.scope_of(request).space, request.id, step)


async def cancel_job(ctx: OperationContext, request: JobCancelRequest, /) -> JobReport:
    """Give the job up; one that is over stays. Raises NotFound."""

    def step(job: Job) -> Job | None:
        return job_states.cancelled(job, at=ctx.clock.now()) if job.state.is_active else None

    return await _moved(ctx, ctx.scope_of(request).space, request.id, step)


async def _moved(ctx: OperationContext, space: SpaceId, name: str, step: Step) -> JobReport:
    changed = False

    def watched(job: Job) -> Job | None:
        nonlocal changed
        moved = step(job)
        changed = moved is not None
        return moved

    known = await move(ctx, space, JobId(name), watched)
    return JobReport(space=space, job=view(known), changed=changed)


async def compact_journal(ctx: OperationContext, request: JournalCompactRequest, /) -> JournalCompactReport:
    """Leave one journal entry for each run without content. Raises Conflict if another call compacts it meanwhile."""
    space = ctx.scope_of(request).space
    removed = await compact(ctx.store, space)
    record = await ctx.spaces.find(space)
    sequence = (await ctx.folds.current(space)).watermark if record is not None else 0
    return JournalCompactReport(space=space, removed=removed, changed=removed > 0, sequence=sequence)
