"""The log of a user's events: a day of references, in one order for all devices and processes.

An entry names an item and holds no word of it, so an erasure empties the log without touching it. Ids begin at the time
of the log's first entry, so that those of an erased log are none of a later one.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from elytron.runtime_records import RecordDraft
from elytron_agent.runs.journal import AGENTS, MAIN
from elytron_agent.runs.settings import RunUsage
from elytron_agent.service import limits
from elytron_agent.service.companion import UserAgents
from elytron_agent.service.thread_items import ThreadItems
from elytron_agent.service.turn_events import FeedEvent
from elytron_agent.service.wire import AgentEventData, AgentEventKind
from elytron_core.clock import Instant
from elytron_core.errors import EventIdInvalid, NotFound, PreconditionFailed
from elytron_core.model import Value

_ID: Final = re.compile(r"[0-9]{1,18}")
_HEAD: Final = "log"
_REFERENCES: Final = frozenset({AgentEventKind.MESSAGE, AgentEventKind.REACTION})


class LogEntry(Value):
    """One event: which one, of which thread, and which item it is about."""

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
    """A turn whose end is not in the log yet. It was begun `at`."""

    thread: str
    run_id: str
    at: Instant


class LogPage(Value):
    """Entries that follow each other. The last page of a log is its head, which is replaced by version."""

    number: int = 0
    first: int = 1
    entries: Annotated[tuple[LogEntry, ...], Field(max_length=limits.LOG_PAGE)] = ()
    open: tuple[LoggedTurn, ...] = ()

    @property
    def next(self) -> int:
        return self.first + len(self.entries)


class LogGap(Value):
    """Events that are no longer there."""

    first: int
    last: int
    reason: str


class EventLog:
    """The log of one user. Several processes may add to it."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._order = asyncio.Lock()
        self._head: tuple[LogPage, int] | None = None

    async def add(self, *events: FeedEvent, thread: str) -> Sequence[FeedEvent]:
        """Put events into the log, in one commit, and return them with their ids."""
        async with self._order:
            while True:
                head, version = self._head or await self._read_head()
                try:
                    self._head = await self._append(head, version, events, thread)
                except PreconditionFailed:
                    self._head = None
                    continue
                return [event._replace(id=str(head.next + place)) for place, event in enumerate(events)]

    async def open_turns(self) -> tuple[LoggedTurn, ...]:
        """Return the turns whose end is not in the log."""
        return (await self._read_head())[0].open

    async def last(self) -> int:
        """Return the id of the last event; 0 before the first."""
        head, version = await self._read_head()
        return head.next - 1 if version else 0

    async def after(self, place: int, /) -> tuple[LogGap | None, Sequence[LogEntry]]:
        """Return the events behind `place`, after the gap that is there, if any; behind 0 all that there are."""
        head, version = await self._read_head()
        if place == head.next - 1 or (place == 0 and version == 0):
            return None, ()
        if place >= head.next or version == 0:
            return LogGap(first=head.first, last=head.next - 1, reason="unknown"), ()
        found = [entry for entry in head.entries if entry.sequence > place]
        first = head.first
        for number in range(head.number - 1, max(-1, head.number - limits.LOG_PAGES), -1):
            if place + 1 >= first:
                break
            page = await self._page(number)
            if page is None:
                break
            first = page.first
            found = [entry for entry in page.entries if entry.sequence > place] + found
        since = self._user.memory.context.clock.now() - limits.EVENTS_KEPT_S * 1000
        kept = [entry for entry in found if entry.at >= since]
        begin = kept[0].sequence if kept else head.next
        gap = LogGap(first=place + 1, last=begin - 1, reason="expired") if begin > place + 1 > 1 else None
        return gap, kept

    async def has_message(self, item_id: str, /) -> bool:
        """Return whether an item's message is in the log."""
        head, _ = await self._read_head()
        for number in range(head.number, max(-1, head.number - limits.LOG_PAGES_OF_A_TURN), -1):
            page = head if number == head.number else await self._page(number)
            if page is None:
                break
            if any(entry.item_id == item_id and entry.kind is AgentEventKind.MESSAGE for entry in page.entries):
                return True
        return False

    async def shown(self, entry: LogEntry, /) -> FeedEvent:
        """Return an event in the form for clients, with what its item says now."""
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
        now = self._user.memory.context.clock.now()
        drafts: list[RecordDraft] = []
        for event in events:
            if len(head.entries) >= limits.LOG_PAGE:
                drafts.append(_page_draft(_page_key(head.number), head))
                head = LogPage(number=head.number + 1, first=head.next, open=head.open)
            entry = _entry_of(event, thread, head.next, now)
            still = _still_open(head.open, entry)
            head = head.model_copy(update={"entries": (*head.entries, entry), "open": still})
        records = await self._user.records.put_all([*drafts, _page_draft(_HEAD, head, version)])
        return head, records[-1].version

    async def _read_head(self) -> tuple[LogPage, int]:
        found = await self._user.records.get(_log_place(), _HEAD)
        if found is None:
            return LogPage(first=max(1, self._user.memory.context.clock.now())), 0
        return LogPage.model_validate(found.value), found.version

    async def _page(self, number: int) -> LogPage | None:
        found = await self._user.records.get(_log_place(), _page_key(number))
        page = LogPage.model_validate(found.value) if found is not None else None
        return page if page is not None and page.number == number else None


def event_place(text: str | None, /) -> int | None:
    """Return the place that an event's id names, None for no id. Raises EventIdInvalid."""
    if text is None:
        return None
    if _ID.fullmatch(text) is None:
        raise EventIdInvalid
    return int(text)


def _entry_of(event: FeedEvent, thread: str, sequence: int, at: Instant) -> LogEntry:
    data = event.data
    return LogEntry(
        sequence=sequence,
        at=at,
        kind=event.kind,
        agent_id=data.agent_id or "",
        thread=thread,
        run_id=data.run_id or "",
        step=data.step,
        item_id=data.message_id or data.item_id,
        reason=data.reason,
        total_steps=data.total_steps,
        total_messages=data.total_messages,
        usage=data.usage,
        error=data.error,
        code=data.code,
        schedule_id=data.schedule_id,
    )


def _still_open(turns: tuple[LoggedTurn, ...], entry: LogEntry) -> tuple[LoggedTurn, ...]:
    """Return the turns without an end behind `entry`."""
    is_begun = entry.kind is AgentEventKind.TYPING
    if not is_begun and entry.kind not in {AgentEventKind.DONE, AgentEventKind.ERROR}:
        return turns
    others = tuple(turn for turn in turns if turn.thread != entry.thread)
    mine = LoggedTurn(thread=entry.thread, run_id=entry.run_id, at=entry.at)
    return (*others, mine) if is_begun else others


def _page_draft(key: str, page: LogPage, version: int | None = None) -> RecordDraft:
    value = page.model_dump(mode="json", exclude_defaults=True)
    return RecordDraft(_log_place(), key, value, text="events", expected_version=version)


def _page_key(number: int) -> str:
    return f"page.{number % limits.LOG_PAGES:04}"


def _log_place() -> tuple[str, ...]:
    return (AGENTS, MAIN, "events")
