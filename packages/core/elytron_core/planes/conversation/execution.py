"""The plane of execution state: the current state of a conversation's work."""

from enum import StrEnum
from typing import Annotated, NewType

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name

EXECUTION = "execution_states"
ExecutionId = NewType("ExecutionId", str)
ID_WORD = "state"

ExecutionText = Annotated[str, Field(max_length=limits.EXECUTION_TEXT_CHARS)]
ExecutionItem = Annotated[str, Field(min_length=1, max_length=limits.EXECUTION_ITEM_CHARS)]
ExecutionItems = Annotated[tuple[ExecutionItem, ...], Field(max_length=limits.EXECUTION_ITEMS)]


class ExecutionStatus(StrEnum):
    """Status of the work."""

    ACTIVE = "active"
    BLOCKED = "blocked"
    DONE = "done"


class ExecutionState(Value):
    """State of one conversation's work: always the newest."""

    id: ExecutionId
    goal: ExecutionText
    progress: ExecutionText = ""
    blocker: ExecutionText = ""
    next_action: ExecutionText = ""
    last_output: ExecutionText = ""
    done: ExecutionItems = ()
    pending: ExecutionItems = ()
    decisions: ExecutionItems = ()
    artifacts: ExecutionItems = ()
    status: ExecutionStatus = ExecutionStatus.ACTIVE
    channel: Name
    conversation: Name
    updated_at: Instant
    forgotten_at: Instant | None = None

    @property
    def text(self) -> str:
        """Return all that it says, a line for each part."""
        parts = (
            f"Goal: {self.goal}",
            f"Progress: {self.progress}" if self.progress else "",
            f"Blocked by: {self.blocker}" if self.blocker else "",
            f"Next: {self.next_action}" if self.next_action else "",
            f"Last output: {self.last_output}" if self.last_output else "",
            *(f"Done: {item}" for item in self.done),
            *(f"Pending: {item}" for item in self.pending),
            *(f"Decided: {item}" for item in self.decisions),
            *(f"Made: {item}" for item in self.artifacts),
        )
        return "\n".join(part for part in parts if part)
