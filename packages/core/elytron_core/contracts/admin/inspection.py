"""Inspection, the turn ledger, and the life of a runtime."""

import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.admin.maintenance import WorkHealth
from elytron_core.contracts.admin.platform import MemoryCapabilityCatalog
from elytron_core.contracts.conversation.projection import MemoryProjectionReport
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.contracts.knowledge.skills import AgentSkillDirectoryReport, RuntimeSkillCounts
from elytron_core.contracts.modes import ActionAdmission, ModeInput, Pressure
from elytron_core.contracts.scope_fields import (
    ConversationReport,
    Cursor,
    MaxChars,
    PageLimit,
    Query,
    Reason,
    ScopedRequest,
)
from elytron_core.contracts.tools import AgentToolRegistryReport
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge.profiles import StoreCapabilities
from elytron_core.scope import Name

HEAD: Final = re.compile(r"([0-9]{1,15})\.([0-9a-f]{32})\.([0-9a-f]{32})")
"""The form of a journal's head: its length, and what its entries come to, without and with their digests."""


class MemoryInspectionRequest(ScopedRequest):
    """Count a space's contents. `check` also reads every stored byte of the store and reports damage.

    With `head`, the report compares the space with a head of an earlier report.
    """

    check: bool = False
    repair: bool = False
    """Move what `check` finds damaged aside; needs `check`."""
    head: Annotated[str, Field(pattern=f"^{HEAD.pattern}$")] | None = None
    mode_input: ModeInput | None = None
    """The host's mode: with it, the report says which actions memory admits in it."""
    query: Query = ""
    """With it, the report has the projection for it, within `max_chars` and under `pressure`."""
    max_chars: MaxChars = limits.PROJECTION_CHARS_DEFAULT
    pressure: Pressure = Pressure.NORMAL


class ConversationSummary(Value):
    """One conversation as its head knows it."""

    channel: str
    conversation: str
    turns: int
    first_at: Instant | None = None
    last_at: Instant | None = None
    speakers: tuple[str, ...] = ()
    title: str | None = None


class DamageItem(Value):
    """One damaged thing, named without its content."""

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


class HeadStanding(StrEnum):
    """Relation of a space to a journal's head that was kept elsewhere."""

    CURRENT = "current"
    """It is at that head: nothing was written since."""
    CONTAINED = "contained"
    """That head is in its history, and more was written since."""
    SCRUBBED = "scrubbed"
    """That head's entries are in its history, in their order; of some an erasure since took the digests."""
    COMPACTED = "compacted"
    """That head ends among entries that were compacted since, as their documents are gone."""
    BEHIND = "behind"
    """It has not come so far: an older state was put back."""
    FORKED = "forked"
    """It came so far by another history: an older state was put back and went on, or what was written was changed."""
    ABSENT = "absent"
    """There is no such space: it was erased, or taken away."""

    @property
    def is_sound(self) -> bool:
        """Return whether all that the head covers is there, but for what was erased since."""
        return self not in {HeadStanding.BEHIND, HeadStanding.FORKED, HeadStanding.ABSENT}


class JournalAccount(Value):
    """Result of comparing a space's documents with its journal; counts alone."""

    told: int
    """Documents that the journal names and that are there."""
    altered: int = 0
    """Documents that differ from the journal's last entry: an older one put back, or one changed by another program."""
    missing: int = 0
    """Documents that the journal names and that are not there; also those that a repair moved aside."""
    compacted: int = 0
    """Entries that were compacted, as their documents are gone: one entry covers each run of them."""
    unproven: int = 0
    """Runs that were not compacted by a runtime of this space: entries were taken away beside us."""

    @property
    def ok(self) -> bool:
        return not self.altered and not self.missing and not self.unproven


class MemoryInspectionReport(Value):
    """Contents of a space. Fingerprints are equal for equal content on every store."""

    space: str
    exists: bool
    engine: str
    store: StoreCapabilities
    """Promises of the store."""
    sequence: int
    documents: dict[str, int]
    planes: dict[Plane, int] = {}
    """Number of memories in each plane, hidden and closed ones too; a turn counts once."""
    alias: transcript.AliasTrust = transcript.AliasTrust.TRUSTED
    """State of the scope's chat. For one that names no conversation, none is given."""
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
    """The head of the journal, to be kept elsewhere and compared later; empty if nothing was ever stored."""
    head_standing: HeadStanding | None = None
    """With a `head` in the request: the space's relation to it."""
    store_check: StoreCheck | None = None
    journal_account: JournalAccount | None = None
    """With `check`: whether the space is what its journal says."""
    compared_model: str | None = None
    """The model whose vectors recall compares; none if nothing was embedded."""
    unembedded_units: int = 0
    """Units without a vector of the model of this runtime's embedder; without one, of the model compared."""
    stale_units: int = 0
    """Those of them that have a vector of another model: `switch_model` makes them again."""
    embedded_units: dict[str, int] = {}
    """Number of units that have a vector, by the model that made it."""
    runtime_skills: RuntimeSkillCounts = RuntimeSkillCounts()
    agent_skills: AgentSkillDirectoryReport = AgentSkillDirectoryReport(directories=0)
    """Contents of this runtime's agent skill directories, read for this report."""
    agent_tools: AgentToolRegistryReport = AgentToolRegistryReport()
    work: WorkHealth = WorkHealth.IDLE
    """Health of jobs; degraded if jobs wait too long, are blocked, or were given up."""
    jobs: dict[str, int] = {}
    """Number of jobs in each state."""
    lifecycle: tuple[ActionAdmission, ...] = ()
    """Of every action whether it is admitted in the mode that was asked about, and why not."""
    capabilities: MemoryCapabilityCatalog | None = None
    """Abilities of this runtime, and the reasons of missing ones."""
    projection: MemoryProjectionReport | None = None
    """With a `query` in the request: what a model would be shown for it, and how that came to be."""


class LedgerOrder(StrEnum):
    """From which end a ledger is read. Each page has its turns in the conversation's order."""

    LATEST = "latest"
    """The last turns; the cursor leads to those before."""
    FIRST = "first"
    """The first turns; the cursor leads to those behind."""


class MemoryReplayRequest(ScopedRequest):
    """Read a conversation's turn ledger, a page at a time; reading changes nothing."""

    chat_id: Name | None = None
    """The conversation or chat alias; without it, the scope's conversation."""
    limit: PageLimit = limits.LEDGER_TURNS
    cursor: Cursor | None = None
    order: LedgerOrder = LedgerOrder.LATEST


class LedgerMessage(Value):
    """One message of the ledger."""

    role: transcript.Role
    text: str
    speaker: str | None = None
    at: Instant | None = None
    forgotten: bool = False


class LedgerTurn(Value):
    """One turn of the ledger."""

    id: TurnId
    sequence: int
    recorded_at: Instant
    delivery: transcript.Delivery
    lifecycle: transcript.Lifecycle
    host_id: str | None = None
    messages: tuple[LedgerMessage, ...]


class MemoryReplayReport(ConversationReport):
    """A page of turns in their conversation's order."""

    turns: tuple[LedgerTurn, ...]
    total_turns: int
    next_cursor: str | None = None
    has_more: bool = False


class RuntimePhase(StrEnum):
    """State of a runtime."""

    READY = "ready"
    RECOVERED = "recovered"
    CLOSED = "closed"


class MemoryRecoverRequest(ScopedRequest):
    """Bring a space back to a state that can be trusted: check its links, rebuild its index, report."""

    trigger: Annotated[str, Field(max_length=limits.NAME_CHARS)] = "operator"
    mode_input: ModeInput | None = None
    """The host's mode: with it, the report says which actions memory admits in it."""


class MemoryCloseRequest(Value):
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
    """Of every action whether it is admitted in the mode that was asked about, and why not."""
