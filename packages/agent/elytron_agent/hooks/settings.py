"""Settings of hooks, and the session that a turn has with them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, cast

from pydantic import Field, model_validator

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.hooks.session import SessionHash, checked_project
from elytron_core.clock import Clock
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.errors import InvalidInput, StoreUrlInvalid
from elytron_core.limits import PAGE_MAX, URI_CHARS
from elytron_core.model import Request
from elytron_core.scope import Scope
from elytron_store import parse_url
from elytron_turn.memory import TurnMemory

SECTION: Final = "openai"
"""Section of GPTChat's configuration that contains these settings among others."""
MCP_SCHEMES: Final = ("mcp+https:", "mcp+http:")
_OURS: Final = ("enable_memory", "memory_")


class FailurePolicy(StrEnum):
    """What a turn does if its memory fails."""

    CONTINUE = "continue"
    """Continue without memory. The failure is counted and logged."""
    RAISE = "raise"


class StorageKind(StrEnum):
    """Where memory is stored."""

    ELYTRON = "elytron"
    """In the memory passed to the hooks."""
    MCP = "mcp"
    """On an MCP file server, under the credential of each request."""


class HookSettings(Request):
    """Settings for recall and storage by hooks. Raises InvalidInput, which names the field."""

    enable_memory: bool = True
    memory_project: Annotated[str, Field(max_length=limits.PROJECT_CHARS)] = "gptchat"
    memory_storage: StorageKind = StorageKind.ELYTRON
    memory_storage_mcp_url: Annotated[str, Field(max_length=URI_CHARS)] = ""
    memory_model: str = ""
    """Model that extracts facts, as `dialect:name[@url]`. Without one, only rules do."""
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
        """Return the URL of the store on the MCP file server, where each project has its own files."""
        mcp_url = self.memory_storage_mcp_url.strip()
        scheme = "" if mcp_url.startswith(MCP_SCHEMES) else "mcp+"
        return f"{scheme}{mcp_url}" if "?" in mcp_url else f"{scheme}{mcp_url}?project={self.memory_project}"

    @classmethod
    def read(cls, config: Mapping[str, Any], /) -> Self:
        """Read the settings from the section `openai` of a configuration, or from all of it without that section.

        Unknown names in that section are ignored. Raises InvalidInput, which names the field.
        """
        if SECTION not in config:
            return cls(**config)
        section = config[SECTION]
        if not isinstance(section, Mapping):
            raise InvalidInput(field=SECTION, problem="is not a section of names and values")
        settings = cast("Mapping[str, Any]", section)
        return cls(**{name: value for name, value in settings.items() if name.startswith(_OURS)})


def is_wanted(body: Mapping[str, Any] | None, /) -> bool:
    """Return whether a request wants memory: not if `laisky_extra.chat_switch.enable_memory` is false."""
    switch_value: Any = body
    for name in ("laisky_extra", "chat_switch", "enable_memory"):
        if not isinstance(switch_value, Mapping):
            return True
        switch_value = cast("Mapping[str, Any]", switch_value).get(name)
    return switch_value is not False


class HookSession(NamedTuple):
    """A session of hooks: its memory, its scope there, its settings and its clock."""

    memory: MemoryFace
    scope: Scope
    settings: HookSettings
    clock: Clock

    @property
    def turn_memory(self) -> TurnMemory:
        """Return the memory for its turns, without fact extraction, because hooks extract facts themselves."""
        filters = RecallFilters(planes=(RecallPlane.TRANSCRIPT,))
        return TurnMemory(self.memory.operate, self.scope, filters=filters, extraction=ExtractionMethod.OFF)
