"""The messages of a request, in the order that keeps a provider's cache: the most constant part first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from elytron_agent.context import limits
from elytron_agent.context.guard import clipped
from elytron_agent.context.local_time import local
from elytron_agent.context.window import WindowTurn
from elytron_core.model import Value
from elytron_core.ports.chat import (
    InputMessage,
    Message,
    Reply,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)

NO_RESULT = "There is no result: the run was broken off before the tool answered. Its outcome is unknown."


class ContextParts(Value):
    """All that a request is made of."""

    policy: str
    stable: str = ""
    summary: str = ""
    window: tuple[WindowTurn, ...] = ()
    before_history: str = ""
    """A strategy's messages before the window."""
    tail: str = ""
    current: WindowTurn
    zone: str = "UTC"


def messages_of(parts: ContextParts, /) -> tuple[Message, ...]:
    """Return the messages: policy, stable part, summary, window, tail, the user's words, and what came of them since.

    The user's words are the last thing that a user says.
    """
    head = [said(Role.SYSTEM, parts.policy)]
    head += [reference(text) for text in (parts.stable, parts.summary, parts.before_history) if text]
    past = [message for turn in parts.window for message in turn_messages(turn, zone=parts.zone)]
    tail = [reference(parts.tail)] if parts.tail else []
    now = turn_messages(parts.current, zone=parts.zone, result_chars=None)
    return (*head, *past, *tail, *now)


def turn_messages(
    turn: WindowTurn, /, *, zone: str, result_chars: int | None = limits.OLD_RESULT_CHARS
) -> tuple[Message, ...]:
    """Return a turn as messages, the time where the user is before the words; results of more than that are clipped."""
    first = said(Role.USER, f"[{local(turn.at, zone)}]\n{turn.input}")
    items = turn.items if result_chars is None else _clipped(turn.items, result_chars)
    return (first, *_whole(items))


def said(role: Role, text: str, /) -> InputMessage:
    """Return a message of one text."""
    return InputMessage(role=role, parts=(TextPart(text=text),))


def reference(text: str, /) -> InputMessage:
    """Return reference data as a message, which stays apart from the user's words in every dialect."""
    return InputMessage(role=Role.USER, parts=(TextPart(text=text),), is_reference=True)


def calls_of(reply: Reply, /) -> tuple[ToolCall, ...]:
    """Return the calls of a reply."""
    return tuple(item for item in reply.items if isinstance(item, ToolCall))


def _clipped(items: Sequence[Message], most: int) -> list[Message]:
    """Return the items with clipped results, and a line in the place of each that a turn has no room for."""
    room = limits.OLD_RESULTS_CHARS
    found: list[Message] = []
    for item in reversed(items):
        if not isinstance(item, ToolResult):
            found.append(item)
            continue
        text = clipped(item.text, most)
        room -= len(text)
        line = f"[`{item.tool}`: {len(item.text):,} characters, no longer shown]"
        found.append(item.model_copy(update={"text": text if room >= 0 or len(text) <= len(line) else line}))
    return found[::-1]


def _whole(items: Iterable[Message]) -> Iterator[Message]:
    """Yield the items; a call without a result gets one, and a reply of nothing is left out."""
    open_calls: dict[str, ToolCall] = {}
    for item in items:
        match item:
            case ToolResult():
                open_calls.pop(item.call_id, None)
                yield item
            case Reply():
                yield from _without_result(open_calls)
                open_calls = {call.id: call for call in calls_of(item)}
                if item.items:
                    yield item
            case _:
                yield from _without_result(open_calls)
                open_calls = {}
                yield item
    yield from _without_result(open_calls)


def _without_result(calls: Mapping[str, ToolCall]) -> Iterator[ToolResult]:
    for call in calls.values():
        yield ToolResult(call_id=call.id, tool=call.name, text=NO_RESULT, is_error=True)
