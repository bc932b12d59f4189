"""Items of an agent's thread: its messages as a person sees them, with the notes attached to each.

Each message of the agent is one step of a run. It becomes an item as soon as that step is stored, and keeps the id
`run.step`; the user's message is `run.0`. Turns that never ran here, such as an imported thread, use their memory ids.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from elytron.api import MemoryFace
from elytron.runtime_records import RuntimeRecords
from elytron_agent import limits
from elytron_agent.runs.journal import RunJournal, RunRecord, run_of_documents
from elytron_agent.runs.thread_notes import ITEM_MARK, WELCOMED
from elytron_agent.service.wire import ItemList, ItemReaction, ItemRole, ThreadItem
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.contracts.inspection import LedgerOrder, LedgerTurn, MemoryReplayRequest
from elytron_core.errors import NotFound, PreconditionFailed
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.records import Record, copies_of_turn
from elytron_core.planes.transcript import message_id, sequence_of, tag_of, turn_id
from elytron_core.scope import Scope

_OF_RUN: Final = re.compile(r"([\w-]{1,100})\.([0-9]{1,4})")
_OF_MEMORY: Final = re.compile(r"([0-9a-f]+\.[0-9a-f]{12})(#[0-9]{1,4})?")
_STEP_DIGITS: Final = 4


class ItemOrder(StrEnum):
    """Order of a page of items."""

    DESCENDING = "desc"
    """The latest first."""
    ASCENDING = "asc"


class ItemMark(Value):
    """Notes attached to an item. They are erased with it."""

    delivered_at: Instant | None = None
    reaction: ItemReaction | None = None


@dataclass(frozen=True, slots=True)
class _StoredRun:
    """A run of the thread, built from its documents."""

    record: RunRecord
    times: dict[str, Instant]
    marks: dict[int, ItemMark]


class ThreadItems:
    """The items of one agent's thread."""

    def __init__(self, memory: MemoryFace, records: RuntimeRecords, scope: Scope, /, *, agent: str) -> None:
        self._memory = memory
        self._records = records
        self._agent = agent
        self._scope = Scope.model_validate(scope.model_dump() | {"agent": agent, "conversation": agent})
        self._journal = RunJournal(memory, records, self._scope, agent=agent, by="")

    async def page(self, *, limit: int, after: str | None = None, order: ItemOrder = ItemOrder.DESCENDING) -> ItemList:
        """Return the items after `after`, in `order`. Raises NotFound if `after` is not an item."""
        items: list[ThreadItem] = []
        async for item in self._items(after, order):
            items.append(item)
            if len(items) > limit:
                break
        page_items = items[:limit]
        return ItemList(
            data=tuple(page_items),
            first_id=page_items[0].id if page_items else None,
            last_id=page_items[-1].id if page_items else None,
            has_more=len(items) > limit,
        )

    async def item(self, item_id: str, /) -> ThreadItem:
        """Return an item. Raises NotFound."""
        items = await self._turn_of_item(item_id)
        return _item_in(items, item_id)

    async def run_items(self, run: str, /) -> Sequence[ThreadItem]:
        """Return the items of a run. Raises NotFound."""
        return await self._turn_of_item(item_name(run, 0))

    async def deliver(self, item_id: str, /, *, at: Instant) -> ThreadItem:
        """Record that a device received a message. Only the first time counts. Raises NotFound."""

        def change(mark: ItemMark) -> ItemMark:
            return mark if mark.delivered_at is not None else mark.model_copy(update={"delivered_at": at})

        return await self._note(item_id, change)

    async def react(self, item_id: str, reaction: ItemReaction | None, /) -> ThreadItem:
        """Set or remove the reaction to an item. Later requests to the model show it. Raises NotFound."""
        if (run := run_of_item(item_id)) is not None:
            await self._journal.note_reacted(self._agent, run)
        return await self._note(item_id, lambda mark: mark.model_copy(update={"reaction": reaction}))

    async def _note(self, item_id: str, change: Callable[[ItemMark], ItemMark]) -> ThreadItem:
        item = await self.item(item_id)
        if change(_mark_of(item)) == _mark_of(item):
            return item
        id_match = _OF_RUN.fullmatch(item_id)
        if id_match is None:
            raise NotFound(what="item", name=item_id, way_out="imported items cannot be annotated")
        namespace, key = copies_of_turn(id_match[1], self._agent), f"{ITEM_MARK}{int(id_match[2]):0{_STEP_DIGITS}}"
        while True:
            record = await self._records.get(namespace, key)
            mark_before = ItemMark.model_validate(record.value) if record is not None else ItemMark()
            mark = change(mark_before)
            if mark == mark_before:
                return item.model_copy(update=dict(mark))
            value = mark.model_dump(mode="json", exclude_none=True)
            required_version = record.version if record is not None else 0
            try:
                await self._records.put(
                    namespace, key, value, text="annotations of an item", expected_version=required_version
                )
            except PreconditionFailed:
                # Another device came first. Read its note and apply the change to it.
                continue
            return item.model_copy(update=dict(mark))

    async def _items(self, after: str | None, order: ItemOrder) -> AsyncIterator[ThreadItem]:
        """Yield the items after `after`. The greeting comes before the items of all runs."""
        is_down = order is ItemOrder.DESCENDING
        welcome = await self._welcome_items()
        is_welcome = after is not None and run_of_item(after) == WELCOMED
        welcome_items = welcome[::-1] if is_down else welcome
        if is_welcome:
            welcome_items = welcome_items[welcome_items.index(_item_in(welcome_items, after or "")) + 1 :]
        elif after is not None and not is_down:
            welcome_items = ()
        if not is_down:
            for item in welcome_items:
                yield item
        if not (is_down and is_welcome):
            async for item in self._items_of_runs(None if is_welcome else after, order):
                yield item
        if is_down:
            for item in welcome_items:
                yield item

    async def _items_of_runs(self, after: str | None, order: ItemOrder) -> AsyncIterator[ThreadItem]:
        is_down = order is ItemOrder.DESCENDING
        cursor: str | None = None
        first_items: Sequence[ThreadItem] = ()
        if after is not None:
            items = await self._turn_of_item(after)
            _item_in(items, after)
            first_items = items[::-1] if is_down else items
            item_index = next(index for index, item in enumerate(first_items) if item.id == after)
            for item in first_items[item_index + 1 :]:
                yield item
            cursor = await self._ledger_id(after)
            # The open run is the last one, so nothing follows it.
            if cursor is None and not is_down:
                return
        elif is_down:
            first_items = (await self._open_items())[::-1]
            for item in first_items:
                yield item
        # A run that ends meanwhile appears in the ledger before it is closed.
        last_run_id = first_items[0].run_id if first_items else ""
        async for turn in self._ledger(cursor, order):
            if turn.host_id is not None and turn.host_id == last_run_id:
                continue
            items = await self._items_of(turn)
            last_run_id = last_run_id if is_down else turn.host_id or ""
            for item in reversed(items) if is_down else items:
                yield item
        if not is_down:
            for item in await self._open_items():
                if item.run_id != last_run_id:
                    yield item

    async def _ledger(self, cursor: str | None, order: ItemOrder) -> AsyncIterator[LedgerTurn]:
        """Yield the turns after `cursor`, in `order`."""
        is_down = order is ItemOrder.DESCENDING
        while True:
            report = await self._memory.replay(
                MemoryReplayRequest(
                    scope=self._scope,
                    limit=limits.ITEMS_PAGE,
                    cursor=cursor,
                    order=LedgerOrder.LATEST if is_down else LedgerOrder.FIRST,
                )
            )
            for turn in reversed(report.turns) if is_down else report.turns:
                yield turn
            cursor = report.next_cursor
            if cursor is None:
                return

    async def _open_items(self) -> Sequence[ThreadItem]:
        """Return the items of the unfinished run."""
        head, _ = await self._journal.head(self._agent)
        run = await self._run(head.open) if head.open is not None else None
        return _run_items(run) if run is not None and run.record.end is None else ()

    async def _welcome_items(self) -> Sequence[ThreadItem]:
        """Return the greeting as items, which precede those of any run; nothing if there was none."""
        welcome = await self._journal.welcome(self._agent)
        if welcome is None:
            return ()
        item_marks = _marks_of(await self._journal.documents(WELCOMED))
        return [
            ThreadItem(
                id=item_name(WELCOMED, step),
                role=ItemRole.ASSISTANT,
                text=text,
                created_at=welcome.at,
                run_id=WELCOMED,
                **dict(item_marks.get(step, ItemMark())),
            )
            for step, text in enumerate(welcome.texts, 1)
        ]

    async def _turn_of_item(self, item_id: str) -> Sequence[ThreadItem]:
        """Return the items of the turn that contains an item. Raises NotFound."""
        if run_of_item(item_id) == WELCOMED:
            return await self._welcome_items()
        if (id_match := _OF_RUN.fullmatch(item_id)) is not None:
            run = await self._run(id_match[1])
            if run is not None and run.record.end is None:
                return _run_items(run)
            turn_key = run.record.end.turn if run is not None and run.record.end is not None else None
        else:
            memory_match = _OF_MEMORY.fullmatch(item_id)
            turn_key = memory_match[1] if memory_match is not None else None
        turn = await self._ledger_turn(TurnId(turn_key)) if turn_key is not None else None
        if turn is None:
            raise NotFound(what="item", name=item_id)
        return await self._items_of(turn)

    async def _ledger_id(self, item_id: str) -> str | None:
        """Return the id of the turn that contains an item, or None for the unfinished run."""
        id_match = _OF_RUN.fullmatch(item_id)
        if id_match is None:
            return item_id.partition("#")[0]
        run = await self._run(id_match[1])
        return run.record.end.turn if run is not None and run.record.end is not None else None

    async def _ledger_turn(self, place: TurnId) -> LedgerTurn | None:
        """Return a turn of this thread by id, or None if the thread does not contain it."""
        # The tag of the thread is only known from its turns.
        first_report = await self._memory.replay(MemoryReplayRequest(scope=self._scope, limit=1))
        if not first_report.turns or tag_of(first_report.turns[0].id) != tag_of(place):
            return None
        # A page ends before its cursor, so the id after this turn selects it.
        cursor_after = turn_id(tag_of(place), sequence_of(place) + 1)
        report = await self._memory.replay(MemoryReplayRequest(scope=self._scope, limit=1, cursor=cursor_after))
        return report.turns[0] if report.turns and report.turns[0].id == place else None

    async def _items_of(self, turn: LedgerTurn) -> Sequence[ThreadItem]:
        """Return the items of a turn, without forgotten or erased messages."""
        run = await self._run(turn.host_id) if turn.host_id is not None else None
        visible_messages = [message for message in turn.messages if message.text and not message.forgotten]
        is_first_visible = bool(turn.messages) and turn.messages[0] in visible_messages
        if run is not None:
            had_answer = any(message.role is EvidenceRole.ASSISTANT for message in turn.messages)
            is_hidden = had_answer and all(message.role is not EvidenceRole.ASSISTANT for message in visible_messages)
            return [
                item
                for item in _run_items(run)
                if (not is_hidden if item.role is ItemRole.ASSISTANT else is_first_visible)
            ]
        return [
            ThreadItem(
                id=message_id(turn.id, message_index),
                role=ItemRole.USER if message.role is EvidenceRole.USER else ItemRole.ASSISTANT,
                text=message.text,
                created_at=message.at or turn.recorded_at,
                run_id=turn.host_id or turn.id,
            )
            for message_index, message in enumerate(turn.messages)
            if message in visible_messages and message.role in {EvidenceRole.USER, EvidenceRole.ASSISTANT}
        ]

    async def _run(self, run: str) -> _StoredRun | None:
        """Return a run of this thread, or None if its documents do not exist."""
        if not run or len(run) > core_limits.NAME_CHARS:
            return None
        documents = await self._journal.documents(run)
        record = run_of_documents(documents)
        if record is None or record.input.thread != self._agent:
            return None
        return _StoredRun(record, {document.key: document.created_at for document in documents}, _marks_of(documents))


def item_name(run: str, step: int, /) -> str:
    """Return the item id of a step of a run. Step 0 is the user's message."""
    return f"{run}.{step}"


def run_of_item(item_id: str, /) -> str | None:
    """Return the run that an item id names, or None for an id of another form."""
    id_match = _OF_RUN.fullmatch(item_id)
    return id_match[1] if id_match is not None else None


def _item_in(items: Sequence[ThreadItem], item_id: str) -> ThreadItem:
    for item in items:
        if item.id == item_id:
            return item
    raise NotFound(what="item", name=item_id)


def _mark_of(item: ThreadItem) -> ItemMark:
    return ItemMark(delivered_at=item.delivered_at, reaction=item.reaction)


def _marks_of(documents: Sequence[Record]) -> dict[int, ItemMark]:
    return {
        int(document.key.removeprefix(ITEM_MARK)): ItemMark.model_validate(document.value)
        for document in documents
        if document.key.startswith(ITEM_MARK)
    }


def _run_items(run: _StoredRun) -> Sequence[ThreadItem]:
    run_input = run.record.input
    author = ItemRole.USER if run_input.schedule is None else ItemRole.SCHEDULE
    entries = [(0, author, run_input.text, run_input.at)]
    entries += [
        (reply.step, ItemRole.ASSISTANT, reply.text, run.times[f"{reply.step:0{_STEP_DIGITS}}"])
        for reply in run.record.replies
        if reply.text
    ]
    return [
        ThreadItem(
            id=item_name(run_input.run, step),
            role=role,
            text=text,
            created_at=at,
            run_id=run_input.run,
            **dict(run.marks.get(step, ItemMark())),
        )
        for step, role, text, at in entries
    ]
