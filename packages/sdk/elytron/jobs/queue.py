"""The durable job queue of a space, and model calls within the day's budget.

Jobs are documents, and every step of one is a batch that names what it replaces.
"""

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at, value_at
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.maintenance import JobView, WorkHealth
from elytron_core.errors import ElytronError, NotFound, SpaceIncomplete, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes import jobs
from elytron_core.planes.jobs import (
    NOTHING,
    Job,
    JobId,
    JobQueue,
    JobState,
    JobTerms,
    ModelUsage,
    QueuedJob,
    SpendingHistory,
)
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy import maintenance
from elytron_core.ports.models import LanguageModel, PromptMessage, PromptRole, TextCompletion
from elytron_core.ports.store import DocumentRef, JournalAction, queued_spaces, scan_documents, scan_spaces
from elytron_core.scope import ConversationKey, Scope

if TYPE_CHECKING:
    from elytron_models.answer import AnswerCorrection

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
        is_there = bool(queue.active)
        if queue.over == self.queue.over and is_there and self.revision and self.over_revision:
            changes.require(OVER_REF, revision=self.over_revision)
        else:
            # Also when the queue appears or disappears: its revisions start again, and those of this document never do.
            changes.put(OVER_REF, JobQueue(over=queue.over), expects=self.over_revision, action=None)
        if is_there:
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
        entry = maintenance.joinable_job(queue_state.queue, record.conversation_tag(key))
        waiting, waiting_revision = await _read_job(ctx, scope.space, entry.id) if entry is not None else (None, 0)
        if entry is not None and waiting is not None:
            merged = tuple(sorted({*waiting.turns, *turn_numbers}))
            if len(merged) <= limits.MAINTAIN_TURNS:
                grown = KnownJob(entry.id, waiting.model_copy(update={"turns": merged}))
                return SettledChanges(grown, await _job_changes(ctx, scope.space, queue_state, grown, waiting_revision))
        if not maintenance.has_room(queue_state.queue):
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
        if not maintenance.has_room(queue_state.queue, kind=kind):
            return SettledChanges(None)
        fresh = _new_job(scope, (), ctx.clock.now())
        job_fields = {"kind": kind, "payload": payload, "due_at": due_at, "terms": terms}
        new_job = KnownJob(job_id, fresh.model_copy(update=job_fields))
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
        able = {jobs.MAINTENANCE, *ctx.runners} if kinds is None else kinds
        entry = maintenance.claimable_job(_narrow_queue(queue_state.queue, only), now, able)
        job, revision = await _read_job(ctx, space, entry.id) if entry is not None else (None, 0)
        if entry is not None and job is None:
            # Damage removed the job and left its entry, which would block all later ones.
            queue, changes = maintenance.unlist_job(queue_state.queue, entry.id), ChangeSet(record)
            queue_state.put(changes, queue, is_noted=True)
            return SettledChanges(None, changes)
        if entry is None or job is None:
            return SettledChanges(None)
        claim = KnownJob(entry.id, maintenance.lease_job(job, holder=holder, at=now))
        return SettledChanges(claim, await _job_changes(ctx, space, queue_state, claim, revision))

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
    listed = {job.id for job in queue.active}
    async for document in scan_documents(ctx.store, space, jobs.JOBS):
        job_id = JobId(document.ref.key)
        if job_id not in listed and Job.from_bytes(document.body).state.is_active:
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


async def move_job(ctx: OperationContext, space: SpaceId, job_id: JobId, step: Step, /) -> KnownJob:
    """Apply `step` to the job as stored, and return the result. Raises NotFound."""

    async def plan(record: SpaceRecord) -> SettledChanges[KnownJob]:
        job, revision = await _read_job(ctx, space, job_id)
        if job is None:
            raise NotFound(what="job", name=job_id)
        moved = step(job)
        if moved is None:
            return SettledChanges(KnownJob(job_id, job))
        queue_state = await _read_queue(ctx, space, record)
        moved_job = KnownJob(job_id, moved)
        return SettledChanges(moved_job, await _job_changes(ctx, space, queue_state, moved_job, revision))

    moved_job, _ = await settle_changes(ctx, space, plan)
    ctx.note_jobs(space)
    return moved_job


async def work_of(ctx: OperationContext, space: SpaceId, /) -> tuple[WorkHealth, dict[str, int]]:
    """Return the health of the jobs of `space`, and their number in each state."""
    queue = await read_queue(ctx, space)
    stored_jobs = await read_jobs(ctx, space, (*(job.id for job in queue.active), *queue.over))
    over = [job.job.state for job in stored_jobs if not job.job.state.is_active]
    counts = Counter(job.job.state.value for job in stored_jobs)
    return maintenance.work_health(queue, over, ctx.clock.now()), dict(sorted(counts.items()))


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


def _narrow_queue(queue: JobQueue, only: JobId | None) -> JobQueue:
    """Return `queue` reduced to one job to choose, and those that may prevent leasing it."""
    if only is None:
        return queue
    return JobQueue(active=tuple(job for job in queue.active if job.id == only or job.state is JobState.LEASED))


async def _read_queue(ctx: OperationContext, space: SpaceId, record: SpaceRecord) -> _QueueState:
    return _QueueState(record, *await _read_documents(ctx, space))


async def _read_documents(ctx: OperationContext, space: SpaceId) -> tuple[JobQueue, int, int]:
    """Return the queue of `space`, and the revisions of the unfinished and the finished jobs; 0 if absent."""
    active, over = await ctx.store.get(space, (QUEUE_REF, OVER_REF))
    queue = JobQueue.from_bytes(active.body) if active is not None else JobQueue()
    if over is not None:  # an earlier build had both in one document
        queue = queue.model_copy(update={"over": JobQueue.from_bytes(over.body).over})
    revision, over_revision = (0 if document is None else document.revision for document in (active, over))
    return queue, revision, over_revision


async def _read_job(ctx: OperationContext, space: SpaceId, job_id: JobId) -> tuple[Job | None, int]:
    return await value_at(ctx.store, space, _job_ref(job_id), Job)


async def _job_changes(
    ctx: OperationContext, space: SpaceId, queue_state: _QueueState, job: KnownJob, revision: int
) -> ChangeSet:
    """Return the changes that write the job and the queue that lists it, and the long finished jobs to remove."""
    tag = queue_state.record.conversation_tag(ConversationKey(job.job.channel, job.job.conversation))
    entry = QueuedJob(id=job.id, conversation=tag, state=job.job.state, due_at=job.job.due_at, kind=job.job.kind)
    queue, let_go = maintenance.list_job(queue_state.queue, entry)
    changes = ChangeSet(queue_state.record)
    changes.put(_job_ref(job.id), job.job, expects=revision, action=JournalAction.MAINTENANCE)
    if queue != queue_state.queue:
        queue_state.put(changes, queue)
    for ref, document in (await documents_at(ctx.store, space, map(_job_ref, let_go))).items():
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


logger = logging.getLogger(__name__)
PAUSE_S: Final = 5.0
"""Pause after a fault."""


class BackgroundTask:
    """Runs `work` in one task, from `start` to `stop`; restarts it after an unexpected fault."""

    def __init__(
        self, work: Callable[[], Coroutine[Any, Any, None]], /, *, name: str, pause_s: float = PAUSE_S
    ) -> None:
        self._work = work
        self._name = name
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start working."""
        assert self._task is None
        self._task = asyncio.get_running_loop().create_task(self._keep_working(), name=self._name)

    async def stop(self) -> None:
        """Stop where the work waits, and return when it has ended."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return

    async def _keep_working(self) -> None:
        while True:
            try:
                await self._work()
            except Exception as error:  # noqa: BLE001 - the work goes on behind any fault
                log_fault(f"{self._name} was interrupted", error)
            else:
                return
            await asyncio.sleep(self._pause_s)


@contextmanager
def apart_from_others(drop: Callable[[], object], /) -> Generator[None]:
    """Log a failure in one space and call `drop`, so that the work continues with the others.

    What another attempt may help is raised: it is no fault of the space.
    """
    try:
        yield
    except (SpaceLocked, SpaceIncomplete):
        drop()  # its jobs wait for its user, and an unlock or a sweep finds them again
    except ElytronError as error:
        if error.retryable:
            raise
        logger.warning("the jobs of a space could not be checked (%s)", error.key)
        drop()
    except Exception as error:  # noqa: BLE001 - the border: damage is one space's alone
        log_fault("the jobs of a space could not be checked", error)
        drop()


def log_fault(message: str, error: Exception, /) -> None:
    """Log a fault without its message, which may repeat a caller's input: its type and locations suffice."""
    logger.error("%s: %s\n%s", message, type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))


SPENDING_REF = DocumentRef(jobs.SPENDING, jobs.KEY)
ValueT = TypeVar("ValueT", bound=Value)
_Change = Callable[[SpendingHistory, Instant], SpendingHistory]


class BudgetReached(Exception):
    """The space has used up what models may cost it today."""


@dataclass(slots=True)
class ModelAsker:
    """Calls one model on behalf of one space, and counts the usage."""

    ctx: OperationContext
    space: SpaceId
    model: LanguageModel
    spent: ModelUsage = field(default=NOTHING)

    async def ask(self, prompt: Sequence[PromptMessage], /, *, schema: str | None, max_tokens: int) -> TextCompletion:
        """Return the model's answer, counted in the day's history. Raises BudgetReached, ModelError.

        The call is held in the history before it is made, so that workers side by side cannot overdraw together.
        """
        tokens = sum(maintenance.estimate_tokens(message.text) for message in prompt) + max_tokens
        held_at = await self._hold(tokens)
        # A failed call was made too, so it counts.
        cost = ModelUsage(calls=1)
        try:
            answer = await self.model.complete(prompt, schema=schema, max_tokens=max_tokens)
            cost = ModelUsage(
                calls=1,
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
                cost=answer.cost,
            )
            return answer
        finally:
            self.spent = self.spent.plus(cost)
            await self._settle(held_at, tokens, cost)

    async def structured(self, prompt: Sequence[PromptMessage], shape: type[ValueT], /, *, max_tokens: int) -> ValueT:
        """Return the model's answer as a `shape`. Raises ModelRefused if it gives none, even after one retry.

        What is nearly JSON is repaired; a truncated answer is not, because half a sentence would look like a whole one.
        """
        # Imported late: most processes that read a queue call no model.
        from elytron_core.policy.extraction.model_facts import schema_of
        from elytron_models.answer import WrittenText, correct_answer

        schema = schema_of(shape)

        async def asked(correction: "AnswerCorrection | None", /) -> WrittenText:
            more = () if correction is None else _correction_said(correction)
            answer = await self.ask((*prompt, *more), schema=schema, max_tokens=max_tokens)
            return WrittenText(answer.text, is_cut=answer.is_cut)

        return await correct_answer(asked, shape, name=self.model.name)

    async def _hold(self, tokens: int) -> Instant:
        def hold(history: SpendingHistory, now: Instant) -> SpendingHistory:
            if not maintenance.budget_allows(self.ctx.budget, maintenance.spent_today(history, now), tokens=tokens):
                raise BudgetReached
            return maintenance.hold_call(history, now, tokens=tokens)

        return await self._change_spending(hold)

    async def _settle(self, held_at: Instant, tokens: int, cost: ModelUsage) -> None:
        await self._change_spending(
            lambda history, _: maintenance.settle_call(history, held_at, tokens=tokens, spent=cost)
        )

    async def _change_spending(self, change: _Change) -> Instant:
        async def plan(record: SpaceRecord) -> SettledChanges[Instant]:
            (document,) = await self.ctx.store.get(self.space, (SPENDING_REF,))
            history = SpendingHistory.from_bytes(document.body) if document is not None else SpendingHistory()
            now = self.ctx.clock.now()
            changes = ChangeSet(record)
            revision = document.revision if document is not None else 0
            changes.put(SPENDING_REF, change(history, now), expects=revision, action=JournalAction.MAINTENANCE)
            return SettledChanges(now, changes)

        kept_at, _ = await settle_changes(self.ctx, self.space, plan)
        return kept_at


async def spent_on(ctx: OperationContext, space: SpaceId, /) -> SpendingHistory:
    """Return what models have cost `space` in the last days."""
    (document,) = await ctx.store.get(space, (SPENDING_REF,))
    return SpendingHistory.from_bytes(document.body) if document is not None else SpendingHistory()


def _correction_said(correction: "AnswerCorrection") -> tuple[PromptMessage, PromptMessage]:
    return PromptMessage(PromptRole.ASSISTANT, correction.answer), PromptMessage(PromptRole.USER, correction.question)
