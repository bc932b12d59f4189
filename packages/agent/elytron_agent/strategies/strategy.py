"""The strategy: the one boundary between a loop and whatever memory it has."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol, assert_never

from pydantic import Field

from elytron_agent.tool import Tool
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.ports import chat
from elytron_core.scope import Name


class Ending(StrEnum):
    """How a run came to its end."""

    COMPLETED = "completed"
    """With an answer, also if a limit of tools was reached."""
    FAILED = "failed"


class Exchange(Value):
    """What a run was about: what the user said and the final answer. There is no place for other messages."""

    prompt: str
    answer: str
    asked_at: Annotated[Instant, Field(gt=0)]
    answered_at: Annotated[Instant, Field(gt=0)]
    ending: Ending = Ending.COMPLETED
    turn: Name | None = None
    """The host's id of the turn: a turn that is stored twice under it is stored once."""
    is_stored: bool = False
    """Whether the host itself stored the turn in the memory that the strategy uses."""


class Placement(StrEnum):
    """Where the reference stands among the messages. The current input is always the last one."""

    BEFORE_HISTORY = "before_history"
    """Behind the system prompt and the activated skills."""
    TAIL = "tail"
    """Behind the history, so that everything before it keeps its bytes."""


@dataclass(frozen=True, slots=True)
class RunMemory:
    """What a run begins with.

    `system` stands in the system prompt, and `standing` behind it, in a message without a privileged role; both stay
    the same for the whole run. `reference` is what was recalled for this run: a message, shown and never stored.
    `tools` are for this run alone.
    """

    system: str = ""
    standing: str = ""
    reference: str | None = None
    placement: Placement = Placement.BEFORE_HISTORY
    tools: tuple[Tool, ...] = ()

    def arranged(
        self, head: Sequence[chat.Message], history: Sequence[chat.Message], current: chat.Message, /
    ) -> tuple[chat.Message, ...]:
        """Return the messages for the model: `head` is the system prompt and the activated skills."""
        head = (*head, said(self.standing)) if self.standing else head
        found = () if self.reference is None else (said(self.reference),)
        match self.placement:
            case Placement.BEFORE_HISTORY:
                return (*head, *found, *history, current)
            case Placement.TAIL:
                return (*head, *history, *found, current)
            case _:
                assert_never(self.placement)


def said(text: str, /, *, role: chat.Role = chat.Role.USER) -> chat.InputMessage:
    """Return `text` as a message."""
    return chat.InputMessage(role=role, parts=(chat.TextPart(text=text),))


class MemoryStrategy(Protocol):
    """A memory of runs. A loop calls it before and after each run, and knows no more of it."""

    async def before_run(self, conversation: str, prompt: str, /) -> RunMemory:
        """Return what the run begins with; if memory fails, less of it."""
        ...

    async def after_run(self, conversation: str, exchange: Exchange, /) -> None:
        """Store what the run was about, if that is this strategy's to do.

        After a crash it is told again, under the same `turn` and in the same words: that is to have one effect.
        """
        ...

    async def close(self) -> None:
        """Release what the strategy opened."""
        ...
