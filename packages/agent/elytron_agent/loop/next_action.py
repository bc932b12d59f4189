"""Next action of a run, from its documents alone, so that a run that was broken off goes on at the same place."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import takewhile
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
    """Next action: a question to the model, calls of its last reply by their places, or the end."""

    doing: Doing
    reason: StopReason = StopReason.ANSWERED
    places: tuple[int, ...] = ()


_ENDS = {FinishReason.LENGTH: StopReason.LENGTH, FinishReason.REFUSED: StopReason.REFUSED}


def next_action(record: RunRecord, budget: RunBudget, /, *, readers: Collection[str] = ()) -> Action:
    """Return what the run does next.

    Calls of a reply are made in its order; neighbours that only read, those of tools named in `readers`, side by side.
    """
    if not record.replies:
        return Action(Doing.ASK)
    last = record.replies[-1]
    made = {result.place for result in record.results if result.step == last.step}
    missing = [place for place in range(len(last.calls)) if place not in made]
    if missing:
        return Action(Doing.CALL, places=_side_by_side(last.calls, missing, readers))
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


def _side_by_side(calls: Sequence[ToolCall], missing: Sequence[int], readers: Collection[str]) -> tuple[int, ...]:
    """Return the first missing call, and if it only reads, those behind it that do too."""
    reading = tuple(takewhile(lambda place: calls[place].name in readers, missing))
    return reading[: limits.READS_AT_ONCE] or (missing[0],)
