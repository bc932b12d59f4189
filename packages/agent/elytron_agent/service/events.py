"""Events for clients that come and go: the feed of a turn, the stream of one connection, and a user's event log.

A log entry names an item and contains none of its text, so erasing the item requires no change to the log. Ids start at
the time of the log's first entry, so the ids of an erased log never match a later one.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from pydantic import Field
from starlette.types import Receive, Send

from elytron.runtime_records import RecordDraft
from elytron_adapter import envelope
from elytron_adapter.http.open_streams import StreamGuard, guarded_items
from elytron_agent import limits
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
from elytron_agent.runs.journal import MAIN
from elytron_agent.runs.settings import RunUsage
from elytron_agent.runs.thread_notes import AGENTS
from elytron_agent.service.companion import UserAgents
from elytron_agent.service.thread_items import ThreadItems, item_name
from elytron_agent.service.wire import REACT, AgentEventData, AgentEventKind, reaction_in
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, EventIdInvalid, NotFound, PreconditionFailed
from elytron_core.model import Value

LOG_PAGE: Final = 32
LOG_PAGES: Final = 512
"""Number of pages that are kept of a user's event log; LOG_PAGE is the number of entries per page."""
LOG_PAGES_OF_A_TURN: Final = 8
"""Number of latest pages that are searched for a message of an interrupted turn."""
SEND_S: Final = 30.0
"""How long the reader of a stream may accept no data."""


_PROBLEMS: Final = {
    StopReason.FAILED: "the model could not be called: your message is stored, try again later",
    StopReason.MALFORMED: "the model returned no usable answer: your message is stored",
    StopReason.WINDOW: "it does not fit the model's window",
    StopReason.REFUSED: "the model refused to answer this",
    StopReason.CANCELLED: "the turn was cancelled",
}


class FeedEvent(NamedTuple):
    """An event of a turn. `id` is its position in the user's log, empty if it is not logged."""

    kind: AgentEventKind
    data: AgentEventData
    id: str = ""


EventT = TypeVar("EventT")


class TurnFeed(Generic[EventT]):
    """The events of one turn, which several readers may read from any position."""

    def __init__(self) -> None:
        self._events: list[EventT] = []
        self._is_over = False
        self._changed = asyncio.Event()

    def put(self, event: EventT, /) -> None:
        """Append an event."""
        self._events.append(event)
        self._wake()

    def close(self) -> None:
        """Mark the feed as complete."""
        self._is_over = True
        self._wake()

    async def read(self, *, first: int = 0) -> AsyncGenerator[EventT]:
        """Yield all events from index `first` on, until the turn is over."""
        next_index = first
        while True:
            # Read this before checking, so that an event added meanwhile wakes this reader.
            change_event = self._changed
            while next_index < len(self._events):
                next_index += 1
                yield self._events[next_index - 1]
            if self._is_over:
                return
            await change_event.wait()

    def _wake(self) -> None:
        change_event, self._changed = self._changed, asyncio.Event()
        change_event.set()


class FeedWriter(Generic[EventT]):
    """Log events and then append them to a feed in order. Events that arrive during a write are logged together."""

    def __init__(self, feed: TurnFeed[EventT], log: Callable[..., Awaitable[Sequence[EventT]]], /) -> None:
        self._feed = feed
        self._log = log
        self._waiting: list[EventT] = []
        self._work: asyncio.Task[None] | None = None

    def put(self, event: EventT, /) -> None:
        """Queue an event to be logged and then appended to the feed."""
        self._waiting.append(event)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._write())

    async def finish(self) -> None:
        """Wait until all events are in the feed."""
        if self._work is not None:
            await self._work

    def end(self) -> None:
        """Discard events that are not logged yet."""
        if self._work is not None:
            self._work.cancel()

    async def _write(self) -> None:
        while self._waiting:
            waiting_events, self._waiting = self._waiting, []
            for event in await self._log(*waiting_events):
                self._feed.put(event)


@dataclass(slots=True)
class TurnTranslator:
    """Translate events of runs into events for clients."""

    agent_id: str
    schedule: str | None = None
    """Schedule that started the turn."""
    messages: int = 0
    started_runs: set[str] = field(default_factory=set[str])
    _run: str = ""
    _calls: int = 0
    _reactions: dict[str, str] = field(default_factory=dict[str, str])

    def events(self, event: AgentEvent, /) -> Iterator[FeedEvent]:
        """Yield the client events for an event of a run."""
        match event:
            case RunStarted():
                self._run, self.messages = event.run, 0
                self.started_runs.add(event.run)
                yield self._make_event(AgentEventKind.TYPING, step=1)
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
        """Return the event for a message."""
        self.messages += 1
        self._run = run or self._run
        name = item_name(self._run, step)
        return self._make_event(AgentEventKind.MESSAGE, step=step, message_id=name, message=text, messages=(text,))

    def failed(self, code: str, problem: str, /) -> FeedEvent:
        """Return the event for a failed turn."""
        return self._make_event(AgentEventKind.ERROR, error=problem, code=code)

    def _answered(self, event: ToolAnswered) -> Iterator[FeedEvent]:
        self._calls -= 1
        emoji = self._reactions.pop(event.call, None)
        if emoji is not None and not event.is_error:
            yield self._make_event(
                AgentEventKind.REACTION, step=event.step, item_id=item_name(self._run, 0), emoji=emoji
            )
        if self._calls == 0 and event.tool != "done":
            yield self._make_event(AgentEventKind.TYPING, step=event.step + 1)

    def _ended(self, event: RunEnded) -> FeedEvent:
        self._run = event.run
        if event.reason not in ANSWERS:
            return self.failed(event.reason.value, event.problem or _PROBLEMS[event.reason])
        return self._make_event(
            AgentEventKind.DONE,
            reason=event.reason.value,
            total_steps=event.usage.steps,
            total_messages=self.messages,
            usage=event.usage,
        )

    def _make_event(self, kind: AgentEventKind, /, **fields: object) -> FeedEvent:
        data = AgentEventData.model_validate(
            {"agent_id": self.agent_id, "run_id": self._run, "schedule_id": self.schedule, **fields}
        )
        return FeedEvent(kind, data)


HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]

DeliveryCallback = Callable[[FeedEvent], Awaitable[None]]
"""Called with each event after its frame was passed to the connection."""


class EventWriter:
    """Write events to one connection until they end, the reader leaves, or the server shuts down."""

    def __init__(self, guard: StreamGuard, receive: Receive, send: Send, /, *, silence_s: float) -> None:
        self._guard = guard
        self._receive = receive
        self._send = send
        self._silence_s = silence_s

    async def write(
        self,
        events: AsyncGenerator[FeedEvent | bytes],
        /,
        *,
        opening: bytes = b"",
        delivery_callback: DeliveryCallback | None = None,
    ) -> None:
        """Send the events until the stream has to end. The last frame states the reason."""
        guarded_events = guarded_items(self._guard, events, self._receive, silence_s=self._silence_s)
        try:
            await self._frame(opening, begins=True)
            async with aclosing(guarded_events):
                async for event in guarded_events:
                    await self._frame(event_frame(event))
                    if delivery_callback is not None and isinstance(event, FeedEvent):
                        await delivery_callback(event)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return  # no reader: the server closes the connection
        finally:
            await events.aclose()

    async def _frame(self, data: bytes, *, begins: bool = False) -> None:
        """Send `data`. Raises TimeoutError if the reader accepts nothing for too long."""
        async with asyncio.timeout(SEND_S):
            if begins:
                await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._send({"type": "http.response.body", "body": data, "more_body": True})


def event_frame(event: FeedEvent | bytes | ElytronError | None, /) -> bytes:
    """Return the frame of an event, of the reason for the end of a stream, or of a keep-alive comment.

    The data of an event is JSON on one line, so nothing in it can end the event.
    """
    match event:
        case None:
            return b": keep-alive\n\n"
        case bytes():
            return event
        case ElytronError():
            event = FeedEvent(AgentEventKind.ERROR, AgentEventData(error=event.message, code=event.key))
        case FeedEvent():
            pass
    id_line = b"id: %b\n" % event.id.encode() if event.id else b""
    return b"%bevent: %b\ndata: %b\n\n" % (id_line, event.kind.value.encode(), envelope.encode_value(event.data))


_ID: Final = re.compile(r"[0-9]{1,18}")
_HEAD: Final = "log"
_REFERENCES: Final = frozenset({AgentEventKind.MESSAGE, AgentEventKind.REACTION})


class LogEntry(Value):
    """One event: its sequence and kind, its thread, and the item it refers to."""

    sequence: int
    at: Instant
    kind: AgentEventKind
    agent_id: str
    thread: str
    run_id: str = ""
    step: int | None = None
    item_id: str | None = None
    reason: str | None = None
    total_steps: int | None = None
    total_messages: int | None = None
    usage: RunUsage | None = None
    error: str | None = None
    code: str | None = None
    schedule_id: str | None = None


class LoggedTurn(Value):
    """A turn that started at `at` and whose end is not in the log yet."""

    thread: str
    run_id: str
    at: Instant


class LogPage(Value):
    """Consecutive entries. The last page of a log is its head, which is replaced by version."""

    number: int = 0
    first: int = 1
    entries: Annotated[tuple[LogEntry, ...], Field(max_length=LOG_PAGE)] = ()
    open: tuple[LoggedTurn, ...] = ()

    @property
    def next(self) -> int:
        return self.first + len(self.entries)


class LogGap(Value):
    """Events that are no longer available."""

    first: int
    last: int
    reason: str


class EventLog:
    """The event log of one user. Several processes may append to it."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._order = asyncio.Lock()
        self._head: tuple[LogPage, int] | None = None

    async def add(self, *events: FeedEvent, thread: str) -> Sequence[FeedEvent]:
        """Append events to the log in one commit, and return them with their ids."""
        async with self._order:
            while True:
                head, version = self._head or await self._read_head()
                try:
                    self._head = await self._append(head, version, events, thread)
                except PreconditionFailed:
                    self._head = None
                    continue
                return [event._replace(id=str(head.next + index)) for index, event in enumerate(events)]

    async def open_turns(self) -> tuple[LoggedTurn, ...]:
        """Return the turns whose end is not in the log."""
        return (await self._read_head())[0].open

    async def last(self) -> int:
        """Return the id of the last event, or 0 if there is none."""
        head, version = await self._read_head()
        return head.next - 1 if version else 0

    async def after(self, place: int, /) -> tuple[LogGap | None, Sequence[LogEntry]]:
        """Return the events after `place`, preceded by the gap if some are missing.

        For 0, return all available events.
        """
        head, version = await self._read_head()
        if place == head.next - 1 or (place == 0 and version == 0):
            return None, ()
        if place >= head.next or version == 0:
            return LogGap(first=head.first, last=head.next - 1, reason="unknown"), ()
        entries = [entry for entry in head.entries if entry.sequence > place]
        first_sequence = head.first
        # Pages form a ring, so a page with an older number has been overwritten.
        for number in range(head.number - 1, max(-1, head.number - LOG_PAGES), -1):
            if place + 1 >= first_sequence:
                break
            page = await self._page(number)
            if page is None:
                break
            first_sequence = page.first
            entries = [entry for entry in page.entries if entry.sequence > place] + entries
        oldest_instant = self._user.memory.context.clock.now() - limits.EVENTS_KEPT_S * 1000
        recent_entries = [entry for entry in entries if entry.at >= oldest_instant]
        begin_sequence = recent_entries[0].sequence if recent_entries else head.next
        log_gap = (
            LogGap(first=place + 1, last=begin_sequence - 1, reason="expired")
            if begin_sequence > place + 1 > 1
            else None
        )
        return log_gap, recent_entries

    async def has_message(self, item_id: str, /) -> bool:
        """Return whether the message of an item is in the log."""
        head, _ = await self._read_head()
        for number in range(head.number, max(-1, head.number - LOG_PAGES_OF_A_TURN), -1):
            page = head if number == head.number else await self._page(number)
            if page is None:
                break
            if any(entry.item_id == item_id and entry.kind is AgentEventKind.MESSAGE for entry in page.entries):
                return True
        return False

    async def client_event(self, entry: LogEntry, /) -> FeedEvent:
        """Return an event in its form for clients, with the current content of its item."""
        fields: dict[str, Any] = entry.model_dump(exclude={"sequence", "kind", "thread", "item_id", "at"})
        fields["created_at"] = entry.at
        if entry.kind in _REFERENCES and entry.item_id is not None:
            user = self._user
            items = ThreadItems(user.memory, user.records, user.scope, agent=entry.thread)
            try:
                item = await items.item(entry.item_id)
            except NotFound:
                fields["is_erased"] = True
            else:
                if entry.kind is AgentEventKind.MESSAGE:
                    fields |= {"message": item.text, "messages": (item.text,)}
                else:
                    fields["emoji"] = item.reaction.emoji if item.reaction is not None else None
            fields["message_id" if entry.kind is AgentEventKind.MESSAGE else "item_id"] = entry.item_id
        return FeedEvent(entry.kind, AgentEventData.model_validate(fields), str(entry.sequence))

    async def _append(
        self, head: LogPage, version: int, events: Sequence[FeedEvent], thread: str
    ) -> tuple[LogPage, int]:
        recorded_at = self._user.memory.context.clock.now()
        drafts: list[RecordDraft] = []
        for event in events:
            if len(head.entries) >= LOG_PAGE:
                drafts.append(_page_draft(_page_key(head.number), head))
                head = LogPage(number=head.number + 1, first=head.next, open=head.open)
            entry = _entry_of(event, thread, head.next, recorded_at)
            open_turns = _still_open(head.open, entry)
            head = head.model_copy(update={"entries": (*head.entries, entry), "open": open_turns})
        records = await self._user.records.put_all([*drafts, _page_draft(_HEAD, head, version)])
        return head, records[-1].version

    async def _read_head(self) -> tuple[LogPage, int]:
        record = await self._user.records.get(_log_place(), _HEAD)
        if record is None:
            # Ids begin at the current time, above those of an erased log.
            return LogPage(first=max(1, self._user.memory.context.clock.now())), 0
        return LogPage.model_validate(record.value), record.version

    async def _page(self, number: int) -> LogPage | None:
        record = await self._user.records.get(_log_place(), _page_key(number))
        page = LogPage.model_validate(record.value) if record is not None else None
        return page if page is not None and page.number == number else None


def event_place(text: str | None, /) -> int | None:
    """Return the position that an event id names, or None without an id. Raises EventIdInvalid."""
    if text is None:
        return None
    if _ID.fullmatch(text) is None:
        raise EventIdInvalid
    return int(text)


def _entry_of(event: FeedEvent, thread: str, sequence: int, at: Instant) -> LogEntry:
    event_data = event.data
    return LogEntry(
        sequence=sequence,
        at=at,
        kind=event.kind,
        agent_id=event_data.agent_id or "",
        thread=thread,
        run_id=event_data.run_id or "",
        step=event_data.step,
        item_id=event_data.message_id or event_data.item_id,
        reason=event_data.reason,
        total_steps=event_data.total_steps,
        total_messages=event_data.total_messages,
        usage=event_data.usage,
        error=event_data.error,
        code=event_data.code,
        schedule_id=event_data.schedule_id,
    )


def _still_open(turns: tuple[LoggedTurn, ...], entry: LogEntry) -> tuple[LoggedTurn, ...]:
    """Return the turns that are still open after `entry`."""
    is_begun = entry.kind is AgentEventKind.TYPING
    if not is_begun and entry.kind not in {AgentEventKind.DONE, AgentEventKind.ERROR}:
        return turns
    other_turns = tuple(turn for turn in turns if turn.thread != entry.thread)
    new_turn = LoggedTurn(thread=entry.thread, run_id=entry.run_id, at=entry.at)
    return (*other_turns, new_turn) if is_begun else other_turns


def _page_draft(key: str, page: LogPage, version: int | None = None) -> RecordDraft:
    value = page.model_dump(mode="json", exclude_defaults=True)
    return RecordDraft(_log_place(), key, value, text="events", expected_version=version)


def _page_key(number: int) -> str:
    return f"page.{number % LOG_PAGES:04}"


def _log_place() -> tuple[str, ...]:
    return (AGENTS, MAIN, "events")
