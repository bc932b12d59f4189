"""Maintenance decisions that need no model: when it may run, which part is due, and what is outdated."""

from collections.abc import Iterable, Sequence
from typing import Final

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.continuity import CapsuleDraft
from elytron_core.contracts.maintenance.maintenance import MaintenanceRefusal
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.ids import FactId
from elytron_core.planes import candidates, continuity, facts, transcript
from elytron_core.planes.continuity import CapsuleKind, CapsuleState
from elytron_core.policy.platform import modes
from elytron_core.profiles import ModeAction, ModeInput
from elytron_core.text import similarity

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
    admission = next(
        candidate for candidate in modes.action_admissions(mode) if candidate.action is ModeAction.MAINTAIN
    )
    return None if admission.admitted else MaintenanceRefusal(admission.reason)


def is_summary_due(message_count: int, summary: continuity.SessionSummary | None, /) -> bool:
    """Return whether a conversation of this many messages is due for a summary: from 40 on, then every 20."""
    covered_count = summary.messages if summary is not None else 0
    return message_count >= SUMMARY_FROM and message_count - covered_count >= SUMMARY_EVERY


def is_state_due(turns: Sequence[transcript.Turn], state: continuity.ExecutionState | None, /) -> bool:
    """Return whether turns may have changed the conversation's work: it is in progress, or tools were used."""
    if any(turn.tool_observations or turn.host_refs for turn in turns):
        return True
    is_in_progress = state is not None and state.status is not continuity.ExecutionStatus.DONE
    return is_in_progress and any(message.role is EvidenceRole.ASSISTANT for turn in turns for message in turn.messages)


def outlived_facts(facts: Iterable[facts.Fact], now: Instant, /) -> tuple[FactId, ...]:
    """Return the current tasks and projects that were not confirmed within their kind's lifetime."""
    return tuple(
        fact.id
        for fact in facts
        if fact.is_current and fact.kind in LIVES_DAYS and now - fact.last_confirmed_at > LIVES_DAYS[fact.kind] * DAY_MS
    )


def over_budget(facts: Iterable[facts.Fact], /) -> dict[str, int]:
    """Return by kind how many current facts exceed what a space should need."""
    counts_by_kind = dict.fromkeys(BUDGETS, 0)
    for fact in facts:
        if fact.is_current:
            counts_by_kind[fact.kind] += 1
    return {
        f"over_{kind.value}": counts_by_kind[kind] - budget
        for kind, budget in BUDGETS.items()
        if counts_by_kind[kind] > budget
    }


def month_of(period: str, /) -> str:
    """Return the month of a day's note."""
    return period[: len("2026-08")]


def fitting_days(
    days: Sequence[continuity.DailyNote], month: continuity.DailyNote | None, /
) -> tuple[continuity.DailyNote, ...]:
    """Return the days, oldest first, whose citations fit into the month's note, which is based on all of its
    content."""
    cited_ids = frozenset(month.citations if month is not None else ())
    fitting_notes: list[continuity.DailyNote] = []
    for note in sorted(days, key=lambda note: note.period):
        joined_ids = cited_ids | frozenset(note.citations)
        if len(joined_ids) <= limits.CITATIONS:
            cited_ids = joined_ids
            fitting_notes.append(note)
    return tuple(fitting_notes)


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
    unresolved_items = (*((state.blocker,) if state.blocker else ()), *state.pending)
    return CapsuleDraft(
        capsule_kind=CapsuleKind.TASK_RESOLUTION if is_done else CapsuleKind.WORK_SESSION,
        topic=" ".join(state.goal.split())[: limits.TOPIC_CHARS],
        summary=(state.progress or state.goal)[: limits.CAPSULE_TEXT_CHARS],
        outcome=state.last_output[: limits.CAPSULE_TEXT_CHARS],
        decisions=tuple(item[: limits.CAPSULE_ITEM_CHARS] for item in state.decisions),
        next_step=state.next_action[: limits.CAPSULE_TEXT_CHARS],
        unresolved=tuple(item[: limits.CAPSULE_ITEM_CHARS] for item in unresolved_items),
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
    steps += [f"Keep in mind: {' '.join(decision.split())}" for decision in state.decisions]
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
