"""Agent turns, which continue when a client leaves and run one at a time per thread; and the pool of agents."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from elytron.context import OperationContext
from elytron_agent import limits
from elytron_agent.loop.run_input import end_of
from elytron_agent.loop.tools import MemoryMode
from elytron_agent.runs.events import AgentEvent, RunEnded, RunStarted, StopReason
from elytron_agent.runs.settings import AgentSettings, UserPreferences
from elytron_agent.runs.source import ClientPart
from elytron_agent.runs.thread import ThreadQueue
from elytron_agent.service.companion import AgentPart, KnownAgent, ServiceSettings, UserAgents, config_of
from elytron_agent.service.events import FeedEvent, FeedWriter, TurnFeed, TurnTranslator
from elytron_agent.service.thread_items import ThreadItems, item_name
from elytron_agent.service.wire import REACT, ItemReaction, ItemRole, ModelHealth, ReactArguments
from elytron_agent.tool import CallKey, Tool, typed_tool
from elytron_core.errors import Conflict, ElytronError, NotFound, ThreadBusy
from elytron_core.lru_cache import LruCache
from elytron_models.client import ModelClient, open_model

if TYPE_CHECKING:
    from elytron_agent.loop.agent import Agent

TURN_WAIT_S: Final = 900.0
"""How long a turn waits for one that another process runs in its thread."""


ToolMaker = Callable[[UserAgents, KnownAgent], Sequence[Tool]]
"""Returns additional tools of an agent."""


def react_tool(items: ThreadItems, /) -> Tool:
    """Return the tool with which an agent reacts to the message that its run answers."""

    async def act(arguments: ReactArguments, key: CallKey, /) -> str:
        await items.react(item_name(key.run, 0), ItemReaction(emoji=arguments.emoji, by=ItemRole.ASSISTANT))
        return "Done."

    tool_description = (
        "React to the user's message with an emoji, in addition to or instead of an answer. Use it rarely."
    )
    return typed_tool(REACT, tool_description, ReactArguments, act, may_repeat=True)


class AgentPool:
    """The agents of this process. An agent is recreated when its settings change."""

    def __init__(
        self, context: OperationContext, settings: ServiceSettings, /, *, tools: Sequence[ToolMaker] = ()
    ) -> None:
        self._context = context
        self._settings = settings
        self._makers = tuple(tools)
        self._models: dict[str, ModelClient] = {}
        self._agents: LruCache[tuple[str, str], tuple[object, Agent]] = LruCache(limits.AGENTS_KEPT)

    async def agent(self, user: UserAgents, known_agent: KnownAgent, /) -> "Agent":
        """Return the agent with its current settings."""
        cache_key = (user.space, known_agent.id)
        preferences = await user.preferences()
        cache_entry = self._agents.use(cache_key)
        if cache_entry is not None and cache_entry[0] == (known_agent.version, preferences):
            return cache_entry[1]
        new_agent = self._make_agent(user.itself(self._context), known_agent, preferences)
        self._agents[cache_key] = ((known_agent.version, preferences), new_agent)
        return new_agent

    def response_agent(
        self, user: UserAgents, thread: str, settings: AgentSettings, client: ClientPart, model: str, /
    ) -> "Agent":
        """Return an agent for one turn in a thread of responses. The caller closes it."""
        from elytron_agent.loop.agent import Agent

        service_settings = self._settings
        return Agent(
            user.itself(self._context).memory,
            self.model(model),
            name=thread,
            settings=settings,
            web_search=service_settings.web_search,
            summary_model=self.model(service_settings.summary_model)
            if service_settings.summary_model is not None
            else None,
            vision_model=self.model(service_settings.vision_model)
            if service_settings.vision_model is not None
            else None,
            client=client,
            clock=self._context.clock,
            ids=self._context.ids,
        )

    def settings_of(self, agent: KnownAgent, preferences: UserPreferences, /) -> AgentSettings:
        """Return the settings for an agent's turns."""
        config = config_of(agent, self._settings)
        return AgentSettings(
            enabled=True,
            max_context_tokens=config.max_context_tokens,
            compaction_threshold=config.compaction_threshold,
            system_prompt=config.system_prompt,
            preferences=preferences,
            uses_tools=config.tools and AgentPart.TOOLS not in self._settings.off,
            compacts=config.compaction,
            wait_seconds=TURN_WAIT_S,
            budget=self._settings.budget,
        )

    def forget(self, user: UserAgents, agent: KnownAgent, /) -> None:
        """Discard an agent that was erased."""
        self._agents.pop((user.space, agent.id), None)

    def forget_space(self, space: str, /) -> None:
        """Discard all agents of a space."""
        for cache_key in [cache_key for cache_key in self._agents if cache_key[0] == space]:
            del self._agents[cache_key]

    async def close(self) -> None:
        """Close the models' connections."""
        agents = [agent for _, agent in self._agents.values()]
        self._agents.clear()
        for agent in agents:
            await agent.close()
        for model in self._models.values():
            await model.close()
        self._models.clear()

    def _make_agent(self, user: UserAgents, agent: KnownAgent, preferences: UserPreferences) -> "Agent":
        from elytron_agent.loop.agent import Agent

        settings, config = self._settings, config_of(agent, self._settings)
        agent_settings = self.settings_of(agent, preferences)
        own_tools = [
            react_tool(user.items(agent)),
            *(tool for tool_maker in self._makers for tool in tool_maker(user, agent)),
        ]
        return Agent(
            user.memory,
            self.model(settings.model_named(config.model)),
            own_tools if agent_settings.uses_tools else (),
            name=agent.name,
            purpose=agent.subagent.purpose if agent.subagent is not None else "",
            settings=agent_settings,
            web_search=settings.web_search,
            summary_model=self.model(settings.summary_model) if settings.summary_model is not None else None,
            vision_model=self.model(settings.vision_model) if settings.vision_model is not None else None,
            memory_mode=agent.subagent.memory if agent.subagent is not None else MemoryMode.SHARED,
            clock=self._context.clock,
            ids=self._context.ids,
        )

    def model(self, address: str, /) -> ModelClient:
        """Return a model of the server, which is opened only once."""
        client = self._models.get(address)
        if client is None:
            client = self._models[address] = open_model(address)
        return client


logger = logging.getLogger(__name__)
INTERNAL: Final = "internal error; see the server's log"


class TurnLog(Protocol):
    """The event logs of all users."""

    async def publish(self, user: UserAgents, agent: KnownAgent, /, *events: FeedEvent) -> Sequence[FeedEvent]:
        """Append events to the user's log and return them with their ids."""
        ...

    async def has_message(self, user: UserAgents, item_id: str, /) -> bool:
        """Return whether the message of an item is in the user's log."""
        ...

    async def change_zone(self, user: UserAgents, /) -> None:
        """Apply a change of the user's time zone."""
        ...


@dataclass(slots=True)
class ThreadLine:
    """The turns of one thread in this process. One runs, and the others wait in order."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tasks: dict["asyncio.Task[None]", str] = field(default_factory=dict["asyncio.Task[None]", str])


class TurnTicket(NamedTuple):
    """Place of a turn in the queue of its thread."""

    queue: ThreadQueue
    turn: str

    async def leave(self, event: AgentEvent, /) -> None:
        """Leave the queue once an event shows that the turn has its thread."""
        if isinstance(event, RunStarted):
            await self.queue.leave(self.turn)


class TurnLines:
    """The turns of this process, by space and thread."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], ThreadLine] = {}

    @property
    def running(self) -> int:
        """Return the number of running and waiting turns."""
        return sum(len(thread_line.tasks) for thread_line in self._lines.values())

    def is_busy(self, place: tuple[str, str], /, *, name: str | None = None) -> bool:
        """Return whether any turn of the thread, or the one called `name`, runs or waits."""
        line = self._lines.get(place)
        return line is not None and (name is None or name in line.tasks.values())

    async def ticket(self, user: UserAgents, place: tuple[str, str], thread: str, /) -> "TurnTicket | None":
        """Join the queue of a thread, or return None if no process has a turn there.

        Raises ThreadBusy if the queue is full.
        """
        queue = user.queue(thread)
        if place not in self._lines and await queue.is_empty() and not await user.is_taken(thread):
            return None
        ticket = TurnTicket(queue, user.memory.context.ids.new())
        await queue.enter(ticket.turn)
        return ticket

    def begin(
        self,
        place: tuple[str, str],
        work: Callable[[], Awaitable[None]],
        feed: TurnFeed[Any],
        /,
        *,
        name: str = "",
        ticket: "TurnTicket | None" = None,
    ) -> None:
        """Run a turn after those that wait for the thread, then close its feed."""
        line = self._lines.setdefault(place, ThreadLine())

        async def in_line() -> None:
            try:
                if ticket is not None:
                    await ticket.queue.wait(ticket.turn)
                async with line.lock:
                    await work()
            finally:
                if ticket is not None:
                    await ticket.queue.leave(ticket.turn)

        task = asyncio.get_running_loop().create_task(in_line(), name="elytron-turn")
        line.tasks[task] = name

        def over(finished_task: "asyncio.Task[None]") -> None:
            del line.tasks[finished_task]
            feed.close()
            if not line.tasks and self._lines.get(place) is line:
                del self._lines[place]

        task.add_done_callback(over)

    async def cancel(self, place: tuple[str, str], /, *, name: str | None = None) -> None:
        """Cancel all turns of a thread, or the one called `name`."""
        tasks = self._lines.get(place, ThreadLine()).tasks
        await _end_tasks([task for task, task_name in tasks.items() if name is None or task_name == name])

    async def close(self) -> None:
        """Interrupt all turns. They are resumed when their threads are next checked."""
        await _end_tasks([task for line in self._lines.values() for task in line.tasks])


class TurnRequest(NamedTuple):
    """A turn to run: the user's text and images. `run` is the id of an earlier call that this one repeats."""

    words: str
    images: Sequence[str] = ()
    run: str | None = None
    is_stored: bool = True
    schedule: str | None = None
    """Schedule that starts the turn instead of the user."""
    is_wanted: Callable[[], Awaitable[bool]] | None = None
    """Called after the turn has waited for earlier ones. If it returns False, the turn does not start."""


class TurnService:
    """Run the turns of all agents of this process."""

    def __init__(self, pool: AgentPool, lines: TurnLines, /, *, log: TurnLog) -> None:
        self._pool = pool
        self._log = log
        self._lines = lines
        self.health: dict[str, ModelHealth] = {}
        """State of each model by its address."""

    def is_busy(self, user: UserAgents, agent: KnownAgent, /) -> bool:
        """Return whether a turn of the thread runs or waits in this process."""
        return self._lines.is_busy((user.space, agent.id))

    async def begin(self, user: UserAgents, agent: KnownAgent, request: TurnRequest, /) -> TurnFeed[FeedEvent]:
        """Run a turn after those that wait for the thread in any process, and return its events.

        Raises ThreadBusy.
        """
        return self._begin_turn(
            user, agent, request, await self._lines.ticket(user, (user.space, agent.id), agent.name)
        )

    def resume(self, user: UserAgents, agent: KnownAgent, /) -> TurnFeed[FeedEvent] | None:
        """Resume an interrupted run, or return None if a turn of the thread is active here."""
        return None if self.is_busy(user, agent) else self._begin_turn(user, agent, None)

    async def log_end(self, user: UserAgents, agent: KnownAgent, run: str, /) -> None:
        """Log the messages and the end of a finished run that are not in the log yet."""
        record = await user.run_record(agent, run)
        if record is not None and record.end is None:
            return
        translator = TurnTranslator(agent.id, schedule=record.input.schedule if record is not None else None)
        missing_items = [
            message
            for message in await self.messages_of(user, agent, run, translator)
            if not await self._log.has_message(user, message.data.message_id or "")
        ]
        run_end = end_of(record) if record is not None else RunEnded(run=run, reason=StopReason.CANCELLED)
        await self._log.publish(user, agent, *missing_items, *translator.events(run_end))

    async def settle(self, user: UserAgents, known_agent: KnownAgent, run: str, /) -> RunEnded | None:
        """Return the end of a run, waiting while a process holds the thread. An interrupted run is cancelled.

        Returns None if there is no such run.
        """
        while True:
            record = await user.run_record(known_agent, run)
            if record is None or record.end is not None:
                return end_of(record) if record is not None else None
            if await user.is_taken(known_agent.name):
                await asyncio.sleep(limits.THREAD_LOOK_S)
                continue
            agent = await self._pool.agent(user, known_agent)
            with suppress(ThreadBusy, Conflict):
                # A thread has only one unfinished run, so this cancels that one.
                await agent.cancel()

    async def cancel(self, user: UserAgents, agent: KnownAgent, /) -> None:
        """Cancel the turns of a thread in this process."""
        await self._lines.cancel((user.space, agent.id))
        self._pool.forget(user, agent)

    def _begin_turn(
        self, user: UserAgents, agent: KnownAgent, request: TurnRequest | None, ticket: TurnTicket | None = None
    ) -> TurnFeed[FeedEvent]:
        feed = TurnFeed[FeedEvent]()
        self._lines.begin(
            (user.space, agent.id), partial(self._turn, feed, user, agent, request, ticket), feed, ticket=ticket
        )
        return feed

    async def _turn(
        self,
        feed: TurnFeed[FeedEvent],
        user: UserAgents,
        agent: KnownAgent,
        request: TurnRequest | None,
        ticket: TurnTicket | None,
    ) -> None:
        translator = TurnTranslator(agent.id, schedule=request.schedule if request is not None else None)
        is_logged = request is None or request.is_stored
        writer = FeedWriter(feed, partial(self._logged, user, agent))
        try:
            if request is not None and request.is_wanted is not None and not await request.is_wanted():
                return
            async with aclosing(self._events(user, agent, request, translator, ticket)) as events:
                async for event in events:
                    (writer if is_logged else feed).put(event)
        except ElytronError as error:
            writer.put(translator.failed(error.key, error.message))
        except Exception as error:
            logger.exception("a turn of an agent failed (%s)", type(error).__name__)
            writer.put(translator.failed("internal", INTERNAL))
        except BaseException:
            # The run is resumed when its thread is next checked, which logs what is missing.
            writer.end()
            raise
        await writer.finish()

    async def _logged(self, user: UserAgents, agent: KnownAgent, /, *events: FeedEvent) -> Sequence[FeedEvent]:
        try:
            return await self._log.publish(user, agent, *events)
        except Exception as error:
            # A logging failure must not end a run. Its events are still sent, and its items are stored.
            is_known = isinstance(error, ElytronError)
            name = error.key if is_known else type(error).__name__
            logger.warning("events of an agent could not be logged (%s)", name, exc_info=not is_known)
            return events

    async def _events(
        self,
        user: UserAgents,
        known_agent: KnownAgent,
        request: TurnRequest | None,
        translator: TurnTranslator,
        ticket: TurnTicket | None,
    ) -> AsyncGenerator[FeedEvent]:
        # The user may have changed the settings while the turn waited.
        known_agent = await user.agent(known_agent.id)
        agent = await self._pool.agent(user, known_agent)
        zone = (await user.preferences()).timezone
        async with aclosing(_runs_of(agent, request)) as events:
            async for event in events:
                if ticket is not None:
                    await ticket.leave(event)
                if isinstance(event, RunStarted):
                    translator.schedule = await self._schedule_of(user, known_agent, event, request)
                if isinstance(event, RunEnded):
                    self._note_health(user, known_agent, event)
                    if event.run not in translator.started_runs:
                        for message in await self.messages_of(user, known_agent, event.run, translator):
                            yield message
                for feed_event in translator.events(event):
                    yield feed_event
                if isinstance(event, RunStarted) and event.is_resumed:
                    # The process may have ended between a step and its event.
                    for message in await self.messages_of(user, known_agent, event.run, translator):
                        if not await self._log.has_message(user, message.data.message_id or ""):
                            yield message

        if (await user.preferences()).timezone != zone:
            await self._log.change_zone(user)

    @staticmethod
    async def _schedule_of(
        user: UserAgents, agent: KnownAgent, event: RunStarted, request: TurnRequest | None
    ) -> str | None:
        """Return the schedule that started a run, which may be a resumed one instead of the requested one."""
        if not event.is_resumed:
            return request.schedule if request is not None else None
        record = await user.run_record(agent, event.run)
        return record.input.schedule if record is not None else None

    async def messages_of(
        self, user: UserAgents, agent: KnownAgent, run: str, translator: TurnTranslator, /
    ) -> Sequence[FeedEvent]:
        """Return the stored messages of a run."""
        try:
            items = await user.items(agent).run_items(run)
        except NotFound:
            return ()
        return [
            translator.message(int(item.id.rpartition(".")[2]), item.text, run=run)
            for item in items
            if item.role is ItemRole.ASSISTANT
        ]

    def _note_health(self, user: UserAgents, agent: KnownAgent, event: RunEnded) -> None:
        model_name = config_of(agent, user.settings).model
        if event.reason is StopReason.FAILED:
            self.health[model_name] = ModelHealth.FAILS
        elif event.usage.steps:
            self.health[model_name] = ModelHealth.ANSWERS


def _runs_of(agent: "Agent", request: TurnRequest | None) -> AsyncGenerator[AgentEvent]:
    """Run a turn, or resume an interrupted one if there is no request, and return the events."""
    if request is None:
        return agent.resume()
    return agent.run(
        request.words, images=request.images, run_id=request.run, store=request.is_stored, schedule=request.schedule
    )


async def _end_tasks(tasks: Sequence["asyncio.Task[None]"]) -> None:
    task_list = list(tasks)
    for task in task_list:
        task.cancel()
    await asyncio.gather(*task_list, return_exceptions=True)
