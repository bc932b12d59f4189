"""The assembler of model requests: each part has its own bound, so none can push a request over the window.

A request that fits is sent unchanged. Otherwise parts get space in order of importance, and each is guaranteed its
share of the window. Cut parts say so in the text for the model, and are reported.
"""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, assert_never, cast

from elytron_core.model import Value
from elytron_core.policy.projection import fence
from elytron_core.ports.chat import (
    ChatRole,
    InputMessage,
    Message,
    ModelReply,
    ModelTool,
    OpaquePart,
    ReplyItem,
    TextPart,
    ToolCall,
    ToolResult,
)
from elytron_turn import limits
from elytron_turn.context import (
    ShownBlock,
    StableContext,
    TailParts,
    WindowTurn,
    bare_messages,
    context_tail,
    reference_message,
    text_message,
    whole_items,
)
from elytron_turn.memory import RecalledMemory, StandingWish
from elytron_turn.sizes import bytes_of, cut_middle, message_bytes, share_room, text_bytes, tool_bytes, within_tokens

CURRENT_SHARE: Final = 0.25
"""Share of a request that the user's current words count for when a compaction is planned."""


logger = logging.getLogger(__name__)
ValueT = TypeVar("ValueT")


class RequestPart(StrEnum):
    """A part of a request, the most important first: unused space goes to the first part that needs it."""

    SYSTEM = "system"
    """What directs the model: the system prompt and the rules of memory."""
    CURRENT = "current"
    """The user's current words, with descriptions of their images."""
    TOOLS = "tools"
    STEPS = "steps"
    """Replies and results of the running turn."""
    BLOCKS = "blocks"
    GIVEN = "given"
    """Messages that a client sends with the user's words."""
    SUMMARY = "summary"
    WELCOME = "welcome"
    """The welcome message to a person, until it is part of a summary."""
    REFERENCE = "reference"
    """Memories recalled for this turn, with the changed blocks."""
    FACTS = "facts"
    STANDING = "standing"
    """A strategy's text before the history."""
    HISTORY = "history"


SHARES: Final = MappingProxyType(
    {
        RequestPart.SYSTEM: 0.15,
        RequestPart.CURRENT: 0.10,
        RequestPart.TOOLS: 0.20,
        RequestPart.STEPS: 0.10,
        RequestPart.BLOCKS: 0.12,
        RequestPart.GIVEN: 0.05,
        RequestPart.SUMMARY: 0.05,
        RequestPart.WELCOME: 0.02,
        RequestPart.REFERENCE: 0.06,
        RequestPart.FACTS: 0.04,
        RequestPart.STANDING: 0.03,
        RequestPart.HISTORY: 0.08,
    }
)
"""The guaranteed share of a part in a request, if it needs that much."""
STABLE: Final = frozenset(
    {RequestPart.BLOCKS, RequestPart.SUMMARY, RequestPart.WELCOME, RequestPart.FACTS, RequestPart.STANDING}
)
"""Parts that are cut to exactly their share: their bytes do not depend on later parts, which preserves a provider's
cache."""
TURNS: Final = frozenset({RequestPart.CURRENT, RequestPart.STEPS, RequestPart.HISTORY})
"""Parts for which a compaction or a running turn makes room before they are cut."""
FROM_CLIENT: Final = frozenset({RequestPart.CURRENT, RequestPart.GIVEN, RequestPart.STEPS, RequestPart.HISTORY})
"""Parts that may not be cut for a client that says so."""


class PartCut(Value):
    """A part of a request that was cut, with its size in bytes before and after."""

    part: RequestPart
    bytes_before: int
    bytes_after: int


class ContextParts(Value):
    """All inputs of a request's messages."""

    policy: str
    stable: StableContext | None = None
    summary: str = ""
    welcome: str = ""
    window: tuple[WindowTurn, ...] = ()
    before_history: str = ""
    """A strategy's messages before the window."""
    tail: TailParts | None = None
    mark: str = ""
    """The mark of the tail's fence."""
    current: WindowTurn
    zone: str = "UTC"


class AssembledRequest(NamedTuple):
    """A request within its limit: messages, tools, size in bytes, and what was cut."""

    messages: tuple[Message, ...]
    tools: tuple[ModelTool, ...]
    size: int
    cuts: tuple[PartCut, ...]
    planned_bytes: int
    """The size that a compaction plans with: its turns are whole, and the current words count for at most a share."""

    def cuts_any(self, parts: Collection[RequestPart], /) -> bool:
        """Return whether one of `parts` was cut."""
        return any(cut.part in parts for cut in self.cuts)


def assemble_request(
    parts: ContextParts, tools: Sequence[ModelTool], max_bytes: int, /, *, client_tools: Collection[str] = ()
) -> AssembledRequest:
    """Return the request within `max_bytes`.

    Tools first have their descriptions shortened, then the last ones are left out, those named in `client_tools` after
    all others.
    """
    draft = RequestDraft(parts, tuple(tools), frozenset(client_tools))
    messages = draft.messages()
    size = bytes_of(messages, draft.tools)
    if size <= max_bytes:
        return AssembledRequest(messages, draft.tools, size, (), size)
    sizes = {part: draft.size(part) for part in RequestPart}
    target_bytes, cut_parts = max_bytes, list[RequestPart]()
    for _ in range(_ATTEMPTS):
        part_rooms = _part_rooms(sizes, target_bytes)
        draft = RequestDraft(parts, tuple(tools), frozenset(client_tools))
        cut_parts = [part for part in RequestPart if part_rooms[part] < sizes[part]]
        for part in cut_parts:
            draft.cut(part, part_rooms[part])
        messages = draft.messages()
        size = bytes_of(messages, draft.tools)
        if size <= max_bytes:
            break
        # Placeholders for missing results, and cut marks, are not in the sizes of the parts.
        target_bytes = max(target_bytes - (size - max_bytes) - _SLACK, 0)
    cuts = tuple(
        PartCut(part=part, bytes_before=sizes[part], bytes_after=draft.size(part))
        for part in cut_parts
        if draft.size(part) < sizes[part]
    )
    return AssembledRequest(messages, draft.tools, size, cuts, _planned_bytes(sizes, cuts, max_bytes))


def _planned_bytes(sizes: Mapping[RequestPart, int], cuts: Iterable[PartCut], max_bytes: int) -> int:
    saved_bytes = sum(cut.bytes_before - cut.bytes_after for cut in cuts if cut.part not in TURNS)
    excess = max(sizes[RequestPart.CURRENT] - int(max_bytes * CURRENT_SHARE), 0)
    return sum(sizes.values()) - saved_bytes - excess


def log_cuts(cuts: Iterable[PartCut], /) -> None:
    """Log what was cut from a request, without any content."""
    if summary := ", ".join(f"{cut.part} from {cut.bytes_before:,} to {cut.bytes_after:,} bytes" for cut in cuts):
        logger.warning("a request to the model was cut to fit its window: %s", summary)


_ATTEMPTS, _SLACK = 6, 64
_OVERHEAD_BYTES: Final = limits.MESSAGE_TOKENS * limits.BYTES_PER_TOKEN


def _part_rooms(sizes: Mapping[RequestPart, int], max_bytes: int) -> dict[RequestPart, int]:
    """Return the space of each part: its size if it fits, and never less than its share."""
    floors = {part: min(size, max(int(SHARES[part] * max_bytes), 0)) for part, size in sizes.items()}
    reserved, free_bytes = sum(floors.values()), max_bytes
    rooms: dict[RequestPart, int] = {}
    for part in RequestPart:
        reserved -= floors[part]
        room = min(sizes[part], max(free_bytes - reserved, 0))
        rooms[part] = floors[part] if part in STABLE and room < sizes[part] else room
        free_bytes -= rooms[part]
    return rooms


@dataclass(slots=True)
class RequestDraft:
    """A request while it is assembled and cut."""

    parts: ContextParts
    tools: tuple[ModelTool, ...] = ()
    client_tools: frozenset[str] = frozenset()
    lists: dict[RequestPart, tuple[Message, ...]] = field(init=False)
    """The parts that are lists of messages."""

    def __post_init__(self) -> None:
        parts, current = self.parts, self.parts.current
        history = (bare_messages(turn, parts.zone, limits.OLD_RESULT_CHARS) for turn in parts.window)
        self.lists = {
            RequestPart.HISTORY: tuple(chain.from_iterable(history)),
            RequestPart.GIVEN: current.before,
            RequestPart.STEPS: current.items,
        }

    def messages(self) -> tuple[Message, ...]:
        """Return the messages: policy, stable part, summary, window, tail, the user's words, then replies and results.

        The user's words are the last thing that a user says. Without words there is no tail, so that results of a
        client's tools follow their calls.
        """
        messages = {part: self._part_messages(part) for part in RequestPart}
        if not self.parts.current.input:
            del messages[RequestPart.REFERENCE]
        head, turns = ([message for part in order for message in messages.get(part, ())] for order in (_HEAD, _TAIL))
        return (*head, *whole_items(turns))

    def size(self, part: RequestPart, /) -> int:
        """Return the bytes of a part."""
        match part:
            case RequestPart.TOOLS:
                return sum(map(tool_bytes, self.tools))
            case RequestPart.BLOCKS:
                return _stable_bytes(self.parts.stable, facts="")
            case RequestPart.FACTS:
                return bytes_of(self._part_messages(RequestPart.BLOCKS)) - self.size(RequestPart.BLOCKS)
            case _:
                return bytes_of(self._part_messages(part))

    def cut(self, part: RequestPart, room: int, /) -> None:
        """Cut a part to `room` bytes."""
        parts, stable, tail = self.parts, self.parts.stable, self.parts.tail
        update: dict[str, object] = {}
        text_room = room - _OVERHEAD_BYTES
        match part:
            case RequestPart.SYSTEM:
                update["policy"] = cut_middle(parts.policy, text_room) or "…"
            case RequestPart.CURRENT:
                update["current"] = self._cut_words(room)
            case RequestPart.TOOLS:
                self.tools = cut_tools(self.tools, room, client_tools=self.client_tools)
            case RequestPart.STEPS | RequestPart.GIVEN | RequestPart.HISTORY:
                self.lists[part] = cut_messages(self.lists[part], room)
            case RequestPart.BLOCKS:
                assert stable is not None
                update["stable"] = _cut_blocks(stable, room)
            case RequestPart.FACTS:
                assert stable is not None
                update["stable"] = stable.model_copy(update={"facts": _cut_lines(stable.facts, text_room)})
            case RequestPart.SUMMARY | RequestPart.WELCOME | RequestPart.STANDING:
                name = _HEAD_TEXTS[part]
                update[name] = cut_fenced(getattr(parts, name), text_room)
            case RequestPart.REFERENCE:
                assert tail is not None
                update["tail"] = _cut_tail(tail, parts.mark, text_room)
            case _:
                assert_never(part)
        self.parts = parts.model_copy(update=update)

    def _part_messages(self, part: RequestPart) -> tuple[Message, ...]:
        """Return the messages of a part; blocks and facts are one message together."""
        parts = self.parts
        match part:
            case RequestPart.SYSTEM:
                return (text_message(ChatRole.SYSTEM, parts.policy),)
            case RequestPart.SUMMARY | RequestPart.WELCOME | RequestPart.STANDING:
                text: str = getattr(parts, _HEAD_TEXTS[part])
                return (reference_message(text),) if text else ()
            case RequestPart.REFERENCE:
                return (reference_message(context_tail(parts.tail, mark=parts.mark)),) if parts.tail else ()
            case RequestPart.CURRENT:
                words_only_turn = parts.current.model_copy(update={"before": (), "items": (), "reactions": ()})
                return bare_messages(words_only_turn, parts.zone, None)
            case RequestPart.HISTORY | RequestPart.GIVEN | RequestPart.STEPS:
                return self.lists[part]
            case RequestPart.BLOCKS:
                return (reference_message(parts.stable.text),) if parts.stable and parts.stable.text else ()
            case RequestPart.FACTS | RequestPart.TOOLS:
                return ()
            case _:
                assert_never(part)

    def _cut_words(self, room: int) -> WindowTurn:
        current = self.parts.current
        overhead = self.size(RequestPart.CURRENT) - text_bytes(current.input)
        # Never empty: without words the request would have another form.
        return current.model_copy(update={"input": cut_middle(current.input, room - overhead) or "…"})


_HEAD_TEXTS: Final = MappingProxyType(
    {RequestPart.SUMMARY: "summary", RequestPart.WELCOME: "welcome", RequestPart.STANDING: "before_history"}
)
"""Parts that are a single text before the history, by their fields."""
_HEAD: Final = (RequestPart.SYSTEM, RequestPart.BLOCKS, *_HEAD_TEXTS)
_TAIL: Final = (RequestPart.HISTORY, RequestPart.GIVEN, RequestPart.REFERENCE, RequestPart.CURRENT, RequestPart.STEPS)


def _stable_bytes(stable: StableContext | None, *, facts: str) -> int:
    text = stable.model_copy(update={"facts": facts}).text if stable is not None else ""
    return message_bytes(reference_message(text)) if text else 0


def _fit_room(cut: Callable[[int], ValueT], size: Callable[[ValueT], int], room: int) -> ValueT:
    """Return the output of `cut` such that the result, which escaping may enlarge, has at most `room` bytes."""
    target_bytes, shorter = room, cut(room)
    for _ in range(_ATTEMPTS):
        if (excess := size(shorter) - room) <= 0:
            break
        target_bytes = max(target_bytes - excess, 0)
        shorter = cut(target_bytes)
    return shorter


def _cut_values(blocks: Sequence[ShownBlock], room: int) -> tuple[ShownBlock, ...]:
    shares = share_room([text_bytes(block.value) for block in blocks], room)
    return tuple(
        block.model_copy(update={"value": cut_middle(block.value, share)})
        for block, share in zip(blocks, shares, strict=True)
    )


def _cut_blocks(stable: StableContext, room: int) -> StableContext:
    """Return the stable part with its blocks cut, each to its share; the facts are unchanged."""

    def cut(target: int) -> StableContext:
        return stable.model_copy(update={"blocks": _cut_values(stable.blocks, target)})

    size_without_facts = partial(_stable_bytes, facts="")
    shorter = _fit_room(cut, size_without_facts, room)
    # Descriptions and labels of many blocks may need more than the room.
    while shorter.blocks and size_without_facts(shorter) > room:
        shorter = shorter.model_copy(update={"blocks": shorter.blocks[:-1]})
    return shorter


def _cut_lines(text: str, room: int) -> str:
    """Return the first lines of a text that fit, and a line that says how many are missing."""
    lines = text.splitlines()
    first_lines: list[str] = []
    room -= text_bytes(_MORE_LINES.format(count=len(lines)))
    for line in lines:
        room -= text_bytes(line) + 1
        if room < 0:
            break
        first_lines.append(line)
    return "\n".join((*first_lines, _MORE_LINES.format(count=len(lines) - len(first_lines)))) if first_lines else ""


_MORE_LINES: Final = "[... {count:,} more lines are left out here: there is no room for them in the window ...]"


def _cut_tail(tail: TailParts, mark: str, room: int) -> TailParts:
    """Return the notes of a turn within `room`: the best memories stay, blocks and a strategy's text are cut."""

    def size(shorter: TailParts) -> int:
        return text_bytes(context_tail(shorter, mark=mark))

    def cut(target: int) -> TailParts:
        blocks, reference = tail.changed_blocks, tail.reference or ""
        sizes = [
            sum(text_bytes(block.value) for block in blocks),
            text_bytes(reference),
            sum(map(_wish_bytes, tail.wishes)),
            sum(map(_recalled_bytes, tail.recalled)),
        ]
        block_room, reference_room, wish_room, recalled_room = share_room(sizes, target)
        recalled = within_tokens(tail.recalled, recalled_room, tokens=_recalled_bytes)
        return tail.model_copy(
            update={
                "changed_blocks": _cut_values(blocks, block_room),
                "reference": cut_fenced(reference, reference_room) or None,
                "wishes": within_tokens(tail.wishes, wish_room, tokens=_wish_bytes),
                "recalled": recalled,
                "left_out": len(tail.recalled) - len(recalled),
            }
        )

    shorter = _fit_room(cut, size, room)
    if size(shorter) > room:
        shorter = shorter.model_copy(update={"changed_blocks": (), "wishes": (), "recalled": (), "reference": None})
    return shorter


def _recalled_bytes(memory: RecalledMemory) -> int:
    return min(text_bytes(memory.text), limits.RECALLED_CHARS) + _LABEL_BYTES


def _wish_bytes(wish: StandingWish) -> int:
    return text_bytes(wish.line) + 1


_LABEL_BYTES: Final = 48


def cut_fenced(text: str, max_bytes: int, /) -> str:
    """Return `text` within `max_bytes`, with each fence in it complete: the bodies are cut, or everything is
    dropped."""
    excess = text_bytes(text) - max_bytes
    fence_matches = list(fence.FENCED.finditer(text))
    if excess <= 0 or not fence_matches:
        return cut_middle(text, max_bytes) if excess > 0 else text
    sizes = [text_bytes(fence_match[2]) for fence_match in fence_matches]
    shares = share_room(sizes, sum(sizes) - excess)
    pieces: list[str] = []
    copied_end = 0
    for fence_match, share in zip(fence_matches, shares, strict=True):
        body = cut_middle(fence_match[2], share)
        pieces += (text[copied_end : fence_match.start()], fence.fence_text(body, fence_match[1]) if body else "")
        copied_end = fence_match.end()
    cut_text = "".join((*pieces, text[copied_end:]))
    return cut_text if text_bytes(cut_text) <= max_bytes else ""


_TRIMMED: Final = "[{count:,} earlier messages are left out here: there is no room for them in the window.]"
_LONG_MESSAGES, _MESSAGE_BYTES_MIN = 4, 160
"""Number of long messages that share the room, and minimum bytes of a message."""


def cut_messages(messages: Sequence[Message], max_bytes: int, /) -> tuple[Message, ...]:
    """Return the messages within `max_bytes`: long ones are cut, and the oldest are replaced by a note."""
    note_bytes = message_bytes(reference_message(_TRIMMED.format(count=len(messages)))) if len(messages) > 1 else 0
    free_bytes = max_bytes - note_bytes
    message_max_bytes = max(free_bytes // max(min(len(messages), _LONG_MESSAGES), 1), _MESSAGE_BYTES_MIN)
    latest_messages: list[Message] = []
    for message in reversed(messages):
        short_message = cut_message(message, message_max_bytes)
        free_bytes -= message_bytes(short_message)
        if free_bytes < 0:
            break
        latest_messages.append(short_message)
    latest_messages.reverse()
    dropped_messages = messages[: len(messages) - len(latest_messages)]
    if any(isinstance(message, ModelReply) for message in dropped_messages):
        # Model servers reject a result whose call is not shown.
        while latest_messages and isinstance(latest_messages[0], ToolResult):
            latest_messages.pop(0)
    if len(latest_messages) == len(messages):
        return tuple(latest_messages)
    note = reference_message(_TRIMMED.format(count=len(messages) - len(latest_messages)))
    return (
        (note, *latest_messages)
        if message_bytes(note) + bytes_of(latest_messages) <= max_bytes
        else tuple(latest_messages)
    )


def cut_message(message: Message, max_bytes: int, /) -> Message:
    """Return the message with its texts cut to about `max_bytes`; images are unchanged."""
    if message_bytes(message) <= max_bytes:
        return message
    content_bytes = max(max_bytes - _OVERHEAD_BYTES, 0)
    match message:
        case ToolResult():
            return message.model_copy(update={"text": cut_fenced(message.text, content_bytes)})
        case ModelReply():
            readable_items = [item for item in message.items if not isinstance(item, OpaquePart)]
            shares = share_room([_item_bytes(item) for item in readable_items], content_bytes)
            short_items = [_cut_item(item, share) for item, share in zip(readable_items, shares, strict=True)]
            return ModelReply(items=tuple(item for item in short_items if not isinstance(item, TextPart) or item.text))
        case InputMessage():
            texts = [text_bytes(part.text) if isinstance(part, TextPart) else 0 for part in message.parts]
            parts = [
                TextPart(text=cut_fenced(part.text, share) or "…") if isinstance(part, TextPart) else part
                for part, share in zip(message.parts, share_room(texts, content_bytes), strict=True)
            ]
            return message.model_copy(update={"parts": tuple(parts)})
        case _:
            assert_never(message)


def _item_bytes(item: ReplyItem) -> int:
    return bytes_of((ModelReply(items=(item,)),))


def _cut_item(item: ReplyItem, room: int) -> ReplyItem:
    if isinstance(item, TextPart):
        return TextPart(text=cut_middle(item.text, room))
    if isinstance(item, ToolCall) and _item_bytes(item) > room:
        omission_note = json.dumps({"left_out": f"{len(item.arguments):,} characters of arguments"})
        return item.model_copy(update={"arguments": omission_note})
    return item


_DESCRIPTION_BYTES: Final = (600, 200, 80, 0)


def cut_tools(
    tools: Sequence[ModelTool], max_bytes: int, /, *, client_tools: Collection[str] = ()
) -> tuple[ModelTool, ...]:
    """Return the tools within `max_bytes`: their descriptions are cut first, then the last tools are left out."""
    short_tools = list(tools)
    for description_bytes in _DESCRIPTION_BYTES:
        short_tools = [_short_tool(tool, description_bytes) for tool in tools]
        if sum(map(tool_bytes, short_tools)) <= max_bytes:
            return tuple(short_tools)
    tools_by_worth = sorted(short_tools, key=lambda tool: tool.name not in client_tools)
    while tools_by_worth and sum(map(tool_bytes, tools_by_worth)) > max_bytes:
        tools_by_worth.pop()
    tool_names = {tool.name for tool in tools_by_worth}
    return tuple(tool for tool in short_tools if tool.name in tool_names)


def _short_tool(tool: ModelTool, most: int) -> ModelTool:
    parameters = json.dumps(_short_schema(json.loads(tool.parameters), most), separators=(",", ":"))
    description = re.sub(r"\s+", " ", cut_middle(tool.description, most))
    return tool.model_copy(update={"description": description, "parameters": parameters})


def _short_schema(schema: object, most: int) -> object:
    """Return a schema whose descriptions are cut; a property with that name is not one."""
    if isinstance(schema, list):
        return [_short_schema(element, most) for element in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    short_fields: dict[str, object] = {}
    for name, value in cast("dict[str, Any]", schema).items():
        if name == "description" and isinstance(value, str):
            if most:
                short_fields[name] = cut_middle(value, most)
        else:
            short_fields[name] = _short_schema(value, most)
    return short_fields
