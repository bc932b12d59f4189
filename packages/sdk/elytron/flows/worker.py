"""A worker inside a runtime, which runs the jobs of every space of the store while the runtime is open."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from elytron.context import JobBlocked, OperationContext
from elytron.flows.maintenance import PASSES
from elytron.jobs.background import BackgroundTask, apart_from_others, log_fault
from elytron.jobs.queue import KnownJob, claim_job, job_view, move_job, next_queue, read_jobs, read_queue, visit_queues
from elytron.jobs.spending_budget import BudgetReached, ModelAsker
from elytron.passes.pass_work import PassWork, read_turns
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.maintenance.jobs import JobRunReport, JobRunRequest
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod, PassStatus
from elytron_core.errors import ElytronError, NotFound, SpaceIncomplete, SpaceLocked, StoreError
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import MAINTENANCE, NOTHING, Job, JobId, JobQueue, MaintenancePass, ModelUsage
from elytron_core.policy import job_states

WORKER_PAUSE_S: Final = 2.0


NO_MODEL = "no_language_model"
BUDGET_REACHED = "budget_reached"
INTERNAL = "internal"


class LeaseLost(Exception):
    """Another worker has the job now, or it was cancelled."""


@dataclass(frozen=True, slots=True)
class _HeldJob:
    """A job that this worker has leased, and the name it used."""

    space: SpaceId
    id: JobId
    holder: str


async def run_jobs(ctx: OperationContext, request: JobRunRequest, /) -> JobRunReport:
    """Run the due jobs, oldest first, until none is left or `limit` were run.

    Several workers, in any number of processes, may do this at once. Each job has one holder at a time, and its work is
    committed once, even if a worker that seemed dead continues.
    """
    scope = ctx.scope_of(request)
    requested_id = JobId(request.id) if request.id is not None else None
    jobs: list[KnownJob] = []
    while len(jobs) < request.limit and (requested_id is None or not jobs):
        job = await run_next(ctx, scope.space, only=requested_id)
        if job is None:
            break
        jobs.append(job)
    queue = await read_queue(ctx, scope.space)
    total_spent = NOTHING
    for job in jobs:
        total_spent = total_spent.plus(job.job.spent)
    return JobRunReport(
        space=scope.space,
        jobs=tuple(job_view(job) for job in jobs),
        waiting=len(queue.active),
        changed=bool(jobs),
        spent=total_spent,
    )


async def run_next(
    ctx: OperationContext, space: SpaceId, /, *, only: JobId | None = None, kinds: Collection[str] | None = None
) -> KnownJob | None:
    """Run the next due job, of `kinds` if given, and return its new state; None if none is due.

    In a space that its user's secret closed, a grant opens it for the duration of the job. Raises SpaceLocked without
    one: the job waits, and an interruption by a lock or a sealing counts as no attempt.
    """
    async with ctx.secrets.background(space):
        return await _run_next(ctx, space, only=only, kinds=kinds)


async def _run_next(
    ctx: OperationContext, space: SpaceId, *, only: JobId | None, kinds: Collection[str] | None
) -> KnownJob | None:
    if await ctx.spaces.find(space) is None:
        return None
    await _give_back(ctx, space)
    # A new name for each lease: work still running under an earlier lease loses it too.
    lease_holder = ctx.ids.new()
    claimed_job = await claim_job(ctx, space, lease_holder, only=only, kinds=kinds)
    if claimed_job is None:
        return None
    lease = _HeldJob(space, claimed_job.id, lease_holder)
    if not job_states.is_held(claimed_job.job, lease_holder):
        return claimed_job  # abandoned: it was leased too often and never ended
    try:
        end_step = await _perform_job(ctx, lease, claimed_job.job)
    except LeaseLost:
        (claimed_job,) = await read_jobs(ctx, space, (claimed_job.id,)) or (claimed_job,)
        return claimed_job
    except (SpaceLocked, SpaceIncomplete):
        ctx.interrupted[space, claimed_job.id] = lease_holder
        raise
    except asyncio.CancelledError:
        # The runtime closes: return the job, so that no worker has to wait for its lease to end.
        with suppress(ElytronError, LeaseLost):
            await asyncio.shield(_end_job(ctx, lease, lambda job: job_states.retry_job(job, at=ctx.clock.now())))
        raise
    try:
        return await _end_job(ctx, lease, end_step)
    except (SpaceLocked, SpaceIncomplete):
        ctx.interrupted[space, claimed_job.id] = lease_holder
        raise


async def _give_back(ctx: OperationContext, space: SpaceId) -> None:
    """Return the jobs interrupted by a lock of `space` to the queue, as if they had not begun."""
    for (job_space, job_id), holder in tuple(ctx.interrupted.items()):
        if job_space == space:
            lease = _HeldJob(space, JobId(job_id), holder)
            with suppress(NotFound):
                await _end_job(ctx, lease, lambda job: job_states.retry_job(job, at=ctx.clock.now()))
            ctx.interrupted.pop((job_space, job_id), None)


_Ending = Callable[[Job], Job]


async def _perform_job(ctx: OperationContext, lease: _HeldJob, job: Job) -> _Ending:
    """Run the rest of the job, and return its outcome. Raises LeaseLost, StoreError."""
    try:
        if job.kind == MAINTENANCE:
            return await _maintain_held(ctx, lease, job)
        await ctx.runners[job.kind](job.scope(lease.space), job.payload, partial(_keep_lease, ctx, lease))
    except JobBlocked as blocked:
        blocked_until, reason = blocked.until, blocked.reason
        return lambda job: job_states.block_job(job, at=ctx.clock.now(), until=blocked_until, error=reason)
    except (StoreError, SpaceLocked, SpaceIncomplete):
        raise
    except ElytronError as error:
        return _failed_ending(ctx, error.key, retryable=error.retryable)
    except LeaseLost:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of what does the job ends this attempt alone
        log_fault("a job failed", error)
        return _failed_ending(ctx, INTERNAL, retryable=True)
    return lambda job: job_states.finish_job(job, at=ctx.clock.now())


async def _keep_lease(ctx: OperationContext, lease: _HeldJob) -> None:
    """Renew the lease from now on."""
    await _change_job(ctx, lease, lambda job: job_states.renew_job(job, at=ctx.clock.now()))


async def _maintain_held(ctx: OperationContext, lease: _HeldJob, job: Job) -> _Ending:
    """Run the remaining passes."""
    language = ctx.models.language
    now = ctx.clock.now()
    if language is None:
        blocked_until = Instant(now + limits.JOB_WAIT_MAX_MS)
        return lambda job: job_states.block_job(job, at=ctx.clock.now(), until=blocked_until, error=NO_MODEL)
    record = await ctx.spaces.find(lease.space)
    if record is None:
        raise LeaseLost  # the space was erased, including the job
    scope = job.scope(lease.space)
    pass_work = PassWork(
        ctx=ctx,
        scope=scope,
        record=record,
        turns=await read_turns(ctx, scope, record, job.turns),
        extraction=ExtractionMethod.AUTO,
        asker=ModelAsker(ctx, lease.space, language),
        leaves_refused=True,
        beat=partial(_keep_lease, ctx, lease),
    )
    failure_reason = ""
    try:
        for pass_kind in job.passes:
            if pass_kind in job.done or pass_kind is MaintenancePass.SKILL_REUSE:
                continue
            spent_before = pass_work.spent
            try:
                # Also after a failed pass: its calls cost too.
                outcome = await PASSES[pass_kind](pass_work)
            finally:
                await _keep_cost(ctx, lease, pass_work.spent.minus(spent_before))
            if outcome.status is PassStatus.FAILED:
                failure_reason = outcome.reason
            else:
                await _change_job(
                    ctx, lease, lambda job, pass_kind=pass_kind: job.model_copy(update={"done": (*job.done, pass_kind)})
                )
    except BudgetReached:
        blocked_until = job_states.next_day(ctx.clock.now())
        return lambda job: job_states.block_job(job, at=ctx.clock.now(), until=blocked_until, error=BUDGET_REACHED)
    if failure_reason:
        return _failed_ending(ctx, failure_reason, retryable=False)
    return lambda job: job_states.finish_job(job, at=ctx.clock.now())


def _failed_ending(ctx: OperationContext, error: str, *, retryable: bool) -> _Ending:
    # So that jobs that failed together are not retried together.
    jitter_byte = ctx.ids.secret(1)[0]
    return lambda job: job_states.fail_job(
        job, at=ctx.clock.now(), error=error, retryable=retryable, jitter=jitter_byte
    )


async def _keep_cost(ctx: OperationContext, lease: _HeldJob, model_usage: ModelUsage) -> None:
    if model_usage != NOTHING:
        with suppress(LeaseLost):
            await _change_job(ctx, lease, lambda job: job.model_copy(update={"spent": job.spent.plus(model_usage)}))


async def _change_job(ctx: OperationContext, lease: _HeldJob, change: Callable[[Job], Job]) -> KnownJob:
    """Change the job while its lease is held. Raises LeaseLost."""
    is_held = True

    def step(job: Job) -> Job | None:
        nonlocal is_held
        is_held = job_states.is_held(job, lease.holder)
        return change(job) if is_held else None

    changed_job = await move_job(ctx, lease.space, lease.id, step)
    if not is_held:
        raise LeaseLost
    return changed_job


async def _end_job(ctx: OperationContext, lease: _HeldJob, ending: _Ending) -> KnownJob:
    """Store the job's outcome, unless another worker has it by now."""
    return await move_job(
        ctx, lease.space, lease.id, lambda job: ending(job) if job_states.is_held(job, lease.holder) else None
    )


logger = logging.getLogger(__name__)

SWEEP_EVERY = 30
"""Intervals at which the store is asked for spaces with jobs that another process queued."""


class JobWorker:
    """A task that runs jobs, one at a time, of `kinds` or of all. Workers of one store share its jobs."""

    def __init__(
        self,
        ctx: OperationContext,
        /,
        *,
        pause_s: float = WORKER_PAUSE_S,
        kinds: Collection[str] | None = None,
    ) -> None:
        self._ctx = ctx
        self._kinds = kinds
        self._pause_s = pause_s
        self._stopping = asyncio.Event()
        self._background = BackgroundTask(self._work, name="elytron-worker")

    def start(self) -> None:
        """Start working."""
        self._background.start()

    async def stop(self) -> None:
        """Stop after the current step; its job returns to the queue."""
        self._stopping.set()
        await self._background.stop()

    async def _work(self) -> None:
        event_loop = asyncio.get_running_loop()
        sweep_at = event_loop.time()
        while not self._stopping.is_set():
            was_busy = False
            try:
                if event_loop.time() >= sweep_at:
                    sweep_at = event_loop.time() + SWEEP_EVERY * self._pause_s
                    await self._sweep()
                was_busy = await self._work_round()
            except ElytronError as error:
                # The store may be back later; a leased job continues when its lease ends.
                logger.warning("the worker stopped early: %s", error.key)
            if was_busy:
                continue
            try:
                await asyncio.wait_for(self._stopping.wait(), timeout=self._pause_s)
            except TimeoutError:
                continue

    async def _sweep(self) -> None:
        async def note(space: SpaceId, queue: JobQueue) -> None:
            self._ctx.note_jobs(space, queue.due_at)

        await visit_queues(self._ctx, note)

    async def _work_round(self) -> bool:
        """Run one due job of each space, so that none waits for all of another; return whether there was any."""
        was_busy = False
        for space in self._ctx.waiting_spaces():
            if self._stopping.is_set():
                return False
            with self._apart(space):
                async with self._ctx.secrets.background(space):
                    if await run_next(self._ctx, space, kinds=self._kinds) is not None:
                        was_busy = True
                    else:
                        await next_queue(self._ctx, space)
        return was_busy

    def _apart(self, space: SpaceId) -> AbstractContextManager[None]:
        return apart_from_others(partial(self._ctx.put_off.pop, space, None))
