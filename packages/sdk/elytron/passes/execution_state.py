"""State of a conversation's work, read by the model from its last turns."""

from typing import Literal

from elytron.passes.pass_context import NEEDS_MODEL, Work, ended, skipped
from elytron_core import limits
from elytron_core.contracts.admin.maintenance import PassOutcome
from elytron_core.contracts.planes import ExecutionDraft, ExecutionWrite
from elytron_core.model import Value
from elytron_core.planes.admin.jobs import Pass
from elytron_core.planes.conversation.execution import ExecutionStatus
from elytron_core.policy.extraction import prompts
from elytron_core.policy.maintenance import due


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


async def keep_state(work: Work, /) -> PassOutcome:
    """Renew the conversation's execution state where its turns may have moved the work."""
    if work.asker is None:
        return skipped(Pass.EXECUTION_STATE, NEEDS_MODEL)
    known = await work.state()
    turns = [turn.turn for turn in work.turns]
    if not turns or not due.is_state_due(turns, known):
        return skipped(Pass.EXECUTION_STATE, "not_due")
    answer = await work.ask(prompts.STATE, prompts.state_data(known, turns, most=work.chars), StateAnswer)
    if answer.is_work == "no" or not answer.goal.strip():
        return ended(Pass.EXECUTION_STATE, {"no_work": 1}, changed=0)
    report = await work.write(ExecutionWrite(state=_draft(answer)))
    return ended(Pass.EXECUTION_STATE, {"turns": len(turns)}, changed=report.changed)


def _draft(answer: StateAnswer) -> ExecutionDraft:
    return ExecutionDraft(
        goal=_text(answer.goal),
        progress=_text(answer.progress),
        blocker=_text(answer.blocker),
        next_action=_text(answer.next_action),
        last_output=_text(answer.last_output),
        done=_items(answer.done),
        pending=_items(answer.pending),
        decisions=_items(answer.decisions),
        artifacts=_items(answer.artifacts),
        status=answer.status,
    )


def _text(text: str) -> str:
    return " ".join(text.split())[: limits.EXECUTION_TEXT_CHARS]


def _items(items: tuple[str, ...]) -> tuple[str, ...]:
    """Return the last items that say anything: what was done last is worth more than what was done first."""
    told = [flat for item in items if (flat := " ".join(item.split())[: limits.EXECUTION_ITEM_CHARS])]
    return tuple(dict.fromkeys(told))[-limits.EXECUTION_ITEMS :]
