"""The agent's side of schedules: the runner for due schedules, and the tools that create them.

Only the user's own words may ask for a schedule. Recalled text, outside text and other schedules may not, because a
schedule acts later, when no one is watching.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from functools import cache
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from elytron.context import Beat, JobBlocked, OperationContext
from elytron_agent import limits
from elytron_agent.loop.tools import MemoryMode
from elytron_agent.runs.events import ANSWERS, StopReason
from elytron_agent.runs.journal import RunRecord
from elytron_agent.service.chat_turn import TurnRequest, TurnService
from elytron_agent.service.companion import KnownAgent, ServiceSettings, UserAgents
from elytron_agent.service.events import FeedEvent
from elytron_agent.service.schedules.schedule_repository import (
    ClockTime,
    CronRule,
    DailyRule,
    IntervalRule,
    KnownSchedule,
    OneOffRule,
    RunState,
    ScheduleRepository,
    ScheduleRequest,
    ScheduleRule,
    ScheduleRun,
    StoredSchedule,
    WeekDay,
    WeeklyRule,
    run_name,
)
from elytron_agent.service.wire import AgentEventKind, Zone
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.errors import AgentDisabled, InvalidInput, ModelUnavailable, NotFound, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope
from elytron_core.text.analyser import TextAnalyser
from elytron_turn.context import local_time

SCHEDULE_BEAT_S: Final = 30.0
SCHEDULE_STALE_MS: Final = 15 * 60_000
"""Age of a due time after which a schedule that was not started has expired."""
SCHEDULE_OFF_MS: Final = 60_000
"""How often a due schedule checks whether its user's agent is on again."""


logger = logging.getLogger(__name__)
_AGAIN: Final = frozenset({StopReason.FAILED.value, "thread_busy", "overloaded", "store_unavailable", "store_busy"})
"""Error codes of turns for which another attempt may succeed."""
_SWEEP_EVERY: Final = 12
"""Number of polling rounds between searches of all spaces for schedules created by other processes."""


class DueTime(NamedTuple):
    """One due time of a schedule."""

    schedule: str
    at: Instant


class DueRun(NamedTuple):
    """A due time that is to be run now."""

    user: UserAgents
    agent: KnownAgent
    repository: ScheduleRepository
    schedule: KnownSchedule
    time: DueTime


class ScheduleRunner:
    """Run the jobs of schedules, each for one due time of one schedule."""

    def __init__(self, context: OperationContext, settings: ServiceSettings, turn_service: TurnService, /) -> None:
        self._context = context
        self._settings = settings
        self._turn_service = turn_service

    async def run(self, scope: Scope, payload: str, beat: Beat, /) -> None:
        """Run a due schedule and keep its lease. Raises JobBlocked while the agent is off, ElytronError on failure."""
        due_time = due_time_of(payload)
        user = self._user(scope.space)
        repository = ScheduleRepository(user)
        try:
            schedule = await repository.read(due_time.schedule)
            agent = await user.agent(schedule.stored.agent_id)
        except AgentDisabled:
            raise JobBlocked(Instant(self._context.clock.now() + SCHEDULE_OFF_MS), "agent_disabled") from None
        except NotFound:
            return  # it was cancelled, or its text or its agent was erased
        if schedule.stored.next_due != due_time.at:
            return  # it is now due at another time
        now = self._context.clock.now()
        # In a locked space, lateness is counted from the moment the user opened the space.
        due_since = max(due_time.at, self._context.secrets.opened_at(scope.space))
        if schedule.stored.current is None and now > due_since + SCHEDULE_STALE_MS:
            await repository.advance(
                due_time.schedule, ScheduleRun(due_at=due_time.at, state=RunState.EXPIRED, ended_at=now)
            )
            return
        await self._attempt(DueRun(user, agent, repository, schedule, due_time), beat)

    async def give_up(self, space: SpaceId, payload: str, /) -> None:
        """Store the outcome of a due time whose job failed, or was taken too often without ending."""
        await self._give_up(space, due_time_of(payload))

    async def repair(self, space: SpaceId, /) -> None:
        """Recreate missing jobs of a space's schedules."""
        for stored in await ScheduleRepository(self._user(space)).repair():
            if stored.next_due is not None:
                await self._give_up(space, DueTime(stored.id, stored.next_due))

    async def _give_up(self, space: SpaceId, due_time: DueTime) -> None:
        user = self._user(space)
        repository = ScheduleRepository(user)
        with suppress(NotFound):
            stored_schedule = await repository.stored(due_time.schedule)
            if stored_schedule.next_due == due_time.at:
                await repository.give_up(
                    stored_schedule, due_time.at, is_done=await self._is_done(user, stored_schedule)
                )

    async def _is_done(self, user: UserAgents, stored: StoredSchedule) -> bool:
        """Return whether the turn of the last attempt gave an answer, which may have happened after its job ended.

        An unfinished turn is cancelled, so that a schedule cannot be both failed and completed.
        """
        run = stored.current
        if run is None or run.state is not RunState.RUNNING or run.run_id is None:
            return False
        main_agent = await user.main()
        agent = (
            main_agent if stored.agent_id == main_agent.id else await user.subagent(stored.agent_id, main=main_agent)
        )
        end_event = await self._turn_service.settle(user, agent, run.run_id)
        return end_event is not None and end_event.reason in ANSWERS

    async def _attempt(self, work: DueRun, beat: Beat) -> None:
        repository, due_time, schedule_words = work.repository, work.time, work.schedule.words
        stored = await repository.change(
            due_time.schedule, lambda stored_schedule: _begin_run(stored_schedule, due_time)
        )
        run = stored.current
        assert run is not None
        text = (
            f"A schedule is due: {schedule_words.name or 'no name'}. Do this now, and write to the user:"
            f"\n{schedule_words.task}"
        )

        async def is_wanted() -> bool:
            # Another process may have given up this run while it waited for its thread.
            try:
                current_run = (await repository.stored(due_time.schedule)).current
            except NotFound:
                return False
            return current_run is not None and current_run.run_id == run.run_id

        request = TurnRequest(text, run=run.run_id, schedule=due_time.schedule, is_wanted=is_wanted)
        end_event = await self._ended((await self._turn_service.begin(work.user, work.agent, request)).read(), beat)
        is_done = end_event is not None and end_event.kind is AgentEventKind.DONE
        if not is_done and (record := await work.user.run_record(work.agent, request.run or "")) is not None:
            if record.end is None:
                # This process lost the thread. Another one continues the run, and the next attempt finds its end.
                raise ModelUnavailable("another process runs the turn of a schedule: its end will be checked again")
            is_done = record.end.reason in ANSWERS
        ended_at = self._context.clock.now()
        if is_done:
            await repository.advance(
                due_time.schedule, run.model_copy(update={"state": RunState.COMPLETED, "ended_at": ended_at})
            )
            return
        code = (end_event.data.code if end_event is not None else None) or "internal"
        if code == SpaceLocked.key:
            raise SpaceLocked(space=work.user.space)
        if code in _AGAIN and run.attempts < core_limits.JOB_ATTEMPTS:
            failed_run = run.model_copy(update={"state": RunState.RETRY, "error": code})
            await repository.change(
                due_time.schedule, lambda stored_schedule: stored_schedule.model_copy(update={"current": failed_run})
            )
            raise ModelUnavailable("the turn of a schedule failed: it will be retried")
        failed_run = run.model_copy(update={"state": RunState.FAILED, "ended_at": ended_at, "error": code})
        await repository.advance(due_time.schedule, failed_run)

    @staticmethod
    async def _ended(events: AsyncGenerator[FeedEvent], beat: Beat) -> FeedEvent | None:
        """Return the last event of a turn, renewing the lease meanwhile."""
        last_event: FeedEvent | None = None
        async with aclosing(events):
            next_event = asyncio.ensure_future(anext(events))
            try:
                while True:
                    await asyncio.wait({next_event}, timeout=SCHEDULE_BEAT_S)
                    if not next_event.done():
                        await beat()
                        continue
                    try:
                        last_event = next_event.result()
                    except StopAsyncIteration:
                        return last_event
                    next_event = asyncio.ensure_future(anext(events))
            finally:
                next_event.cancel()
                await asyncio.gather(next_event, return_exceptions=True)

    def _user(self, space: SpaceId) -> UserAgents:
        return UserAgents(self._context, space, self._settings, caller="schedule")


def due_time_of(payload: str, /) -> DueTime:
    """Return the due time that a job is for."""
    fields = json.loads(payload)
    return DueTime(str(fields["schedule"]), Instant(int(fields["due"])))


def _begin_run(stored: StoredSchedule, due_time: DueTime) -> StoredSchedule:
    """Return a schedule with the run of its due time started, or the same run if it was interrupted."""
    current_run = stored.current
    if current_run is not None and current_run.state is RunState.RUNNING:
        return stored
    attempts = (current_run.attempts if current_run is not None else 0) + 1
    run = ScheduleRun(
        due_at=due_time.at,
        state=RunState.RUNNING,
        attempts=attempts,
        run_id=run_name(due_time.schedule, due_time.at, attempts),
    )
    return stored.model_copy(update={"current": run})


class ScheduleArguments(ToolArguments):
    """Arguments of `schedule_task`: exactly one of `at`, `time`, `every_minutes` and `cron`."""

    task: Annotated[
        str,
        Field(min_length=1, max_length=limits.SCHEDULE_TASK_CHARS, description="The task, in the user's words."),
    ]
    name: Annotated[str, Field(max_length=limits.SCHEDULE_NAME_CHARS, description="A short name.")] = ""
    at: Annotated[str | None, Field(description="One time, in the user's local time: 2027-05-04T09:00.")] = None
    time: Annotated[ClockTime | None, Field(description="Every day at 09:00, or on `days`.")] = None
    days: Annotated[tuple[WeekDay, ...], Field(max_length=7, description="With `time`: mon to sun.")] = ()
    every_minutes: Annotated[int | None, Field(ge=1, le=limits.INTERVAL_MAX_S // 60)] = None
    cron: Annotated[str | None, Field(max_length=limits.CRON_CHARS, description="A cron line of five fields.")] = None
    timezone: Annotated[Zone | None, Field(description="Time zone if not the user's, such as Asia/Tokyo.")] = None

    @property
    def rule(self) -> ScheduleRule:
        """Return the rule. Raises InvalidInput unless exactly one is given."""
        if sum(time_choice is not None for time_choice in (self.at, self.time, self.every_minutes, self.cron)) != 1:
            raise InvalidInput(field="at", problem="or time, every_minutes, cron: set one of them")
        if self.at is not None:
            return OneOffRule(at=self.at)
        if self.every_minutes is not None:
            return IntervalRule(seconds=self.every_minutes * 60)
        if self.cron is not None:
            return CronRule(line=self.cron)
        assert self.time is not None
        return WeeklyRule(days=self.days, time=self.time) if self.days else DailyRule(time=self.time)


class NoArguments(ToolArguments):
    """Arguments of `list_schedules`: none."""


class CancelArguments(ToolArguments):
    """Arguments of `cancel_schedule`."""

    schedule_id: Annotated[str, Field(max_length=100, description="Id of the schedule, from `list_schedules`.")]


def schedule_tools(user: UserAgents, agent: KnownAgent, /) -> Sequence[Tool]:
    """Return an agent's tools for its user's schedules. An agent with its own memory sees only its own schedules."""
    repository = ScheduleRepository(user)
    is_shared = agent.subagent is None or agent.subagent.memory is MemoryMode.SHARED

    async def shown() -> list[KnownSchedule]:
        return [schedule for schedule in await repository.list() if is_shared or schedule.stored.agent_id == agent.id]

    async def make(arguments: ScheduleArguments, key: CallKey, /) -> ToolAnswer:
        refusal = await _schedule_refusal(user, agent, key.run, arguments.task)
        if refusal is not None:
            return ToolAnswer(text=refusal, is_error=True)
        request = ScheduleRequest(
            name=arguments.name, task=arguments.task, rule=arguments.rule, timezone=arguments.timezone
        )
        schedule = await repository.create(request, agent, source_run=key.run)
        return ToolAnswer(text=f"Scheduled. {await _schedule_line(user, schedule)}")

    async def show(_given: NoArguments, _key: CallKey, /) -> str:
        schedules = [each for each in await shown() if each.stored.next_due is not None]
        return "\n".join([await _schedule_line(user, each) for each in schedules]) or "There are no schedules."

    async def end(arguments: CancelArguments, _key: CallKey, /) -> ToolAnswer:
        try:
            is_known = arguments.schedule_id in {each.stored.id for each in await shown()}
            schedule = await repository.cancel(arguments.schedule_id if is_known else "")
        except NotFound:
            return ToolAnswer(text="There is no schedule with this id. `list_schedules` shows ids.", is_error=True)
        return ToolAnswer(text=f"Cancelled: {schedule.words.name or schedule.words.task}")

    tool_description = (
        "Do something later, once or repeatedly: a turn starts at that time. Only if the user asks for it."
    )
    return (
        typed_tool("schedule_task", tool_description, ScheduleArguments, make, may_repeat=True),
        typed_tool("list_schedules", "List the schedules.", NoArguments, show, read_only=True),
        typed_tool("cancel_schedule", "Cancel a schedule.", CancelArguments, end, may_repeat=True),
    )


async def _schedule_refusal(user: UserAgents, agent: KnownAgent, run: str, task: str) -> str | None:
    """Return why a turn may not create this schedule, or None if it may."""
    record = await user.run_record(agent, run)
    if record is None:
        return "This turn is not stored, so it cannot create a schedule."
    if record.input.schedule is not None:
        return "A turn started by a schedule cannot create another. Ask the user."
    if record.input.is_outside or any(result.is_outside and not result.is_error for result in record.results):
        return "This turn read text from outside, which may not create a schedule. Have the user ask for it."
    user_texts = [record.input.text, *(turn.input.text for turn in await _turns_before(user, agent, run))]
    analyser = _text_analyser()
    user_terms = {term for text in user_texts for term in analyser.terms(text)}
    if user_terms.intersection(analyser.terms(task)):
        return None
    return (
        "The user's own words do not ask for this. Repeat their words in `task`; if they did not ask, ask them first."
    )


@cache
def _text_analyser() -> TextAnalyser:
    return TextAnalyser()


async def _turns_before(user: UserAgents, agent: KnownAgent, run: str) -> list[RunRecord]:
    """Return the last two earlier turns that the user started."""
    records: list[RunRecord] = []
    for earlier_run in reversed(await user.window(agent)):
        record = await user.run_record(agent, earlier_run) if earlier_run != run else None
        if record is not None and record.input.schedule is None:
            records.append(record)
        if len(records) == 2:
            break
    return records


async def _schedule_line(user: UserAgents, schedule: KnownSchedule) -> str:
    stored_schedule = schedule.stored
    zone = stored_schedule.timezone or (await user.preferences()).timezone
    due_text = local_time(stored_schedule.next_due, zone) if stored_schedule.next_due is not None else "never again"
    return f"{schedule.words.name or schedule.words.task} ({stored_schedule.id}): {due_text} {zone}"
