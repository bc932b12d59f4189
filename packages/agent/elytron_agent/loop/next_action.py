"""Next action of a run, from its documents alone, so that a run that was broken off goes on at the same place."""

from enum import StrEnum
from typing import NamedTuple

from elytron_agent.loop.tool_call import DONE
from elytron_agent.runs import limits
from elytron_agent.runs.events import StopReason
from elytron_agent.runs.journal import RunRecord
from elytron_agent.runs.settings import RunBudget
from elytron_core.ports.chat import FinishReason, ToolCall


class Doing(StrEnum):
    """Next action."""

    ASK = "ask"
    CALL = "call"
    END = "end"


class Action(NamedTuple):
    """Next action: a question to the model, one call of its last reply, or the end."""

    doing: Doing
    reason: StopReason = StopReason.ANSWERED
    call: ToolCall | None = None
    place: int = 0


_ENDS = {FinishReason.LENGTH: StopReason.LENGTH, FinishReason.REFUSED: StopReason.REFUSED}


def next_action(record: RunRecord, budget: RunBudget, /) -> Action:
    """Return what the run does next. Calls of a reply are made one after the other, in its order."""
    if not record.replies:
        return Action(Doing.ASK)
    last = record.replies[-1]
    made = {result.place for result in record.results if result.step == last.step}
    for place, call in enumerate(last.calls):
        if place not in made:
            return Action(Doing.CALL, call=call, place=place)
    if record.corrections > limits.CORRECTIONS:
        return Action(Doing.END, StopReason.MALFORMED)
    if not last.calls and not last.correction:
        return Action(Doing.END, _ENDS.get(last.finish, StopReason.ANSWERED))
    if [call.name for call in last.calls] == [DONE]:
        return Action(Doing.END, StopReason.DONE)
    usage = record.usage
    if len(record.replies) >= budget.steps:
        return Action(Doing.END, StopReason.STEPS)
    if budget.calls is not None and usage.calls > budget.calls:
        return Action(Doing.END, StopReason.CALLS)
    if budget.tokens is not None and usage.tokens >= budget.tokens:
        return Action(Doing.END, StopReason.TOKENS)
    return Action(Doing.ASK)
