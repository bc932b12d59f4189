"""Decisions of maintenance without a model: when it may run, which part is due, what is outdated."""

from collections.abc import Iterable, Sequence
from typing import Final

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.admin.maintenance import MaintenanceRefusal, WorkHealth
from elytron_core.contracts.modes import ModeAction, ModeInput
from elytron_core.contracts.planes import CapsuleDraft
from elytron_core.ids import FactId
from elytron_core.limits import JOB_STALL_MS
from elytron_core.planes.admin.jobs import JobState, Queue
from elytron_core.planes.conversation import candidates, execution, summaries, transcript
from elytron_core.planes.conversation.continuity import CapsuleKind, CapsuleState
from elytron_core.planes.evidence import EvidenceAuthority
from elytron_core.planes.knowledge import long_term, notes
from elytron_core.planes.roles import Role
from elytron_core.policy.host import modes
from elytron_core.text import similarity

SUMMARY_FROM: Final = 40
"""Messages that a conversation has before it is summed up."""
SUMMARY_EVERY: Final = 20
"""New messages after which its summary is renewed."""
LIVES_DAYS: Final = {long_term.Kind.TASK: 45, long_term.Kind.PROJECT: 180}
"""Days for which a fact of this kind is shown without confirmation."""
BUDGETS: Final = {
    long_term.Kind.PREFERENCE: 18,
    long_term.Kind.PROFILE: 12,
    long_term.Kind.RELATIONSHIP: 8,
    long_term.Kind.PROJECT: 16,
    long_term.Kind.TASK: 12,
    long_term.Kind.CONSTRAINT: 12,
    long_term.Kind.FACT: 18,
}
"""Number of current facts of a kind that a space should need; more is counted in the report and kept."""
NOTES_AFTER_DAYS: Final = 7
ROLLUPS: Final = 4
RECONCILES: Final = 6
STEPS_OF_A_SKILL: Final = 3


def refusal(mode: ModeInput, /) -> MaintenanceRefusal | None:
    """Return why maintenance may not run now, or None."""
    admission = next(found for found in modes.admissions(mode) if found.action is ModeAction.MAINTAIN)
    return None if admission.admitted else MaintenanceRefusal(admission.reason)


def is_summary_due(messages: int, summary: summaries.SessionSummary | None, /) -> bool:
    """Return whether a conversation of this many messages is to be summed up: from 40 on, then for each 20 more."""
    covered = summary.messages if summary is not None else 0
    return messages >= SUMMARY_FROM and messages - covered >= SUMMARY_EVERY


def is_state_due(turns: Sequence[transcript.Turn], state: execution.ExecutionState | None, /) -> bool:
    """Return whether turns may have changed the work of their conversation: it is in progress, or tools were used."""
    if any(turn.tool_observations or turn.host_refs for turn in turns):
        return True
    is_going = state is not None and state.status is not execution.ExecutionStatus.DONE
    return is_going and any(message.role is Role.ASSISTANT for turn in turns for message in turn.messages)


def outlived(facts: Iterable[long_term.Fact], now: Instant, /) -> tuple[FactId, ...]:
    """Return the current tasks and projects that were not confirmed within their kind's lifetime."""
    return tuple(
        fact.id
        for fact in facts
        if fact.is_current
        and fact.kind in LIVES_DAYS
        and now - max(fact.observed_at, fact.confirmed_at) > LIVES_DAYS[fact.kind] * DAY_MS
    )


def over_budget(facts: Iterable[long_term.Fact], /) -> dict[str, int]:
    """Return by kind how many current facts there are beyond what a space should need."""
    counts = dict.fromkeys(BUDGETS, 0)
    for fact in facts:
        if fact.is_current:
            counts[fact.kind] += 1
    return {f"over_{kind.value}": counts[kind] - most for kind, most in BUDGETS.items() if counts[kind] > most}


def month_of(period: str, /) -> str:
    """Return the month of a day's note."""
    return period[: len("2026-08")]


def fitting(days: Sequence[notes.DailyNote], month: notes.DailyNote | None, /) -> tuple[notes.DailyNote, ...]:
    """Return the days, oldest first, whose citations the month's note can take in; it rests on all of its content."""
    cited = frozenset(month.citations if month is not None else ())
    found: list[notes.DailyNote] = []
    for note in sorted(days, key=lambda note: note.period):
        more = cited | frozenset(note.citations)
        if len(more) <= limits.CITATIONS:
            cited = more
            found.append(note)
    return tuple(found)


def rolled_up(days: Sequence[notes.DailyNote], month: notes.DailyNote | None, /) -> str:
    """Return the text of a month's note: its text before, then each day with its date, cut at a note's bound.

    A day that it already had is replaced by the day's text of now.
    """
    told = [line for line in month.text.splitlines() if not _tells_of(line, days)] if month is not None else []
    told += [f"{note.period}: {' '.join(note.text.split())}" for note in sorted(days, key=lambda note: note.period)]
    return "\n".join(told)[: limits.NOTE_CHARS]


def is_rolled_up(day: notes.DailyNote, month: notes.DailyNote | None, /) -> bool:
    """Return True if the month's note has taken in the day's."""
    if month is None or month.forgotten_at is not None:
        return False
    return any(_tells_of(line, (day,)) for line in month.text.splitlines())


def _tells_of(line: str, days: Iterable[notes.DailyNote]) -> bool:
    return any(line.startswith(f"{note.period}: ") for note in days)


def capsule_of(state: execution.ExecutionState, provenance: tuple[str, ...], /) -> CapsuleDraft | None:
    """Return the capsule of the work's results so far; None while it has too little to be taken up again."""
    if similarity.is_blank(state.goal) or not (state.progress or state.done or state.next_action or state.last_output):
        return None
    is_done = state.status is execution.ExecutionStatus.DONE
    unresolved = (*((state.blocker,) if state.blocker else ()), *state.pending)
    return CapsuleDraft(
        capsule_kind=CapsuleKind.TASK_RESOLUTION if is_done else CapsuleKind.WORK_SESSION,
        topic=" ".join(state.goal.split())[: limits.TOPIC_CHARS],
        summary=(state.progress or state.goal)[: limits.CAPSULE_TEXT_CHARS],
        outcome=state.last_output[: limits.CAPSULE_TEXT_CHARS],
        decisions=tuple(item[: limits.CAPSULE_ITEM_CHARS] for item in state.decisions),
        next_step=state.next_action[: limits.CAPSULE_TEXT_CHARS],
        unresolved=tuple(item[: limits.CAPSULE_ITEM_CHARS] for item in unresolved),
        artifacts=tuple(item for item in state.artifacts if item.isprintable() and item == item.strip()),
        provenance=provenance,
        state=CapsuleState.DONE if is_done else CapsuleState.ACTIVE,
    )


def learned_of(state: execution.ExecutionState, turns: tuple[str, ...], /) -> candidates.CandidateDraft | None:
    """Return the procedure that finished work proposes: its steps as they were done, if there are at least three."""
    if state.status is not execution.ExecutionStatus.DONE or len(state.done) < STEPS_OF_A_SKILL:
        return None
    topic = " ".join(state.goal.split())[: limits.CANDIDATE_TOPIC_CHARS]
    name = similarity.normalise(topic).replace(" ", "_")
    if not name or not turns:
        return None
    steps = [f"{number}. {' '.join(step.split())}" for number, step in enumerate(state.done, 1)]
    steps += [f"Keep in mind: {' '.join(decided.split())}" for decided in state.decisions]
    return candidates.CandidateDraft(
        proposal=candidates.SkillProposal(
            target=candidates.Target.PROCEDURAL,
            name=name,
            topic=topic,
            title=topic,
            summary=(state.last_output or state.progress or topic)[: limits.FACT_CHARS],
            content="\n".join(steps),
        ),
        authority=EvidenceAuthority.ARCHIVE_EVIDENCE,
        citations=turns,
        origins=(candidates.OriginTag.ASSISTANT,),
        judgement=candidates.Judgement(verdict=candidates.Verdict.ACCEPT, reason="learned from finished work"),
    )


def work_health(queue: Queue, over: Sequence[JobState], now: Instant, /) -> WorkHealth:
    """Return whether what was put off gets done: `over` are the states of the jobs that ended last."""
    late = any(job.due_at < now - JOB_STALL_MS for job in queue.active)
    blocked = any(job.state is JobState.BLOCKED for job in queue.active)
    if late or blocked or JobState.DEAD_LETTER in over:
        return WorkHealth.DEGRADED
    return WorkHealth.WORKING if queue.active else WorkHealth.IDLE
