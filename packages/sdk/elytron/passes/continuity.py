"""Continuity of a conversation: the state of its work and its summary, by a model, and the capsule of that work."""

from typing import Literal

from elytron.documents.stored_values import value_at
from elytron.passes.pass_work import NEEDS_MODEL, KnownTurn, PassWork, cited_turns, ended_outcome, skipped_outcome
from elytron_core import limits
from elytron_core.contracts.continuity import CapsulesWrite, ExecutionDraft, ExecutionWrite, SummaryDraft, SummaryWrite
from elytron_core.contracts.maintenance.maintenance import PassOutcome
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes import continuity, transcript
from elytron_core.planes.continuity import ExecutionStatus
from elytron_core.planes.jobs import MaintenancePass
from elytron_core.policy import maintenance
from elytron_core.policy.extraction.model_facts import (
    STATE,
    SUMMARY,
    state_data,
    summary_data,
)
from elytron_core.ports.store import DocumentRef


async def encapsulate_work(work: PassWork, /) -> PassOutcome:
    """Write the capsule of the conversation's work, replacing the one of the same matter."""
    execution_state = await work.state()
    if execution_state is None:
        return skipped_outcome(MaintenancePass.CAPSULES, "no_execution_state")
    draft = maintenance.capsule_of(execution_state, cited_turns(work))
    if draft is None:
        return skipped_outcome(MaintenancePass.CAPSULES, "too_little_to_tell")
    report = await work.write(CapsulesWrite(capsules=(draft,)))
    return ended_outcome(MaintenancePass.CAPSULES, {"written": int(report.changed)}, changed=report.changed)


class StateAnswer(Value, extra="ignore"):
    """A model's answer about the work; `is_work` is "no" if the turns are only talk."""

    is_work: Literal["yes", "no"]
    goal: str
    progress: str
    blocker: str
    next_action: str
    last_output: str
    done: tuple[str, ...]
    pending: tuple[str, ...]
    decisions: tuple[str, ...]
    artifacts: tuple[str, ...]
    status: ExecutionStatus


async def keep_state(work: PassWork, /) -> PassOutcome:
    """Update the conversation's execution state if its turns may have changed the work."""
    if work.asker is None:
        return skipped_outcome(MaintenancePass.EXECUTION_STATE, NEEDS_MODEL)
    execution_state = await work.state()
    turns = [turn.turn for turn in work.turns]
    if not turns or not maintenance.is_state_due(turns, execution_state):
        return skipped_outcome(MaintenancePass.EXECUTION_STATE, "not_due")
    state_answer = await work.ask(STATE, state_data(execution_state, turns, most=work.chars), StateAnswer)
    if state_answer.is_work == "no" or not state_answer.goal.strip():
        return ended_outcome(MaintenancePass.EXECUTION_STATE, {"no_work": 1}, changed=0)
    report = await work.write(ExecutionWrite(state=_execution_draft(state_answer)))
    return ended_outcome(MaintenancePass.EXECUTION_STATE, {"turns": len(turns)}, changed=report.changed)


def _execution_draft(answer: StateAnswer) -> ExecutionDraft:
    return ExecutionDraft(
        goal=_answer_text(answer.goal),
        progress=_answer_text(answer.progress),
        blocker=_answer_text(answer.blocker),
        next_action=_answer_text(answer.next_action),
        last_output=_answer_text(answer.last_output),
        done=_last_items(answer.done),
        pending=_last_items(answer.pending),
        decisions=_last_items(answer.decisions),
        artifacts=_last_items(answer.artifacts),
        status=answer.status,
    )


def _answer_text(text: str) -> str:
    return " ".join(text.split())[: limits.EXECUTION_TEXT_CHARS]


def _last_items(items: tuple[str, ...]) -> tuple[str, ...]:
    """Return the last non-empty items: what was done last is worth more than what was done first."""
    texts = [item_text for item in items if (item_text := " ".join(item.split())[: limits.EXECUTION_ITEM_CHARS])]
    return tuple(dict.fromkeys(texts))[-limits.EXECUTION_ITEMS :]


TURNS_READ = 400


class SummaryAnswer(Value, extra="ignore"):
    """A model's summary of a conversation."""

    summary: str


async def sum_up(work: PassWork, /) -> PassOutcome:
    """Update the conversation's summary if it is due: from 40 messages on, then every 20 new ones."""
    if work.asker is None:
        return skipped_outcome(MaintenancePass.SUMMARY, NEEDS_MODEL)
    ref = DocumentRef(continuity.SUMMARIES, work.tag)
    summary, _ = await value_at(work.ctx.store, work.space, ref, continuity.SessionSummary)
    covered_sequence = summary.through_sequence if summary is not None else 0
    turns = await _turns_after(work, covered_sequence)
    messages = (summary.messages if summary is not None else 0) + sum(len(turn.turn.messages) for turn in turns)
    if not maintenance.is_summary_due(messages, summary):
        return skipped_outcome(MaintenancePass.SUMMARY, "not_due")
    # A forgotten summary must not come back through the next one.
    earlier_text = summary.text if summary is not None and summary.forgotten_at is None else ""
    prompt_data = summary_data(earlier_text, [turn.turn for turn in turns], most=work.chars)
    summary_answer = await work.ask(SUMMARY, prompt_data, SummaryAnswer)
    text = summary_answer.summary.strip()[: limits.SUMMARY_CHARS]
    if not text:
        return ended_outcome(MaintenancePass.SUMMARY, {"empty": 1}, changed=0)
    draft = SummaryDraft(
        text=text, messages=messages, through_sequence=turns[-1].turn.sequence, model=work.asker.model.name
    )
    report = await work.write(SummaryWrite(summary=draft))
    return ended_outcome(MaintenancePass.SUMMARY, {"messages": messages}, changed=report.changed)


async def _turns_after(work: PassWork, sequence: int) -> list[KnownTurn]:
    key_before = transcript.turn_id(work.tag, sequence)
    documents = await work.ctx.store.scan(
        work.space, transcript.TURNS, prefix=f"{work.tag}.", after=key_before, limit=TURNS_READ
    )
    return [KnownTurn(TurnId(document.ref.key), transcript.Turn.from_bytes(document.body)) for document in documents]
