"""The agent: one long-running thread with a memory, a model and tools."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Final, Self

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.blocks.block_repository import BlockRepository
from elytron_agent.blocks.view import AgentMemoryView
from elytron_agent.loop.run import by_name, run_of, source_of
from elytron_agent.loop.run_input import (
    PLAIN,
    RunWords,
    TurnOpening,
    check_input,
    end_of,
    input_of,
    known_run,
    tell_end,
)
from elytron_agent.loop.step import end_reason
from elytron_agent.loop.tools import (
    MemoryMode,
    SubagentRepository,
    WebSearch,
    done_tool,
    preference_tool,
    subagent_tool,
    web_search_tool,
)
from elytron_agent.runs.compaction import ThreadCompactor
from elytron_agent.runs.events import AgentEvent, RunEnded, RunStarted, ThreadAwaited
from elytron_agent.runs.journal import MAIN, RunJournal, RunRecord, journal_of
from elytron_agent.runs.settings import AgentSettings, Approve, HostApprover, RunDeadline, UserPreferences
from elytron_agent.runs.source import WELCOME, AgentModels, AgentParts, ClientPart, is_first_time
from elytron_agent.runs.thread import AgentThread
from elytron_agent.strategies.strategy import MemoryStrategy
from elytron_agent.tool import Tool
from elytron_core.clock import Clock, SystemClock
from elytron_core.errors import Conflict, InvalidInput, Overloaded
from elytron_core.ids import IdSource, RandomIds
from elytron_core.ports.chat import ChatModel
from elytron_core.scope import Scope
from elytron_turn.compaction import CompactionPlan
from elytron_turn.context import ThreadHead, WindowSummary, WindowTurn
from elytron_turn.memory import TurnMemory

_MOVED: Final = "the thread, which has continued after another turn,"


class Agent:
    """An agent with memory: `async for event in agent.run("Hello")`.

    `model` is a chat model, or its address (`ollama:llama3.2`), which the agent then opens and closes. `tools` are
    added to the agent's own: `done`, `set_preference`, and `web_search` if there is a provider. `approve` is asked
    before each call of one of `tools` that is not `read_only`. Input, replies and tool results are stored step by step,
    so that an interrupted run can be resumed. They are stored in `memory`, or in `journal`, which an agent requires if
    its memory is on a server. `name` also names the agent's only thread, which one process at a time runs.
    """

    def __init__(
        self,
        memory: MemoryFace,
        model: ChatModel | str | None = None,
        tools: Iterable[Tool] = (),
        /,
        *,
        name: str = MAIN,
        purpose: str = "",
        settings: AgentSettings | None = None,
        blocks: BlockRepository | None = None,
        strategy: MemoryStrategy | None = None,
        web_search: WebSearch | None = None,
        summary_model: ChatModel | str | None = None,
        vision_model: ChatModel | str | None = None,
        memory_mode: MemoryMode = MemoryMode.SHARED,
        journal: MemoryFace | None = None,
        approve: Approve | None = None,
        client: ClientPart | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        if memory.scope is None:
            raise InvalidInput(field="memory", problem="has no space: open it with one")
        self.settings = settings or AgentSettings(enabled=True)
        self.name = name
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        scope = Scope.model_validate(memory.scope.model_dump() | {"agent": name, "conversation": name})
        host_tools, self._home, records = tuple(tools), journal, journal_of(memory, journal)
        self.subagents = SubagentRepository(records, agent=name)
        own_tools = _own_tools(self.set_preferences, None if purpose else self.subagents, web_search)
        view = AgentMemoryView.of(memory, agent=name if memory_mode is MemoryMode.OWN else None, blocks=blocks)
        self._journal = RunJournal(memory, records, scope, agent=name, by=self._ids.new())
        self._thread = AgentThread(self._journal, name, self._clock, self.settings.lease_seconds)
        self._lock, self._waiting = asyncio.Lock(), 0
        self._parts = AgentParts(
            memory=memory,
            scope=scope,
            journal=self._journal,
            thread=self._thread,
            turn_memory=TurnMemory(memory.operate, scope, filters=view.filters, has_facts=view.is_shared),
            models=AgentModels(
                model if model is not None else self.settings.model,
                summary=summary_model if summary_model is not None else self.settings.summary_model,
                vision=vision_model,
                context_tokens=self.settings.max_context_tokens,
            ),
            settings=self.settings,
            view=view,
            strategy=strategy,
            tools=tuple(by_name([*own_tools, *host_tools]).values()),
            host_tools=frozenset(tool.name for tool in host_tools),
            approver=HostApprover(approve, host_tools),
            clock=self._clock,
            ids=self._ids,
            purpose=purpose,
            client=client or ClientPart(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(
        self,
        text: str,
        /,
        *,
        images: Sequence[str] = (),
        run_id: str | None = None,
        store: bool = True,
        schedule: str | None = None,
        opening: TurnOpening = PLAIN,
    ) -> AsyncGenerator[AgentEvent]:
        """Run a turn and yield its events, from the user's input to the final RunEnded.

        An interrupted earlier run is resumed first. A `run_id` that has already run is not run again; its end is
        returned. Images, as addresses or `data:` URLs, are described, and only the description is stored. Without
        `store`, nothing is stored in memory or in the journal, and the agent's own tools that would store something are
        not offered. With `schedule`, the input counts as a program's and not as the user's. Raises InvalidInput,
        PermissionRefused, Overloaded, ThreadBusy while another process runs the thread, IdempotencyConflict if `run_id`
        was used with other input, Conflict (also if the thread has continued past `opening.after`), and the memory's
        errors.
        """
        check_input(self.settings, text, images, opening=opening)
        run_words = RunWords(run_id, text, images)
        async with self._queued(), self._thread.renewed():
            while True:
                saved = await known_run(self._journal, run_words, is_stored=store)
                async with aclosing(self._settled()) as events:
                    async for event in events:
                        yield event
                saved = await self._journal.load(saved.input.run) if saved is not None else None
                if saved is not None and saved.end is not None:
                    yield end_of(saved)
                    return
                if saved is None and opening.after not in {None, self._thread.head.last}:
                    raise Conflict(what=_MOVED, expected=0, found=self._thread.version)
                deadline = self._deadline()
                new_input = partial(input_of, is_stored=store, schedule=schedule, opening=opening)
                record = saved or RunRecord(input=await new_input(self._parts, run_words, deadline))
                try:
                    await (
                        self._thread.begin(record.input, is_known=saved is not None) if store else self._thread.hold()
                    )
                except Conflict:
                    # Another process came first, so its run goes first.
                    continue
                break
            if store and run_id is not None:
                await self._journal.keep_name(run_id)  # after the run has begun; a resumed run passes here again
            yield RunStarted(run=record.input.run, thread=self.name, input=record.input.text)
            async with aclosing(self._running(record, deadline, is_resumed=saved is not None)) as events:
                async for event in events:
                    yield event

    async def say(self, text: str, /, *, images: Sequence[str] = (), run_id: str | None = None) -> RunEnded:
        """Run a turn and return its end, for callers that show no steps."""
        run_end: RunEnded | None = None
        async with aclosing(self.run(text, images=images, run_id=run_id)) as events:
            async for event in events:
                run_end = event if isinstance(event, RunEnded) else run_end
        assert run_end is not None
        return run_end

    async def resume(self) -> AsyncGenerator[AgentEvent]:
        """Resume an interrupted run and yield its events; yield nothing if there is none."""
        async with self._queued(), self._thread.renewed(), aclosing(self._settled()) as events:
            async for event in events:
                yield event

    async def cancel(self) -> RunEnded | None:
        """End an interrupted run, if there is one, without any further request or call."""
        async with self._queued(), self._thread.renewed():
            await self._thread.wait(0)
            if self._thread.head.open is None:
                return None
            await self._thread.hold()
            record = await self._journal.load(self._thread.head.open)
            if record is None:
                await self._thread.drop_open()
                return None
            run = await run_of(self._parts, record, await self.preferences(), self._deadline(), is_resumed=True)
            return await run.ended(end_reason(record, self.settings.budget, handed=self._parts.client.names))

    async def head(self) -> ThreadHead:
        """Return the state of the thread."""
        async with self._queued():
            await self._thread.refresh()
            return self._thread.head

    async def welcome(self) -> tuple[str, ...]:
        """Store and return a greeting for a person the agent does not know yet; nothing once the agent has answered."""
        async with self._queued():
            await self._thread.wait(0)
            blocks = await source_of(self._parts).shown_blocks()
            has_answered = self._thread.summary is not None or any(turn.items for turn in self._thread.past)
            if has_answered or not is_first_time(0, blocks):
                return ()
            return (await self._journal.put_welcome(self.name, WELCOME, at=self._clock.now())).texts

    async def latest_turn(self) -> WindowTurn | None:
        """Return the latest finished turn of the window that was not forgotten or erased, or None."""
        async with self._queued():
            await self._thread.wait(0)
            await self._thread.settle()
            return self._thread.past[-1] if self._thread.past else None

    async def preferences(self) -> UserPreferences:
        """Return the person's preferences, or those of the settings by default."""
        return await self._journal.preferences() or self.settings.preferences

    async def set_preferences(self, timezone: str | None = None, locale: str | None = None) -> UserPreferences:
        """Store the person's time zone and language. None leaves a value unchanged. Raises InvalidInput."""
        changes = {name: value for name, value in {"timezone": timezone, "locale": locale}.items() if value is not None}
        preferences = UserPreferences(**(await self.preferences()).model_dump() | changes)
        await self._journal.put_preferences(preferences)
        return preferences

    async def preview_compaction(self) -> CompactionPlan | None:
        """Return which turns a compaction would remove from the window now, or None if it could remove none."""
        async with self._queued():
            await self._thread.wait(0)
            await self._thread.settle()
            zone = (await self.preferences()).timezone
            return ThreadCompactor(self._parts).plan(0, zone=zone, is_forced=True)

    async def compact(self, planned: CompactionPlan | None = None) -> WindowSummary | None:
        """Carry out a plan, by default that of `preview_compaction`. Raises InvalidInput if the plan is outdated."""
        planned = planned or await self.preview_compaction()
        if planned is None:
            return None
        async with self._queued():
            await self._thread.wait(0)
            await self._thread.settle()
            return await ThreadCompactor(self._parts).carry_out(planned)

    async def undo_compaction(self) -> WindowSummary:
        """Restore the turns of the latest summary and return it. Recall no longer finds it. Raises NotFound."""
        async with self._queued():
            await self._thread.wait(0)
            await self._thread.settle()
            return await ThreadCompactor(self._parts).undo()

    async def subagent(self, name: str, /, *, settings: AgentSettings | None = None) -> "Agent":
        """Return a subagent by name, with this agent's models. The caller closes it. Raises NotFound."""
        subagent = await self.subagents.read(name)
        return Agent(
            self._parts.memory,
            self._parts.models.main,
            name=f"{self.name}/{subagent.name}",
            purpose=subagent.purpose,
            settings=settings or self.settings,
            summary_model=self._parts.models.summary,
            vision_model=self._parts.models.vision,
            memory_mode=subagent.memory,
            journal=self._home,
            clock=self._clock,
            ids=self._ids,
        )

    async def close(self) -> None:
        """Wait for pending work, and close the models that the agent opened."""
        await self._parts.turn_memory.close()
        await self._parts.models.close()

    @asynccontextmanager
    async def _queued(self) -> AsyncGenerator[None]:
        """Wait for this process's other runs of the thread. Raises Overloaded if too many are waiting."""
        if self._waiting > limits.QUEUED_RUNS:
            raise Overloaded
        self._waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting -= 1

    async def _settled(self) -> AsyncGenerator[AgentEvent]:
        """Wait for the thread, settle it, and resume an interrupted run if there is one."""
        await self._thread.refresh()
        if self._thread.is_taken and self.settings.wait_seconds:
            yield ThreadAwaited(thread=self.name, wait_s=self.settings.wait_seconds)
        record = await self._take_over()
        if record is None:
            return
        yield RunStarted(run=record.input.run, thread=self.name, is_resumed=True, input=record.input.text)
        if record.end is not None:
            # Everything was committed, except perhaps the report to the strategy and the release of the thread.
            await tell_end(self._parts.strategy, record)
            await self._thread.end(record.turn)
            yield end_of(record)
            return
        async with aclosing(self._running(record, self._deadline(), is_resumed=True)) as events:
            async for event in events:
                yield event

    async def _take_over(self) -> RunRecord | None:
        """Take over an interrupted run and return it, or return None if there is none. Raises ThreadBusy."""
        await self._thread.wait(self.settings.wait_seconds, is_fresh=True)
        while True:
            try:
                await self._thread.settle()
                if (open_run := self._thread.head.open) is None:
                    return None
                record = await self._journal.load(open_run)
                if record is not None:
                    await self._thread.hold()
                    return record
                await self._thread.drop_open()
            except Conflict:
                await self._thread.wait(self.settings.wait_seconds)

    async def _running(
        self, record: RunRecord, deadline: RunDeadline, *, is_resumed: bool
    ) -> AsyncGenerator[AgentEvent]:
        preferences = self._thread.state.preferences or self.settings.preferences
        run = await run_of(self._parts, record, preferences, deadline, is_resumed=is_resumed)
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    def _deadline(self) -> RunDeadline:
        return RunDeadline(self._clock, self.settings.budget.seconds)


def _own_tools(
    set_preferences: Callable[[str | None, str | None], Awaitable[UserPreferences]],
    subagents: SubagentRepository | None,
    web_search: WebSearch | None,
) -> list[Tool]:
    own_tools = [done_tool(), preference_tool(set_preferences)]
    own_tools += [web_search_tool(web_search)] if web_search is not None else []
    return own_tools + ([subagent_tool(subagents)] if subagents is not None else [])
