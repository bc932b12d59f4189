"""The agent service: state shared by its routes and background work, and the runner of its jobs."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from elytron.api.flat_calls import own_scope
from elytron.context import Beat, OperationContext
from elytron.flows.worker import run_next
from elytron.jobs.background import BackgroundTask, apart_from_others
from elytron.jobs.queue import next_queue, visit_queues
from elytron_adapter.access_keys import Principal
from elytron_adapter.dispatch import CallerAdmission, OpenStreams
from elytron_adapter.surface import SurfaceFigure
from elytron_agent import limits
from elytron_agent.service.chat_turn import AgentPool, TurnLines, TurnService
from elytron_agent.service.companion import AgentPart, KnownAgent, ServiceSettings, UserAgents, config_of
from elytron_agent.service.events import EventLog, FeedEvent
from elytron_agent.service.push import KIND as PUSH
from elytron_agent.service.push import PushRunner
from elytron_agent.service.responses.response_service import ResponseService
from elytron_agent.service.schedules import schedule_repository
from elytron_agent.service.schedules.schedule_repository import ScheduleRepository
from elytron_agent.service.schedules.schedule_runner import ScheduleRunner, schedule_tools
from elytron_agent.service.wire import AgentEventKind, ModelHealth
from elytron_core.errors import ElytronError, ScopeMissing
from elytron_core.ids import SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes.jobs import JobQueue, JobState
from elytron_core.policy import job_states
from elytron_core.scope import Scope

TURN_SETTLE_S: Final = 5.0
"""Minimum age of a turn without a logged end before it is checked."""
STREAMS_EACH: Final = 16
"""Maximum number of open streams per caller."""
SCHEDULES_AT_ONCE: Final = 4


logger = logging.getLogger(__name__)
_SWEEP_EVERY: Final = 12
"""Number of polling intervals between searches of the store for jobs created by other processes."""


class KindRunner(Protocol):
    """Run the jobs of one kind."""

    async def run(self, scope: Scope, payload: str, beat: Beat, /) -> None:
        """Run a job and keep renewing its lease."""
        ...

    async def give_up(self, space: SpaceId, payload: str, /) -> None:
        """Record that a job has failed permanently."""
        ...

    async def repair(self, space: SpaceId, /) -> None:
        """Create the jobs that are missing in a space."""
        ...


class JobService:
    """Take due jobs of the kinds it has runners for."""

    def __init__(self, context: OperationContext, runners: Mapping[str, KindRunner], /, *, poll_s: float) -> None:
        self._context = context
        self._runners = runners
        self._poll_s = poll_s
        self._busy: dict[SpaceId, asyncio.Task[None]] = {}
        self._turns: LruCache[SpaceId, int] = LruCache(limits.AGENTS_KEPT)
        """Sequence number of each space's last turn, used to alternate between spaces."""
        self._numbers = count(1)
        self._background = BackgroundTask(self._work, name="elytron-agent-jobs")

    def start(self) -> None:
        """Start working."""
        self._context.runners.update({kind: runner.run for kind, runner in self._runners.items()})
        self._background.start()

    async def stop(self) -> None:
        """Stop after the current step. Unfinished jobs return to the queue."""
        await self._background.stop()
        tasks = list(self._busy.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for kind in self._runners:
            self._context.runners.pop(kind, None)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        is_first, sweep_at = True, loop.time()
        while True:
            try:
                if loop.time() >= sweep_at:
                    sweep_at = loop.time() + _SWEEP_EVERY * self._poll_s
                    await self._sweep(repairs=is_first)
                    is_first = False
                await self._take_due()
            except ElytronError as error:
                logger.warning("the jobs of agents could not be checked (%s)", error.key)
            pause_task = asyncio.ensure_future(asyncio.sleep(self._poll_s))
            try:
                await asyncio.wait({pause_task, *self._busy.values()}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause_task.cancel()

    async def _sweep(self, *, repairs: bool) -> None:
        """Find the spaces that have jobs of these kinds."""

        async def note(space: SpaceId, queue: JobQueue) -> None:
            kinds = {job.kind for job in queue.active} & self._runners.keys()
            if kinds:
                self._context.note_jobs(space, queue.due_at)
            for kind in kinds if repairs else ():
                await self._runners[kind].repair(space)

        await visit_queues(self._context, note)

    async def _take_due(self) -> None:
        """Start as many due jobs as there is room for, beginning with the spaces that have waited longest."""
        for space in sorted(self._context.waiting_spaces(), key=lambda space: (self._turns.get(space, 0), space)):
            if len(self._busy) >= SCHEDULES_AT_ONCE:
                return
            if space in self._busy:
                continue
            is_due = False
            with self._apart(space):
                async with self._context.secrets.background(space):
                    queue = await next_queue(self._context, space)
                at = self._context.clock.now()
                is_due = job_states.claimable_job(queue, at, self._runners.keys()) is not None
            if is_due:  # outside of the block, because the keys it opens are closed at its end
                self._begin(space, self._do_next(space))

    def _apart(self, space: SpaceId) -> AbstractContextManager[None]:
        return apart_from_others(partial(self._context.put_off.pop, space, None))

    def _begin(self, space: SpaceId, work: Coroutine[Any, Any, None]) -> None:
        self._turns[space] = next(self._numbers)
        task = asyncio.get_running_loop().create_task(work, name="elytron-agent-job")
        self._busy[space] = task
        task.add_done_callback(lambda _: self._busy.pop(space, None))

    async def _do_next(self, space: SpaceId) -> None:
        """Run one job of a space. Its next job waits behind those of other spaces."""
        try:
            with self._apart(space):
                async with self._context.secrets.background(space):
                    job_record = await run_next(self._context, space, kinds=self._runners.keys())
                    if job_record is not None and job_record.job.state is JobState.DEAD_LETTER:
                        await self._runners[job_record.job.kind].give_up(space, job_record.job.payload)
        except ElytronError as error:
            # An interrupted job is resumed when its lease expires.
            logger.warning("the jobs of an agent could not be run (%s)", error.key)


ROOT: Final = "/v1/agent"


class AgentService:
    """The agents of a server: state shared by its routes and background work."""

    def __init__(self, admission: CallerAdmission, settings: ServiceSettings, /) -> None:
        self.admission = admission
        self.settings = settings
        self.context = admission.dispatcher.runtime.context
        has_schedules = not settings.off & {AgentPart.ALL, AgentPart.SCHEDULES}
        self.pool = AgentPool(self.context, settings, tools=(schedule_tools,) if has_schedules else ())
        self.streams = OpenStreams(admission, each=STREAMS_EACH)
        self.lines = TurnLines()
        self.turn_service = TurnService(self.pool, self.lines, log=self)
        self.responses = ResponseService(self.pool, self.lines)
        self._push = PushRunner(self.context, settings)
        runners: dict[str, KindRunner] = {PUSH: self._push} if AgentPart.PUSH not in settings.off else {}
        if has_schedules:
            runners[schedule_repository.KIND] = ScheduleRunner(self.context, settings, self.turn_service)
        has_jobs = settings.runs_schedules and AgentPart.ALL not in settings.off
        self._jobs = JobService(self.context, runners, poll_s=settings.schedule_poll_s) if has_jobs else None
        self._logs: LruCache[SpaceId, EventLog] = LruCache(limits.AGENTS_KEPT)
        self.context.secrets.on_forget(self._forget_space)

    def _forget_space(self, space: SpaceId) -> None:
        """Discard everything cached for a space that was locked with its user's secret."""
        self.pool.forget_space(space)
        self.responses.forget_space(space)
        self._logs.pop(space, None)

    def user(self, principal: Principal, /) -> UserAgents:
        """Return the agents of a caller. Raises ScopeMissing if the caller has no space."""
        scope = own_scope(principal.space, self.admission.dispatcher.runtime.scope)
        if scope is None:
            raise ScopeMissing(operation="agent", way_out="use a user's key: an operator has no agent")
        return UserAgents(self.context, scope.space, self.settings, caller=principal.id)

    def health(self, agent: KnownAgent, /) -> ModelHealth:
        """Return the state of an agent's model."""
        return self.turn_service.health.get(config_of(agent, self.settings).model, ModelHealth.UNKNOWN)

    def log(self, user: UserAgents, /) -> EventLog:
        """Return a user's event log."""
        event_log = self._logs.use(user.space)
        if event_log is None:
            event_log = self._logs[user.space] = EventLog(user.itself(self.context))
        return event_log

    async def publish(self, user: UserAgents, agent: KnownAgent, /, *events: FeedEvent) -> Sequence[FeedEvent]:
        """Append events to the user's log and return them with their ids."""
        logged = await self.log(user).add(*events, thread=agent.name)
        for event in events:
            if event.kind is AgentEventKind.DONE and event.data.total_messages and event.data.run_id:
                await self._push.note(user, agent, event.data.run_id)
        return logged

    async def has_message(self, user: UserAgents, item_id: str, /) -> bool:
        """Return whether the message of an item is in the user's log."""
        return await self.log(user).has_message(item_id)

    async def change_zone(self, user: UserAgents, /) -> None:
        """Recompute the due times of schedules that follow the user's time zone."""
        await ScheduleRepository(user).follow_zone()

    async def look(self, user: UserAgents, agent: KnownAgent, /) -> None:
        """Resume the agent's run if its process ended, and log what that process did not log."""
        if self.turn_service.is_busy(user, agent):
            return
        if await user.has_broken_run(agent):
            self.turn_service.resume(user, agent)
            return
        # A turn may have ended just now, and its process may be about to log that.
        settled_before = self.context.clock.now() - round(TURN_SETTLE_S * 1000)
        for turn in await self.log(user).open_turns():
            if turn.thread == agent.name and turn.at < settled_before:
                await self.turn_service.log_end(user, agent, turn.run_id)

    async def look_at_all(self, user: UserAgents, /) -> None:
        """Check every thread of a user that may have a turn without an end."""
        main = await user.main()
        await self.look(user, main)
        threads = {turn.thread for turn in await self.log(user).open_turns()} - {main.name}
        for agent in await user.known_subagents(main=main) if threads else ():
            if agent.name in threads:
                await self.look(user, agent)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the service until the context ends. Unfinished turns are resumed when their threads are next checked."""
        if self._jobs is not None:
            self._jobs.start()
        try:
            yield
        finally:
            # Jobs start turns, and turns use models, so they are stopped in this order.
            if self._jobs is not None:
                await self._jobs.stop()
            await self.lines.close()
            await self.pool.close()

    def figures(self) -> Iterable[SurfaceFigure]:
        """Yield the number of running and waiting turns."""
        yield SurfaceFigure("elytron_agent_turns", "Agent turns that are running or queued.", self.lines.running)
