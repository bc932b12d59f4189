"""Events of a run: frozen values in chronological order."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_agent.runs.settings import RunUsage
from elytron_core.model import Value
from elytron_core.ports.chat import ToolCall
from elytron_turn.assembler import PartCut
from elytron_turn.context import ShownBlock
from elytron_turn.memory import RecalledMemory, TurnOutcome


class StopReason(StrEnum):
    """Why a run ended."""

    ANSWERED = "answered"
    """The model said what it had to say, and called no tool."""
    DONE = "done"
    """The model called `done`."""
    STEPS = "steps"
    CALLS = "calls"
    TOKENS = "tokens"
    SECONDS = "seconds"
    LENGTH = "length"
    """The answer was cut off at the bound of its tokens."""
    HANDED = "handed"
    """The model called tools of the client, which calls them itself and says what they came to in its next turn."""
    REFUSED = "refused"
    """The model will not answer."""
    MALFORMED = "malformed"
    """The model twice gave what cannot be acted on."""
    WINDOW = "window"
    """The request does not fit the model's window, and nothing of it may be left out."""
    FAILED = "failed"
    """The model could not be asked, or its answer broke off."""
    CANCELLED = "cancelled"


ANSWERS = frozenset(
    {
        StopReason.ANSWERED,
        StopReason.DONE,
        StopReason.STEPS,
        StopReason.CALLS,
        StopReason.TOKENS,
        StopReason.SECONDS,
        StopReason.LENGTH,
        StopReason.HANDED,
    }
)
"""Reasons after which what was said is a delivered answer, if anything was."""


class ThreadAwaited(Value):
    """Another process runs the thread: the run begins when that one is over, or is refused after `wait_s`."""

    kind: Literal["thread_awaited"] = "thread_awaited"
    thread: str
    wait_s: float


class RunStarted(Value):
    """A run begins, or goes on where its process ended."""

    kind: Literal["run_started"] = "run_started"
    run: str
    thread: str
    is_resumed: bool = False
    input: str = ""


class ContextGiven(Value):
    """The model's context beside the conversation, and its reasons."""

    kind: Literal["context_given"] = "context_given"
    run: str
    recalled: tuple[RecalledMemory, ...] = ()
    recall: TurnOutcome = "nothing"
    """`late`: memory did not answer before its deadline, and the run went on without it."""
    blocks: tuple[ShownBlock, ...] = ()
    has_summary: bool = False
    turns: int = 0
    """Number of earlier turns in the window."""
    tokens: int = 0
    epoch: int = 0
    stable_fingerprint: str = ""
    """A digest of all before the window; it stays the same within an epoch."""
    cuts: tuple[PartCut, ...] = ()
    """Parts of the first request for which the window has no room."""


class TextSaid(Value):
    """The next piece of the model's text."""

    kind: Literal["text_said"] = "text_said"
    text: str


class ReasoningSaid(Value):
    """The next piece of what the model thinks aloud: to show, never evidence."""

    kind: Literal["reasoning_said"] = "reasoning_said"
    text: str


class AnswerDropped(Value):
    """The pieces of this step's text no longer count: the answer broke off, and is asked for again."""

    kind: Literal["answer_dropped"] = "answer_dropped"
    step: int
    reason: str


class StepTaken(Value):
    """A whole reply of the model is durable; its calls, if any, are made next."""

    kind: Literal["step_taken"] = "step_taken"
    step: int
    text: str = ""
    calls: int = 0
    cuts: tuple[PartCut, ...] = ()
    """Parts of the step's request for which the window has no room."""


class ToolCalled(Value):
    """A tool is called."""

    kind: Literal["tool_called"] = "tool_called"
    step: int
    call: str
    tool: str
    arguments: str


class ToolAnswered(Value):
    """A tool's result is durable."""

    kind: Literal["tool_answered"] = "tool_answered"
    step: int
    call: str
    tool: str
    text: str
    is_error: bool = False
    is_unknown: bool = False
    """True if the outcome is not known, because the process ended in the middle of the call."""
    is_refused: bool = False
    """True if the call was not made, because its host said no."""


class TurnsCompacted(Value):
    """Old turns left the window for a summary; memory still finds them."""

    kind: Literal["compacted"] = "compacted"
    summary: int
    turns: int
    tokens_before: int
    tokens_after: int
    is_extract: bool = False


class RunEnded(Value):
    """The run is over. `turn` is the memory id of the turn, if one was stored."""

    kind: Literal["run_ended"] = "run_ended"
    run: str
    reason: StopReason
    text: str = ""
    problem: str = ""
    usage: RunUsage = RunUsage()
    turn: str | None = None
    calls: tuple[ToolCall, ...] = ()
    """Calls of the client's tools, which wait for it."""


AgentEvent = Annotated[
    ThreadAwaited
    | RunStarted
    | ContextGiven
    | TextSaid
    | ReasoningSaid
    | AnswerDropped
    | StepTaken
    | ToolCalled
    | ToolAnswered
    | TurnsCompacted
    | RunEnded,
    Field(discriminator="kind"),
]
