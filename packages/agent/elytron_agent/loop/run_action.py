"""The next action of a run, as its documents say it."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

from elytron_agent import limits
from elytron_agent.loop.tool_call import DONE
from elytron_agent.runs.events import StopReason
from elytron_agent.runs.journal import RunRecord
from elytron_agent.runs.settings import RunBudget
from elytron_core.ports.chat import FinishReason, ToolCall


class NextDoing(StrEnum):
    """Next action."""

    ASK = "ask"
    CALL = "call"
    END = "end"


class NextAction(NamedTuple):
    """Next action: a question to the model, calls of its last reply by their places, or the end."""

    doing: NextDoing
    reason: StopReason = StopReason.ANSWERED
    places: tuple[int, ...] = ()


_ENDS = {FinishReason.LENGTH: StopReason.LENGTH, FinishReason.REFUSED: StopReason.REFUSED}


def next_action(
    record: RunRecord, budget: RunBudget, /, *, readers: Collection[str] = (), handed: Collection[str] = ()
) -> NextAction:
    """Return what the run does next.

    Calls of a reply are made in its order; neighbours that only read, those of tools named in `readers`, side by side.
    Those of tools named in `handed` are the client's: with them the run ends.
    """
    if not record.replies:
        return NextAction(NextDoing.ASK) if record.input.asks else NextAction(NextDoing.END, StopReason.DONE)
    last = record.replies[-1]
    calls = last.calls
    made = {result.place for result in record.results if result.step == last.step}
    missing = [place for place, call in enumerate(calls) if place not in made and call.name not in handed]
    if missing:
        return NextAction(NextDoing.CALL, places=_side_by_side(calls, missing, readers))
    if record.corrections > limits.CORRECTIONS:
        return NextAction(NextDoing.END, StopReason.MALFORMED)
    if not calls and not last.correction:
        return NextAction(NextDoing.END, _ENDS.get(last.finish, StopReason.ANSWERED))
    if any(call.name in handed for call in calls):
        return NextAction(NextDoing.END, StopReason.HANDED)
    if [call.name for call in calls] == [DONE]:
        return NextAction(NextDoing.END, StopReason.DONE)
    usage = record.usage
    if len(record.replies) >= budget.steps:
        return NextAction(NextDoing.END, StopReason.STEPS)
    if budget.calls is not None and usage.calls > budget.calls:
        return NextAction(NextDoing.END, StopReason.CALLS)
    if budget.tokens is not None and usage.tokens >= budget.tokens:
        return NextAction(NextDoing.END, StopReason.TOKENS)
    return NextAction(NextDoing.ASK)


def end_reason(record: RunRecord, budget: RunBudget, /, *, handed: Collection[str] = ()) -> StopReason:
    """Return why a run that broke off is over: what it came to if nothing but its end is missing, else cancelled."""
    if record.end is not None:
        return record.end.reason
    action = next_action(record, budget, handed=handed)
    return action.reason if action.doing is NextDoing.END else StopReason.CANCELLED


def _side_by_side(calls: Sequence[ToolCall], missing: Sequence[int], readers: Collection[str]) -> tuple[int, ...]:
    """Return the first missing call, and if it only reads, those behind it that do too."""
    reading = tuple(takewhile(lambda place: calls[place].name in readers, missing))
    return reading[: limits.READS_AT_ONCE] or (missing[0],)
