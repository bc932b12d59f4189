"""The proxy's view of a dialect: the prompt in a request, its block, how answers are read, and its error format."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol, cast

from elytron_core.policy.projection.fence import without_wrapped
from elytron_core.text.program_parts import split_program_parts
from elytron_models.chat_messages import RESULT, BodyText, TurnItem, no_text
from elytron_models.dialect import (
    EventFrames,
    Events,
    Fields,
    LineFrames,
    StreamParser,
    UnfinishedAnswer,
    count_field,
    inner_object,
    json_text,
    object_fields,
    object_list,
    text_field,
)
from elytron_proxy.settings import BlockPlacement

BETWEEN: Final = "\n\n"
_PROGRAMS_TASK: Final = re.compile(r"\A#{1,6} Task\b", re.IGNORECASE)
_THINKING: Final = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call made for the last user message."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a request offers the model. `schema` is its JSON text."""

    name: str
    schema: str


@dataclass(frozen=True, slots=True)
class PromptTurn:
    """A person's message and the answer, as text."""

    prompt: str
    answer: str = ""
    at: int = -1
    """Position of the person's message in the list of messages."""
    has_tools_used: bool = False


@dataclass(frozen=True, slots=True)
class CallPrompt:
    """Prompt of a request. `at` is the position of the last user message in the list of messages; -1: it is a text.

    `beside`: what a program added to that message; `is_task`: all of it is a program's, such as a request for a title;
    `answer_start`: the start of the answer, which the client lets the model continue; `has_tools_used`: tools already
    took part in it; `is_single`: one answer is requested.
    """

    text: str
    beside: str = ""
    is_task: bool = False
    earlier: tuple[PromptTurn, ...] = ()
    at: int = -1
    answer_start: str = ""
    has_tools_used: bool = False
    uses: tuple[ToolUse, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    is_single: bool = True
    continues: str = ""
    """The response that the request continues, if it has no earlier messages."""


class StepKind(StrEnum):
    """Actor of a step of a conversation."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class PromptStep:
    """One step of a conversation; `at` is the position of its message."""

    kind: StepKind
    text: str = ""
    at: int = -1
    use: ToolUse | None = None


class ItemReader(Protocol):
    """The items of a message in one dialect, as the codec of messages reads them."""

    def __call__(self, raw: Fields, /, *, body_of: BodyText) -> Iterable[TurnItem]: ...


def steps_of(messages: Iterable[Fields], read: ItemReader, /) -> Iterator[PromptStep]:
    """Yield the steps of the messages, in order."""
    for at, message in enumerate(messages):
        items = tuple(read(message, body_of=no_text))
        if any(item.type == RESULT for item in items):
            # Text next to a tool's result is as often the host's as a person's.
            yield PromptStep(StepKind.TOOL, at=at)
            continue
        for item in items:
            item_text = BETWEEN.join(text for text in item.texts if text)
            match item.type, item.role:
                case "message", "user":
                    if item_text := item_text.strip():
                        yield PromptStep(StepKind.USER, item_text, at)
                case "message", "assistant":
                    yield PromptStep(StepKind.ASSISTANT, item_text, at)
                case kind, role if kind.endswith("_output") or role == "function":
                    yield PromptStep(StepKind.TOOL, at=at)
                case kind, _ if kind.endswith("_call"):
                    call_id = item.call_id or text_field(message, "call_id") or text_field(message, "id")
                    name = item.name or text_field(message, "name") or kind
                    yield PromptStep(StepKind.TOOL, at=at, use=ToolUse(call_id, name))
                case _:
                    pass


def prompt_of(
    steps: Iterable[PromptStep], /, *, tools: tuple[OfferedTool, ...] = (), is_single: bool = True
) -> CallPrompt | None:
    """Return the prompt of `steps`; None if there is no person's message.

    Of a model's text around calls of its tools, only the part behind the last of them is its answer.
    """
    earlier_turns: list[PromptTurn] = []
    last_step: PromptStep | None = None
    last_programs_text = ""
    answer_texts: list[str] = []
    tool_uses: list[ToolUse] = []
    has_tools_used = False
    for step in steps:
        match step.kind:
            case StepKind.USER:
                spoken_text, programs_text = split_programs(without_wrapped(step.text))
                if not spoken_text:
                    continue
                if last_step is not None:
                    earlier_turns.append(
                        PromptTurn(last_step.text, "".join(answer_texts), last_step.at, has_tools_used)
                    )
                last_step, last_programs_text = replace(step, text=spoken_text), programs_text
                answer_texts, tool_uses, has_tools_used = [], [], False
            case StepKind.ASSISTANT:
                answer_texts.append(step.text)
            case StepKind.TOOL:
                answer_texts, has_tools_used = [], True
                if step.use is not None:
                    tool_uses.append(step.use)
    if last_step is None:
        return None
    return CallPrompt(
        text=last_step.text,
        beside=last_programs_text,
        is_task=_PROGRAMS_TASK.match(last_step.text) is not None,
        earlier=tuple(earlier_turns),
        at=last_step.at,
        answer_start="".join(answer_texts),
        has_tools_used=has_tools_used,
        uses=tuple(tool_uses),
        tools=tools,
        is_single=is_single,
    )


def split_programs(text: str, /) -> tuple[str, str]:
    """Return the person's part of a user message, and what a program added; a program's task stays whole."""
    return (text, "") if _PROGRAMS_TASK.match(text) else split_program_parts(text)


def spoken_answer(answer: str, /) -> str:
    """Return an answer without the model's reasoning at its beginning, and without repeated parts of a block."""
    return without_wrapped(_THINKING.sub("", answer, count=1), is_answer=True).strip()


Body = dict[str, object]


def encode_stored_block(block: str, /) -> str:
    """Return a block in base64 for storage: unencoded, it would be treated as an echo and left out."""
    return b64encode(block.encode("utf-8", "replace")).decode()


def decode_stored_block(encoded: str, /) -> str:
    """Return the block that was stored as `encoded`; empty if it is damaged."""
    try:
        return b64decode(encoded, validate=True).decode("utf-8", "replace")
    except ValueError:
        return ""


def items_of(body: Mapping[str, object], name: str, /) -> list[object]:
    """Return the list at `name`, else an empty one."""
    value = body.get(name)
    return list(cast("list[object]", value)) if isinstance(value, list) else []


def offered_tools(tools: Iterable[Fields], schema: str = "parameters", /) -> tuple[OfferedTool, ...]:
    """Return the tools that have a name, each with the schema in that field."""
    return tuple(OfferedTool(name, json_text(tool.get(schema))) for tool in tools if (name := text_field(tool, "name")))


def functions_of(body: Fields, /) -> tuple[OfferedTool, ...]:
    """Return the tools that chat completions and Ollama write as functions."""
    return offered_tools(inner_object(tool, "function") for tool in object_list(body, "tools"))


def encode_events(*events: Fields) -> bytes:
    """Return unnamed server-sent events."""
    return b"".join(f"data: {json_text(event)}\n\n".encode("utf-8", "replace") for event in events)


def named_event(event: Fields, /) -> bytes:
    """Return a server-sent event that is named as its data is."""
    return f"event: {text_field(event, 'type')}\ndata: {json_text(event)}\n\n".encode("utf-8", "replace")


_ENDS = frozenset({"response.completed", "response.incomplete", "response.done"})
_HEAVY = frozenset({
    "arguments", "encrypted_content", "extra_content", "partial_json", "reasoning", "reasoning_content", "signature",
    "thinking",
})  # fmt: skip
"""Parts that are left out of the copy of an answer."""
_COUNTED = frozenset({
    "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "cache_creation_input_tokens",
    "cache_read_input_tokens",
})  # fmt: skip
"""Fields of a usage that are read."""
_DEPTH = 12
"""Maximum nesting depth that is read: no dialect has a text so deep."""
_NAMES = ("type", "id", "name", "text")
"""Fields that are read at the start of a block."""
_FIRST_FIELDS = (
    "id",
    "object",
    "created_at",
    "model",
    "parallel_tool_calls",
    "tool_choice",
    "temperature",
    "top_p",
    "metadata",
)
"""Fields of a started response, used to report its failure."""


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """Refusal of a call. `code` is stable; no message repeats the request."""

    status: int
    code: str
    message: str


@dataclass(slots=True)
class AnswerWitness:
    """State of an answer from its events: the started response, the ended one, and the last number."""

    first_response: Fields = field(default_factory=dict[str, object])
    last_response: Fields = field(default_factory=dict[str, object])
    number: int = -1
    event_count: int = 0
    """Number of events."""

    def see(self, event: Fields, /) -> None:
        """Process one event of the stream."""
        self.event_count += 1
        self.number = max(self.number, count_field(event, "sequence_number"))
        event_type = text_field(event, "type")
        if event_type == "response.created":
            response = inner_object(event, "response")
            self.first_response = {name: response[name] for name in _FIRST_FIELDS if name in response}
        elif event_type in _ENDS:
            self.last_response = inner_object(event, "response")
        elif event.get("done") is True:
            self.last_response = event


def _light_event(event: Fields, depth: int = 0, /) -> Fields:
    """Return an event without data that memory does not read: reasoning, arguments of calls, results."""
    return {name: _light_field(name, value, depth) for name, value in event.items() if name not in _HEAVY}


def _light_field(name: str, value: object, depth: int) -> object:
    if depth > _DEPTH:
        return None
    inner_fields = object_fields(value)
    if inner_fields:
        if name == "usage":
            return {key: inner_fields[key] for key in _COUNTED if isinstance(inner_fields.get(key), int)}
        if name == "content_block":
            return {key: inner_fields[key] for key in _NAMES if key in inner_fields}
        return _light_event(inner_fields, depth + 1)
    if isinstance(value, list):
        return [_light_field(name, element, depth + 1) for element in cast("list[object]", value)]
    return value


class _WitnessedAnswer:
    """An answer whose events a witness sees too. It retains little besides text."""

    def __init__(self, answer: UnfinishedAnswer, witness: AnswerWitness, /) -> None:
        self._answer = answer
        self._witness = witness

    def take(self, event: Fields, /) -> Events:
        self._witness.see(event)
        return self._answer.take(_light_event(event))

    def end_events(self) -> Events:
        return self._answer.end_events()

    def closed(self) -> Events:
        return self._answer.closed()


@dataclass(frozen=True, slots=True)
class PromptDialect:
    """One dialect of model APIs, as functions over its JSON."""

    name: str
    read: Callable[[Fields], CallPrompt | None]
    place: Callable[[Body, CallPrompt, str, BlockPlacement], Body]
    """Raises InvalidInput if the request has no place for the block."""
    answer: Callable[[], UnfinishedAnswer]
    streamed: Callable[[Fields], bytes]
    """Returns a complete answer as an equivalent stream."""
    refused: Callable[[CallRefusal], Fields]
    cut: Callable[[CallRefusal, AnswerWitness], bytes]
    """Returns the event that ends an interrupted stream."""
    has_lines: bool = False

    def parser(self, witness: AnswerWitness, /) -> StreamParser:
        """Return a parser of one answer, whose events `witness` sees."""
        return StreamParser(LineFrames() if self.has_lines else EventFrames(), _WitnessedAnswer(self.answer(), witness))


def with_part(content: object, block: str, /, *, kind: str, placement: BlockPlacement) -> object:
    """Return `content` with the block after it, or before it; a text stays a text."""
    is_before = placement is BlockPlacement.BEFORE
    if isinstance(content, str):
        return f"{block}{BETWEEN}{content}" if is_before else f"{content}{BETWEEN}{block}"
    parts = cast("list[object]", content) if isinstance(content, list) else []
    part: object = {"type": kind, "text": block}
    return [part, *parts] if is_before else [*parts, part]


def with_message(
    messages: list[object], at: int, block: str, /, *, kind: str, placement: BlockPlacement
) -> list[object]:
    """Return `messages` with the block in the one at `at`."""
    message = dict(object_fields(messages[at]))
    message["content"] = with_part(message.get("content"), block, kind=kind, placement=placement)
    return [*messages[:at], message, *messages[at + 1 :]]


def before_history(messages: list[object], block: str, /, *, kind: str, roles: Iterable[str]) -> list[object]:
    """Return `messages` with the block before everything except policy: in the first user message there.

    Templates of many models refuse two user messages in a row, so it becomes a separate one only before an answer.
    """
    policy_roles = frozenset(roles)
    position = next(
        (
            index
            for index, message in enumerate(messages)
            if text_field(object_fields(message), "role") not in policy_roles
        ),
        len(messages),
    )
    if position < len(messages) and text_field(object_fields(messages[position]), "role") == "user":
        return with_message(messages, position, block, kind=kind, placement=BlockPlacement.BEFORE)
    return [*messages[:position], {"role": "user", "content": block}, *messages[position:]]


def in_system(messages: list[object], block: str, /, *, roles: Iterable[str]) -> list[object]:
    """Return `messages` with the block at the end of the first system message that is a text, else first of all."""
    policy_roles = frozenset(roles)
    for index, raw_message in enumerate(messages):
        message = object_fields(raw_message)
        content = message.get("content")
        if text_field(message, "role") in policy_roles and isinstance(content, str):
            changed_message = {**message, "content": f"{content}{BETWEEN}{block}"}
            return [*messages[:index], changed_message, *messages[index + 1 :]]
    return [{"role": "system", "content": block}, *messages]
