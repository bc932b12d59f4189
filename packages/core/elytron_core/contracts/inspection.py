"""Inspection of spaces and of the platform, the turn ledger, and the lifecycle of a runtime."""

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.maintenance.jobs import WorkHealth
from elytron_core.contracts.projection import MemoryProjectionReport
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.skills import AgentSkillDirectoryReport, RuntimeSkillCounts
from elytron_core.contracts.tools import AgentToolRegistryReport
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import TurnId
from elytron_core.model import OperationRequest, Request, Value
from elytron_core.planes import transcript
from elytron_core.profiles import (
    ActionAdmission,
    MemoryPressure,
    ModeInput,
    ProfileBudget,
    ProfileName,
    SpaceLoss,
    StoreCapabilities,
    StoreCapacity,
)
from elytron_core.scope import ConversationReport, Cursor, MaxChars, Name, PageLimit, Query, Reason, ScopedRequest

__all__ = [
    "CapabilityPolicy",
    "LedgerOrder",
    "MemoryCapabilitiesRequest",
    "MemoryCapabilityCatalog",
    "MemoryCloseRequest",
    "MemoryInspectionReport",
    "MemoryInspectionRequest",
    "MemoryLifecycleReport",
    "MemoryRecoverRequest",
    "MemoryReplayReport",
    "MemoryReplayRequest",
    "MemorySpacesReport",
    "MemorySpacesRequest",
    "SpaceSummary",
]

CAPABILITY_SCHEMA = "beetle-memory.platform.capability.v1"


class CapabilityPolicy(StrEnum):
    """Parts of a runtime that can be inspected."""

    OPEN = "open"
    STRICT = "strict"
    """No adapter and no entry: only the host accesses the memory."""


class CapabilityState(Value):
    """One capability's availability, and its five conditions."""

    visible: bool
    profile_allows: bool
    compiled: bool
    configured: bool
    permitted: bool
    privacy_permits: bool


class AdapterCapabilities(Value):
    """The protocols of a memory."""

    cli: CapabilityState
    http: CapabilityState
    webhook: CapabilityState
    wss: CapabilityState
    mqtt: CapabilityState
    mcp: CapabilityState
    a2a: CapabilityState


class EntryCapabilities(Value):
    """The processes that serve or call for a memory."""

    cli: CapabilityState
    http_server: CapabilityState
    webhook_receiver: CapabilityState
    webhook_sender: CapabilityState
    wss_client: CapabilityState
    wss_server: CapabilityState
    mqtt_client: CapabilityState
    mqtt_bridge: CapabilityState
    mcp_server: CapabilityState
    a2a_bridge: CapabilityState
    llm_gateway: CapabilityState


class IndexRecallCapabilities(Value):
    """Capabilities of recall through an index."""

    archive: CapabilityState
    capsule: CapabilityState
    skill: CapabilityState
    task_learning: CapabilityState


class LifecycleCapabilities(Value):
    """Capabilities of maintenance."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    recover: CapabilityState
    maintain_full: CapabilityState
    maintain_light: CapabilityState
    diagnosis: CapabilityState
    export: CapabilityState
    import_: CapabilityState = Field(validation_alias="import", serialization_alias="import")
    replay_inspection: CapabilityState


class ValidationCapabilities(Value):
    """Capabilities that validate a memory or propose changes to it."""

    compact_fixture: CapabilityState
    harness: CapabilityState
    full_suite: CapabilityState
    benchmark_gate: CapabilityState
    proposal_preview: CapabilityState
    compact_sandbox: CapabilityState
    full_sandbox: CapabilityState
    submission: CapabilityState


class MemoryCapabilityCatalog(Value):
    """Everything that a memory can do, and whether it is available here."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    profile: ProfileName
    policy: CapabilityPolicy
    budget: ProfileBudget
    capacity: StoreCapacity | None = None
    write: CapabilityState
    recall: CapabilityState
    projection: CapabilityState
    maintenance: CapabilityState
    inspection: CapabilityState
    replay: CapabilityState
    export: CapabilityState
    import_: CapabilityState = Field(validation_alias="import", serialization_alias="import")
    communication_adapter: CapabilityState
    adapter: AdapterCapabilities
    entry: EntryCapabilities
    sqlite_index_recall: IndexRecallCapabilities
    lifecycle: LifecycleCapabilities
    validation: ValidationCapabilities


class MemoryCapabilitiesRequest(ScopedRequest[MemoryCapabilityCatalog]):
    """List what this memory can do; the scope is ignored."""


class PlatformCapabilitySnapshot(Value):
    """The capabilities of a profile as this distribution ships them: the same bytes on every machine."""

    schema_id: Literal["beetle-memory.platform.capability.v1"] = CAPABILITY_SCHEMA
    catalog: MemoryCapabilityCatalog


HEAD: Final = re.compile(r"([0-9]{1,15})\.([0-9a-f]{32})\.([0-9a-f]{32})")
"""Format of a journal head: its length and the digests of its entries, without and with content digests."""


class MemoryInspectionRequest(ScopedRequest["MemoryInspectionReport"]):
    """Count a space's contents; no memory is read. `check` also reads every byte of the store and reports damage.

    With `head`, the report compares the space with the head in an earlier report.
    """

    check: bool = False
    fingerprints: bool = False
    """Read the whole space to compute its fingerprints and head."""
    repair: bool = False
    """Quarantine what `check` finds damaged; requires `check`."""
    acknowledge: bool = False
    """Acknowledge the losses of the space; this is the last report that lists them. Not with `check`."""
    head: Annotated[str, Field(pattern=f"^{HEAD.pattern}$")] | None = None
    mode_input: ModeInput | None = None
    """The host's mode: if set, the report says which actions memory admits in it."""
    query: Query = ""
    """If set, the report contains the projection for this query, within `max_chars` and under `pressure`."""
    max_chars: MaxChars = limits.PROJECTION_CHARS_DEFAULT
    pressure: MemoryPressure = MemoryPressure.NORMAL


class ConversationSummary(Value):
    """One conversation, from its head."""

    channel: str
    conversation: str
    turns: int
    first_at: Instant | None = None
    last_at: Instant | None = None
    speakers: tuple[str, ...] = ()
    title: str | None = None


class DamageItem(Value):
    """One damaged item, named without its content."""

    damage: str
    what: str
    quarantined: bool = False


class StoreCheck(Value):
    """Result of reading the whole store."""

    ok: bool
    documents: int
    entries: int
    blobs: int
    problems: tuple[DamageItem, ...] = ()
    clipped: bool = False
    repaired: bool = False
    """A repair left nothing damaged: what it could not save is listed and quarantined."""
    losses: int = 0
    """Number of spaces with unacknowledged losses; while there are any, the store is not `ok`."""


class HeadStanding(StrEnum):
    """Relation of a space to a journal head stored elsewhere."""

    CURRENT = "current"
    """At that head: nothing was written since."""
    CONTAINED = "contained"
    """That head is in its history, and more was written since."""
    SCRUBBED = "scrubbed"
    """That head's entries are in its history in the same order; an erasure has since removed some digests."""
    COMPACTED = "compacted"
    """That head ends among entries that were since compacted because their documents are gone."""
    BEHIND = "behind"
    """Behind that head: an older state was restored."""
    FORKED = "forked"
    """Equally long or longer with a different history: an older state was restored and continued, or entries were
    changed."""
    ABSENT = "absent"
    """The space does not exist: it was erased or removed."""

    @property
    def is_sound(self) -> bool:
        """Return whether everything that the head covers is still there, except what was erased since."""
        return self not in {HeadStanding.BEHIND, HeadStanding.FORKED, HeadStanding.ABSENT}


class JournalAccount(Value):
    """Result of comparing a space's documents with its journal, as counts."""

    told: int
    """Documents that the journal names and that exist."""
    altered: int = 0
    """Documents that differ from the journal's last entry: an older one was restored, or another program changed it."""
    missing: int = 0
    """Documents that the journal names and that are missing, including those that a repair quarantined."""
    compacted: int = 0
    """Entries that were compacted because their documents are gone; one entry covers each run of them."""
    unproven: int = 0
    """Runs that no runtime of this space compacted: another program removed entries."""

    @property
    def ok(self) -> bool:
        return not self.altered and not self.missing and not self.unproven


class MemoryInspectionReport(Value):
    """Contents of a space. Fingerprints are equal for equal content on every store; empty unless requested."""

    space: str
    exists: bool
    engine: str
    store: StoreCapabilities
    """Guarantees of the store."""
    sequence: int
    documents: dict[str, int]
    planes: dict[RecallPlane, int] = {}
    """Number of memories in each plane, including hidden and closed ones; a turn counts once."""
    alias: transcript.AliasTrust = transcript.AliasTrust.TRUSTED
    """State of the scope's chat. If the chat names no conversation, none is returned."""
    conversations: tuple[ConversationSummary, ...]
    conversations_clipped: bool
    speakers: tuple[str, ...]
    first_at: Instant | None = None
    last_at: Instant | None = None
    indexed_units: int
    index_bytes: int
    state_fingerprint: str
    event_fingerprint: str
    head: str = ""
    """With fingerprints: the journal head, to store elsewhere and compare later; empty for a new space."""
    head_standing: HeadStanding | None = None
    """With `head` in the request: how the space relates to it."""
    losses: tuple[SpaceLoss, ...] = ()
    """What repairs could not save until an operator acknowledges it; otherwise what this call acknowledged."""
    acknowledged: int = 0
    """Number of `losses` that this call acknowledged; 0 if it acknowledged none."""
    store_check: StoreCheck | None = None
    journal_account: JournalAccount | None = None
    """With `check`: whether the space matches its journal."""
    compared_model: str | None = None
    """The model whose vectors recall compares; None if nothing was embedded."""
    unembedded_units: int = 0
    """Units without a vector from this runtime's embedder, or without an embedder from the compared model."""
    stale_units: int = 0
    """How many of them have a vector from another model; `switch_model` embeds them again."""
    embedded_units: dict[str, int] = {}
    """Number of units with a vector, by the model that made it."""
    runtime_skills: RuntimeSkillCounts = RuntimeSkillCounts()
    agent_skills: AgentSkillDirectoryReport = AgentSkillDirectoryReport(directories=0)
    """Contents of this runtime's agent skill directories, read for this report."""
    agent_tools: AgentToolRegistryReport = AgentToolRegistryReport()
    work: WorkHealth = WorkHealth.IDLE
    """Health of jobs; degraded if jobs wait too long, are blocked, or were abandoned."""
    jobs: dict[str, int] = {}
    """Number of jobs in each state."""
    lifecycle: tuple[ActionAdmission, ...] = ()
    """For every action, whether the given mode admits it, and if not, why."""
    capabilities: MemoryCapabilityCatalog | None = None
    """Abilities of this runtime, and why others are missing."""
    projection: MemoryProjectionReport | None = None
    """With a `query` in the request: the block that a model would see, and how it was built."""


class LedgerOrder(StrEnum):
    """The end from which a ledger is read. Each page has its turns in conversation order."""

    LATEST = "latest"
    """The last turns; the cursor continues to earlier ones."""
    FIRST = "first"
    """The first turns; the cursor continues to later ones."""


class MemoryReplayRequest(ScopedRequest["MemoryReplayReport"]):
    """Read a conversation's turn ledger, a page at a time; reading changes nothing."""

    chat_id: Name | None = None
    """The conversation or chat alias; defaults to the scope's conversation."""
    limit: PageLimit = limits.LEDGER_TURNS
    cursor: Cursor | None = None
    order: LedgerOrder = LedgerOrder.LATEST


class LedgerMessage(Value):
    """One message of the ledger."""

    role: EvidenceRole
    text: str
    speaker: str | None = None
    at: Instant | None = None
    forgotten: bool = False


class LedgerTurn(Value):
    """One turn of the ledger."""

    id: TurnId
    sequence: int
    recorded_at: Instant
    delivery: transcript.TurnDelivery
    lifecycle: transcript.TurnLifecycle
    host_id: str | None = None
    messages: tuple[LedgerMessage, ...]


class MemoryReplayReport(ConversationReport):
    """A page of turns in conversation order."""

    turns: tuple[LedgerTurn, ...]
    total_turns: int
    next_cursor: str | None = None
    has_more: bool = False


class RuntimePhase(StrEnum):
    """State of a runtime."""

    READY = "ready"
    RECOVERED = "recovered"
    CLOSED = "closed"


class MemoryRecoverRequest(ScopedRequest["MemoryLifecycleReport"]):
    """Recover a space: check its links, rebuild its index, and report the result."""

    trigger: Annotated[str, Field(max_length=limits.NAME_CHARS)] = "operator"
    mode_input: ModeInput | None = None
    """The host's mode: if set, the report says which actions memory admits in it."""


class MemoryCloseRequest(OperationRequest["MemoryLifecycleReport"]):
    """End a runtime."""

    reason: Reason = ""


class MemoryLifecycleReport(Value):
    """Result of recover or close."""

    phase: RuntimePhase
    reason: str = ""
    spaces: tuple[str, ...] = ()
    indexed_units: int = 0
    checkpoints_written: int = 0
    store_check: StoreCheck | None = None
    lifecycle: tuple[ActionAdmission, ...] = ()
    """For every action, whether the given mode admits it, and if not, why."""


class MemorySpacesRequest(ScopedRequest["MemorySpacesReport"]):
    """List the spaces of the store by name, a page at a time; the scope is ignored."""

    limit: PageLimit = 100
    cursor: Cursor | None = Field(default=None, min_length=1)


class SpaceSummary(Value):
    """One space. For one that is damaged or sealed with another key, only the name is given."""

    space: str
    readable: bool = True
    conversations: int = 0
    turns: int = 0
    first_at: Instant | None = None
    last_at: Instant | None = None


class MemorySpacesReport(Value):
    """A page of spaces, in the order of their names."""

    spaces: tuple[SpaceSummary, ...]
    losses: tuple[SpaceLoss, ...] = ()
    """On the first page: what repairs could not save, including spaces of which nothing is left."""
    next_cursor: str | None = None
    has_more: bool = False


class ShutdownRequest(Request):
    """Shut down the server: it finishes accepted work and accepts no more."""

    reason: Reason = ""


class ServerNodes(Value):
    """Addresses of the servers of one store, as each reported its own, in order."""

    nodes: tuple[str, ...]


class ShutdownReport(Value):
    """The server that shuts down: its process, and the reason given."""

    pid: int
    reason: str = ""
