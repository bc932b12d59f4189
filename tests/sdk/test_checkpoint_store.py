"""Guarantees of storing a live index: little to fold after a crash, nobody waits, nothing erased stays."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence

import pytest

import elytron
from elytron.indexing import checkpoints, index_manager
from elytron_core.errors import NotFound, StoreFull, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, JournalEntry
from elytron_core.text.analyser import TextAnalyser
from elytron_index.lexicon.classifiers import PhraseStatementClassifier
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
WORD = b"canari"
"""The form in which the index stores the erased word."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store an index of few units while it is in use."""
    monkeypatch.setattr(checkpoints, "ASIDE_LEAST", 10)


async def nothing() -> None:
    """Do nothing."""


class Watched(MemoryStore):
    """A memory store that signals checkpoint writes, around which others act."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0
        self.tried = 0
        self.asked = asyncio.Event()
        self.written = asyncio.Event()
        self.before: Callable[[], Awaitable[object]] = nothing
        self.between: Callable[[], Awaitable[object]] = nothing
        """After the last look at the journal, before the checkpoint is stored."""
        self.fails: Exception | None = None
        self.reads: int | None = None
        """How often turns can still be read."""

    async def close(self) -> None:
        """Stay open."""

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        self.tried += 1
        self.asked.set()
        if self.fails is not None:
            raise self.fails
        await self.before()
        taken = [chunk async for chunk in chunks]
        await self.between()

        async def again() -> AsyncIterable[bytes]:
            for chunk in taken:
                yield chunk

        size = await super().write_blob(space, key, again())
        self.written.set()
        return size

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        found = await super().journal(space, after=after, limit=limit)
        self.entries += len(found)
        return found

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        if self.reads is not None and any(ref.collection == "turns" for ref in refs):
            self.reads -= 1
            if self.reads < 0:
                raise StoreUnavailable("away")
        return await super().get(space, refs)

    async def checkpoint(self) -> bytes | None:
        """Return the checkpoint of Ada's space, or None."""
        try:
            return b"".join([chunk async for chunk in self.read_blob(ADA, checkpoints.CHECKPOINT)])
        except NotFound:
            return None

    async def watermark(self) -> int:
        """Return the sequence of the last entry in the checkpoint."""
        found = await checkpoints.read_checkpoint(self, ADA, TextAnalyser(), PhraseStatementClassifier().version)
        assert found is not None
        return found[0].watermark


async def say(memory: elytron.MemoryRuntime, *said: str) -> tuple[str, ...]:
    turns = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in said)
    return (await memory.write(elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=turns)))).ids


async def told(memory: elytron.MemoryRuntime, count: int) -> None:
    """Add that much about tea, and index it."""
    await say(memory, *(f"tea number {number}" for number in range(count)))
    await memory.recall("tea")


async def test_after_a_crash_only_entries_since_the_checkpoint_are_folded() -> None:
    store = Watched()
    dies = await elytron.open(store, space="ada")
    await told(dies, 30)
    await store.written.wait()
    await told(dies, 5)
    stored, end = await store.watermark(), (await dies.inspect()).sequence
    assert stored < end
    async with elytron.open(store, space="ada") as memory:
        store.entries = 0
        assert (await memory.recall("tea", limit=50)).considered == 35
        # The checkpoint's last entry shows that it belongs to this journal, on reading and on folding.
        assert store.entries == end - stored + 3


async def test_an_index_is_stored_again_after_growing_by_half() -> None:
    store = Watched()
    async with elytron.open(store, space="ada") as memory:
        await told(memory, 100)
        await store.written.wait()
        for _ in range(49):
            await told(memory, 1)
        assert store.tried == 1
        store.written.clear()
        for _ in range(51):
            await told(memory, 1)
        await store.written.wait()
        assert store.tried == 2


async def test_nobody_waits_while_an_index_is_stored() -> None:
    store, go = Watched(), asyncio.Event()
    store.before = go.wait
    async with elytron.open(store, space="ada") as memory:
        await told(memory, 30)
        await told(memory, 30)
        assert (await memory.recall("tea", limit=100)).considered == 60
        assert not store.written.is_set()
        go.set()
        await store.written.wait()


@pytest.mark.parametrize("moment", ["before", "between"])
@pytest.mark.parametrize("whole", [False, True])
async def test_content_erased_while_an_index_is_stored_is_in_no_checkpoint(moment: str, *, whole: bool) -> None:
    store = Watched()
    dies = await elytron.open(store, space="ada")
    (secret,) = await say(dies, "the canary sings")
    erased, is_over = False, asyncio.Event()

    async def erase() -> None:
        nonlocal erased
        if erased:
            return
        erased = True
        request = {"whole_space": "ada"} if whole else {"ids": (secret,)}
        await dies.erase(elytron.MemoryEraseRequest.model_validate(request))
        is_over.set()

    setattr(store, moment, erase)
    await told(dies, 30)
    await is_over.wait()
    await dies.context.folds.checkpoint()
    assert WORD not in (await store.checkpoint() or b"")
    store.written.clear()
    await told(dies, 30)
    await store.written.wait()
    assert WORD not in (await store.checkpoint() or WORD)


@pytest.mark.parametrize("whole", [False, True])
async def test_a_checkpoint_of_a_writer_that_died_after_an_erasure_is_removed(*, whole: bool) -> None:
    store = Watched()
    async with elytron.open(store, space="ada") as memory:
        (secret,) = await say(memory, "the canary sings")
        await told(memory, 30)
        await memory.context.folds.checkpoint()
        late = await store.checkpoint()
        assert WORD in (late or b"")
        request = {"whole_space": "ada"} if whole else {"ids": (secret,)}
        await memory.erase(elytron.MemoryEraseRequest.model_validate(request))
        await say(memory, *(f"milk number {number}" for number in range(60)))

    async def published() -> AsyncIterable[bytes]:
        yield late or b""

    # What a writer leaves that looked before the erasure, published after it, and died.
    await store.write_blob(ADA, checkpoints.CHECKPOINT, published())
    memory = await elytron.open(store, space="ada")
    found = await memory.recall("milk", limit=100)
    assert found.considered == (60 if whole else 90)
    assert sum("milk" in hit.text for hit in found.hits) == 60
    assert WORD not in (await store.checkpoint() or b"")


async def test_an_interrupted_fold_over_an_erasure_stores_none_of_its_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_manager, "PAGE", 6)
    store = Watched()
    one = await elytron.open(store, space="ada")
    secret, _ = await say(one, "the canary sings", "tea is served")
    with_it = await one.context.folds.current(ADA)
    await one.context.folds.checkpoint()
    assert WORD in (await store.checkpoint() or b"")
    other = await elytron.open(store, space="ada")
    await other.erase(elytron.MemoryEraseRequest(ids=(secret,)))
    await told(other, 8)
    store.reads = 1
    with pytest.raises(StoreUnavailable):
        await one.recall("tea")
    store.reads = None
    assert await one.context.folds.checkpoint() == 0, "a word of what was erased may be in it"
    assert await one.context.folds.current(ADA) is with_it
    assert WORD not in with_it.to_bytes()
    await one.context.folds.checkpoint()
    assert WORD not in (await store.checkpoint() or WORD)


async def test_a_journal_with_an_erasure_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Watched()
    store.fails = StoreFull(engine="memory")
    writer = await elytron.open(store, space="ada")
    (secret,) = await say(writer, "the canary sings")
    await writer.erase(elytron.MemoryEraseRequest(ids=(secret,)))
    await told(writer, 40)
    end = (await writer.inspect()).sequence
    for page in (4, 1_000):
        monkeypatch.setattr(index_manager, "PAGE", page)
        reader = await elytron.open(store, space="ada")
        store.entries = 0
        assert (await reader.recall("tea", limit=50)).considered == 40
        # Each page starts with the last entry of the previous one; a few reads find the journal's end.
        assert store.entries < 1.5 * end + 20


async def test_a_report_counts_concurrent_background_writes() -> None:
    async with elytron.open(Watched(), space="ada") as memory:
        await told(memory, 30)
        report = await memory.recover()
        assert (report.indexed_units, report.checkpoints_written) == (30, 1)


async def test_a_refused_checkpoint_is_retried_after_as_much_growth() -> None:
    store = Watched()
    store.fails = StoreFull(engine="memory")
    async with elytron.open(store, space="ada") as memory:
        await told(memory, 30)
        await store.asked.wait()
        for _ in range(5):
            await told(memory, 1)
        assert store.tried == 1
        store.asked.clear()
        await told(memory, 30)
        await store.asked.wait()
        assert (await memory.recall("tea", limit=100)).considered == 65
        assert store.tried == 2


async def test_an_index_of_a_volatile_store_is_not_stored() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await told(memory, 1)
        before = asyncio.all_tasks()
        await told(memory, 30)
        assert asyncio.all_tasks() == before
