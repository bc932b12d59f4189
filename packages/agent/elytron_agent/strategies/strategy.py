"""The strategy interface: the only boundary between an agent's loop and its memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Protocol, assert_never

from pydantic import AliasChoices, Field

from elytron_agent.blocks.archive import answer_of
from elytron_agent.blocks.view import AgentMemoryView
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.ports import chat
from elytron_core.scope import Name

SESSION_HITS: Final = 5
SESSION_HITS_MAX: Final = 20


class RunEnding(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    """With an answer, even if a limit on tools was reached."""
    FAILED = "failed"


class TurnExchange(Value):
    """Content of a run: the user's message and the final answer. It has no room for other messages."""

    prompt: str
    answer: str
    asked_at: Annotated[Instant, Field(gt=0)]
    answered_at: Annotated[Instant, Field(gt=0)]
    ending: RunEnding = RunEnding.COMPLETED
    turn: Name | None = None
    """The host's id of the turn. Storing a turn twice under the same id stores it once."""
    is_stored: bool = False
    """True if the host itself stored the turn in the memory that the strategy uses."""


class ReferencePlacement(StrEnum):
    """Position of the reference among the messages. The current input is always the last message."""

    BEFORE_HISTORY = "before_history"
    """After the system prompt and the activated skills."""
    TAIL = "tail"
    """After the history, so that everything before it stays byte-identical."""


@dataclass(frozen=True, slots=True)
class RunMemory:
    """Memory at the beginning of a run.

    `system` is part of the system prompt. `standing` follows it in a message without a privileged role. Both stay the
    same for the whole run. `reference` contains the memories recalled for this run, in a message that is shown but
    never stored. `tools` are available in this run only.
    """

    system: str = ""
    standing: str = ""
    reference: str | None = None
    placement: ReferencePlacement = ReferencePlacement.BEFORE_HISTORY
    tools: tuple[Tool, ...] = ()

    def arranged(
        self, head: Sequence[chat.Message], history: Sequence[chat.Message], current: chat.Message, /
    ) -> tuple[chat.Message, ...]:
        """Return the messages for the model. `head` is the system prompt with the activated skills."""
        head = (*head, strategy_reference(self.standing)) if self.standing else head
        references = () if self.reference is None else (strategy_reference(self.reference),)
        match self.placement:
            case ReferencePlacement.BEFORE_HISTORY:
                return (*head, *references, *history, current)
            case ReferencePlacement.TAIL:
                return (*head, *history, *references, current)
            case _:
                assert_never(self.placement)


def strategy_reference(text: str, /) -> chat.InputMessage:
    """Return reference data as a message that every dialect keeps separate from the user's text."""
    return chat.InputMessage(role=chat.ChatRole.USER, parts=(chat.TextPart(text=text),), is_reference=True)


def role_message(text: str, /, *, role: chat.ChatRole = chat.ChatRole.USER) -> chat.InputMessage:
    """Return `text` as a message."""
    return chat.InputMessage(role=role, parts=(chat.TextPart(text=text),))


class MemoryStrategy(Protocol):
    """A memory of runs. A loop calls it before and after each run and knows nothing else about it."""

    async def before_run(self, conversation: str, prompt: str, /) -> RunMemory:
        """Return the memory for a run. If memory fails, return less of it."""
        ...

    async def after_run(self, conversation: str, exchange: TurnExchange, /) -> None:
        """Store the run's content, if that is this strategy's task.

        After a crash it is called again with the same `turn` and content, and must then have no further effect.
        """
        ...

    async def close(self) -> None:
        """Release what the strategy opened."""
        ...


class SessionSearchArguments(ToolArguments):
    """Arguments of `session_search`."""

    query: Annotated[str, Field(min_length=1, max_length=core_limits.QUERY_CHARS, description="What to look for.")]
    limit: Annotated[int, Field(ge=1, le=SESSION_HITS_MAX)] = SESSION_HITS
    session_id: Annotated[
        str | None,
        Field(
            default=None,
            validation_alias=AliasChoices("session_id", "conversation_id"),
            description="Search only this session.",
        ),
    ]


def session_search(view: AgentMemoryView, /) -> Tool:
    """Return the tool that searches the transcripts in an agent's view. Each line has the time, session and text."""

    async def search(arguments: SessionSearchArguments, _key: CallKey, /) -> ToolAnswer:
        return answer_of(
            await view.search_conversations(arguments.query, limit=arguments.limit, conversation=arguments.session_id)
        )

    return typed_tool(
        "session_search",
        "Search past sessions: what was said, when, and in which session.",
        SessionSearchArguments,
        search,
        read_only=True,
    )
