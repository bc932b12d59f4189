"""Maintenance: a finished turn becomes evidence, memory is maintained, and the journal is compacted."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.skills import RuntimeSkillName
from elytron_core.contracts.transcript import CanonicalTurnDelta, WriteDecision
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes import skills, transcript
from elytron_core.planes.jobs import NOTHING, JobId, MaintenancePass, ModelUsage
from elytron_core.profiles import ModeInput
from elytron_core.scope import ConversationReport, FutureClaims, Name, ScopedRequest

__all__ = [
    "ExtractionMethod",
    "JournalCompactReport",
    "JournalCompactRequest",
    "MemoryFinalizeTurnReport",
    "MemoryFinalizeTurnRequest",
    "MemoryMaintainRequest",
    "MemoryMaintenanceReport",
    "SkillReuse",
]


class ExtractionMethod(StrEnum):
    """Method of extracting lasting facts from turns."""

    OFF = "off"
    RULES = "rules"
    """Rules: few facts, each stated outright by the user."""
    AUTO = "auto"
    """The language model if the runtime has one, otherwise rules."""
    MODEL = "model"
    """The language model only."""


class SkillReuse(Value):
    """Outcome of the runtime skills that the reply used."""

    names: Annotated[tuple[RuntimeSkillName, ...], Field(min_length=1, max_length=limits.SKILLS_PER_OUTCOME)]
    outcome: skills.ReuseOutcome
    note: Annotated[str, Field(max_length=limits.OUTCOME_NOTE_CHARS)] = ""


class PassStatus(StrEnum):
    """Outcome of a part of maintenance."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """It ran, and nothing needed to change."""
    SKIPPED = "skipped"
    """It did not run; the reason says why."""
    QUEUED = "queued"
    """A durable job will run it."""
    FAILED = "failed"


class PassOutcome(Value):
    """One part of maintenance: its outcome, counts and cost."""

    of: MaintenancePass
    status: PassStatus
    reason: str = ""
    counts: dict[str, int] = {}
    spent: ModelUsage = NOTHING


class MaintenanceRefusal(StrEnum):
    """Why maintenance did not run."""

    SAFE_MODE = "safe_mode"
    BOOTING = "booting"
    PAIRING_REQUIRED = "pairing_required"
    VOICE_EXCLUSIVE = "voice_exclusive"
    CONFIG_ACTIVE = "config_active"
    MAINTENANCE_ACTIVE = "maintenance_active"
    FOREGROUND = "foreground"
    CRITICAL_PRESSURE = "critical_pressure"


class MemoryMaintainRequest(ScopedRequest["MemoryMaintenanceReport"]):
    """Run maintenance on the scope's conversation and space now, for up to `turns_max` unprocessed turns.

    With `extraction` "model", a runtime without a language model refuses the call.
    """

    passes: Annotated[tuple[MaintenancePass, ...], Field(min_length=1, max_length=len(MaintenancePass))] = tuple(
        MaintenancePass
    )
    extraction: ExtractionMethod = ExtractionMethod.AUTO
    turns_max: Annotated[int, Field(ge=1, le=limits.MAINTAIN_TURNS)] = limits.MAINTAIN_TURNS
    reuse: SkillReuse | None = None
    mode_input: ModeInput = ModeInput()


class MemoryMaintenanceReport(ConversationReport):
    """One outcome per part of maintenance, in order. `has_more` is true if turns remain."""

    passes: tuple[PassOutcome, ...] = ()
    refused: MaintenanceRefusal | None = None
    turns: int = 0
    """Number of processed turns."""
    has_more: bool = False
    decisions: tuple[WriteDecision, ...] = ()
    """Outcome of each candidate."""
    job: JobId | None = None
    """The job that runs the rest, if anything was deferred."""
    changed: bool = False
    spent: ModelUsage = NOTHING

    def outcome(self, maintenance_pass: MaintenancePass, /) -> PassOutcome | None:
        """Return the outcome of one part, None if it was not requested."""
        return next((outcome for outcome in self.passes if outcome.of is maintenance_pass), None)


class CommitStatus(StrEnum):
    """Outcome of a turn in one of the planes that store it."""

    COMMITTED = "committed"
    DUPLICATE = "duplicate"
    """It was stored before."""
    NOT_EVIDENCE = "not_evidence"
    """Its delivery state leaves no evidence to store."""


class MemoryFinalizeTurnRequest(ScopedRequest["MemoryFinalizeTurnReport"]):
    """Commit a finished turn as evidence, then run maintenance on it.

    The evidence is durable when this returns. No model is called: work that needs one becomes a durable job.
    """

    delta: CanonicalTurnDelta
    title: Name | None = None
    extraction: ExtractionMethod = ExtractionMethod.AUTO
    reuse: SkillReuse | None = None
    mode_input: ModeInput = ModeInput()


class MemoryFinalizeTurnReport(ConversationReport):
    """The receipt of a turn: both commits, and the result of maintenance.

    `session_commit` covers the conversation's turn ledger, `transcript_commit` the governed evidence. Here both
    are the same documents, so they agree; hosts may read either.
    """

    host_turn_id: str
    delivery: transcript.TurnDelivery
    turn_id: TurnId | None = None
    message_ids: tuple[str, ...] = ()
    session_commit: CommitStatus
    transcript_commit: CommitStatus
    skipped_reason: str = ""
    maintenance: tuple[PassOutcome, ...] = ()
    maintenance_refused: MaintenanceRefusal | None = None
    decisions: tuple[WriteDecision, ...] = ()
    job: JobId | None = None
    changed: bool
    scrubbed: dict[str, int] = {}
    future_claims: FutureClaims = ()
    sequence: int = 0

    def outcome(self, maintenance_pass: MaintenancePass, /) -> PassOutcome | None:
        """Return the outcome of one part of maintenance, None if none ran."""
        return next((outcome for outcome in self.maintenance if outcome.of is maintenance_pass), None)


PUTTING_OFF = (MemoryMaintenanceReport, MemoryFinalizeTurnReport)
"""Reports that name the job for deferred work, if any."""


class JournalCompactRequest(ScopedRequest["JournalCompactReport"]):
    """Compact the journal of the space as much as possible.

    This drops the names of erased memories: save them first (`keep_erasures`).
    """


class JournalCompactReport(Value):
    """The number of removed entries, and the journal's sequence, which is unchanged."""

    space: str
    removed: int
    changed: bool
    sequence: int
