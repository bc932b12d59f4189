"""Messages that are also embedded in passages: one sentence is found among many others."""

import pytest
from tests.sdk.encoders import WordEmbedder

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.errors import StoreCorrupt
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.embedding import VECTORS, VectorSet
from elytron_core.ports.models import EmbedderInfo
from elytron_core.ports.store import Batch, EntryDraft, JournalAction, PutChange

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
AMONG_MANY = (
    "The stairs were painted over the weekend in grey. We keep a vessel in the harbour now. "
    "The neighbours complained about the noise of the drill. My cousin sends postcards from Norway every summer."
)


class Passages(WordEmbedder):
    """Reads messages in passages too."""

    def __init__(self, name: str = "words-1", /, *, passages: int = 4) -> None:
        super().__init__(name)
        self.info = EmbedderInfo(name, self.info.dimensions, passages=passages)


def opened(store: str, embedder: WordEmbedder, /) -> elytron.RuntimeOpening:
    return elytron.open(store, space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds("passages"), embedder=embedder)


async def vectors_of(memory: elytron.MemoryRuntime) -> list[VectorSet]:
    documents = await memory.context.store.scan(ADA, VECTORS, limit=9)
    return [VectorSet.from_bytes(document.body) for document in documents]


async def test_a_single_passage_counts_in_addition_to_the_whole() -> None:
    async with opened("memory:", Passages()) as memory, opened("memory:", WordEmbedder()) as whole:
        likeness: list[float] = []
        for each in (memory, whole):
            for text in (AMONG_MANY, "A boat and lots of weather today.", "Some tea."):
                await each.add(text, speaker="Ada")
            await each.embed()
            hits = {hit.text: hit for hit in (await each.recall("vessel in the harbour")).hits}
            likeness.append(hits[AMONG_MANY].signals["vector"])
        assert likeness[0] > likeness[1] + 0.1


async def test_a_page_continues_where_the_previous_one_ended() -> None:
    async with opened("memory:", Passages()) as memory:
        for number in range(60):
            await memory.add(f"Boat {number} is blue and old. The weather was number {number % 7}.", speaker="Ada")
        await memory.embed()
        whole = [hit.id for hit in (await memory.recall("blue boat weather", limit=60)).hits]
        for limit in (3, 20, 40):
            assert [hit.id for hit in (await memory.recall("blue boat weather", limit=limit)).hits] == whole[:limit]


async def test_passages_are_removed_only_with_their_text(path: str) -> None:
    async with opened(path, Passages()) as memory:
        tea = elytron.Message(role=EvidenceRole.ASSISTANT, text="Tea is hot.")
        messages = (elytron.Message(text=AMONG_MANY), tea)
        write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
        turn = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids[0]
        await memory.embed()
        (held,) = await vectors_of(memory)
        assert sorted(map(len, held.passages.values())) == [4]
        await memory.erase(elytron.MemoryEraseRequest(ids=(f"{turn}#1",)))
        await memory.embed()
        (left,) = await vectors_of(memory)
        assert (left.vectors.keys(), left.passages) == (held.passages.keys(), held.passages)
        await memory.erase(elytron.MemoryEraseRequest(ids=(f"{turn}#0",)))
        assert await vectors_of(memory) == []


async def test_a_turn_of_very_many_messages_has_a_bounded_number_of_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron.embedding.embed_pass.EMBED_PASSAGES_OF_DOCUMENT", 6)
    async with opened("memory:", Passages()) as memory:
        messages = tuple(elytron.Message(text=f"{AMONG_MANY} {number}") for number in range(3))
        write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
        await memory.write(elytron.MemoryWriteRequest(write=write))
        await memory.embed()
        (held,) = await vectors_of(memory)
        assert (len(held.vectors), sorted(map(len, held.passages.values()))) == (3, [2, 4])


@pytest.mark.parametrize("damaged", ["AAA=", "no base64!"])
async def test_a_damaged_passage_is_not_served(damaged: str) -> None:
    async with opened("memory:", Passages()) as memory:
        await memory.add(AMONG_MANY, speaker="Ada")
        await memory.add("Some tea. It was green as grass.", speaker="Ada")
        await memory.embed()
        store = memory.context.store
        (kept, *_) = await store.scan(ADA, VECTORS, limit=9)
        held = VectorSet.from_bytes(kept.body)
        body = held.model_copy(update={"passages": dict.fromkeys(held.vectors, (damaged,))}).to_bytes()
        entries = (EntryDraft(JournalAction.MAINTENANCE, kept.ref),)
        puts = (PutChange(kept.ref, body, kept.revision),)
        await store.commit(Batch(space=ADA, at=memory.context.clock.now(), entries=entries, puts=puts))
        with pytest.raises(StoreCorrupt):
            await memory.recall("vessel in the harbour")
