"""Writers who append to one conversation, or change one document, concurrently all make progress."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.errors import Conflict
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes import transcript
from elytron_core.planes.skills import SkillSource
from elytron_core.ports.store import Batch, CommitReceipt, Document, DocumentRef, Store
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

SPACE = SpaceId("ada")
WRITERS, EACH = 12, 20


class DistantStore(PassingStore):
    """A handle whose commits are grouped, and answered some loop iterations after they were applied.

    Another process writes before each tenth group.
    """

    def __init__(self, store: Store, other: elytron.MemoryRuntime) -> None:
        super().__init__(store)
        self._other = other
        self._waiting: list[tuple[Batch, asyncio.Future[CommitReceipt]]] = []
        self._is_busy = False
        self.groups = 0
        self.refused = 0

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        answer: asyncio.Future[CommitReceipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, answer))
        if not self._is_busy:
            self._is_busy = True
            while self._waiting:
                await asyncio.sleep(0)
                group, self._waiting = self._waiting, []
                await self._apply(group)
            self._is_busy = False
        return await answer

    async def _apply(self, group: list[tuple[Batch, asyncio.Future[CommitReceipt]]]) -> None:
        outcomes: list[CommitReceipt | Conflict] = []
        self.groups += 1
        if self.groups % 10 == 0:
            await self._other.write(turns("quicker", "and again"))
        for batch, _ in group:
            try:
                outcomes.append(await self._inner.commit(batch))
            except Conflict as conflict:
                self.refused += 1
                outcomes.append(conflict)
        for _ in range(3):
            await asyncio.sleep(0)
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, CommitReceipt):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)


class CrowdedStore(PassingStore):
    """A handle next to fast others: one of them precedes whoever rereads a head within some loop iterations.

    The loop iterates while a timer runs, so callers waiting for one are left alone.
    """

    def __init__(self, store: Store, others: elytron.MemoryRuntime) -> None:
        super().__init__(store)
        self._others = others
        self.turns_to_wait = 0

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        found = await self._inner.get(space, refs)
        if self.turns_to_wait > 0 and refs[0].collection == transcript.CONVERSATIONS:
            self.turns_to_wait = 50
            await self._others.add("quicker")
        return found


def turns(*texts: str) -> elytron.MemoryWriteRequest:
    drafts = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in texts)
    return elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=drafts))


async def test_a_lost_race_costs_each_writer_only_one_more_read() -> None:
    shared = MemoryStore()
    clock, ids = FrozenClock(step_ms=1), SeededIds()
    async with elytron.open(shared, space=SPACE, clock=clock, ids=ids) as other:
        store = DistantStore(shared, other)
        async with elytron.open(store, space=SPACE, clock=clock, ids=ids) as memory:

            async def write(writer: int) -> None:
                for _ in range(writer):
                    await asyncio.sleep(0)
                for number in range(EACH):
                    await memory.write(turns(f"note {writer}-{number}"))

            await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
            intrusions = store.groups // 10
            assert (await memory.inspect()).documents["turns"] == WRITERS * EACH + 2 * intrusions
    assert 0 < store.refused <= WRITERS * intrusions


async def test_a_writer_that_loses_races_backs_off_until_it_succeeds() -> None:
    shared = MemoryStore()
    clock, ids = FrozenClock(step_ms=1), SeededIds()
    async with elytron.open(shared, space=SPACE, clock=clock, ids=ids) as others:
        await others.add("begun")
        store = CrowdedStore(shared, others)
        store.turns_to_wait = 50

        async def pass_by() -> None:
            while store.turns_to_wait > 0:
                await asyncio.sleep(0)
                store.turns_to_wait -= 1

        async with elytron.open(store, space=SPACE, clock=clock, ids=ids) as memory, asyncio.TaskGroup() as group:
            group.create_task(pass_by())
            report = await memory.write(turns("mine"))
        assert report.changed


@pytest.fixture
async def distant() -> AsyncIterator[tuple[DistantStore, elytron.MemoryRuntime]]:
    """A memory over a store that answers in groups, with another process beside it."""
    shared = MemoryStore()
    clock, ids = FrozenClock(step_ms=1), SeededIds()
    async with elytron.open(shared, space=SPACE, clock=clock, ids=ids) as other:
        await other.add("begun")
        store = DistantStore(shared, other)
        async with elytron.open(store, space=SPACE, clock=clock, ids=ids) as memory:
            yield store, memory


async def test_concurrent_changes_of_one_fact_lose_at_most_one_race_each(
    distant: tuple[DistantStore, elytron.MemoryRuntime],
) -> None:
    store, memory = distant
    await asyncio.gather(*(memory.add_fact("tea", f"Ada drinks {number} cups") for number in range(50)))
    documents = (await memory.inspect()).documents
    assert (documents["slots"], documents["facts"]) == (1, 50)
    assert store.refused == 49


async def test_new_writers_queue_behind_those_who_lost_a_race(
    distant: tuple[DistantStore, elytron.MemoryRuntime],
) -> None:
    store, memory = distant

    async def write(writer: int) -> None:
        for number in range(5):
            await memory.add_fact("tea", f"Ada drinks {number} cups at {writer}")

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    assert (await memory.inspect()).documents["facts"] == 5 * WRITERS
    assert store.refused <= WRITERS


async def test_a_cancelled_writer_in_the_queue_blocks_nobody(
    distant: tuple[DistantStore, elytron.MemoryRuntime],
) -> None:
    _, memory = distant
    writes = [asyncio.create_task(memory.add_fact("tea", f"Ada drinks {number} cups")) for number in range(5)]
    while not writes[1].done():
        await asyncio.sleep(0)
    writes[3].cancel()
    done = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in done] == [False, False, False, True, False]
    assert (await memory.inspect()).documents["facts"] == 4


async def test_concurrent_outcomes_of_one_procedure_lose_at_most_one_race_each(
    distant: tuple[DistantStore, elytron.MemoryRuntime],
) -> None:
    store, memory = distant
    texts = {"name": "brew", "topic": "tea", "title": "Brew tea", "summary": "How to brew", "content": "1. Pour it."}
    skills = elytron.ProcedureSource(
        writes=(elytron.RuntimeSkillWrite.model_validate(texts),), source=SkillSource.TASK_LEARNING
    )
    await memory.write(elytron.MemoryWriteRequest(write=skills))
    await asyncio.gather(*(memory.record_skill_reuse("runtime_skill__brew") for _ in range(20)))
    assert (await memory.get_runtime_skill("runtime_skill__brew")).skill.validated_count == 20
    assert store.refused == 19
