"""Work after a reply: the turn becomes evidence, memory is maintained, and model work is queued durably."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.skills import RuntimeSkillName
from elytron_core.contracts.transcript import CanonicalTurnDelta, WriteDecision
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes import skills, transcript
from elytron_core.planes.jobs import MAINTENANCE, NOTHING, JobId, JobState, MaintenancePass, ModelUsage
from elytron_core.profiles import ModeInput
from elytron_core.scope import ConversationReport, FutureClaims, Name, PageLimit, ScopedRequest

__all__ = [
    "EmbeddingOutcome",
    "ExtractionMethod",
    "JobCancelRequest",
    "JobListReport",
    "JobListRequest",
    "JobReport",
    "JobRetryRequest",
    "JobRunReport",
    "JobRunRequest",
    "JournalCompactReport",
    "JournalCompactRequest",
    "MemoryEmbedReport",
    "MemoryEmbedRequest",
    "MemoryFinalizeTurnReport",
    "MemoryFinalizeTurnRequest",
    "MemoryMaintainRequest",
    "MemoryMaintenanceReport",
    "ModelSwitchRequest",
    "SkillReuse",
]

JobName = Annotated[str, Field(pattern=r"^[0-9a-f]{1,96}$")]


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

    def outcome(self, of: MaintenancePass, /) -> PassOutcome | None:
        """Return the outcome of one part, None if it was not requested."""
        return next((outcome for outcome in self.passes if outcome.of is of), None)


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

    def outcome(self, of: MaintenancePass, /) -> PassOutcome | None:
        """Return the outcome of one part of maintenance, None if none ran."""
        return next((outcome for outcome in self.maintenance if outcome.of is of), None)


PUTTING_OFF = (MemoryMaintenanceReport, MemoryFinalizeTurnReport)
"""Reports that name the job for deferred work, if any."""


class JobView(Value):
    """A job for people to see, without conversation content."""

    id: JobId
    kind: str = MAINTENANCE
    """The kind of work: maintenance of turns, or a kind that one of the host's runners handles."""
    state: JobState
    channel: str
    conversation: str
    turns: int
    attempts: int
    made_at: Instant
    updated_at: Instant
    due_at: Instant
    done: tuple[MaintenancePass, ...] = ()
    error: str = ""
    spent: ModelUsage = NOTHING


class JobListRequest(ScopedRequest["JobListReport"]):
    """List the jobs of a space: unfinished ones, oldest first, then finished ones, newest first."""

    states: Annotated[tuple[JobState, ...], Field(max_length=len(JobState))] = ()
    """Only jobs in these states; defaults to all."""
    limit: PageLimit = 100


class WorkHealth(StrEnum):
    """Health of jobs."""

    IDLE = "idle"
    WORKING = "working"
    DEGRADED = "degraded"
    """Jobs wait far beyond their due time, are blocked, or were abandoned."""


class JobListReport(Value):
    """The jobs of a space, their number by state, and today's model cost."""

    space: str
    health: WorkHealth
    jobs: tuple[JobView, ...]
    counts: dict[str, int] = {}
    clipped: bool = False
    spent_today: ModelUsage = NOTHING
    calls_left: int = 0
    tokens_left: int = 0


class JobRunRequest(ScopedRequest["JobRunReport"]):
    """Run up to `limit` due jobs, one after the other; with `id`, that job if it is due."""

    limit: Annotated[int, Field(ge=1, le=limits.JOBS_RUN_MAX)] = limits.JOBS_RUN_MAX
    id: JobName | None = None


class JobRunReport(Value):
    """Each job that ran, in its new state, and the total cost."""

    space: str
    jobs: tuple[JobView, ...]
    waiting: int
    """Number of unfinished jobs."""
    changed: bool
    spent: ModelUsage = NOTHING


class JobRetryRequest(ScopedRequest["JobReport"]):
    """Make a job due immediately, even one that was abandoned."""

    id: JobName


class JobCancelRequest(ScopedRequest["JobReport"]):
    """Cancel a job. A running one ends at its next step; work already done stays."""

    id: JobName


class JobReport(Value):
    """A job in its current state, and whether it changed."""

    space: str
    job: JobView
    changed: bool


Texts = Annotated[int, Field(ge=1, le=limits.EMBED_TEXTS_PER_CALL)]


class MemoryEmbedRequest(ScopedRequest["MemoryEmbedReport"]):
    """Embed up to `texts` texts that have no vector of the model that recall compares."""

    texts: Texts = limits.EMBED_TEXTS_PER_CALL


class ModelSwitchRequest(ScopedRequest["MemoryEmbedReport"]):
    """Embed with the runtime's embedder; once complete, recall compares only its vectors.

    Until then recall works as before. A repeated call continues where it stopped.
    """

    texts: Texts = limits.EMBED_TEXTS_PER_CALL


class EmbeddingOutcome(StrEnum):
    """Outcome of a call."""

    COMPLETE = "complete"
    """Every memory has its vector, and the former model's vectors are gone."""
    MORE = "more"
    """The call reached its limit: call again."""
    FAILED = "failed"
    """The embedder was unreachable or returned no vectors; recall continues with words only."""
    NO_EMBEDDER = "no_embedder"
    """This runtime was opened without an embedder."""
    OTHER_MODEL = "other_model"
    """Recall here compares another model's vectors: switch the model, or open with the embedder that made them."""
    EMPTY_SPACE = "empty_space"


class MemoryEmbedReport(Value):
    """Number of embedded texts, and progress of the space.

    `compared` is the model that recall compares, `model` the one that embedded. `reused` documents got vectors that
    were already stored, `refused` ones were refused by the embedder, `remaining` units have no vector yet, `dropped`
    documents of former models' vectors were removed.
    """

    space: str
    outcome: EmbeddingOutcome
    model: str | None = None
    compared: str | None = None
    embedded: int = 0
    reused: int = 0
    refused: int = 0
    remaining: int = 0
    dropped: int = 0
    switched: bool = False
    reason: str = ""
    changed: bool = False
    sequence: int = 0


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
