"""Sizes of requests: one token estimate for the whole product, and cuts that say what they left out."""

import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final, TypeVar, assert_never

from pydantic import Field

from elytron_core.model import Value
from elytron_core.policy.projection.sections import ELLIPSIS
from elytron_core.ports.chat import (
    ChatModel,
    ImagePart,
    InputMessage,
    Message,
    ModelReply,
    ModelTool,
    OpaquePart,
    TextPart,
    ToolCall,
    ToolResult,
)
from elytron_models.chat_messages import IMAGE_TOKENS
from elytron_turn import limits

FACTOR_MIN: Final = 0.8
FACTOR_MAX: Final = 4.0
"""Bounds of the measure that a provider's counts give. At the lowest, what fills `COMPACTION_THRESHOLD` of a window by
these counts still fits the window at a token for each four bytes."""
COUNT_DOUBTED: Final = 0.5
"""A provider's count below this share of the plain estimate is implausible, and is ignored."""


logger = logging.getLogger(__name__)
ItemT = TypeVar("ItemT")


class TokenWindow(Value):
    """A model's window, and the factor of estimates for it. A request fills a share of it; the rest is for the
    answer."""

    tokens: Annotated[int, Field(ge=1)]
    factor: float = limits.COUNT_MARGIN

    def max_bytes(self, share: float = limits.COMPACTION_THRESHOLD, /) -> int:
        """Return how many bytes a request may have in `share` of the window."""
        return int(self.tokens * share * limits.BYTES_PER_TOKEN / self.factor)


def window_of(model: ChatModel, tokens: int, /) -> TokenWindow:
    """Return the window of a model; `tokens` if it does not say."""
    return TokenWindow(tokens=model.info.context_tokens or tokens)


def bytes_of(messages: Iterable[Message], tools: Iterable[ModelTool] = (), /) -> int:
    """Return the bytes of the messages and the declarations of tools, with the overhead of each message."""
    return sum(map(message_bytes, messages)) + sum(map(tool_bytes, tools))


def message_bytes(message: Message, /) -> int:
    """Return the bytes of a message, with its overhead."""
    return _content_bytes(message) + limits.MESSAGE_TOKENS * limits.BYTES_PER_TOKEN


def tool_bytes(tool: ModelTool, /) -> int:
    """Return the bytes of a tool's declaration."""
    return len(tool.name) + text_bytes(tool.description) + text_bytes(tool.parameters)


def text_bytes(text: str, /) -> int:
    """Return the bytes of a text; a lone surrogate counts as what it is sent as."""
    return len(text.encode("utf-8", "surrogatepass"))


def tokens_of(size_bytes: int, /, *, factor: float = limits.COUNT_MARGIN) -> int:
    """Return an estimate of the tokens in a number of bytes."""
    return round(size_bytes / limits.BYTES_PER_TOKEN * factor)


def factor_of(size_bytes: int, tokens: int, /) -> float:
    """Return the factor of estimates derived from a provider's count of a request.

    A count that is implausibly low is ignored: a server that reports the same few tokens for every request would
    otherwise have the window grow without end.
    """
    if size_bytes <= 0 or tokens <= 0:
        return limits.COUNT_MARGIN
    ratio = tokens * limits.BYTES_PER_TOKEN / size_bytes
    if ratio < COUNT_DOUBTED:
        logger.warning("the model server counted %d tokens in %d bytes: this count is ignored", tokens, size_bytes)
        return limits.COUNT_MARGIN
    return min(max(ratio, FACTOR_MIN), FACTOR_MAX)


def within_tokens(
    items: Iterable[ItemT], max_tokens: int | None, /, *, tokens: Callable[[ItemT], int]
) -> tuple[ItemT, ...]:
    """Return the first items with at most `max_tokens` in total; all of them for None."""
    if max_tokens is None:
        return tuple(items)
    first_items: list[ItemT] = []
    for item in items:
        max_tokens -= tokens(item)
        if max_tokens < 0:
            break
        first_items.append(item)
    return tuple(first_items)


def first_bytes(text: str, max_bytes: int, /) -> str:
    """Return the beginning of `text` that has at most `max_bytes`."""
    return text.encode("utf-8", "surrogatepass")[: max(max_bytes, 0)].decode("utf-8", "ignore")


def clip_bytes(text: str, max_bytes: int, /) -> str:
    """Return `text`, or its beginning within `max_bytes`, with an ellipsis at its end."""
    if text_bytes(text) <= max_bytes:
        return text
    return first_bytes(text, max_bytes - text_bytes(ELLIPSIS)).rstrip() + ELLIPSIS


def first_words(text: str, most: int, /) -> str:
    """Return the beginning of `text` that has at most `most` words."""
    start_match = re.match(rf"(?:\s*\S+){{0,{most}}}", text)
    return start_match[0] if start_match else ""


def last_bytes(text: str, max_bytes: int, /) -> str:
    """Return the end of `text` that has at most `max_bytes`."""
    encoded_text = text.encode("utf-8", "surrogatepass")
    return encoded_text[len(encoded_text) - max_bytes :].decode("utf-8", "ignore") if max_bytes > 0 else ""


CUT: Final = "\n[... {count:,} characters are left out here: there is no room for them in the window ...]\n"


def cut_middle(text: str, max_bytes: int, /) -> str:
    """Return `text` within `max_bytes`: its beginning, a mark with the number of missing characters, and its end."""
    if text_bytes(text) <= max_bytes:
        return text
    room = max_bytes - text_bytes(CUT.format(count=len(text)))
    if room <= 0:
        return first_bytes(text, max_bytes)
    head, tail = first_bytes(text, room - room // 2), last_bytes(text, room // 2)
    return head + CUT.format(count=len(text) - len(head) - len(tail)) + tail


def share_room(sizes: Sequence[int], room: int, /) -> list[int]:
    """Return a share of `room` for each size: what small ones leave goes to the large ones in equal parts."""
    shares = list(sizes)
    by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
    for position, index in enumerate(by_size):
        shares[index] = min(sizes[index], max(room, 0) // (len(sizes) - position))
        room -= shares[index]
    return shares


def _content_bytes(message: Message) -> int:
    match message:
        case InputMessage():
            return sum(_part_bytes(part) for part in message.parts)
        case ModelReply():
            return sum(_item_bytes(item) for item in message.items)
        case ToolResult():
            return text_bytes(message.text)
        case _:
            assert_never(message)


def _part_bytes(part: TextPart | ImagePart) -> int:
    return text_bytes(part.text) if isinstance(part, TextPart) else IMAGE_TOKENS * limits.BYTES_PER_TOKEN


def _item_bytes(item: TextPart | ToolCall | OpaquePart) -> int:
    match item:
        case TextPart():
            return text_bytes(item.text)
        case ToolCall():
            # Arguments are sent as a string within JSON.
            return len(json.dumps(item.arguments)) + len(item.name)
        case OpaquePart():
            return len(item.body)
        case _:
            assert_never(item)
