"""The durable job queue of a space.

Jobs are documents, and every step of one is a batch that names what it replaces.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at, value_at
from elytron.jobs.background import apart_from_others
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.maintenance.jobs import JobView, WorkHealth
from elytron_core.errors import NotFound
from elytron_core.ids import SpaceId
from elytron_core.planes import jobs
from elytron_core.planes.jobs import (
    Job,
    JobId,
    JobQueue,
    JobState,
    JobTerms,
    QueuedJob,
)
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy import job_states
from elytron_core.ports.store import DocumentRef, JournalAction, queued_spaces, scan_documents, scan_spaces
from elytron_core.scope import ConversationKey, Scope

USUAL_TERMS: Final = JobTerms()
QUEUE_REF = DocumentRef(jobs.QUEUE, jobs.KEY)
OVER_REF = DocumentRef(jobs.OVER, jobs.KEY)

Step = Callable[[Job], Job | None]
"""Returns the changed job, or None if it is unchanged."""


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job by its id."""

    id: JobId
    job: Job


@dataclass(frozen=True, slots=True)
class _QueueState:
    """The queue as read, with the revisions of its two documents, and the record that keys its names."""

    record: SpaceRecord
    queue: JobQueue
    revision: int
    over_revision: int

    def put(self, changes: ChangeSet, queue: JobQueue, /, *, is_noted: bool = False) -> None:
        """Add the changes that store `queue` to `changes`."""
        is_not_empty = bool(queue.active)
        if queue.over == self.queue.over and is_not_empty and self.revision and self.over_revision:
            changes.require(OVER_REF, revision=self.over_revision)
        else:
            # Also when the queue appears or disappears: its revisions start again, and those of this document never do.
            changes.put(OVER_REF, JobQueue(over=queue.over), expects=self.over_revision, action=None)
        if is_not_empty:
            # Last, as every plan writes the queue. Usually without an entry, because the job has one.
            action = JournalAction.MAINTENANCE if is_noted else None
            changes.put(QUEUE_REF, JobQueue(active=queue.active), expects=self.revision, action=action)
        elif self.revision:
            changes.delete(QUEUE_REF, expects=self.revision, has_entry=is_noted)


async def read_queue(ctx: OperationContext, space: SpaceId, /) -> JobQueue:
    """Return the queue of `space`; an empty one if it has none."""
    queue, _, _ = await _read_documents(ctx, space)
    return queue


async def next_queue(ctx: OperationContext, space: SpaceId, /) -> JobQueue:
    """Return the queue of `space`, which is scheduled for another look when one of its jobs may be due."""
    # Before reading, so that jobs queued meanwhile are recorded after it.
    ctx.put_off.pop(space, None)
    queue = await read_queue(ctx, space)
    if queue.active:
        ctx.note_jobs(space, queue.due_at)
    return queue


QueueHandler = Callable[[SpaceId, JobQueue], Awaitable[None]]


async def visit_queues(ctx: OperationContext, visit: QueueHandler, /) -> None:
    """Call `visit` for each space with unfinished jobs; an unreadable space does not delay the others.

    A queue that an earlier build left without a job is removed, so that its space is not looked at again.
    """
    async for space in queued_spaces(ctx.store):
        with apart_from_others(partial(ctx.put_off.pop, space, None)):
            async with ctx.secrets.background(space):
                queue, revision, _ = await _read_documents(ctx, space)
                if queue.active:
                    await visit(space, queue)
                elif revision:
                    await settle_changes(ctx, space, partial(_plan_removal, ctx, space))


async def _plan_removal(ctx: OperationContext, space: SpaceId, record: SpaceRecord) -> SettledChanges[None]:
    queue_state, changes = await _read_queue(ctx, space, record), ChangeSet(record)
    if queue_state.revision and not queue_state.queue.active:
        queue_state.put(changes, queue_state.queue, is_noted=True)
    return SettledChanges(None, changes)


async def read_jobs(ctx: OperationContext, space: SpaceId, ids: Sequence[JobId], /) -> tuple[KnownJob, ...]:
    """Return the existing jobs with these ids, in this order."""
    documents = await ctx.store.get(space, [_job_ref(job_id) for job_id in ids]) if ids else ()
    return tuple(
        KnownJob(job_id, Job.from_bytes(document.body))
        for job_id, document in zip(ids, documents, strict=True)
        if document is not None
    )


async def enqueue_turns(ctx: OperationContext, scope: Scope, turns: Sequence[int], /) -> KnownJob | None:
    """Return the job that maintains these turns, created if there is none; None if the queue is full.

    The same turns identify the same job, in any state. Turns join a job of their conversation that no worker has leased
    yet, so that a busy conversation is one job and not a hundred.
    """
    turn_numbers = tuple(sorted(set(turns)))

    async def plan(record: SpaceRecord) -> SettledChanges[KnownJob | None]:
        queue_state = await _read_queue(ctx, scope.space, record)
        key = scope.conversation_key
        job_id = JobId(record.tag("job", *key, *(str(turn) for turn in turn_numbers)))
        stored_job, revision = await _read_job(ctx, scope.space, job_id)
        if stored_job is not None:
            return await _relisted_job(ctx, scope.space, queue_state, KnownJob(job_id, stored_job), revision)
        joinable_entry = job_states.joinable_job(queue_state.queue, record.conversation_tag(key))
        waiting_job, waiting_revision = (
            await _read_job(ctx, scope.space, joinable_entry.id) if joinable_entry is not None else (None, 0)
        )
        if joinable_entry is not None and waiting_job is not None:
            merged_turns = tuple(sorted({*waiting_job.turns, *turn_numbers}))
            if len(merged_turns) <= limits.MAINTAIN_TURNS:
                grown_job = KnownJob(joinable_entry.id, waiting_job.model_copy(update={"turns": merged_turns}))
                return SettledChanges(
                    grown_job, await _job_changes(ctx, scope.space, queue_state, grown_job, waiting_revision)
                )
        if not job_states.has_room(queue_state.queue):
            return SettledChanges(None)
        new_job = KnownJob(job_id, _new_job(scope, turn_numbers, ctx.clock.now()))
        return SettledChanges(new_job, await _job_changes(ctx, scope.space, queue_state, new_job, revision))

    queued_job, _ = await settle_changes(ctx, scope.space, plan)
    if queued_job is not None:
        ctx.note_jobs(scope.space)
    return queued_job


async def schedule_job(
    ctx: OperationContext,
    scope: Scope,
    kind: str,
    name: str,
    payload: str,
    /,
    *,
    due_at: Instant,
    terms: JobTerms = USUAL_TERMS,
) -> KnownJob | None:
    """Return the job of `kind` and `name`, created if there is none; None if the queue is full.

    From `due_at` on, one worker that has a runner of `kind` does it (see `OperationContext.runners`). The same name is
    the same job, in any state.
    """

    async def plan(record: SpaceRecord) -> SettledChanges[KnownJob | None]:
        job_id = JobId(record.tag("job", kind, name))
        stored_job, revision = await _read_job(ctx, scope.space, job_id)
        queue_state = await _read_queue(ctx, scope.space, record)
        if stored_job is not None:
            return await _relisted_job(ctx, scope.space, queue_state, KnownJob(job_id, stored_job), revision)
        if not job_states.has_room(queue_state.queue, kind=kind):
            return SettledChanges(None)
        unfilled_job = _new_job(scope, (), ctx.clock.now())
        job_fields = {"kind": kind, "payload": payload, "due_at": due_at, "terms": terms}
        new_job = KnownJob(job_id, unfilled_job.model_copy(update=job_fields))
        return SettledChanges(new_job, await _job_changes(ctx, scope.space, queue_state, new_job, revision))

    queued_job, _ = await settle_changes(ctx, scope.space, plan)
    if queued_job is not None:
        ctx.note_jobs(scope.space)
    return queued_job


async def find_job(ctx: OperationContext, space: SpaceId, kind: str, name: str, /) -> KnownJob | None:
    """Return the job of `kind` and `name`, in any state; None if there is none, or it ended long ago."""
    record = await ctx.spaces.find(space)
    if record is None:
        return None
    job_id = JobId(record.tag("job", kind, name))
    job, _ = await _read_job(ctx, space, job_id)
    return KnownJob(job_id, job) if job is not None else None


async def claim_job(
    ctx: OperationContext,
    space: SpaceId,
    holder: str,
    /,
    *,
    only: JobId | None = None,
    kinds: Collection[str] | None = None,
) -> KnownJob | None:
    """Return the next due job, or the named one, leased to `holder`; None if none is due.

    With `kinds`, only of these; else of all that this runtime can do.

    Of two workers that ask at once, the store gives it to one.
    """

    async def plan(record: SpaceRecord) -> SettledChanges[KnownJob | None]:
        queue_state = await _read_queue(ctx, space, record)
        now = ctx.clock.now()
        runnable_kinds = {jobs.MAINTENANCE, *ctx.runners} if kinds is None else kinds
        claimable_entry = job_states.claimable_job(_narrow_queue(queue_state.queue, only), now, runnable_kinds)
        job, revision = await _read_job(ctx, space, claimable_entry.id) if claimable_entry is not None else (None, 0)
        if claimable_entry is not None and job is None:
            # Damage removed the job and left its entry, which would block all later ones.
            queue, changes = job_states.unlist_job(queue_state.queue, claimable_entry.id), ChangeSet(record)
            queue_state.put(changes, queue, is_noted=True)
            return SettledChanges(None, changes)
        if claimable_entry is None or job is None:
            return SettledChanges(None)
        leased_job = KnownJob(claimable_entry.id, job_states.lease_job(job, holder=holder, at=now))
        return SettledChanges(leased_job, await _job_changes(ctx, space, queue_state, leased_job, revision))

    claimed_job, _ = await settle_changes(ctx, space, plan)
    return claimed_job


async def relist_all_jobs(ctx: OperationContext, /) -> None:
    """List the unfinished jobs missing from queues: a repair may have saved jobs without their queue."""
    async for space in scan_spaces(ctx.store):
        with apart_from_others(partial(ctx.put_off.pop, space, None)):
            async with ctx.secrets.background(space):
                await _relist_jobs(ctx, space)


async def _relist_jobs(ctx: OperationContext, space: SpaceId) -> None:
    queue = await read_queue(ctx, space)
    listed_ids = {job.id for job in queue.active}
    async for document in scan_documents(ctx.store, space, jobs.JOBS):
        job_id = JobId(document.ref.key)
        if job_id not in listed_ids and Job.from_bytes(document.body).state.is_active:
            await settle_changes(ctx, space, partial(_plan_relisting, ctx, space, job_id))


async def _plan_relisting(
    ctx: OperationContext, space: SpaceId, job_id: JobId, record: SpaceRecord
) -> SettledChanges[KnownJob | None]:
    job, revision = await _read_job(ctx, space, job_id)
    if job is None:
        return SettledChanges(None)
    return await _relisted_job(ctx, space, await _read_queue(ctx, space, record), KnownJob(job_id, job), revision)


async def _relisted_job(
    ctx: OperationContext, space: SpaceId, queue_state: _QueueState, stored_job: KnownJob, revision: int
) -> SettledChanges[KnownJob | None]:
    """Return a stored job, and its new listing if it is unfinished and the queue was lost."""
    is_listed = any(job.id == stored_job.id for job in queue_state.queue.active)
    if is_listed or not stored_job.job.state.is_active:
        return SettledChanges(stored_job)
    return SettledChanges(stored_job, await _job_changes(ctx, space, queue_state, stored_job, revision))


async def move_job(ctx: OperationContext, space: SpaceId, job_id: JobId, change: Step, /) -> KnownJob:
    """Apply `change` to the job as stored, and return the result. Raises NotFound."""

    async def plan(record: SpaceRecord) -> SettledChanges[KnownJob]:
        job, revision = await _read_job(ctx, space, job_id)
        if job is None:
            raise NotFound(what="job", name=job_id)
        changed_job = change(job)
        if changed_job is None:
            return SettledChanges(KnownJob(job_id, job))
        queue_state = await _read_queue(ctx, space, record)
        moved_job = KnownJob(job_id, changed_job)
        return SettledChanges(moved_job, await _job_changes(ctx, space, queue_state, moved_job, revision))

    moved_job, _ = await settle_changes(ctx, space, plan)
    ctx.note_jobs(space)
    return moved_job


async def work_of(ctx: OperationContext, space: SpaceId, /) -> tuple[WorkHealth, dict[str, int]]:
    """Return the health of the jobs of `space`, and their number in each state."""
    queue = await read_queue(ctx, space)
    stored_jobs = await read_jobs(ctx, space, (*(job.id for job in queue.active), *queue.over))
    finished_states = [job.job.state for job in stored_jobs if not job.job.state.is_active]
    counts = Counter(job.job.state.value for job in stored_jobs)
    return job_states.work_health(queue, finished_states, ctx.clock.now()), dict(sorted(counts.items()))


def job_view(stored_job: KnownJob, /) -> JobView:
    """Return a job as shown to people."""
    job = stored_job.job
    return JobView(
        id=stored_job.id,
        kind=job.kind,
        state=job.state,
        channel=job.channel,
        conversation=job.conversation,
        turns=len(job.turns),
        attempts=job.attempts,
        made_at=job.made_at,
        updated_at=job.updated_at,
        due_at=job.due_at,
        done=job.done,
        error=job.error,
        spent=job.spent,
    )


def _narrow_queue(queue: JobQueue, requested_id: JobId | None) -> JobQueue:
    """Return `queue` reduced to one job to choose, and those that may prevent leasing it."""
    if requested_id is None:
        return queue
    return JobQueue(active=tuple(job for job in queue.active if job.id == requested_id or job.state is JobState.LEASED))


async def _read_queue(ctx: OperationContext, space: SpaceId, record: SpaceRecord) -> _QueueState:
    return _QueueState(record, *await _read_documents(ctx, space))


async def _read_documents(ctx: OperationContext, space: SpaceId) -> tuple[JobQueue, int, int]:
    """Return the queue of `space`, and the revisions of the unfinished and the finished jobs; 0 if absent."""
    active_document, finished_document = await ctx.store.get(space, (QUEUE_REF, OVER_REF))
    queue = JobQueue.from_bytes(active_document.body) if active_document is not None else JobQueue()
    if finished_document is not None:  # an earlier build had both in one document
        queue = queue.model_copy(update={"over": JobQueue.from_bytes(finished_document.body).over})
    revision, finished_revision = (
        0 if document is None else document.revision for document in (active_document, finished_document)
    )
    return queue, revision, finished_revision


async def _read_job(ctx: OperationContext, space: SpaceId, job_id: JobId) -> tuple[Job | None, int]:
    return await value_at(ctx.store, space, _job_ref(job_id), Job)


async def _job_changes(
    ctx: OperationContext, space: SpaceId, queue_state: _QueueState, job: KnownJob, revision: int
) -> ChangeSet:
    """Return the changes that write the job and the queue that lists it, and the long finished jobs to remove."""
    tag = queue_state.record.conversation_tag(ConversationKey(job.job.channel, job.job.conversation))
    entry = QueuedJob(id=job.id, conversation=tag, state=job.job.state, due_at=job.job.due_at, kind=job.job.kind)
    queue, dropped_ids = job_states.list_job(queue_state.queue, entry)
    changes = ChangeSet(queue_state.record)
    changes.put(_job_ref(job.id), job.job, expects=revision, action=JournalAction.MAINTENANCE)
    if queue != queue_state.queue:
        queue_state.put(changes, queue)
    for ref, document in (await documents_at(ctx.store, space, map(_job_ref, dropped_ids))).items():
        changes.delete(ref, expects=document.revision)
    return changes


def _job_ref(job_id: JobId) -> DocumentRef:
    return DocumentRef(jobs.JOBS, job_id)


def _new_job(scope: Scope, turns: tuple[int, ...], now: Instant) -> Job:
    channel, conversation = scope.conversation_key
    return Job(
        channel=channel,
        conversation=conversation,
        chat=scope.chat,
        agent=scope.agent,
        app=scope.app,
        project=scope.project,
        turns=turns,
        made_at=now,
        updated_at=now,
        due_at=now,
    )
