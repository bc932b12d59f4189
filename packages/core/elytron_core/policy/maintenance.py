"""Maintenance decisions that need no model: when it may run, which part is due, and what is outdated."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.continuity import CapsuleDraft
from elytron_core.contracts.maintenance import MaintenanceRefusal, WorkHealth
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.ids import ConversationTag, FactId
from elytron_core.limits import JOB_STALL_MS
from elytron_core.model import Value
from elytron_core.planes import candidates, continuity, facts, transcript
from elytron_core.planes.continuity import CapsuleKind, CapsuleState
from elytron_core.planes.jobs import (
    MAINTENANCE,
    DaySpent,
    Job,
    JobId,
    JobLease,
    JobQueue,
    JobState,
    ModelUsage,
    QueuedJob,
    SpendingHistory,
)
from elytron_core.policy import host
from elytron_core.profiles import ModeAction, ModeInput
from elytron_core.text import similarity

MODEL_CALLS_PER_DAY: Final = 2_000
MODEL_TOKENS_PER_DAY: Final = 5_000_000
JOBS_ACTIVE: Final = 256
JOBS_KEPT: Final = 512
"""Jobs that are over and can still be looked at."""
JOB_WAIT_MS: Final = 15 * 1000
SPENDING_DAYS: Final = 31


SUMMARY_FROM: Final = 40
"""Messages in a conversation before it is summarised."""
SUMMARY_EVERY: Final = 20
"""New messages after which its summary is renewed."""
LIVES_DAYS: Final = {facts.FactKind.TASK: 45, facts.FactKind.PROJECT: 180}
"""Days for which a fact of this kind is shown without confirmation."""
BUDGETS: Final = {
    facts.FactKind.PREFERENCE: 18,
    facts.FactKind.PROFILE: 12,
    facts.FactKind.RELATIONSHIP: 8,
    facts.FactKind.PROJECT: 16,
    facts.FactKind.TASK: 12,
    facts.FactKind.CONSTRAINT: 12,
    facts.FactKind.FACT: 18,
}
"""Number of current facts of a kind that a space should need; an excess is reported but stays stored."""
NOTES_AFTER_DAYS: Final = 7
ROLLUPS: Final = 4
RECONCILES: Final = 6
STEPS_OF_A_SKILL: Final = 3


def maintenance_refusal(mode: ModeInput, /) -> MaintenanceRefusal | None:
    """Return why maintenance may not run now, or None."""
    admission = next(candidate for candidate in host.action_admissions(mode) if candidate.action is ModeAction.MAINTAIN)
    return None if admission.admitted else MaintenanceRefusal(admission.reason)


def is_summary_due(messages: int, summary: continuity.SessionSummary | None, /) -> bool:
    """Return whether a conversation of this many messages is due for a summary: from 40 on, then every 20."""
    covered = summary.messages if summary is not None else 0
    return messages >= SUMMARY_FROM and messages - covered >= SUMMARY_EVERY


def is_state_due(turns: Sequence[transcript.Turn], state: continuity.ExecutionState | None, /) -> bool:
    """Return whether turns may have changed the conversation's work: it is in progress, or tools were used."""
    if any(turn.tool_observations or turn.host_refs for turn in turns):
        return True
    is_going = state is not None and state.status is not continuity.ExecutionStatus.DONE
    return is_going and any(message.role is EvidenceRole.ASSISTANT for turn in turns for message in turn.messages)


def outlived_facts(facts: Iterable[facts.Fact], now: Instant, /) -> tuple[FactId, ...]:
    """Return the current tasks and projects that were not confirmed within their kind's lifetime."""
    return tuple(
        fact.id
        for fact in facts
        if fact.is_current and fact.kind in LIVES_DAYS and now - fact.last_confirmed_at > LIVES_DAYS[fact.kind] * DAY_MS
    )


def over_budget(facts: Iterable[facts.Fact], /) -> dict[str, int]:
    """Return by kind how many current facts exceed what a space should need."""
    counts = dict.fromkeys(BUDGETS, 0)
    for fact in facts:
        if fact.is_current:
            counts[fact.kind] += 1
    return {f"over_{kind.value}": counts[kind] - most for kind, most in BUDGETS.items() if counts[kind] > most}


def month_of(period: str, /) -> str:
    """Return the month of a day's note."""
    return period[: len("2026-08")]


def fitting_days(
    days: Sequence[continuity.DailyNote], month: continuity.DailyNote | None, /
) -> tuple[continuity.DailyNote, ...]:
    """Return the days, oldest first, whose citations fit into the month's note, which is based on all of its
    content."""
    cited = frozenset(month.citations if month is not None else ())
    notes: list[continuity.DailyNote] = []
    for note in sorted(days, key=lambda note: note.period):
        more = cited | frozenset(note.citations)
        if len(more) <= limits.CITATIONS:
            cited = more
            notes.append(note)
    return tuple(notes)


def rolled_up(days: Sequence[continuity.DailyNote], month: continuity.DailyNote | None, /) -> str:
    """Return the text of a month's note: its previous text, then each day with its date, cut at a note's limit.

    A day that it already had is replaced by the day's text of now.
    """
    lines = [line for line in month.text.splitlines() if not _tells_of(line, days)] if month is not None else []
    lines += [f"{note.period}: {' '.join(note.text.split())}" for note in sorted(days, key=lambda note: note.period)]
    return "\n".join(lines)[: limits.NOTE_CHARS]


def is_rolled_up(day: continuity.DailyNote, month: continuity.DailyNote | None, /) -> bool:
    """Return whether the month's note includes the day's."""
    if month is None or month.forgotten_at is not None:
        return False
    return any(_tells_of(line, (day,)) for line in month.text.splitlines())


def _tells_of(line: str, days: Iterable[continuity.DailyNote]) -> bool:
    return any(line.startswith(f"{note.period}: ") for note in days)


def capsule_of(state: continuity.ExecutionState, provenance: tuple[str, ...], /) -> CapsuleDraft | None:
    """Return the capsule of the work's results so far; None while there is too little to resume."""
    if similarity.is_blank(state.goal) or not (state.progress or state.done or state.next_action or state.last_output):
        return None
    is_done = state.status is continuity.ExecutionStatus.DONE
    unresolved = (*((state.blocker,) if state.blocker else ()), *state.pending)
    return CapsuleDraft(
        capsule_kind=CapsuleKind.TASK_RESOLUTION if is_done else CapsuleKind.WORK_SESSION,
        topic=" ".join(state.goal.split())[: limits.TOPIC_CHARS],
        summary=(state.progress or state.goal)[: limits.CAPSULE_TEXT_CHARS],
        outcome=state.last_output[: limits.CAPSULE_TEXT_CHARS],
        decisions=tuple(item[: limits.CAPSULE_ITEM_CHARS] for item in state.decisions),
        next_step=state.next_action[: limits.CAPSULE_TEXT_CHARS],
        unresolved=tuple(item[: limits.CAPSULE_ITEM_CHARS] for item in unresolved),
        # Artifacts of a capsule are names, and those of a state are free text: others are left out.
        artifacts=tuple(item for item in state.artifacts if item.isprintable() and item == item.strip()),
        provenance=provenance,
        state=CapsuleState.DONE if is_done else CapsuleState.ACTIVE,
    )


def learned_of(state: continuity.ExecutionState, turns: tuple[str, ...], /) -> candidates.CandidateDraft | None:
    """Return the procedure that finished work proposes: its steps in order, if there are at least three."""
    if state.status is not continuity.ExecutionStatus.DONE or len(state.done) < STEPS_OF_A_SKILL:
        return None
    topic = " ".join(state.goal.split())[: limits.CANDIDATE_TOPIC_CHARS]
    name = similarity.normalise_text(topic).replace(" ", "_")
    if not name or not turns:
        return None
    steps = [f"{number}. {' '.join(step.split())}" for number, step in enumerate(state.done, 1)]
    steps += [f"Keep in mind: {' '.join(decided.split())}" for decided in state.decisions]
    return candidates.CandidateDraft(
        proposal=candidates.SkillProposal(
            target=candidates.CandidateTarget.PROCEDURAL,
            name=name,
            topic=topic,
            title=topic,
            summary=(state.last_output or state.progress or topic)[: limits.FACT_CHARS],
            content="\n".join(steps),
        ),
        authority=EvidenceAuthority.ARCHIVE_EVIDENCE,
        citations=turns,
        origins=(candidates.OriginTag.ASSISTANT,),
        judgement=candidates.CandidateJudgement(
            verdict=candidates.AdmissionVerdict.ACCEPT, reason="learned from finished work"
        ),
    )


def work_health(queue: JobQueue, over: Sequence[JobState], now: Instant, /) -> WorkHealth:
    """Return the health of deferred work; `over` are the states of the jobs that ended last."""
    # A leased job is due when its lease ends, so a dead worker shows here as well.
    late = any(job.due_at < now - JOB_STALL_MS for job in queue.active)
    blocked = any(job.state is JobState.BLOCKED for job in queue.active)
    if late or blocked or JobState.DEAD_LETTER in over:
        return WorkHealth.DEGRADED
    return WorkHealth.WORKING if queue.active else WorkHealth.IDLE


BYTES_PER_TOKEN: Final = 3
"""Fewer than any common vocabulary needs for plain text, so that estimates err on the high side."""


class SpendingBudget(Value):
    """Daily limit (UTC) per space of model calls, and of input and output tokens. 0 allows none."""

    calls_per_day: int = MODEL_CALLS_PER_DAY
    tokens_per_day: int = MODEL_TOKENS_PER_DAY


def day_of(at: Instant, /) -> int:
    """Return the number of the day, in UTC, since 1970-01-01."""
    return at // DAY_MS


def estimate_tokens(text: str, /) -> int:
    """Return an estimate of a prompt's tokens, rather too high than too low."""
    return len(text.encode("utf-8")) // BYTES_PER_TOKEN + 16


def spent_today(history: SpendingHistory, at: Instant, /) -> DaySpent:
    """Return the usage of the day of `at`."""
    day = day_of(at)
    return next((spent_day for spent_day in history.days if spent_day.day == day), DaySpent(day=day))


def budget_allows(budget: SpendingBudget, day: DaySpent, *, tokens: int) -> bool:
    """Return whether the budget allows one more call of up to `tokens`, including running calls."""
    calls = day.spent.calls + day.held_calls + 1
    return calls <= budget.calls_per_day and day.spent.tokens + day.held_tokens + tokens <= budget.tokens_per_day


def hold_call(history: SpendingHistory, at: Instant, *, tokens: int) -> SpendingHistory:
    """Return `history` with one call of up to `tokens` reserved."""
    day = spent_today(history, at)
    return _with_day(
        history,
        day.model_copy(update={"held_calls": day.held_calls + 1, "held_tokens": day.held_tokens + tokens}),
    )


def settle_call(history: SpendingHistory, held_at: Instant, *, tokens: int, spent: ModelUsage) -> SpendingHistory:
    """Return `history` with the reservation made at `held_at` replaced by the actual usage."""
    day = spent_today(history, held_at)
    return _with_day(
        history,
        day.model_copy(
            # The day may have left the history meanwhile, with its reservations.
            update={
                "held_calls": max(0, day.held_calls - 1),
                "held_tokens": max(0, day.held_tokens - tokens),
                "spent": day.spent.plus(spent),
            }
        ),
    )


def _with_day(history: SpendingHistory, day: DaySpent) -> SpendingHistory:
    others = (spent_day for spent_day in history.days if spent_day.day != day.day)
    days = sorted((*others, day), key=lambda spent_day: spent_day.day)
    return SpendingHistory(days=tuple(days)[-SPENDING_DAYS:])


NEVER_ENDED: Final = "never_ended"


def claimable_job(queue: JobQueue, now: Instant, kinds: Collection[str], /) -> QueuedJob | None:
    """Return the next job of `kinds` to lease: due, oldest first, with no other job of its conversation running."""
    # A lease that has ended keeps no conversation busy: its worker is gone.
    busy = {job.conversation for job in queue.active if job.state is JobState.LEASED and job.due_at > now}
    free = (job for job in queue.active if job.kind in kinds and job.conversation not in busy)
    return next((job for job in free if job.due_at <= now), None)


def joinable_job(queue: JobQueue, conversation: ConversationTag, /) -> QueuedJob | None:
    """Return the conversation's job that has not been leased yet, to which more turns can be added."""
    states = {JobState.PENDING, JobState.RETRY_WAITING, JobState.BLOCKED}
    waiting = (job for job in queue.active if job.kind == MAINTENANCE and job.state in states)
    return next((job for job in waiting if job.conversation == conversation), None)


def has_room(queue: JobQueue, /, *, kind: str = MAINTENANCE) -> bool:
    """Return True if one more job of a kind may become active."""
    if kind == MAINTENANCE:
        return len(queue.active) < JOBS_ACTIVE
    return sum(job.kind == kind for job in queue.active) < limits.JOBS_ACTIVE_OF_KIND


def lease_job(job: Job, *, holder: str, at: Instant) -> Job:
    """Return `job` leased to `holder` from `at` on; no other worker may take it before the lease ends.

    A job that was taken too often without coming to an end, because its workers died, is given up.
    """
    if job.attempts >= limits.JOB_ATTEMPTS:
        return _move_job(job, JobState.DEAD_LETTER, at=at, error=NEVER_ENDED)
    lease = JobLease(holder=holder, until=Instant(at + job.terms.lease_ms))
    attempts = job.attempts + 1
    return _move_job(job, JobState.LEASED, at=at, due_at=lease.until).model_copy(
        update={"lease": lease, "attempts": attempts}
    )


def renew_job(job: Job, *, at: Instant) -> Job:
    """Return a leased `job` with its lease renewed from `at`."""
    assert job.lease is not None
    until = Instant(at + job.terms.lease_ms)
    lease = job.lease.model_copy(update={"until": until})
    return job.model_copy(update={"lease": lease, "due_at": until, "updated_at": at})


def is_held(job: Job, holder: str, /) -> bool:
    """Return whether `holder` still holds the job's lease."""
    return job.state is JobState.LEASED and job.lease is not None and job.lease.holder == holder


def finish_job(job: Job, *, at: Instant) -> Job:
    """Return `job` as done."""
    return _move_job(job, JobState.SUCCEEDED, at=at, error="")


def fail_job(job: Job, *, at: Instant, error: str, retryable: bool, jitter: int) -> Job:
    """Return `job` after a failed attempt: waiting longer each time, or abandoned. `jitter` is 0 to 255."""
    if not retryable or job.attempts >= limits.JOB_ATTEMPTS:
        return _move_job(job, JobState.DEAD_LETTER, at=at, error=error)
    return _move_job(
        job,
        JobState.RETRY_WAITING,
        at=at,
        due_at=Instant(at + wait_ms(job.attempts, jitter, most_ms=job.terms.wait_max_ms)),
        error=error,
    )


def block_job(job: Job, *, at: Instant, until: Instant, error: str) -> Job:
    """Return `job` blocked until `until`; this does not count as an attempt."""
    waiting = _move_job(job, JobState.BLOCKED, at=at, due_at=until, error=error)
    return waiting.model_copy(update={"attempts": max(0, job.attempts - 1)})


def cancel_job(job: Job, *, at: Instant) -> Job:
    """Return `job` cancelled on request."""
    return _move_job(job, JobState.CANCELLED, at=at)


def retry_job(job: Job, *, at: Instant) -> Job:
    """Return `job` due now with its attempts reset; finished parts stay done."""
    return _move_job(job, JobState.PENDING, at=at, due_at=at, error="").model_copy(update={"attempts": 0})


def wait_ms(attempts: int, jitter: int, /, *, most_ms: int = limits.JOB_WAIT_MAX_MS) -> int:
    """Return the wait after `attempts` attempts: doubled each time up to a limit, minus up to a half."""
    # Bounded before the shift, which would otherwise make huge numbers.
    longest = min(JOB_WAIT_MS << max(0, min(attempts, 32) - 1), most_ms)
    return longest - longest * jitter // 512


def next_day(at: Instant, /) -> Instant:
    """Return the beginning of the day, in UTC, after `at`."""
    return Instant((at // DAY_MS + 1) * DAY_MS)


def list_job(queue: JobQueue, entry: QueuedJob, /) -> tuple[JobQueue, tuple[JobId, ...]]:
    """Return `queue` with `entry` in the job's old position, and the ids of long finished jobs that it drops."""
    others = [listed for listed in queue.active if listed.id != entry.id]
    over = tuple(listed for listed in queue.over if listed != entry.id)
    if not entry.state.is_active:
        over = (*over, entry.id)
        return JobQueue(active=tuple(others), over=over[-JOBS_KEPT:]), over[:-JOBS_KEPT]
    # A job keeps its position, or each retry would move the oldest one back.
    place = next((at for at, listed in enumerate(queue.active) if listed.id == entry.id), len(others))
    return JobQueue(active=(*others[:place], entry, *others[place:]), over=over), ()


def unlist_job(queue: JobQueue, job_id: JobId, /) -> JobQueue:
    """Return `queue` without the unfinished job of this id."""
    return queue.model_copy(update={"active": tuple(listed for listed in queue.active if listed.id != job_id)})


def _move_job(
    job: Job, state: JobState, *, at: Instant, due_at: Instant | None = None, error: str | None = None
) -> Job:
    return job.model_copy(
        update={
            "state": state,
            "updated_at": at,
            "due_at": due_at if due_at is not None else job.due_at,
            "lease": None,
            "error": job.error if error is None else error,
        }
    )
