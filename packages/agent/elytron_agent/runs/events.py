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
    """The model answered without calling a tool."""
    DONE = "done"
    """The model called `done`."""
    STEPS = "steps"
    CALLS = "calls"
    TOKENS = "tokens"
    SECONDS = "seconds"
    LENGTH = "length"
    """The answer was cut off at its token limit."""
    HANDED = "handed"
    """The model called tools of the client, which makes the calls itself and sends the results in its next turn."""
    REFUSED = "refused"
    """The model refused to answer."""
    MALFORMED = "malformed"
    """The model replied twice in a row with something that cannot be acted on."""
    WINDOW = "window"
    """The request does not fit the model's window, and nothing in it may be left out."""
    FAILED = "failed"
    """The model could not be reached, or its answer was interrupted."""
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
"""Reasons after which the text, if any, counts as a delivered answer."""


class ThreadAwaited(Value):
    """Another process runs the thread. The run begins once that is over, or is refused after `wait_s`."""

    kind: Literal["thread_awaited"] = "thread_awaited"
    thread: str
    wait_s: float


class RunStarted(Value):
    """A run begins, or resumes after an interruption."""

    kind: Literal["run_started"] = "run_started"
    run: str
    thread: str
    is_resumed: bool = False
    input: str = ""


class ContextGiven(Value):
    """The model's context in addition to the conversation, and the reasons for it."""

    kind: Literal["context_given"] = "context_given"
    run: str
    recalled: tuple[RecalledMemory, ...] = ()
    recall: TurnOutcome = "nothing"
    """`late` means that memory missed its deadline and the run continued without it."""
    blocks: tuple[ShownBlock, ...] = ()
    has_summary: bool = False
    turns: int = 0
    """Number of earlier turns in the window."""
    tokens: int = 0
    epoch: int = 0
    stable_fingerprint: str = ""
    """Digest of everything before the window. It stays the same within an epoch."""
    cuts: tuple[PartCut, ...] = ()
    """Parts of the first request that were cut to fit the window."""


class TextSaid(Value):
    """The next piece of the model's text."""

    kind: Literal["text_said"] = "text_said"
    text: str


class ReasoningSaid(Value):
    """The next piece of the model's reasoning, for display only. It is never evidence."""

    kind: Literal["reasoning_said"] = "reasoning_said"
    text: str


class AnswerDropped(Value):
    """The text of this step so far is void: the answer was interrupted and is requested again."""

    kind: Literal["answer_dropped"] = "answer_dropped"
    step: int
    reason: str


class StepTaken(Value):
    """A complete reply of the model is stored. Its calls, if any, are made next."""

    kind: Literal["step_taken"] = "step_taken"
    step: int
    text: str = ""
    calls: int = 0
    cuts: tuple[PartCut, ...] = ()
    """Parts of the step's request that were cut to fit the window."""


class ToolCalled(Value):
    """A tool is being called."""

    kind: Literal["tool_called"] = "tool_called"
    step: int
    call: str
    tool: str
    arguments: str


class ToolAnswered(Value):
    """A tool's result is stored."""

    kind: Literal["tool_answered"] = "tool_answered"
    step: int
    call: str
    tool: str
    text: str
    is_error: bool = False
    is_unknown: bool = False
    """True if the outcome is unknown because the process ended during the call."""
    is_refused: bool = False
    """True if the call was not made because the host denied it."""


class TurnsCompacted(Value):
    """A summary replaced old turns in the window. Memory still finds these turns."""

    kind: Literal["compacted"] = "compacted"
    summary: int
    turns: int
    tokens_before: int
    tokens_after: int
    is_extract: bool = False


class RunEnded(Value):
    """The run is over. `turn` is the memory id of its turn, if one was stored."""

    kind: Literal["run_ended"] = "run_ended"
    run: str
    reason: StopReason
    text: str = ""
    problem: str = ""
    usage: RunUsage = RunUsage()
    turn: str | None = None
    calls: tuple[ToolCall, ...] = ()
    """Calls of the client's tools that the client has to make."""


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
