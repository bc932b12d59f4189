"""Number of tokens of a request, if its model does not count them."""

import json
from collections.abc import Iterable
from typing import assert_never

from elytron_agent.context import limits
from elytron_core.ports.chat import (
    ImagePart,
    InputMessage,
    Message,
    Opaque,
    Reply,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
)

_FACTOR_MIN, _FACTOR_MAX = 0.5, 4.0


def bytes_of(messages: Iterable[Message], tools: Iterable[Tool] = (), /) -> int:
    """Return how many bytes of text the messages and the declarations of tools have, with what each costs beside."""
    said = sum(_size(message) + limits.MESSAGE_TOKENS * limits.BYTES_PER_TOKEN for message in messages)
    return said + sum(len(tool.name) + len(tool.description) + len(tool.parameters.encode()) for tool in tools)


def tokens_of(size_bytes: int, /, *, factor: float = limits.COUNT_MARGIN) -> int:
    """Return an estimate of the tokens in a number of bytes."""
    return round(size_bytes / limits.BYTES_PER_TOKEN * factor)


def factor_of(size_bytes: int, tokens: int, /) -> float:
    """Return what estimates are to be multiplied by, from a request whose tokens its provider counted."""
    if size_bytes <= 0 or tokens <= 0:
        return limits.COUNT_MARGIN
    return min(max(tokens * limits.BYTES_PER_TOKEN / size_bytes, _FACTOR_MIN), _FACTOR_MAX)


def _size(message: Message) -> int:
    match message:
        case InputMessage():
            return sum(_part(part) for part in message.parts)
        case Reply():
            return sum(_item(item) for item in message.items)
        case ToolResult():
            return len(message.text.encode())
        case _:
            assert_never(message)


def _part(part: TextPart | ImagePart) -> int:
    return len(part.text.encode()) if isinstance(part, TextPart) else len(part.url)


def _item(item: TextPart | ToolCall | Opaque) -> int:
    match item:
        case TextPart():
            return len(item.text.encode())
        case ToolCall():
            return len(json.dumps(item.arguments)) + len(item.name)
        case Opaque():
            return len(item.body)
        case _:
            assert_never(item)
