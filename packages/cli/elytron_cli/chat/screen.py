"""Events of a run as readable text or as JSON lines. Printed text cannot control the terminal."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

from elytron_agent.blocks.block_repository import MemoryBlock
from elytron_agent.runs.events import (
    AgentEvent,
    AnswerDropped,
    ContextGiven,
    ReasoningSaid,
    RunEnded,
    RunStarted,
    StepTaken,
    StopReason,
    TextSaid,
    ThreadAwaited,
    ToolAnswered,
    ToolCalled,
    TurnsCompacted,
)
from elytron_cli.terminal.output import safe_line, safe_text
from elytron_cli.terminal.word_wrap import StreamWrap, wrap_words
from elytron_core.clock import format_instant
from elytron_core.errors import ElytronError
from elytron_core.model import Value
from elytron_core.ports.chat import ModelReply, TextPart
from elytron_turn.compaction import CompactionPlan
from elytron_turn.context import ShownBlock, WindowTurn

RESULT_CHARS: Final = 200
LATEST_CHARS: Final = 400
_RECALLS: Final = {
    "found": "",
    "nothing": "nothing was recalled",
    "late": "memory did not answer in time; the turn continued without it",
    "failed": "memory could not be reached; the turn continued without it",
    "off": "recall is off",
}
_STOPS: Final = {
    StopReason.STEPS: "stopped: too many steps",
    StopReason.CALLS: "stopped: too many tool calls",
    StopReason.TOKENS: "stopped: too many tokens",
    StopReason.SECONDS: "stopped: the time limit was reached",
    StopReason.LENGTH: "stopped: the answer is too long",
    StopReason.REFUSED: "the model refused to answer",
    StopReason.MALFORMED: "the model's answer could not be read",
    StopReason.CANCELLED: "cancelled",
}


class CommandAnswer(Value):
    """Answer to a line that begins with a slash; without a terminal it is a line of JSON, as events are."""

    kind: Literal["command_answer"] = "command_answer"
    command: str
    text: str = ""
    blocks: tuple[MemoryBlock, ...] = ()
    given: ContextGiven | None = None
    plan: CompactionPlan | None = None


class ApprovalAsked(Value):
    """Asks whether a call is made; the answer is typed at the terminal."""

    kind: Literal["approval_asked"] = "approval_asked"
    tool: str
    arguments: str


class LineRefused(Value):
    """Refusal of a line, by the key and the words of its error."""

    kind: Literal["line_refused"] = "line_refused"
    key: str
    reason: str


_SIGN = "  …"
"""Indicator that the model is thinking."""


@dataclass(slots=True)
class ChatScreen:
    """The output of a conversation."""

    is_json: bool
    latest_context: ContextGiven | None = None
    """The context last given to the model."""
    _is_open: bool = False
    """True while a line of text is unfinished."""
    _stream: StreamWrap = field(default_factory=StreamWrap)
    _has_sign: bool = False
    """True while the thinking indicator is shown."""

    def show(self, event: AgentEvent, /) -> None:
        """Print one event."""
        if isinstance(event, ContextGiven):
            self.latest_context = event
        if self.is_json:
            self.say(event.model_dump_json(exclude_none=True))
            return
        self._show(event)
        if isinstance(event, RunStarted | ContextGiven | ToolAnswered | StepTaken):
            self._show_sign()

    def _show(self, event: AgentEvent) -> None:
        match event:
            case TextSaid():
                text = safe_text(event.text)
                self._write(self._stream.feed(text) if self._is_wrapped else text)
            case StepTaken():
                self._break()
            case RunEnded():
                self._end(event)
            case ContextGiven() | ReasoningSaid():
                pass
            case _:
                self._tell(event)

    def say(self, text: str, /) -> None:
        """Print separate lines."""
        self._break()
        sys.stdout.write(f"{wrap_words(text) if self._is_wrapped else text}\n")
        sys.stdout.flush()

    def note(self, text: str, /) -> None:
        """Print what the agent did in addition to its words."""
        self.say(f"  · {text}")

    def place(self, text: str, /) -> None:
        """Show the agent, and where the conversation is stored."""
        if not self.is_json:
            self.say(safe_text(text))

    def latest(self, turn: WindowTurn, /) -> None:
        """Show the last messages of an earlier session."""
        self.note(
            f"last message, {format_instant(turn.at)[:16].replace('T', ' ')} UTC: "
            f"{safe_line(turn.input)[:LATEST_CHARS]}"
        )
        replies = [item for item in turn.items if isinstance(item, ModelReply)]
        parts = [part.text for part in replies[-1].items if isinstance(part, TextPart)] if replies else []
        if parts:
            self.note(f"answer: {safe_line(' '.join(parts))[:LATEST_CHARS]}")

    def refuse(self, error: ElytronError, /) -> None:
        """Show why a line was rejected."""
        if self.is_json:
            self.say(LineRefused(key=error.key, reason=error.message).model_dump_json())
        else:
            self.note(safe_text(error.message))

    def ask(self, question: ApprovalAsked, /) -> None:
        """Show a call awaiting approval in full: what is not seen is not approved."""
        if self.is_json:
            self.say(question.model_dump_json())
        else:
            self.note(f"call {safe_line(question.tool)} with {safe_line(question.arguments)}?")

    def answer(self, answer: CommandAnswer, /) -> None:
        """Print the answer to a line that begins with a slash."""
        if self.is_json:
            self.say(answer.model_dump_json(exclude_none=True))
            return
        if answer.text:
            self.say(safe_text(answer.text))
        self._blocks(answer.blocks)
        if answer.given is not None:
            self._memory(answer.given)
        if answer.plan is not None:
            evicted_count = len(answer.plan.evicted)
            summary = f"{evicted_count} of {evicted_count + len(answer.plan.kept)} turns would be summarised"
            self.say(f"{summary}; /compact does it, /undo reverts it.")

    def _memory(self, context: ContextGiven) -> None:
        """Show what the model was given in the last turn, and why."""
        summary = ", a summary of those before them" if context.has_summary else ""
        self.say(f"About {context.tokens} tokens: {context.turns} earlier turns{summary}, and")
        self._blocks(context.blocks)
        for memory in context.recalled:
            origin_note = ", from outside" if memory.is_outside else ""
            self.say(f"  recalled ({memory.score:.2f}{origin_note}) {safe_line(memory.text)}\n    {memory.id}")
        if not context.recalled:
            self.say(f"  {_RECALLS[context.recall]}")

    def _blocks(self, blocks: Sequence[MemoryBlock | ShownBlock]) -> None:
        for block in blocks:
            self.say(f"  block {safe_line(block.label)}: {safe_line(block.value) or '(empty)'}")

    def _tell(
        self, event: ThreadAwaited | RunStarted | AnswerDropped | ToolCalled | ToolAnswered | TurnsCompacted
    ) -> None:
        match event:
            case ThreadAwaited():
                notice = f"another terminal or process is using {safe_line(event.thread)!r}: waiting for its answer"
                self.note(f"{notice}, up to {event.wait_s:g} s (Ctrl-C cancels)")
            case RunStarted():
                if event.is_resumed:
                    self.note(f"resuming the interrupted turn: {safe_line(event.input)}")
            case AnswerDropped():
                self.note("the answer was interrupted")
            case ToolCalled():
                self.note(f"{event.tool} {safe_line(event.arguments)[:RESULT_CHARS]}")
            case ToolAnswered():
                outcome_mark = "!" if event.is_error else "="
                self.note(f"{outcome_mark} {safe_line(event.text)[:RESULT_CHARS]}")
            case TurnsCompacted():
                self.note(f"summarised {event.turns} earlier turns; they can still be recalled")
            case _:
                assert_never(event)

    @property
    def _is_wrapped(self) -> bool:
        return not self.is_json and sys.stdout.isatty()

    def _show_sign(self) -> None:
        """Show the thinking indicator at a terminal, until there is something else to show."""
        if self._is_wrapped and not self._is_open and not self._has_sign:
            sys.stdout.write(_SIGN)
            sys.stdout.flush()
            self._has_sign = True

    def _remove_sign(self) -> None:
        if self._has_sign:
            sys.stdout.write(f"\r{' ' * len(_SIGN)}\r")
            self._has_sign = False

    def _write(self, text: str) -> None:
        self._remove_sign()
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_open = not text.endswith("\n") if text else self._is_open

    def _break(self) -> None:
        self._write(self._stream.end())
        if self._is_open:
            self._write("\n")

    def _end(self, event: RunEnded) -> None:
        self._break()
        if event.reason is StopReason.FAILED:
            self.note(safe_line(event.problem) or "the model did not answer")
        elif event.reason in _STOPS:
            self.note(_STOPS[event.reason])
