"""The plane of tool experience: which tools a host has, and what their use has taught.

The host stores, checks and runs its tools. Memory holds compact descriptions with fingerprints and the experience
learned under them; it never sees a schema or a result.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, model_validator

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name

TOOLS_PER_REGISTRY: Final = 1_000
TOOL_TAGS: Final = 32
FINGERPRINT_CHARS: Final = 128


REGISTRIES = "tool_registries"
EXPERIENCES = "tool_experiences"
ID_WORD = "tool_experience"
"""Prefix of the memory ids of experiences."""

Fingerprint = Annotated[str, Field(min_length=1, max_length=FINGERPRINT_CHARS, pattern=r"^[!-~]+$")]
UNKNOWN_FINGERPRINT: Final = "0" * 16
"""Fingerprint of a snapshot before it is computed: no registry is registered under it."""
Tags = Annotated[tuple[Name, ...], Field(max_length=TOOL_TAGS)]


class RegistryOwner(StrEnum):
    """Owner of a registry's tools."""

    HOST_RUNTIME = "host_runtime"
    AGENT_TOOLS = "agent_tools"
    REQUEST_SCOPED_GATEWAY = "request_scoped_gateway"


class RegistryScope(StrEnum):
    """The part of the host that a registry applies to."""

    GLOBAL = "global"
    OWNER = "owner"
    PROJECT = "project"
    WORKSPACE = "workspace"
    CONVERSATION = "conversation"


NAMED_SCOPES = frozenset({RegistryScope.PROJECT, RegistryScope.WORKSPACE, RegistryScope.CONVERSATION})
"""Scopes that can occur several times, so that `scope_id` says which."""


class _ScopedTool(Value):
    registry_id: Name
    scope: RegistryScope = RegistryScope.GLOBAL
    scope_id: Name | None = None
    """The project, workspace or conversation; empty for the other scopes."""

    @model_validator(mode="after")
    def _scope_is_named(self) -> "_ScopedTool":
        if (self.scope in NAMED_SCOPES) != (self.scope_id is not None):
            raise ValueError("scope_id is required for a project, workspace or conversation, and not allowed otherwise")
        return self


class AgentToolRegistryRef(_ScopedTool):
    """A registry in one state: with the fingerprint that the host has."""

    fingerprint: Fingerprint


class AgentToolDescriptor(Value):
    """A tool in brief: its name and its contract's fingerprint, not the contract itself."""

    tool_id: Name
    display_name: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    version: Name | None = None
    schema_fingerprint: Fingerprint
    descriptor_fingerprint: Fingerprint | None = None
    """The fingerprint of this description; computed if omitted."""
    permission_tags: Tags = ()
    risk_tags: Tags = ()
    tool_groups: Tags = ()
    disabled: bool = False


class AgentToolRegistrySnapshot(_ScopedTool):
    """All tools of one registry at one time."""

    namespace: Name
    owner: RegistryOwner = RegistryOwner.HOST_RUNTIME
    fingerprint: Fingerprint = UNKNOWN_FINGERPRINT
    tools: Annotated[tuple[AgentToolDescriptor, ...], Field(max_length=TOOLS_PER_REGISTRY)]

    @property
    def ref(self) -> AgentToolRegistryRef:
        return AgentToolRegistryRef(
            registry_id=self.registry_id, scope=self.scope, scope_id=self.scope_id, fingerprint=self.fingerprint
        )

    def tool(self, tool_id: str, /) -> AgentToolDescriptor | None:
        """Return the tool of this id."""
        return next((tool for tool in self.tools if tool.tool_id == tool_id), None)


class StoredRegistry(Value):
    """A registry as stored."""

    snapshot: AgentToolRegistrySnapshot
    registered_at: Instant


class ExperienceConfidence(StrEnum):
    """Confidence of an experience."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ExperienceStatus(StrEnum):
    """State of an experience."""

    CANDIDATE = "candidate"
    """One success that awaits a repetition: it gives no hints."""
    ACTIVE = "active"


class ToolExperience(Value):
    """Experience of using one tool, under one contract, for one kind of task. Counts and short words, no results."""

    registry_id: Name
    tool_id: Name
    schema_fingerprint: Fingerprint
    task_signature: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    reason: Annotated[str, Field(max_length=limits.TOOL_REASON_CHARS)] = ""
    guidance: Annotated[str, Field(max_length=limits.TOOL_REASON_CHARS)] = ""
    """An operator's advice on how to use it."""
    success_count: int = 0
    failure_count: int = 0
    mismatch_count: int = 0
    confidence: ExperienceConfidence = ExperienceConfidence.LOW
    status: ExperienceStatus = ExperienceStatus.CANDIDATE
    created_at: Instant
    updated_at: Instant
    forgotten_at: Instant | None = None

    @property
    def text(self) -> str:
        """Return the experience in words."""
        return "\n".join(part for part in (self.reason, self.guidance) if part) or self.tool_id

    @property
    def is_governed(self) -> bool:
        """Return whether hints may be made of it."""
        return self.status is ExperienceStatus.ACTIVE and self.forgotten_at is None


def experience_key(registry_tag: str, experience_tag: str, /) -> str:
    """Return the key of an experience; those of one registry are adjacent."""
    return f"{registry_tag}.{experience_tag}"
