"""Durable jobs over turns of a conversation, their progress, and what models have cost.

No stored word appears here: a job names turns by their numbers.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final, NewType

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import ConversationTag
from elytron_core.model import Value
from elytron_core.scope import Name, Scope, Space

MAINTAIN_BEYOND: Final = 1_024
JOB_PAYLOAD_CHARS: Final = 4_096
JOB_LEASE_MS: Final = 10 * 60 * 1000


JOBS = "jobs"
QUEUE = "queue"
OVER = "jobs_over"
MAINTAINED = "maintained"
SPENDING = "spending"
OF_A_SPACE = (JOBS, QUEUE, OVER, MAINTAINED, SPENDING)
WITHOUT_ENTRY = frozenset({QUEUE, OVER})
"""They change with each job, which has its own journal entry."""
KEY = "0"
"""Key of a space's only queue, of its finished jobs, and of its spending history."""

MAINTENANCE = "maintenance"
"""The kind of the jobs that maintain turns."""

JobId = NewType("JobId", str)


class MaintenancePass(StrEnum):
    """The parts of maintenance, in the order they run."""

    SUMMARY = "summary"
    EXECUTION_STATE = "execution_state"
    GOVERNANCE = "governance"
    SKILL_REUSE = "skill_reuse"
    EXTRACTION = "extraction"
    HYGIENE = "hygiene"
    TASK_LEARNING = "task_learning"
    CAPSULES = "capsules"


class JobState(StrEnum):
    """State of a job."""

    PENDING = "pending"
    LEASED = "leased"
    RETRY_WAITING = "retry_waiting"
    BLOCKED = "blocked"
    """The day's budget is used up, or there is no model: it waits for either."""
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    DEAD_LETTER = "dead_letter"
    """It failed permanently; it stays listed and can be retried on request."""

    @property
    def is_active(self) -> bool:
        return self not in {JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD_LETTER}


class ModelUsage(Value):
    """Usage of model calls. `cost` is in millionths of the provider's currency, 0 if unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other_usage: "ModelUsage", /) -> "ModelUsage":
        """Return the sum of both."""
        return ModelUsage(**{name: count + getattr(other_usage, name) for name, count in self})

    def minus(self, earlier_usage: "ModelUsage", /) -> "ModelUsage":
        """Return the usage added since `earlier_usage`."""
        return ModelUsage(**{name: count - getattr(earlier_usage, name) for name, count in self})


NOTHING = ModelUsage()


class JobLease(Value):
    """Lease of a job: its worker, and its end."""

    holder: str
    until: Instant


class JobTerms(Value):
    """Terms of a job: its lease, and the longest wait between two attempts."""

    lease_ms: int = JOB_LEASE_MS
    wait_max_ms: int = limits.JOB_WAIT_MAX_MS


class Job(Value):
    """Work of one kind that belongs to a conversation: maintenance of some of its turns, or a host's runner."""

    channel: Name
    conversation: Name
    chat: Name | None = None
    agent: Name | None = None
    app: Name | None = None
    project: Name | None = None
    turns: Annotated[tuple[int, ...], Field(max_length=limits.MAINTAIN_TURNS)] = ()
    passes: tuple[MaintenancePass, ...] = tuple(MaintenancePass)
    state: JobState = JobState.PENDING
    made_at: Instant
    updated_at: Instant
    due_at: Instant
    attempts: int = 0
    lease: JobLease | None = None
    done: tuple[MaintenancePass, ...] = ()
    error: str = ""
    """Error key of the last attempt."""
    spent: ModelUsage = NOTHING
    kind: Name = MAINTENANCE
    payload: Annotated[str, Field(max_length=JOB_PAYLOAD_CHARS)] = ""
    """Input for a runner of another kind: ids and numbers, never words."""
    terms: JobTerms = JobTerms()

    def scope(self, space: Space, /) -> Scope:
        """Return the scope of the job's turns, in `space`."""
        return Scope(
            space=space,
            agent=self.agent,
            app=self.app,
            project=self.project,
            channel=self.channel,
            chat=self.chat,
            conversation=self.conversation,
        )


class QueuedJob(Value):
    """An unfinished job as the queue lists it: enough to choose the next one."""

    id: JobId
    conversation: ConversationTag
    state: JobState
    due_at: Instant
    """When it may next be leased; for a leased one, when its lease ends."""
    kind: Name = MAINTENANCE


class JobQueue(Value):
    """Jobs of a space: the unfinished ones, oldest first, and the last finished ones.

    They are two documents. That of the unfinished ones is there only while there are any, so that a store can list the
    spaces with work. That of the finished ones stays, and changes whenever the other one comes or goes.
    """

    active: tuple[QueuedJob, ...] = ()
    over: tuple[JobId, ...] = ()

    @property
    def due_at(self) -> Instant:
        """Return when the first unfinished job may be leased; there must be one."""
        return min(job.due_at for job in self.active)


class MaintainedTurns(Value):
    """Processed turns of a conversation: all up to `through`, and those of `beyond`."""

    through: int = 0
    beyond: tuple[int, ...] = ()
    noted: int = 0
    """The last turn whose days notes were written from."""
    by_rules: tuple[tuple[int, int], ...] = ()
    """First and last of each run of processed turns that still wait for a model."""

    def has(self, sequence: int, /) -> bool:
        """Return whether the turn was processed."""
        return sequence <= self.through or sequence in self.beyond

    def waits(self, sequence: int, /) -> bool:
        """Return whether only rules processed the turn, because there was no model."""
        return any(run_start <= sequence <= run_end for run_start, run_end in self.by_rules)

    def waiting(self) -> Iterator[int]:
        """Yield the turns that wait for a model, in order."""
        for run_start, run_end in self.by_rules:
            yield from range(run_start, run_end + 1)

    def put_off(self, sequence: int, /) -> "MaintainedTurns":
        """Return this with one more turn that waits for a model; beyond the limit the oldest runs are dropped."""
        runs: list[tuple[int, int]] = []
        # Neighbouring turns become one run, so that a long time without a model takes one entry.
        for run_start, run_end in sorted((*self._without(sequence), (sequence, sequence))):
            if runs and run_start <= runs[-1][1] + 1:
                runs[-1] = runs[-1][0], max(run_end, runs[-1][1])
            else:
                runs.append((run_start, run_end))
        return self.plus(sequence).model_copy(update={"by_rules": tuple(runs[-MAINTAIN_BEYOND:])})

    def plus(self, sequence: int, /) -> "MaintainedTurns":
        """Return this with one more turn that waits for nothing; beyond the limit the oldest gaps close."""
        if self.waits(sequence):
            return self.model_copy(update={"by_rules": self._without(sequence)})
        if self.has(sequence):
            return self
        later_sequences = sorted({*self.beyond, sequence})
        last_gapless = self.through
        while later_sequences and (later_sequences[0] == last_gapless + 1 or len(later_sequences) > MAINTAIN_BEYOND):
            last_gapless = later_sequences.pop(0)
        return self.model_copy(update={"through": last_gapless, "beyond": tuple(later_sequences)})

    def _without(self, sequence: int) -> tuple[tuple[int, int], ...]:
        """Return the runs without a turn."""
        remaining_runs = (
            remaining_run
            for run_start, run_end in self.by_rules
            for remaining_run in (
                [(run_start, run_end)]
                if not run_start <= sequence <= run_end
                else [(run_start, sequence - 1), (sequence + 1, run_end)]
            )
        )
        return tuple((run_start, run_end) for run_start, run_end in remaining_runs if run_start <= run_end)


class DaySpent(Value):
    """Usage of one day, in UTC."""

    day: int
    """Days since 1970-01-01."""
    spent: ModelUsage = NOTHING
    held_calls: int = 0
    held_tokens: int = 0
    """Reserved usage of running calls; a killed call's share counts until the day ends."""


class SpendingHistory(Value):
    """The last days with model calls, oldest first."""

    days: tuple[DaySpent, ...] = ()
