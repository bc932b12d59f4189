"""Jobs: list, run, retry and cancel deferred work."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes.jobs import MAINTENANCE, NOTHING, JobId, JobState, MaintenancePass, ModelUsage
from elytron_core.scope import PageLimit, ScopedRequest

__all__ = [
    "JobCancelRequest",
    "JobListReport",
    "JobListRequest",
    "JobReport",
    "JobRetryRequest",
    "JobRunReport",
    "JobRunRequest",
]


JobName = Annotated[str, Field(pattern=r"^[0-9a-f]{1,96}$")]


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
