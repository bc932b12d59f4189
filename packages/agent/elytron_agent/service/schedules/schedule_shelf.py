"""The shelf of schedules: what a user's agents are to do later, each with one job for the time at which it is due next.

The words of a schedule that a turn made are a document of that turn: an erasure of the message takes them along, and a
schedule without its words is over.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import Field

from elytron.jobs.queue import find_job, move_job, schedule_job
from elytron.runtime_records import RecordDraft
from elytron_agent.runs.journal import AGENTS, MAIN, MARK
from elytron_agent.service import limits
from elytron_agent.service.companion import KnownAgent, UserAgents
from elytron_agent.service.schedules.schedule_times import ScheduleRule, due_after, require_rule
from elytron_agent.service.wire import Zone
from elytron_core.clock import Instant
from elytron_core.errors import LimitExceeded, NotFound, PreconditionFailed
from elytron_core.model import Request, Value
from elytron_core.planes.jobs import JobTerms
from elytron_core.planes.records import copies_of_turn
from elytron_core.policy import maintenance
from elytron_core.scope import Scope

KIND: Final = "agent_schedule"
"""Kind of the jobs of schedules that are due."""
TERMS: Final = JobTerms(lease_ms=limits.SCHEDULE_LEASE_MS, wait_max_ms=limits.SCHEDULE_WAIT_MAX_MS)
_WORDS: Final = f"{MARK}schedule."
_OWN: Final = (AGENTS, MAIN, "schedule_words")


class ScheduleRequest(Request):
    """Have an agent do something later, or again and again."""

    name: Annotated[str, Field(max_length=limits.SCHEDULE_NAME_CHARS)] = ""
    task: Annotated[str, Field(min_length=1, max_length=limits.SCHEDULE_TASK_CHARS)]
    """Instruction for the agent at that time."""
    rule: ScheduleRule
    timezone: Zone | None = None
    """Zone of the rule's times; without one, the user's, also after a change of it."""
    agent_id: str | None = None
    """Agent that does it; without one, the main agent."""


class ScheduleState(StrEnum):
    """State of a schedule."""

    ACTIVE = "active"
    OVER = "over"


class RunState(StrEnum):
    """State of one run of a schedule. Each ends as one of the last three."""

    PENDING = "pending"
    RUNNING = "running"
    RETRY = "retry"
    """The latest attempt failed, and there is another one."""
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    """It was not begun in time: no server ran then, or the user's agent was off."""


class ScheduleRun(Value):
    """A run of a schedule."""

    due_at: Instant
    state: RunState
    attempts: int = 0
    run_id: str | None = None
    ended_at: Instant | None = None
    error: str | None = None


class StoredSchedule(Value):
    """A schedule as it is stored, without its words."""

    id: str
    agent_id: str
    thread: str
    rule: ScheduleRule
    timezone: str | None = None
    made_at: Instant
    created_by: str = "user"
    source_run: str | None = None
    """Turn in which the agent made it."""
    state: ScheduleState = ScheduleState.ACTIVE
    next_due: Instant | None = None
    current: ScheduleRun | None = None
    """The run that is under way, or waits for another attempt."""
    runs: Annotated[tuple[ScheduleRun, ...], Field(max_length=limits.SCHEDULE_RUNS)] = ()
    completed: int = 0
    failed: int = 0
    expired: int = 0

    def ended(self, run: ScheduleRun, /) -> "StoredSchedule":
        """Return the schedule with a run that is over."""
        counted = {run.state.value: getattr(self, run.state.value) + 1}
        runs = (*self.runs, run)[-limits.SCHEDULE_RUNS :]
        return self.model_copy(update={**counted, "runs": runs, "current": None})


class ScheduleWords(Value):
    """The words of a schedule."""

    name: str = ""
    task: str


class KnownSchedule(Value):
    """A schedule with its words and its version."""

    stored: StoredSchedule
    words: ScheduleWords
    version: int


class ScheduleShelf:
    """The schedules of one user."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._context = user.memory.context

    async def create(
        self, asked: ScheduleRequest, known: KnownAgent, /, *, source_run: str | None = None
    ) -> KnownSchedule:
        """Store a schedule with the job of its first time. Raises InvalidInput, LimitExceeded."""
        now = self._context.clock.now()
        zone = asked.timezone or (await self._user.preferences()).timezone
        due = require_rule(asked.rule, now, zone=zone)
        made = StoredSchedule(
            id=self._context.ids.new() if source_run is None else _own_id(source_run, asked),
            agent_id=known.id,
            thread=known.name,
            rule=asked.rule,
            timezone=asked.timezone,
            made_at=now,
            created_by="user" if source_run is None else "agent",
            source_run=source_run,
            next_due=due,
        )
        words = ScheduleWords(name=asked.name, task=asked.task)
        # The job first: one that finds no schedule does nothing, and a schedule without a job would never be due.
        await self._put_job(made)
        drafts = (
            RecordDraft(_shelf_place(), made.id, _stored_form(made), text="a schedule", expected_version=0),
            RecordDraft(*self._words_place(made), _stored_form(words), text="a schedule"),
        )
        try:
            await self._user.records.put_all(drafts)
        except PreconditionFailed:
            return await self.read(made.id)  # a call of the tool that is repeated after a crash
        return KnownSchedule(stored=made, words=words, version=1)

    async def list(self) -> Sequence[KnownSchedule]:
        """Return the schedules, those that are due next first, then those that are over."""
        found = [
            (StoredSchedule.model_validate(each.value), each.version)
            async for each in self._user.records.below(_shelf_place())
        ]
        # Those of the user are read at once, those of turns each with its turn.
        own = {each.key: ScheduleWords.model_validate(each.value) async for each in self._user.records.below(_OWN)}
        known: list[KnownSchedule] = []
        for stored, version in found:
            words = own.get(stored.id) if stored.source_run is None else await self._words(stored)
            if words is not None:
                known.append(KnownSchedule(stored=stored, words=words, version=version))
        return sorted(known, key=lambda each: (each.stored.next_due is None, each.stored.next_due or 0, each.stored.id))

    async def read(self, schedule_id: str, /) -> KnownSchedule:
        """Return a schedule. Raises NotFound, also for one whose words were erased."""
        found = await self._user.records.get(_shelf_place(), schedule_id) if _is_name(schedule_id) else None
        if found is not None:
            stored = StoredSchedule.model_validate(found.value)
            words = await self._words(stored)
            if words is not None:
                return KnownSchedule(stored=stored, words=words, version=found.version)
        raise NotFound(what="schedule", name=schedule_id)

    async def cancel(self, schedule_id: str, /) -> KnownSchedule:
        """Remove a schedule with its words; a run of it that is under way goes on. Raises NotFound."""
        known = await self.read(schedule_id)
        await self._cancel_job(known.stored)
        await self._erase(known.stored)
        return known

    async def cancel_all(self, *, thread: str | None = None) -> None:
        """Remove the schedules of a thread; None: all."""
        for known in await self.list():
            if thread is None or known.stored.thread == thread:
                await self._cancel_job(known.stored)
                await self._erase(known.stored)

    async def change(self, schedule_id: str, change: Callable[[StoredSchedule], StoredSchedule], /) -> StoredSchedule:
        """Store what `change` makes of a schedule, with the job of the time that it is due then. Raises NotFound."""
        while True:
            found = await self._user.records.get(_shelf_place(), schedule_id)
            if found is None:
                raise NotFound(what="schedule", name=schedule_id)
            before = StoredSchedule.model_validate(found.value)
            made = change(before)
            if made == before:
                return made
            if made.next_due is not None and made.next_due != before.next_due:
                await self._put_job(made)
            try:
                await self._user.records.put(
                    _shelf_place(), schedule_id, _stored_form(made), text="a schedule", expected_version=found.version
                )
            except PreconditionFailed:
                continue
            return made

    async def advance(self, schedule_id: str, run: ScheduleRun, /) -> StoredSchedule:
        """Store the end of a run, and when the schedule is due next: not before now, however late this run was."""
        zone = (await self._user.preferences()).timezone
        now = self._context.clock.now()

        def ended(stored: StoredSchedule) -> StoredSchedule:
            if stored.next_due != run.due_at:
                return stored
            due = due_after(stored.rule, max(now, run.due_at), zone=stored.timezone or zone, made_at=stored.made_at)
            state = ScheduleState.ACTIVE if due is not None else ScheduleState.OVER
            return stored.ended(run).model_copy(update={"next_due": due, "state": state})

        made = await self.change(schedule_id, ended)
        if made.state is ScheduleState.OVER:
            await self._drop_oldest()
        return made

    async def follow_zone(self) -> None:
        """Have the schedules that follow the user's zone be due by the zone that it is now."""
        zone, now = (await self._user.preferences()).timezone, self._context.clock.now()
        for known in await self.list():
            stored = known.stored
            if stored.timezone is None and stored.next_due is not None and stored.current is None:
                due = due_after(stored.rule, now, zone=zone, made_at=stored.made_at)
                if due is not None and due != stored.next_due:
                    await self.change(stored.id, lambda each, due=due: each.model_copy(update={"next_due": due}))
                    await self._cancel_job(stored)

    async def repair(self) -> Sequence[StoredSchedule]:
        """Give each active schedule its job again: a process may have died before it did.

        Return the schedules whose jobs are over, which are to be given up.
        """
        over: list[StoredSchedule] = []
        for known in await self.list():
            stored = known.stored
            if stored.state is not ScheduleState.ACTIVE or stored.next_due is None:
                continue
            job = await find_job(self._context, self._user.space, KIND, job_name(stored.id, stored.next_due))
            if job is None:
                await self._put_job(stored)
            elif not job.job.state.is_active:
                over.append(stored)
        return over

    async def stored(self, schedule_id: str, /) -> StoredSchedule:
        """Return a schedule as it is stored, also one whose words were erased. Raises NotFound."""
        found = await self._user.records.get(_shelf_place(), schedule_id)
        if found is None:
            raise NotFound(what="schedule", name=schedule_id)
        return StoredSchedule.model_validate(found.value)

    async def give_up(self, stored: StoredSchedule, due_at: Instant, /, *, is_done: bool) -> None:
        """Store how a run ended of which there is no further attempt: completed if its turn is, else failed."""
        begun = stored.current or ScheduleRun(due_at=due_at, state=RunState.FAILED)
        made: dict[str, object] = {"state": RunState.COMPLETED, "error": None}
        if not is_done:
            made = {"state": RunState.FAILED, "error": begun.error or maintenance.NEVER_ENDED}
        run = begun.model_copy(update={**made, "ended_at": self._context.clock.now()})
        await self.advance(stored.id, run)

    async def _put_job(self, stored: StoredSchedule) -> None:
        assert stored.next_due is not None
        scope = Scope.model_validate(self._user.scope.model_dump() | {"agent": MAIN, "conversation": stored.thread})
        payload = json.dumps({"schedule": stored.id, "due": stored.next_due})
        name = job_name(stored.id, stored.next_due)
        job = await schedule_job(self._context, scope, KIND, name, payload, due_at=stored.next_due, terms=TERMS)
        if job is None:
            raise self._full()

    async def _cancel_job(self, stored: StoredSchedule) -> None:
        """End the job of the time at which a schedule is due next, if it was not taken yet."""
        if stored.next_due is None:
            return
        job = await find_job(self._context, self._user.space, KIND, job_name(stored.id, stored.next_due))
        now = self._context.clock.now()
        if job is not None and job.job.state.is_active and job.job.lease is None:
            await move_job(
                self._context,
                self._user.space,
                job.id,
                lambda each: (
                    maintenance.cancel_job(each, at=now) if each.state.is_active and each.lease is None else None
                ),
            )

    async def _words(self, stored: StoredSchedule) -> ScheduleWords | None:
        found = await self._user.records.get(*self._words_place(stored))
        return ScheduleWords.model_validate(found.value) if found is not None else None

    def _words_place(self, stored: StoredSchedule) -> tuple[tuple[str, ...], str]:
        if stored.source_run is None:
            return _OWN, stored.id
        return copies_of_turn(stored.source_run, stored.thread), f"{_WORDS}{stored.id}"

    async def _erase(self, *schedules: StoredSchedule) -> None:
        places = [(_shelf_place(), each.id) for each in schedules] + [self._words_place(each) for each in schedules]
        found = [await self._user.records.get(*place) for place in places]
        await self._user.records.erase(each for each in found if each is not None)

    async def _drop_oldest(self) -> None:
        """Erase the oldest of those that are over, if there are too many of them."""
        count = len([each async for each in self._user.records.below(_shelf_place())])
        if count <= limits.SCHEDULES_OVER:
            return
        over = [each.stored for each in await self.list() if each.stored.state is ScheduleState.OVER]
        if len(over) > limits.SCHEDULES_OVER:
            oldest = sorted(over, key=lambda each: each.runs[-1].due_at if each.runs else each.made_at)
            await self._erase(*oldest[: len(over) // 2])

    def _full(self) -> LimitExceeded:
        from elytron_core import limits as core_limits

        most = core_limits.JOBS_ACTIVE_OF_KIND
        return LimitExceeded(what="active schedules of a user", limit=most, found=most + 1)


def job_name(schedule_id: str, due_at: Instant, /) -> str:
    """Return the name of the job for one time of a schedule: there is one job for each."""
    return f"{schedule_id}/{due_at}"


def run_name(schedule_id: str, due_at: Instant, attempt: int, /) -> str:
    """Return the name of the agent's run for an attempt at one time of a schedule: there is one run for each."""
    digest = hashlib.sha256(f"{schedule_id}/{due_at}/{attempt}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def _own_id(source_run: str, asked: ScheduleRequest) -> str:
    """Return the id of a schedule that a turn makes: the same call of the tool makes the same one."""
    digest = hashlib.sha256(f"{source_run}/{asked.model_dump_json()}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def _is_name(text: str) -> bool:
    return 0 < len(text) <= len("00000000-0000-0000-0000-000000000000")


def _shelf_place() -> tuple[str, ...]:
    return (AGENTS, MAIN, "schedules")


def _stored_form(value: Value) -> Any:
    return value.model_dump(mode="json", exclude_none=True)
