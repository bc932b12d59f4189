"""Feeds of turns: what happens in a run as events for clients, who come and go."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from elytron_agent.runs.events import (
    ANSWERS,
    AgentEvent,
    RunEnded,
    RunStarted,
    StepTaken,
    StopReason,
    ToolAnswered,
    ToolCalled,
)
from elytron_agent.service.thread_items import item_name
from elytron_agent.service.wire import REACT, AgentEventData, AgentEventKind, reaction_in

_PROBLEMS: Final = {
    StopReason.FAILED: "the model could not be asked: your words are kept, try again later",
    StopReason.MALFORMED: "the model gave no answer that can be shown: your words are kept",
    StopReason.WINDOW: "it does not fit the model's window",
    StopReason.REFUSED: "the model will not answer this",
    StopReason.CANCELLED: "the turn was cancelled",
}


class FeedEvent(NamedTuple):
    """An event of a turn. `id` is its place in the user's log, empty for what is in none."""

    kind: AgentEventKind
    data: AgentEventData
    id: str = ""


EventT = TypeVar("EventT")


class TurnFeed(Generic[EventT]):
    """The events of one turn, for readers that come and go."""

    def __init__(self) -> None:
        self._events: list[EventT] = []
        self._is_over = False
        self._changed = asyncio.Event()

    def put(self, event: EventT, /) -> None:
        """Add an event."""
        self._events.append(event)
        self._wake()

    def close(self) -> None:
        """Say that no event follows."""
        self._is_over = True
        self._wake()

    async def read(self, *, first: int = 0) -> AsyncGenerator[EventT]:
        """Yield all events, from the given one on, until the turn is over."""
        place = first
        while True:
            changed = self._changed
            while place < len(self._events):
                place += 1
                yield self._events[place - 1]
            if self._is_over:
                return
            await changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class FeedWriter(Generic[EventT]):
    """Puts events into a feed, in their order, once they are logged; what comes meanwhile is logged together."""

    def __init__(self, feed: TurnFeed[EventT], log: Callable[..., Awaitable[Sequence[EventT]]], /) -> None:
        self._feed = feed
        self._log = log
        self._waiting: list[EventT] = []
        self._work: asyncio.Task[None] | None = None

    def put(self, event: EventT, /) -> None:
        """Have an event logged, then put into the feed."""
        self._waiting.append(event)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._write())

    async def finish(self) -> None:
        """Wait until all events are in the feed."""
        if self._work is not None:
            await self._work

    def end(self) -> None:
        """Leave out what is not logged yet."""
        if self._work is not None:
            self._work.cancel()

    async def _write(self) -> None:
        while self._waiting:
            events, self._waiting = self._waiting, []
            for event in await self._log(*events):
                self._feed.put(event)


@dataclass(slots=True)
class TurnTranslator:
    """Turns what happens in runs into events for clients."""

    agent_id: str
    schedule: str | None = None
    """Schedule that began the turn."""
    messages: int = 0
    begun: set[str] = field(default_factory=set[str])
    _run: str = ""
    _calls: int = 0
    _reactions: dict[str, str] = field(default_factory=dict[str, str])

    def events(self, event: AgentEvent, /) -> Iterator[FeedEvent]:
        """Yield the events of the feed that one of the run comes to."""
        match event:
            case RunStarted():
                self._run, self.messages = event.run, 0
                self.begun.add(event.run)
                yield self._made(AgentEventKind.TYPING, step=1)
            case StepTaken():
                self._calls = event.calls
                if event.text:
                    yield self.message(event.step, event.text)
            case ToolCalled():
                if event.tool == REACT and (emoji := reaction_in(event.arguments)):
                    self._reactions[event.call] = emoji
            case ToolAnswered():
                yield from self._answered(event)
            case RunEnded():
                yield self._ended(event)
            case _:
                pass

    def message(self, step: int, text: str, /, *, run: str | None = None) -> FeedEvent:
        """Return the event of a message."""
        self.messages += 1
        self._run = run or self._run
        name = item_name(self._run, step)
        return self._made(AgentEventKind.MESSAGE, step=step, message_id=name, message=text, messages=(text,))

    def failed(self, code: str, problem: str, /) -> FeedEvent:
        """Return the event of a turn that failed."""
        return self._made(AgentEventKind.ERROR, error=problem, code=code)

    def _answered(self, event: ToolAnswered) -> Iterator[FeedEvent]:
        self._calls -= 1
        emoji = self._reactions.pop(event.call, None)
        if emoji is not None and not event.is_error:
            yield self._made(AgentEventKind.REACTION, step=event.step, item_id=item_name(self._run, 0), emoji=emoji)
        if self._calls == 0 and event.tool != "done":
            yield self._made(AgentEventKind.TYPING, step=event.step + 1)

    def _ended(self, event: RunEnded) -> FeedEvent:
        self._run = event.run
        if event.reason not in ANSWERS:
            return self.failed(event.reason.value, event.problem or _PROBLEMS[event.reason])
        return self._made(
            AgentEventKind.DONE,
            reason=event.reason.value,
            total_steps=event.usage.steps,
            total_messages=self.messages,
            usage=event.usage,
        )

    def _made(self, kind: AgentEventKind, /, **fields: object) -> FeedEvent:
        data = AgentEventData.model_validate(
            {"agent_id": self.agent_id, "run_id": self._run, "schedule_id": self.schedule, **fields}
        )
        return FeedEvent(kind, data)
