"""The repository of schedules: tasks for later, the rules for their times, and the job for the next time.

A rule names local times in a time zone. A time that the zone skips is due at the end of the gap; a time that occurs
twice is due only the first time. Coinciding times of one rule are due once.

The text of a schedule that a turn created is stored as a document of that turn. Erasing the message removes it, and a
schedule without its text has ended.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from elytron.jobs.queue import find_job, move_job, schedule_job
from elytron.runtime_records import RecordDraft
from elytron_agent import limits
from elytron_agent.runs.journal import MAIN
from elytron_agent.runs.thread_notes import AGENTS, MARK
from elytron_agent.service.companion import KnownAgent, UserAgents
from elytron_agent.service.wire import Zone
from elytron_core.clock import Instant, as_datetime
from elytron_core.errors import InvalidInput, LimitExceeded, MissingExtra, NotFound, PreconditionFailed
from elytron_core.model import Request, Value
from elytron_core.planes.jobs import JobTerms
from elytron_core.planes.records import copies_of_turn
from elytron_core.policy import job_states
from elytron_core.scope import Scope
from elytron_turn.context import time_zone

INTERVAL_MIN_S: Final = 60
SCHEDULE_MAX_MS: Final = 10 * 366 * 24 * 3_600_000
"""Latest first due time of a new schedule, from now."""
SCHEDULES_OVER: Final = 100
"""Number of finished schedules that are still listed."""
SCHEDULE_RUNS: Final = 20
"""Number of a schedule's latest runs that are listed."""


_MS: Final = 1_000
_CRON_FIELDS: Final = 5
_NO_CRON: Final = (
    "must be a cron line of five fields that can come due, such as `0 9 * * 1-5`, `*/15 8-18 * * *` or `30 7 1 * *`"
)


class WeekDay(StrEnum):
    """Day of the week."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"

    @property
    def number(self) -> int:
        return tuple(WeekDay).index(self)


def _clock_time(text: str) -> str:
    try:
        clock_time = time.fromisoformat(text)
    except ValueError:
        clock_time = None
    if clock_time is None or len(text) != len("09:00") or clock_time.tzinfo is not None:
        raise InvalidInput(field="time", problem="must be a time of day such as 09:00 or 18:30")
    return text


def _one_moment(text: str) -> str:
    try:
        year = datetime.fromisoformat(text).year
    except ValueError:
        year = 0
    # At both ends of the calendar, a local time may have no valid instant in some zones.
    if not MINYEAR < year < MAXYEAR:
        problem = "must be a date and time such as 2027-05-04T09:00, or with an offset 2027-05-04T09:00+02:00"
        raise InvalidInput(field="at", problem=problem)
    return text


def _cron_line(text: str) -> str:
    _cron_times(text, datetime(2000, 1, 1))  # noqa: DTZ001 - a time as clocks show it, of no zone
    return text


ClockTime = Annotated[str, Field(max_length=5), AfterValidator(_clock_time)]


class OneOffRule(Request):
    """Once, at a local time or at a time with an offset."""

    type: Literal["one_off"] = "one_off"
    at: Annotated[str, Field(max_length=40), AfterValidator(_one_moment)]


class IntervalRule(Request):
    """At an interval of seconds, counted from its creation."""

    type: Literal["interval"] = "interval"
    seconds: Annotated[int, Field(ge=INTERVAL_MIN_S, le=limits.INTERVAL_MAX_S)]


class DailyRule(Request):
    """Every day."""

    type: Literal["daily"] = "daily"
    time: ClockTime


class WeeklyRule(Request):
    """On some days of each week."""

    type: Literal["weekly"] = "weekly"
    days: Annotated[tuple[WeekDay, ...], Field(min_length=1, max_length=7)]
    time: ClockTime


class CronRule(Request):
    """By a cron line of five fields."""

    type: Literal["cron"] = "cron"
    line: Annotated[str, Field(max_length=limits.CRON_CHARS), AfterValidator(_cron_line)]


ScheduleRule = Annotated[OneOffRule | IntervalRule | DailyRule | WeeklyRule | CronRule, Field(discriminator="type")]


def due_after(rule: ScheduleRule, after: Instant, /, *, zone: str, made_at: Instant) -> Instant | None:
    """Return the first due time of a rule after `after`, or None if there is none. Raises InvalidInput."""
    if isinstance(rule, IntervalRule):
        period = rule.seconds * _MS
        period_count = max(1, (after - made_at) // period + 1)
        return Instant(made_at + period_count * period)
    local_zone = time_zone(zone)
    for local_due in _local_times(rule, as_datetime(after).astimezone(local_zone).replace(tzinfo=None)):
        # Around a change of the zone's offset, local times may again map to before `after`.
        due_at = instant_in(local_due, local_zone)
        if due_at > after:
            return due_at
    return None


def instant_in(local: datetime, zone: tzinfo, /) -> Instant:
    """Return the instant of a local time in a zone. A time with its own offset is converted as it is."""
    if local.tzinfo is not None:
        return _utc_instant(local)
    first_instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if first_instant.astimezone(zone).replace(tzinfo=None) == local:
        return _utc_instant(first_instant)
    # The zone skips this time. Its offsets on both sides of the gap give one instant before and one after it.
    second_instant = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    instant_before, instant_after = sorted((first_instant, second_instant))
    offset = instant_before.astimezone(zone).utcoffset()
    while instant_after - instant_before > timedelta(seconds=1):
        middle_instant = instant_before + (instant_after - instant_before) // 2
        if middle_instant.astimezone(zone).utcoffset() == offset:
            instant_before = middle_instant
        else:
            instant_after = middle_instant
    return _utc_instant(instant_after.replace(microsecond=0))


def require_rule(rule: ScheduleRule, now: Instant, /, *, zone: str) -> Instant:
    """Return the first due time of a new rule. Raises InvalidInput if it is never due, or not within ten years."""
    due_at = due_after(rule, now, zone=zone, made_at=now)
    if due_at is None:
        problem = "is in the past" if isinstance(rule, OneOffRule) else "is never due"
        raise InvalidInput(field="rule", problem=problem)
    if due_at > now + SCHEDULE_MAX_MS:
        raise InvalidInput(field="rule", problem="is not due within the next ten years")
    return due_at


def _local_times(rule: OneOffRule | DailyRule | WeeklyRule | CronRule, begin: datetime) -> Iterator[datetime]:
    """Yield the local times of a rule from `begin` on."""
    match rule:
        case OneOffRule():
            yield datetime.fromisoformat(rule.at)
        case DailyRule():
            yield from _times_of_days(begin.date(), frozenset(range(7)), rule.time)
        case WeeklyRule():
            yield from _times_of_days(begin.date(), frozenset(day.number for day in rule.days), rule.time)
        case CronRule():
            yield from _cron_times(rule.line, begin - timedelta(minutes=1))


def _times_of_days(first: date, days: frozenset[int], at: str) -> Iterator[datetime]:
    clock_time = time.fromisoformat(at)
    # Two weeks contain each weekday twice, so there is also one after a day that a zone skips or repeats.
    for number in range(15):
        day = first + timedelta(days=number)
        if day.weekday() in days:
            yield datetime.combine(day, clock_time)


def _cron_times(line: str, begin: datetime) -> Iterator[datetime]:
    """Yield the times of a cron line after `begin`. Raises InvalidInput for an invalid line."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise MissingExtra(extra="agent", purpose="a cron line", packages=("cronsim",)) from None
    if len(line.split()) != _CRON_FIELDS:
        raise InvalidInput(field="line", problem=_NO_CRON)
    try:
        return iter(CronSim(line, begin))
    except CronSimError:
        raise InvalidInput(field="line", problem=_NO_CRON) from None


def _utc_instant(moment: datetime) -> Instant:
    return Instant(round(moment.timestamp() * _MS))


KIND: Final = "agent_schedule"
"""Kind of the jobs that run due schedules."""
TERMS: Final = JobTerms(lease_ms=limits.SCHEDULE_LEASE_MS, wait_max_ms=limits.SCHEDULE_WAIT_MAX_MS)
_WORDS: Final = f"{MARK}schedule."
_OWN: Final = (AGENTS, MAIN, "schedule_words")


class ScheduleRequest(Request):
    """Schedule a task for an agent, once or repeatedly."""

    name: Annotated[str, Field(max_length=limits.SCHEDULE_NAME_CHARS)] = ""
    task: Annotated[str, Field(min_length=1, max_length=limits.SCHEDULE_TASK_CHARS)]
    """Instruction for the agent at that time."""
    rule: ScheduleRule
    timezone: Zone | None = None
    """Time zone of the rule; by default the user's current one, even if it changes later."""
    agent_id: str | None = None
    """Agent that performs the task; by default the main agent."""


class ScheduleState(StrEnum):
    """State of a schedule."""

    ACTIVE = "active"
    OVER = "over"


class RunState(StrEnum):
    """State of one run of a schedule. The last three are final."""

    PENDING = "pending"
    RUNNING = "running"
    RETRY = "retry"
    """The latest attempt failed, and another one follows."""
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    """It did not start in time, because no server was running or the user's agent was off."""


class ScheduleRun(Value):
    """A run of a schedule."""

    due_at: Instant
    state: RunState
    attempts: int = 0
    run_id: str | None = None
    ended_at: Instant | None = None
    error: str | None = None


class StoredSchedule(Value):
    """A stored schedule without its text."""

    id: str
    agent_id: str
    thread: str
    rule: ScheduleRule
    timezone: str | None = None
    made_at: Instant
    created_by: str = "user"
    source_run: str | None = None
    """Turn in which the agent created it."""
    state: ScheduleState = ScheduleState.ACTIVE
    next_due: Instant | None = None
    current: ScheduleRun | None = None
    """The run that is active or waits for another attempt."""
    runs: Annotated[tuple[ScheduleRun, ...], Field(max_length=SCHEDULE_RUNS)] = ()
    completed: int = 0
    failed: int = 0
    expired: int = 0

    def ended(self, run: ScheduleRun, /) -> "StoredSchedule":
        """Return the schedule with a finished run added."""
        state_counts = {run.state.value: getattr(self, run.state.value) + 1}
        runs = (*self.runs, run)[-SCHEDULE_RUNS:]
        return self.model_copy(update={**state_counts, "runs": runs, "current": None})


class ScheduleWords(Value):
    """The text of a schedule."""

    name: str = ""
    task: str


class KnownSchedule(Value):
    """A schedule with its text and its version."""

    stored: StoredSchedule
    words: ScheduleWords
    version: int


class ScheduleRepository:
    """The schedules of one user."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._context = user.memory.context

    async def create(
        self, request: ScheduleRequest, agent: KnownAgent, /, *, source_run: str | None = None
    ) -> KnownSchedule:
        """Store a schedule with the job for its first time. Raises InvalidInput, LimitExceeded."""
        now = self._context.clock.now()
        zone = request.timezone or (await self._user.preferences()).timezone
        due_at = require_rule(request.rule, now, zone=zone)
        schedule = StoredSchedule(
            id=self._context.ids.new() if source_run is None else _own_id(source_run, request),
            agent_id=agent.id,
            thread=agent.name,
            rule=request.rule,
            timezone=request.timezone,
            made_at=now,
            created_by="user" if source_run is None else "agent",
            source_run=source_run,
            next_due=due_at,
        )
        schedule_words = ScheduleWords(name=request.name, task=request.task)
        # Store the job first: a job without a schedule does nothing, but a schedule without a job would never be due.
        await self._put_job(schedule)
        drafts = (
            RecordDraft(
                _schedule_namespace(), schedule.id, _stored_form(schedule), text="a schedule", expected_version=0
            ),
            RecordDraft(*self._words_place(schedule), _stored_form(schedule_words), text="a schedule"),
        )
        try:
            await self._user.records.put_all(drafts)
        except PreconditionFailed:
            return await self.read(schedule.id)  # a call of the tool that is repeated after a crash
        return KnownSchedule(stored=schedule, words=schedule_words, version=1)

    async def list(self) -> Sequence[KnownSchedule]:
        """Return the schedules: active ones by their next time, then finished ones."""
        stored_schedules = [
            (StoredSchedule.model_validate(record.value), record.version)
            async for record in self._user.records.below(_schedule_namespace())
        ]
        # The user's own are read in one scan, those created by turns each with its turn.
        own_words = {
            record.key: ScheduleWords.model_validate(record.value) async for record in self._user.records.below(_OWN)
        }
        schedules: list[KnownSchedule] = []
        for stored_schedule, version in stored_schedules:
            schedule_words = (
                own_words.get(stored_schedule.id)
                if stored_schedule.source_run is None
                else await self._words(stored_schedule)
            )
            if schedule_words is not None:
                schedules.append(KnownSchedule(stored=stored_schedule, words=schedule_words, version=version))
        return sorted(
            schedules,
            key=lambda schedule: (schedule.stored.next_due is None, schedule.stored.next_due or 0, schedule.stored.id),
        )

    async def read(self, schedule_id: str, /) -> KnownSchedule:
        """Return a schedule. Raises NotFound, also if its text was erased."""
        record = await self._user.records.get(_schedule_namespace(), schedule_id) if _is_name(schedule_id) else None
        if record is not None:
            stored_schedule = StoredSchedule.model_validate(record.value)
            schedule_words = await self._words(stored_schedule)
            if schedule_words is not None:
                return KnownSchedule(stored=stored_schedule, words=schedule_words, version=record.version)
        raise NotFound(what="schedule", name=schedule_id)

    async def cancel(self, schedule_id: str, /) -> KnownSchedule:
        """Remove a schedule with its text. A run that is active continues. Raises NotFound."""
        schedule = await self.read(schedule_id)
        await self._cancel_job(schedule.stored)
        await self._erase(schedule.stored)
        return schedule

    async def cancel_all(self, *, thread: str | None = None) -> None:
        """Remove the schedules of a thread, or all for None."""
        for schedule in await self.list():
            if thread is None or schedule.stored.thread == thread:
                await self._cancel_job(schedule.stored)
                await self._erase(schedule.stored)

    async def change(self, schedule_id: str, change: Callable[[StoredSchedule], StoredSchedule], /) -> StoredSchedule:
        """Apply `change` to a schedule and store it, with a job for its next time. Raises NotFound."""
        while True:
            record = await self._user.records.get(_schedule_namespace(), schedule_id)
            if record is None:
                raise NotFound(what="schedule", name=schedule_id)
            schedule_before = StoredSchedule.model_validate(record.value)
            new_schedule = change(schedule_before)
            if new_schedule == schedule_before:
                return new_schedule
            # Store the job first, as when the schedule was created.
            if new_schedule.next_due is not None and new_schedule.next_due != schedule_before.next_due:
                await self._put_job(new_schedule)
            try:
                await self._user.records.put(
                    _schedule_namespace(),
                    schedule_id,
                    _stored_form(new_schedule),
                    text="a schedule",
                    expected_version=record.version,
                )
            except PreconditionFailed:
                continue
            return new_schedule

    async def advance(self, schedule_id: str, run: ScheduleRun, /) -> StoredSchedule:
        """Store the end of a run and the next due time, which is never in the past even if this run was late."""
        zone = (await self._user.preferences()).timezone
        now = self._context.clock.now()

        def ended(stored: StoredSchedule) -> StoredSchedule:
            # If the call is repeated, the schedule has already advanced.
            if stored.next_due != run.due_at:
                return stored
            due_at = due_after(stored.rule, max(now, run.due_at), zone=stored.timezone or zone, made_at=stored.made_at)
            state = ScheduleState.ACTIVE if due_at is not None else ScheduleState.OVER
            return stored.ended(run).model_copy(update={"next_due": due_at, "state": state})

        schedule = await self.change(schedule_id, ended)
        if schedule.state is ScheduleState.OVER:
            await self._drop_oldest()
        return schedule

    async def follow_zone(self) -> None:
        """Recompute the due times of schedules that follow the user's time zone."""
        zone, now = (await self._user.preferences()).timezone, self._context.clock.now()
        for schedule in await self.list():
            stored_schedule = schedule.stored
            if (
                stored_schedule.timezone is None
                and stored_schedule.next_due is not None
                and stored_schedule.current is None
            ):
                due_at = due_after(stored_schedule.rule, now, zone=zone, made_at=stored_schedule.made_at)
                if due_at is not None and due_at != stored_schedule.next_due:
                    await self.change(
                        stored_schedule.id, lambda each, due_at=due_at: each.model_copy(update={"next_due": due_at})
                    )
                    # Cancel the old job last. If it remains, it finds the schedule due at another time and does
                    # nothing.
                    await self._cancel_job(stored_schedule)

    async def repair(self) -> Sequence[StoredSchedule]:
        """Recreate missing jobs of active schedules, which a crash may have prevented.

        Returns the schedules whose jobs have ended, which must be given up.
        """
        ended_schedules: list[StoredSchedule] = []
        for schedule in await self.list():
            stored_schedule = schedule.stored
            if stored_schedule.state is not ScheduleState.ACTIVE or stored_schedule.next_due is None:
                continue
            job = await find_job(
                self._context, self._user.space, KIND, job_name(stored_schedule.id, stored_schedule.next_due)
            )
            if job is None:
                await self._put_job(stored_schedule)
            elif not job.job.state.is_active:
                ended_schedules.append(stored_schedule)
        return ended_schedules

    async def stored(self, schedule_id: str, /) -> StoredSchedule:
        """Return a stored schedule, even if its text was erased. Raises NotFound."""
        record = await self._user.records.get(_schedule_namespace(), schedule_id)
        if record is None:
            raise NotFound(what="schedule", name=schedule_id)
        return StoredSchedule.model_validate(record.value)

    async def give_up(self, stored: StoredSchedule, due_at: Instant, /, *, is_done: bool) -> None:
        """Store the outcome of a run without further attempts: completed if `is_done`, else failed."""
        current_run = stored.current or ScheduleRun(due_at=due_at, state=RunState.FAILED)
        outcome_fields: dict[str, object] = {"state": RunState.COMPLETED, "error": None}
        if not is_done:
            outcome_fields = {"state": RunState.FAILED, "error": current_run.error or job_states.NEVER_ENDED}
        run = current_run.model_copy(update={**outcome_fields, "ended_at": self._context.clock.now()})
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
        """Cancel the job for a schedule's next time, unless a worker has taken it."""
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
                    # Check again inside the change, because a worker may have taken the job meanwhile.
                    job_states.cancel_job(each, at=now) if each.state.is_active and each.lease is None else None
                ),
            )

    async def _words(self, stored: StoredSchedule) -> ScheduleWords | None:
        record = await self._user.records.get(*self._words_place(stored))
        return ScheduleWords.model_validate(record.value) if record is not None else None

    def _words_place(self, stored: StoredSchedule) -> tuple[tuple[str, ...], str]:
        if stored.source_run is None:
            return _OWN, stored.id
        return copies_of_turn(stored.source_run, stored.thread), f"{_WORDS}{stored.id}"

    async def _erase(self, *schedules: StoredSchedule) -> None:
        document_places = [(_schedule_namespace(), schedule.id) for schedule in schedules] + [
            self._words_place(schedule) for schedule in schedules
        ]
        records = [await self._user.records.get(*document_place) for document_place in document_places]
        await self._user.records.erase(record for record in records if record is not None)

    async def _drop_oldest(self) -> None:
        """Erase the oldest finished schedules if there are too many."""
        schedule_count = len([schedule async for schedule in self._user.records.below(_schedule_namespace())])
        if schedule_count <= SCHEDULES_OVER:
            return
        over_schedules = [
            schedule.stored for schedule in await self.list() if schedule.stored.state is ScheduleState.OVER
        ]
        if len(over_schedules) > SCHEDULES_OVER:
            oldest_schedules = sorted(
                over_schedules, key=lambda schedule: schedule.runs[-1].due_at if schedule.runs else schedule.made_at
            )
            # Erase half of them in one step, so that not every end of a run erases one.
            await self._erase(*oldest_schedules[: len(over_schedules) // 2])

    def _full(self) -> LimitExceeded:
        from elytron_core import limits as core_limits

        max_active = core_limits.JOBS_ACTIVE_OF_KIND
        return LimitExceeded(what="active schedules per user", limit=max_active, found=max_active + 1)


def job_name(schedule_id: str, due_at: Instant, /) -> str:
    """Return the name of the job for one due time of a schedule, which has only one."""
    return f"{schedule_id}/{due_at}"


def run_name(schedule_id: str, due_at: Instant, attempt: int, /) -> str:
    """Return the id of the run for one attempt at a due time, which has only one."""
    digest = hashlib.sha256(f"{schedule_id}/{due_at}/{attempt}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def _own_id(source_run: str, request: ScheduleRequest) -> str:
    """Return the id of a schedule created by a turn. Repeating the tool call gives the same id."""
    digest = hashlib.sha256(f"{source_run}/{request.model_dump_json()}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=5))


def _is_name(text: str) -> bool:
    return 0 < len(text) <= len("00000000-0000-0000-0000-000000000000")


def _schedule_namespace() -> tuple[str, ...]:
    return (AGENTS, MAIN, "schedules")


def _stored_form(value: Value) -> Any:
    return value.model_dump(mode="json", exclude_none=True)
