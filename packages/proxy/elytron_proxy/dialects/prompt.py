"""The prompt in a request: what a person said last, what was said before, and which tools took part."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from elytron_core.policy.projection.sections import FenceTag
from elytron_models.chat_messages import RESULT, BodyText, TurnItem, no_text
from elytron_models.stream_parser import Fields, text_field

BETWEEN: Final = "\n\n"
TAG: Final = FenceTag.PROXY.value
"""The tag of what memory adds to a request."""
_BLOCK: Final = re.compile(rf"<{TAG}\b[^>\n]{{0,40}}>.*?</{TAG}>", re.DOTALL)
_BLOCK_ENDED: Final = re.compile(rf"\A.*</{TAG}>", re.DOTALL)
_BLOCK_BEGUN: Final = re.compile(rf"<{TAG}\b.*\Z", re.DOTALL)
_PROGRAMS_PART: Final = re.compile(
    r"^[ \t]*<([a-z]+(?:[-_][a-z]+)+)(?:[ \t][^>\n]{0,400})?>.*?</\1>[ \t]*$\n?", re.DOTALL | re.MULTILINE
)
"""An element on lines of its own with a name of two words, such as `<system-reminder>`: only programs write so."""
_PROGRAMS_TASK: Final = re.compile(r"\A#{1,6} Task\b", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool that was made for the last user message."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a request offers the model. `schema` is its JSON text."""

    name: str
    schema: str


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """A person's message and the answer, as text."""

    said: str
    answered: str = ""
    at: int = -1
    """Place of the person's message in the list of messages."""
    has_tools_used: bool = False


@dataclass(frozen=True, slots=True)
class CallPrompt:
    """Prompt of a request. `at` is the place of the last user message in the list of messages; -1: it is a text.

    `beside`: what a program put into that message; `is_task`: all of it is a program's, such as a request for a title;
    `begun`: the beginning of its answer, which the client gives the model to go on with; `has_tools_used`: tools
    already took part in it; `is_single`: one answer is asked for.
    """

    said: str
    beside: str = ""
    is_task: bool = False
    earlier: tuple[SaidTurn, ...] = ()
    at: int = -1
    begun: str = ""
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
    """One step of a conversation; `at` is the place of its message."""

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
            # Text beside a tool's result is the host's as often as a person's.
            yield PromptStep(StepKind.TOOL, at=at)
            continue
        for item in items:
            said = BETWEEN.join(text for text in item.texts if text)
            match item.type, item.role:
                case "message", "user":
                    if said := said.strip():
                        yield PromptStep(StepKind.USER, said, at)
                case "message", "assistant":
                    yield PromptStep(StepKind.ASSISTANT, said, at)
                case kind, role if kind.endswith("_output") or role == "function":
                    yield PromptStep(StepKind.TOOL, at=at)
                case kind, _ if kind.endswith("_call"):
                    used = item.call_id or text_field(message, "call_id") or text_field(message, "id")
                    name = item.name or text_field(message, "name") or kind
                    yield PromptStep(StepKind.TOOL, at=at, use=ToolUse(used, name))
                case _:
                    pass


def prompt_of(
    steps: Iterable[PromptStep], /, *, tools: tuple[OfferedTool, ...] = (), is_single: bool = True
) -> CallPrompt | None:
    """Return the prompt of `steps`; None if there is no person's message.

    Of a model's text around calls of its tools, only the part behind the last of them is its answer.
    """
    earlier: list[SaidTurn] = []
    last: PromptStep | None = None
    beside = ""
    answer: list[str] = []
    uses: list[ToolUse] = []
    has_tools_used = False
    for step in steps:
        match step.kind:
            case StepKind.USER:
                said, programs = split_programs(without_blocks(step.text))
                if not said:
                    continue
                if last is not None:
                    earlier.append(SaidTurn(last.text, "".join(answer), last.at, has_tools_used))
                last, beside = replace(step, text=said), programs
                answer, uses, has_tools_used = [], [], False
            case StepKind.ASSISTANT:
                answer.append(step.text)
            case StepKind.TOOL:
                answer, has_tools_used = [], True
                if step.use is not None:
                    uses.append(step.use)
    if last is None:
        return None
    return CallPrompt(
        said=last.text,
        beside=beside,
        is_task=_PROGRAMS_TASK.match(last.text) is not None,
        earlier=tuple(earlier),
        at=last.at,
        begun="".join(answer),
        has_tools_used=has_tools_used,
        uses=tuple(uses),
        tools=tools,
        is_single=is_single,
    )


def split_programs(said: str, /) -> tuple[str, str]:
    """Return the person's part of a user message, and what a program put into it; a task of a program stays whole."""
    if "</" not in said or _PROGRAMS_TASK.match(said):
        return said, ""
    parts = [found[0].strip() for found in _PROGRAMS_PART.finditer(said)]
    return (_PROGRAMS_PART.sub("", said).strip(), "\n".join(parts)) if parts else (said, "")


def spoken_answer(answer: str, /) -> str:
    """Return an answer without what the model thought aloud at its beginning, and what it repeated of a block."""
    return _BLOCK_BEGUN.sub("", without_blocks(_THOUGHT.sub("", answer, count=1))).strip()


def without_blocks(said: str, /) -> str:
    """Return what was said without blocks of memory: a proxy before this one may have placed one.

    If an end is left over, the text before it is part of a block that a stored text closed too early: it goes as well.
    """
    if TAG not in said:
        return said
    return _BLOCK_ENDED.sub("", _BLOCK.sub("", said)).strip()
