"""Writes concurrent with another process's: whatever order the store applies, heads stay correct."""

import asyncio

import pytest

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.errors import Conflict
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes import transcript
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

SPACE = SpaceId("ada")


class GroupingStore:
    """One handle on a shared store whose commits wait for each other, and are then applied as one group."""

    def __init__(self, shared: MemoryStore) -> None:
        self._shared = shared
        self._waiting: list[tuple[Batch, asyncio.Future[CommitReceipt]]] = []
        self._is_open = False
        self.capabilities = shared.capabilities
        self.compact = shared.compact
        self.count = shared.count
        self.get = shared.get
        self.scan = shared.scan
        self.journal = shared.journal
        self.spaces = shared.spaces
        self.write_blob = shared.write_blob
        self.read_blob = shared.read_blob
        self.erase = shared.erase
        self.check = shared.check
        self.repair = shared.repair
        self.probe = shared.probe
        self.close = shared.close

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if self._is_open:
            return await self._shared.commit(batch)
        answer: asyncio.Future[CommitReceipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, answer))
        return await answer

    async def gather(self, commits: int) -> None:
        """Return when that many commits wait."""
        while len(self._waiting) < commits:
            await asyncio.sleep(0)

    async def apply(self) -> None:
        """Apply all waiting commits before any caller learns the outcome."""
        self._is_open = True
        for batch, answer in self._waiting:
            try:
                answer.set_result(await self._shared.commit(batch))
            except Conflict as refused:
                answer.set_exception(refused)


def turns(*texts: str) -> elytron.MemoryWriteRequest:
    drafts = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in texts)
    return elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=drafts))


async def runtimes() -> tuple[elytron.MemoryRuntime, elytron.MemoryRuntime, GroupingStore]:
    """Return a runtime whose commits wait and one whose do not, on one store with a turn."""
    shared = MemoryStore()
    grouping = GroupingStore(shared)
    clock, ids = FrozenClock(step_ms=1), SeededIds()
    ours = await elytron.open(grouping, space=SPACE, clock=clock, ids=ids)
    theirs = await elytron.open(shared, space=SPACE, clock=clock, ids=ids)
    await theirs.add("begun")
    return ours, theirs, grouping


async def ledger(memory: elytron.MemoryRuntime) -> tuple[int, list[int], set[str]]:
    page = await memory.replay()
    texts = {turn.messages[0].text for turn in page.turns}
    return page.total_turns, [turn.sequence for turn in page.turns], texts


async def test_a_head_counts_every_turn_after_a_concurrent_write() -> None:
    ours, theirs, grouping = await runtimes()
    async with asyncio.TaskGroup() as group:
        group.create_task(ours.write(turns("one", "two", "three")))
        group.create_task(ours.write(turns("four")))
        await grouping.gather(2)
        await theirs.add("five")
        await grouping.apply()
    expected = {"begun", "one", "two", "three", "four", "five"}
    assert await ledger(theirs) == (6, [1, 2, 3, 4, 5, 6], expected)


async def test_a_head_counts_every_turn_after_a_concurrent_erasure() -> None:
    ours, theirs, grouping = await runtimes()
    going = (await theirs.add("going")).ids
    async with asyncio.TaskGroup() as group:
        group.create_task(ours.add("one"))
        group.create_task(ours.add("two"))
        await grouping.gather(2)
        await theirs.erase(elytron.MemoryEraseRequest(ids=going))
        await grouping.apply()
    assert await ledger(theirs) == (3, [1, 3, 4], {"begun", "one", "two"})


async def test_a_head_has_all_speakers_and_names_after_an_equal_concurrent_write() -> None:
    ours, theirs, grouping = await runtimes()
    said_at = FrozenClock().now()
    message = elytron.Message(text="five", speaker="Bob", at=said_at)
    async with asyncio.TaskGroup() as group:
        group.create_task(ours.write(turns("one")))
        group.create_task(ours.write(turns("two")))
        await grouping.gather(2)
        await theirs.write(
            elytron.MemoryWriteRequest(
                scope=elytron.Scope(space=SPACE, chat="harbour", conversation="default"),
                write=elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=(message,)),), title="Tides"),
            )
        )
        # The first is refused, and the second is planned after the other process's turn.
        await grouping.apply()
    assert await ledger(theirs) == (4, [1, 2, 3, 4], {"begun", "five", "two", "one"})
    (head,) = await theirs.context.store.scan(SPACE, transcript.CONVERSATIONS, limit=2)
    conversation = transcript.Conversation.from_bytes(head.body)
    assert (conversation.turns, conversation.speakers, conversation.first_at) == (4, ("Bob",), said_at)
    assert (conversation.chat, conversation.title) == ("harbour", "Tides")
