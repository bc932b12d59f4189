"""Input of hooks before and after a turn, and their reports."""

from enum import StrEnum
from typing import Any

from pydantic import Field, SecretStr

from elytron_core.contracts.transcript import WriteDecision
from elytron_core.model import Request, Value
from elytron_turn.assembler import PartCut


class HookState(StrEnum):
    """Outcome of a hook's work."""

    APPLIED = "applied"
    """Before: the turn is reminded of something. After: the turn is kept."""
    EMPTY = "empty"
    """Before: there is nothing to be reminded of. After: there was nothing to keep."""
    DUPLICATE = "duplicate"
    """The turn was kept before; nothing changed."""
    OFF = "off"
    """By the settings or by the request."""
    BLOCKED = "blocked"
    """The turn's user gets no memory."""
    FAILED = "failed"


class BeforeTurn(Request):
    """A turn that is about to be answered.

    `current_input` is the messages of the request; those before the user's latest message are history. Without
    `project` it is that of the settings; without `session_id` the session is the memory's own space.
    """

    turn_id: str
    current_input: Any
    project: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    conversation: str | None = None
    """A conversation of the session; its recent turns alone are in the context."""
    instructions: str = ""
    """Instructions that a request carries beside its messages: counted, and not read."""
    max_input_tokens: int | None = Field(default=None, ge=1)
    body: Any = None
    """The whole request as it came: its switch says whether memory is wanted."""
    credential: SecretStr | None = None
    """With what memory on an MCP file server is opened."""


class BeforeTurnReport(Value):
    """The messages to send, in the form in which they came, and an account of what was put among them."""

    state: HookState
    messages: Any
    recalled_fact_ids: tuple[str, ...] = ()
    recalled_insight_ids: tuple[str, ...] = ()
    recalled_message_ids: tuple[str, ...] = ()
    recent_items: int = 0
    """Items of earlier turns that were added."""
    context_tokens: int = 0
    compacted: int = 0
    """Items that are in the summary instead, because the context was almost full."""
    cuts: tuple[PartCut, ...] = ()
    """Parts of the context for which `max_input_tokens` has no room."""
    failure: str = ""
    """The key of the error, if it failed."""


class AfterTurn(Request):
    """A turn that was answered: the items that were sent, those of its tools among them, and the answer."""

    turn_id: str
    input_items: Any
    output_items: Any
    project: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    conversation: str | None = None
    body: Any = None
    credential: SecretStr | None = None


class FactSource(StrEnum):
    """Source of the facts of a turn."""

    RULES = "rules"
    MODEL = "model"
    """A model, and rules beside it."""


class AfterTurnReport(Value):
    """Result of keeping a turn."""

    state: HookState
    turn: str | None = None
    """The id of the evidence."""
    messages: int = 0
    source: FactSource = FactSource.RULES
    facts: tuple[WriteDecision, ...] = ()
    recovered: bool = False
    """The turn was too large, and was kept after maintenance."""
    failure: str = ""
