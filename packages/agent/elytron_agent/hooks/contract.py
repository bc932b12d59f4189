"""Contract of hooks: their input before and after a turn, and their reports."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, cast

from pydantic import Field, SecretStr, model_validator

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.hooks.session import SessionHash, checked_project
from elytron_core.clock import Clock
from elytron_core.contracts.transcript import WriteDecision
from elytron_core.errors import InvalidInput, StoreUrlInvalid
from elytron_core.limits import PAGE_MAX, URI_CHARS
from elytron_core.model import Request, Value
from elytron_core.scope import Scope
from elytron_store import parse_url

SECTION: Final = "openai"
"""The section of GPTChat's configuration that has these settings beside others."""
MCP_SCHEMES: Final = ("mcp+https:", "mcp+http:")
_OURS: Final = ("enable_memory", "memory_")


class FailurePolicy(StrEnum):
    """Effect on a turn if its memory fails."""

    CONTINUE = "continue"
    """It goes on without memory; the failure is counted and logged."""
    RAISE = "raise"


class StorageKind(StrEnum):
    """Storage of memory."""

    ELYTRON = "elytron"
    """In the memory that the hooks were made with."""
    MCP = "mcp"
    """On an MCP file server, under each request's own credential."""


class HookSettings(Request):
    """Settings of hooks' recall and storage. Raises InvalidInput, which names the field."""

    enable_memory: bool = True
    memory_project: Annotated[str, Field(max_length=limits.PROJECT_CHARS)] = "gptchat"
    memory_storage: StorageKind = StorageKind.ELYTRON
    memory_storage_mcp_url: Annotated[str, Field(max_length=URI_CHARS)] = ""
    memory_model: str = ""
    """The model that draws facts, as `dialect:name[@url]`; without one, rules do."""
    memory_llm_timeout_seconds: Annotated[float, Field(gt=0)] = 12
    memory_llm_max_output_tokens: Annotated[int, Field(gt=0)] = 800
    recent_items: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 30
    recall_facts: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 20
    search_hits: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 5
    recall_insights: Annotated[int, Field(ge=0, le=PAGE_MAX)] = 5
    compact_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.8
    l1_days: Annotated[int, Field(gt=0)] = 1
    l2_days: Annotated[int, Field(gt=0)] = 7
    recall_timeout_seconds: Annotated[float, Field(gt=0)] = 10
    policy_role: Literal["developer", "system"] = "developer"
    reference_role: Literal["user", "developer"] = "user"
    session_hash: SessionHash = SessionHash.HMAC_SHA256
    on_failure: FailurePolicy = FailurePolicy.CONTINUE

    @model_validator(mode="after")
    def _has_storage(self) -> Self:
        checked_project(self.memory_project)
        if self.enable_memory and self.memory_storage is StorageKind.MCP:
            if not self.memory_storage_mcp_url.strip():
                raise ValueError("memory_storage_mcp_url is required for memory_storage mcp")
            try:
                parse_url(self.storage_url)
            except StoreUrlInvalid as error:
                raise ValueError(f"memory_storage_mcp_url: {error}") from None
        return self

    @property
    def storage_url(self) -> str:
        """Return the URL of the store on the MCP file server: its files are those of the project."""
        server = self.memory_storage_mcp_url.strip()
        scheme = "" if server.startswith(MCP_SCHEMES) else "mcp+"
        return f"{scheme}{server}" if "?" in server else f"{scheme}{server}?project={self.memory_project}"

    @classmethod
    def read(cls, config: Mapping[str, Any], /) -> Self:
        """Return the settings of a configuration: of its section `openai` if it has one, else of all of it.

        In that section other names than ours are left alone. Raises InvalidInput, which names the field.
        """
        if SECTION not in config:
            return cls(**config)
        section = config[SECTION]
        if not isinstance(section, Mapping):
            raise InvalidInput(field=SECTION, problem="is no section")
        found = cast("Mapping[str, Any]", section)
        return cls(**{name: value for name, value in found.items() if name.startswith(_OURS)})


def is_wanted(body: Mapping[str, Any] | None, /) -> bool:
    """Return whether a request wants memory: `laisky_extra.chat_switch.enable_memory` is not false, or says nothing."""
    switch: Any = body
    for name in ("laisky_extra", "chat_switch", "enable_memory"):
        if not isinstance(switch, Mapping):
            return True
        switch = cast("Mapping[str, Any]", switch).get(name)
    return switch is not False


class HookSession(NamedTuple):
    """A session of hooks: its memory, its scope in it, its settings and its clock."""

    memory: MemoryFace
    scope: Scope
    settings: HookSettings
    clock: Clock


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
