"""Runtime skills (learned procedures): view, edit, enable, delete, govern. Also skills in a host's directories."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes import skills
from elytron_core.scope import Name, PageLimit, Reason, ScopedRequest, ScrubbedCounts

__all__ = [
    "AgentSkillDirAddRequest",
    "AgentSkillDirectoryReport",
    "RuntimeSkillDeleteRequest",
    "RuntimeSkillDetailReport",
    "RuntimeSkillDetailRequest",
    "RuntimeSkillEditRequest",
    "RuntimeSkillGovernReport",
    "RuntimeSkillGovernRequest",
    "RuntimeSkillListReport",
    "RuntimeSkillListRequest",
    "RuntimeSkillMutationReport",
    "RuntimeSkillReuseReport",
    "RuntimeSkillReuseRequest",
    "RuntimeSkillSetEnabledRequest",
]

RuntimeSkillName = Annotated[Name, Field(pattern=rf"^{skills.NAME_PREFIX}.+")]
Summary = Annotated[str, Field(max_length=limits.FACT_CHARS)]


class RuntimeSkillListRequest(ScopedRequest["RuntimeSkillListReport"]):
    """List runtime skills, best first; with `query`, those that match it."""

    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)] | None = None
    include_disabled: bool = False
    include_retired: bool = False
    limit: PageLimit = 100


class RuntimeSkillSummary(Value):
    """A runtime skill in brief. `state` is its current state, `quality` at most 100."""

    name: str
    topic: str
    title: str
    summary: str
    origin: skills.SkillOrigin
    source: skills.SkillSource
    state: skills.SkillState
    enabled: bool
    forgotten: bool = False
    quality: int
    revision: int
    revision_pending: bool
    use_count: int
    validated_count: int
    mismatch_count: int
    citations: int
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    observed_at: Instant
    updated_at: Instant
    last_used_at: Instant | None = None


class RuntimeSkillListReport(Value):
    """The requested skills. The counts cover all skills."""

    space: str
    total: int
    active: int
    """Enabled and not retired: what recall may show."""
    disabled: int
    retired: int
    runtime_skills: tuple[RuntimeSkillSummary, ...]
    clipped: bool = False
    """There are more than `limit`, or more than one pass examines."""


class RuntimeSkillCounts(Value):
    """Number of runtime skills by state, enabled or not."""

    total: int = 0
    active: int = 0
    stale: int = 0
    low_value: int = 0
    retired: int = 0
    disabled: int = 0
    forgotten: int = 0
    revision_pending: int = 0
    recallable: int = 0


class RuntimeSkillDetailRequest(ScopedRequest["RuntimeSkillDetailReport"]):
    """Read one runtime skill, in any state."""

    name: RuntimeSkillName


class RuntimeSkillDetailReport(Value):
    """One runtime skill, whole. `raw_content` is its Markdown form, which `elytron skills import` reads."""

    space: str
    skill: RuntimeSkillSummary
    procedure: str
    citations: tuple[str, ...]
    source_chat_id: str | None = None
    """The chat in which it was learned, as its writer reported it."""
    lineage: tuple[skills.LineageNode, ...]
    strategy_diffs: tuple[skills.StrategyDiff, ...]
    last_outcome_at: Instant | None = None
    last_outcome_note: str = ""
    raw_content: str


class RuntimeSkillEditRequest(ScopedRequest["RuntimeSkillMutationReport"]):
    """Revise an existing runtime skill; omitted fields stay unchanged. The change is stored as a diff."""

    name: RuntimeSkillName
    title: skills.Title | None = None
    topic: skills.Title | None = None
    summary: Summary | None = None
    procedure: Annotated[str, Field(max_length=limits.SKILL_CHARS)] | None = None
    edit_reason: Reason = ""


class RuntimeSkillSetEnabledRequest(ScopedRequest["RuntimeSkillMutationReport"]):
    """Enable or disable a runtime skill in recall. Enabling also restores a retired one; no content changes."""

    name: RuntimeSkillName
    enabled: bool
    reason: Reason = ""


class RuntimeSkillDeleteRequest(ScopedRequest["RuntimeSkillMutationReport"]):
    """Remove a runtime skill. It may be relearned; its history records who removed it and why."""

    name: RuntimeSkillName
    reason: Reason = ""


class SkillRefusal(StrEnum):
    """Why an edit was not made."""

    EMPTY = "empty"
    RAW_PAYLOAD_OR_LOG = "raw_payload_or_log"
    WEAK_PROCEDURE = "weak_procedure"


class RuntimeSkillMutationReport(Value):
    """Change of one runtime skill; `skill` is its current state, None if removed."""

    space: str
    name: str
    changed: bool
    refused: SkillRefusal | None = None
    reason: str = ""
    skill: RuntimeSkillSummary | None = None
    sequence: int = 0
    scrubbed: ScrubbedCounts = {}


class RuntimeSkillReuseRequest(ScopedRequest["RuntimeSkillReuseReport"]):
    """Record the outcome of the runtime skills that a reply used."""

    names: Annotated[tuple[RuntimeSkillName, ...], Field(min_length=1, max_length=limits.SKILLS_PER_OUTCOME)]
    outcome: skills.ReuseOutcome
    note: Annotated[str, Field(max_length=limits.OUTCOME_NOTE_CHARS)] = ""


class RuntimeSkillReuseReport(Value):
    """Skills whose counts changed, and unknown names."""

    space: str
    changed: bool
    recorded: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    sequence: int = 0


class RuntimeSkillGovernRequest(ScopedRequest["RuntimeSkillGovernReport"]):
    """Govern all runtime skills: mark stale ones, merge duplicates, prune unused ones."""

    dry_run: bool = False


class RuntimeSkillGovernReport(Value):
    """Result of governance, or with `dry_run` its preview, by skill name."""

    space: str
    changed: bool
    dry_run: bool = False
    looked_at: int
    active: tuple[str, ...] = ()
    """In use again after having been stale or of low value."""
    stale: tuple[str, ...] = ()
    low_value: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Retired because another skill supersedes it."""
    pruned: tuple[str, ...] = ()
    sequence: int = 0


class SkipReason(StrEnum):
    """Why something in an agent skill directory was skipped."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    SYMLINK = "symlink"
    NOT_A_FILE = "not_a_file"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY = "too_many"
    NOT_TEXT = "not_text"
    NO_FRONT_MATTER = "no_front_matter"
    NO_NAME = "no_name"
    NO_DESCRIPTION = "no_description"
    DUPLICATE_NAME = "duplicate_name"


class AgentSkillSummary(Value):
    """A SKILL.md in brief. `place` is its path in the directory; no other file was opened."""

    name: str
    description: str
    place: str
    resources: dict[str, int] = {}
    """Number of accompanying files, by folder: scripts, references, assets, ..."""
    fingerprint: str
    """Covers its text and the names and sizes of the accompanying files."""


class SkippedPath(Value):
    """Something in an agent skill directory that was skipped."""

    place: str
    reason: SkipReason


class AgentSkillDirectoryReport(Value):
    """Contents of the agent skill directories, which are never written."""

    directories: int
    skills: tuple[AgentSkillSummary, ...] = ()
    resources: int = 0
    skipped: tuple[SkippedPath, ...] = ()
    skipped_total: int = 0
    scanned_at: Instant | None = None
    read_only: Literal[True] = True


class AgentSkillDirAddRequest(ScopedRequest[AgentSkillDirectoryReport]):
    """Add a directory of agent skills for this runtime to read until it closes."""

    path: Annotated[str, Field(min_length=1, max_length=4_096)]


class AgentSkillHit(Value):
    """An agent skill that matches a query. Its host reads and runs it; memory has only its summary."""

    name: str
    description: str
    place: str
    fingerprint: str
    resources: dict[str, int] = {}
    score: float
    signals: dict[str, float] = {}
    read_only: Literal[True] = True
