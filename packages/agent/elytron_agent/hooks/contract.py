"""Requests of the hooks before and after a turn, and their reports."""

from enum import StrEnum
from typing import Any

from pydantic import Field, SecretStr

from elytron_core.contracts.transcript import WriteDecision
from elytron_core.model import Request, Value
from elytron_turn.assembler import PartCut


class HookState(StrEnum):
    """Outcome of a hook call."""

    APPLIED = "applied"
    """Before the turn: memory was added. After it: the turn was stored."""
    EMPTY = "empty"
    """Before the turn: there was nothing to add. After it: there was nothing to store."""
    DUPLICATE = "duplicate"
    """The turn was already stored; nothing changed."""
    OFF = "off"
    """Memory is switched off by the settings or by the request."""
    BLOCKED = "blocked"
    """The turn's user has no access to memory."""
    FAILED = "failed"


class BeforeTurn(Request):
    """A turn that is about to be answered.

    `current_input` holds the messages of the request; those before the user's latest message are history. `project`
    defaults to that of the settings. Without `session_id`, the session is the memory's own space.
    """

    turn_id: str
    current_input: Any
    project: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    conversation: str | None = None
    """A conversation of the session. Only its recent turns are added to the context."""
    instructions: str = ""
    """Instructions outside the messages of a request. They count towards its size but are not read."""
    max_input_tokens: int | None = Field(default=None, ge=1)
    body: Any = None
    """The complete request body; its switch says whether memory is wanted."""
    credential: SecretStr | None = None
    """Credential that opens memory on an MCP file server."""


class BeforeTurnReport(Value):
    """The messages to send, in the form in which they arrived, and a record of what was added."""

    state: HookState
    messages: Any
    recalled_fact_ids: tuple[str, ...] = ()
    recalled_insight_ids: tuple[str, ...] = ()
    recalled_message_ids: tuple[str, ...] = ()
    recent_items: int = 0
    """Number of items added from earlier turns."""
    context_tokens: int = 0
    compacted: int = 0
    """Number of items moved into the summary because the context was almost full."""
    cuts: tuple[PartCut, ...] = ()
    """Parts of the context that were cut to fit `max_input_tokens`."""
    failure: str = ""
    """The key of the error if memory failed."""


class AfterTurn(Request):
    """An answered turn: all items that were sent, including those of its tools, and the answer."""

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
    """Source of a turn's facts."""

    RULES = "rules"
    MODEL = "model"
    """A model, in addition to the rules."""


class AfterTurnReport(Value):
    """The result of storing a turn."""

    state: HookState
    turn: str | None = None
    """The id of the stored evidence."""
    messages: int = 0
    source: FactSource = FactSource.RULES
    facts: tuple[WriteDecision, ...] = ()
    recovered: bool = False
    """True if the turn exceeded a limit at first and was stored after maintenance."""
    failure: str = ""
