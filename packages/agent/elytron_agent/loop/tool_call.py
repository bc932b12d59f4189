"""One call of a tool: its arguments read, the tool called under its key, and what it came to."""

import asyncio
import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, cast

from elytron_agent.context.guard import clipped
from elytron_agent.runs import limits
from elytron_agent.runs.approval import REFUSED
from elytron_agent.runs.deadline import WorkCancelled, finished
from elytron_agent.runs.journal import CallResult
from elytron_agent.tool import CallKey, Tool
from elytron_core import strict_json
from elytron_core.errors import ElytronError
from elytron_core.model import Value
from elytron_core.ports.chat import ReplyItem, ToolCall

DONE: Final = "done"
DONE_TOGETHER: Final = "`done` was called beside other tools. Call it alone, when nothing else is left to do."
UNKNOWN: Final = (
    "Outcome unknown: the process ended in the middle of this call. It may or may not have had its effect. Do not "
    "assume either; look, or ask the user."
)
LATE: Final = "The tool did not answer in time. Outcome unknown: it may still have its effect."


class ReadCall(Value):
    """A call with its arguments read, or what is wrong with them."""

    call: ToolCall
    arguments: dict[str, Any] = {}
    problem: str = ""
    """Why the call cannot be made."""
    is_malformed: bool = False
    """True if the arguments are no JSON object, so that the model has to be asked again."""


def read(call: ToolCall, tools: Mapping[str, Tool], /) -> ReadCall:
    """Return the call with its arguments; what is nearly JSON is repaired."""
    if call.name not in tools:
        names = ", ".join(sorted(tools))
        return ReadCall(call=call, problem=f"There is no tool of this name. There are: {names or 'none'}.")
    try:
        found: object = strict_json.parse((call.arguments.strip() or "{}").encode("utf-8", "replace"))
    except ElytronError:
        found = _repaired(call.arguments)
    if not isinstance(found, dict):
        problem = "The arguments are no JSON object. Call the tool again with one that fits its schema."
        return ReadCall(call=call, problem=problem, is_malformed=True)
    return ReadCall(call=call, arguments=cast("dict[str, Any]", found))


def distinct_calls(items: Sequence[ReplyItem], /) -> tuple[ReplyItem, ...]:
    """Return the items of a reply with one id for each call: some servers give all calls of a reply the same."""
    seen: set[str] = set()
    found: list[ReplyItem] = []
    for place, item in enumerate(items):
        if isinstance(item, ToolCall):
            call = item.id if item.id and item.id not in seen else f"{item.id or 'call'}-{place}"
            seen.add(call)
            found.append(item.model_copy(update={"id": call}))
        else:
            found.append(item)
    return tuple(found)


def digest_of(call: ToolCall, /) -> str:
    """Return a digest of the call's arguments as they were when it was made."""
    return hashlib.sha256(call.arguments.encode()).hexdigest()[:16]


async def make(tool: Tool, found: ReadCall, key: CallKey, /, *, place: int, timeout_s: float | None) -> CallResult:
    """Call the tool and return what came of it. A failure of the tool is a result too: a run goes on after it."""
    is_unknown = False
    try:
        answer = await finished(tool.call(found.arguments, key), timeout_s=timeout_s)
        text, is_error, is_outside = answer.text, answer.is_error, answer.is_outside
    except TimeoutError:
        text, is_error, is_outside, is_unknown = LATE, True, False, not tool.read_only
    except WorkCancelled:
        text, is_error, is_outside = "The tool failed: it cancelled its own work.", True, False
    except Exception as error:  # noqa: BLE001 - a tool is foreign code, and its failure is reported to the model
        told = clipped(str(error), limits.PROBLEM_CHARS)
        text, is_error, is_outside = f"The tool failed: {type(error).__name__}: {told}", True, True
    return CallResult(
        step=key.step,
        place=place,
        call=found.call.id,
        tool=found.call.name,
        text=clipped(text, limits.RESULT_CHARS),
        is_error=is_error,
        is_outside=is_outside,
        is_unknown=is_unknown,
    )


async def make_side_by_side(calls: Sequence[Coroutine[Any, Any, CallResult]], /) -> list[CallResult]:
    """Return the results of calls that are made at once, in their order."""
    if len(calls) <= 1:
        return [await call for call in calls]
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def denied(call: ToolCall, reason: str, /, *, step: int, place: int) -> CallResult:
    """Return the result of a call that was not approved."""
    told = REFUSED.format(reason=clipped(" ".join(reason.split()), limits.PROBLEM_CHARS) or "no reason was given")
    return refused(call, told, step=step, place=place).model_copy(update={"is_refused": True})


def refused(call: ToolCall, problem: str, /, *, step: int, place: int, is_unknown: bool = False) -> CallResult:
    """Return the result of a call that is not made."""
    return CallResult(
        step=step, place=place, call=call.id, tool=call.name, text=problem, is_error=True, is_unknown=is_unknown
    )


def _repaired(text: str) -> object | None:
    try:
        import json_repair
    except ImportError:
        return None
    found: object = json_repair.loads(text)
    return found
