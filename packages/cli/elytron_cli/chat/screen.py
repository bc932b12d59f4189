"""Events of a run as a person reads them, or as lines of JSON. Nothing printed steers a terminal."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from elytron_agent.blocks.block import Block
from elytron_agent.context.compaction import CompactionPlan
from elytron_agent.context.reference import ShownBlock
from elytron_agent.runs.events import (
    AgentEvent,
    AnswerDropped,
    Compacted,
    ContextGiven,
    ReasoningSaid,
    RunEnded,
    RunStarted,
    StepTaken,
    StopReason,
    TextSaid,
    ToolAnswered,
    ToolCalled,
)
from elytron_cli.terminal.output import line, safe

RESULT_CHARS: Final = 200
_RECALLS: Final = {
    "found": "",
    "nothing": "nothing was recalled",
    "late": "memory did not answer in time, and the turn went on without it",
    "failed": "memory could not be asked, and the turn went on without it",
    "off": "recall is off",
}
_STOPS: Final = {
    StopReason.STEPS: "stopped: too many steps",
    StopReason.CALLS: "stopped: too many calls of tools",
    StopReason.TOKENS: "stopped: too many tokens",
    StopReason.SECONDS: "stopped: it took too long",
    StopReason.LENGTH: "stopped: the answer is too long",
    StopReason.REFUSED: "the model will not answer",
    StopReason.MALFORMED: "the model gave what cannot be read",
    StopReason.CANCELLED: "cancelled",
}


@dataclass(slots=True)
class Screen:
    """The output of a conversation."""

    is_json: bool
    given: ContextGiven | None = None
    """The context that the model got last."""
    _is_open: bool = False
    """True while a line of text has no end yet."""

    def show(self, event: AgentEvent, /) -> None:
        """Print one event."""
        if isinstance(event, ContextGiven):
            self.given = event
        if self.is_json:
            self.say(event.model_dump_json(exclude_none=True))
            return
        match event:
            case TextSaid():
                self._write(safe(event.text))
            case StepTaken():
                self._break()
            case RunEnded():
                self._end(event)
            case ContextGiven() | ReasoningSaid():
                pass
            case _:
                self._tell(event)

    def say(self, text: str, /) -> None:
        """Print lines of their own."""
        self._break()
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def note(self, text: str, /) -> None:
        """Print what the agent did beside its words."""
        self.say(f"  · {text}")

    def memory(self) -> None:
        """Say what the model was given in the last turn, and why."""
        given = self.given
        if given is None:
            self.say("Nothing was given yet: say something first.")
            return
        summary = ", a summary of those before" if given.has_summary else ""
        self.say(f"About {given.tokens} tokens: {given.turns} earlier turns{summary}, and")
        self.blocks(given.blocks)
        for memory in given.recalled:
            outside = ", from outside" if memory.is_outside else ""
            self.say(f"  recalled ({memory.score:.2f}{outside}) {line(memory.text)}\n    {memory.id}")
        if not given.recalled:
            self.say(f"  {_RECALLS[given.recall]}")

    def blocks(self, blocks: Sequence[Block | ShownBlock], /) -> None:
        """Show core blocks."""
        for block in blocks:
            self.say(f"  block {line(block.label)}: {line(block.value) or '(empty)'}")

    def plan(self, planned: CompactionPlan | None, /) -> None:
        """Say what a compaction would do."""
        if planned is None:
            self.say("There is nothing to sum up.")
            return
        told = f"{len(planned.evicted)} of {len(planned.evicted) + len(planned.kept)} turns would be summed up"
        self.say(f"{told}: /compact does it, /undo takes it back.")

    def _tell(self, event: RunStarted | AnswerDropped | ToolCalled | ToolAnswered | Compacted) -> None:
        match event:
            case RunStarted():
                if event.is_resumed:
                    self.note(f"going on with what was broken off: {line(event.input)}")
            case AnswerDropped():
                self.note("the answer broke off")
            case ToolCalled():
                self.note(f"{event.tool} {line(event.arguments)[:RESULT_CHARS]}")
            case ToolAnswered():
                mark = "!" if event.is_error else "="
                self.note(f"{mark} {line(event.text)[:RESULT_CHARS]}")
            case Compacted():
                self.note(f"{event.turns} earlier turns were summed up; they can still be found")
            case _:
                assert_never(event)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_open = not text.endswith("\n")

    def _break(self) -> None:
        if self._is_open:
            self._write("\n")

    def _end(self, event: RunEnded) -> None:
        self._break()
        if event.reason is StopReason.FAILED:
            self.note(line(event.problem) or "the model did not answer")
        elif event.reason in _STOPS:
            self.note(_STOPS[event.reason])
