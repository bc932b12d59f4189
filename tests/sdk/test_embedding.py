"""Vectors of memories: created after the write, compared at recall, erased with their text, switched in use."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.encoders import WordEmbedder

import elytron
from elytron.state.encoders import EMBED_PAUSE_MS, RuntimeEncoders
from elytron_core.clock import FrozenClock
from elytron_core.contracts.maintenance.embedding import EmbeddingOutcome, MemoryEmbedRequest, ModelSwitchRequest
from elytron_core.contracts.recall import VectorUse
from elytron_core.errors import (
    ElytronError,
    ModelRefused,
    ModelUnavailable,
    SpaceIncomplete,
    SpaceLocked,
    StoreCorrupt,
)
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.embedding import vector_set
from elytron_core.planes.facts import FactKind
from elytron_core.ports.models import Embedder
from elytron_core.ports.store import Batch, EntryDraft, JournalAction, PutChange
from elytron_store.sealed.providers import FileKeys

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")


def opened(store: str, embedder: Embedder | None, **more: Any) -> elytron.RuntimeOpening:
    clock = FrozenClock(step_ms=1)
    return elytron.open(store, space="ada", clock=clock, ids=SeededIds(str(more)), embedder=embedder, **more)


async def tell(memory: elytron.MemoryRuntime, *texts: str) -> list[str]:
    return [(await memory.add(text, speaker="Ada")).ids[0] for text in texts]


async def test_messages_with_the_same_meaning_are_recalled_without_shared_words() -> None:
    async with opened("memory:", WordEmbedder()) as memory:
        await tell(memory, "a boat", "some tea", "the weather")
        assert (await memory.embed()).outcome is EmbeddingOutcome.COMPLETE
        report = await memory.recall("vessel")
        assert (report.hits[0].text, report.vectors, report.unembedded) == ("a boat", VectorUse.COMPARED, 0)


async def test_writes_are_embedded_automatically() -> None:
    async with opened("memory:", WordEmbedder()) as memory:
        await tell(memory, "a boat", "some tea")
        await memory.context.encoders.settled(ADA)
        assert (await memory.inspect()).documents["vectors"] == 2


async def test_a_fact_with_the_same_meaning_is_recalled_without_shared_words() -> None:
    fact = elytron.FactDraft(fact_kind=FactKind.FACT, topic="ship", content="Boat.")
    other = elytron.FactDraft(fact_kind=FactKind.FACT, topic="tea", content="Green.")
    async with opened("memory:", WordEmbedder()) as memory:
        await memory.write(elytron.MemoryWriteRequest(write=elytron.LongTermExtraction(facts=(fact, other))))
        await memory.embed()
        hits = (await memory.recall("vessel")).hits
        assert [(hit.text, hit.plane) for hit in hits] == [("Boat.", "long_term"), ("Green.", "long_term")]
        assert hits[0].score > 3 * hits[1].score
        assert hits[0].signals["vector"] == pytest.approx(1.0, abs=1e-2)


async def test_writes_are_unaffected_by_an_embedder_that_is_down() -> None:
    embedder = WordEmbedder()
    embedder.is_down = True
    async with opened("memory:", embedder) as memory:
        await tell(memory, "a boat")
        assert (await memory.embed()).model_dump(include={"outcome", "reason", "remaining"}) == {
            "outcome": EmbeddingOutcome.FAILED, "reason": "down", "remaining": 1,
        }  # fmt: skip
        assert (await memory.recall("boat")).vectors is VectorUse.NOT_YET
        embedder.is_down = False
        assert (await memory.embed()).remaining == 0
        embedder.is_down = True
        report = await memory.recall("a boat")
        assert (report.vectors, report.hits[0].text) == (VectorUse.FAILED, "a boat")


class GatedEmbedder(WordEmbedder):
    """Embeds documents once its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        self.begun.set()
        await self.gate.wait()
        return await super().embed_documents(texts)


@pytest.mark.parametrize("act", ["lock", "rotate"])
async def test_a_space_closed_during_embedding_blocks_no_other(act: str) -> None:
    words = "legal winner thank year wave sausage worth useful legal winner thank yellow"
    embedder = GatedEmbedder()
    async with opened("memory:", embedder) as memory:
        await memory.secrets.seal("ada", words=words)
        await memory.add("a boat")
        await embedder.begun.wait()
        if act == "lock":
            await memory.secrets.lock("ada")
        else:
            await memory.secrets.rotate("ada", words=words)
        embedder.gate.set()
        await memory.context.encoders.settled(ADA)
        await memory.add("some tea", user_id="bob")
        await memory.context.encoders.settled(SpaceId("bob"))
        assert (await memory.inspect(user_id="bob")).documents["vectors"] == 1
        await memory.secrets.unlock("ada", words=words)
        await memory.add("the weather")
        await memory.context.encoders.settled(ADA)
        assert (await memory.inspect()).documents["vectors"] == 2


@pytest.mark.parametrize(
    ("failure", "waits"),
    [
        (ModelUnavailable("away"), {"ada", "bob"}),
        (ModelRefused("too long"), {"ada"}),
        (StoreCorrupt(what="a document"), {"ada"}),
        (SpaceLocked(space="ada"), set[str]()),
        (SpaceIncomplete(space="ada"), set[str]()),
    ],
)
async def test_an_unavailable_embedder_blocks_all_spaces_and_other_faults_only_one(
    failure: ElytronError, waits: set[str]
) -> None:
    clock, done = FrozenClock(), list[str]()
    encoders = RuntimeEncoders(clock, current=WordEmbedder(), former=None)

    async def fail() -> None:
        raise failure

    async def nudged() -> set[str]:
        for name in ("ada", "bob"):

            async def work(name: str = name) -> None:
                done.append(name)

            encoders.nudge(SpaceId(name), work)
            await encoders.settled(SpaceId(name))
        return {"ada", "bob"} - set(done)

    encoders.nudge(ADA, fail)
    await encoders.settled(ADA)
    assert await nudged() == waits
    clock.advance(EMBED_PAUSE_MS)
    assert await nudged() == set()


async def test_a_slow_query_embedding_falls_back_to_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(WordEmbedder):
        async def embed_query(self, text: str, /) -> list[float]:
            await asyncio.Event().wait()
            return self.vector(text)

    monkeypatch.setattr("elytron.state.encoders.EMBED_QUERY_WAIT_S", 0.01)
    async with opened("memory:", Slow()) as memory:
        await tell(memory, "a boat")
        await memory.embed()
        assert (await memory.recall("boat")).vectors is VectorUse.FAILED


async def test_the_backlog_survives_the_runtime(path: str) -> None:
    down = WordEmbedder()
    down.is_down = True
    async with opened(path, down) as memory:
        await tell(memory, "a boat", "some tea")
    async with opened(path, WordEmbedder()) as memory:
        assert (await memory.recall("tea")).unembedded == 2
        assert (await memory.embed()).remaining == 0
    async with opened(path, WordEmbedder()) as memory:
        assert (await memory.recall("vessel")).hits[0].text == "a boat"


async def test_a_refused_text_blocks_no_other() -> None:
    embedder = WordEmbedder()
    embedder.refuses = "poison"
    async with opened("memory:", embedder) as memory:
        await tell(memory, "a boat", "poison", "some tea")
        report = await memory.embed()
        assert (report.outcome, report.remaining) == (EmbeddingOutcome.COMPLETE, 1)
        assert "poison" in {hit.text for hit in (await memory.recall("poison")).hits}
        assert (await memory.embed()).refused == 0


async def test_a_refused_message_blocks_no_other_of_its_turn() -> None:
    embedder = WordEmbedder()
    embedder.refuses = "poison"
    async with opened("memory:", embedder) as memory:
        messages = tuple(elytron.Message(text=text) for text in ("a boat", "poison", "some tea"))
        write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
        await memory.write(elytron.MemoryWriteRequest(write=write))
        report = await memory.embed()
        assert (report.outcome, report.remaining) == (EmbeddingOutcome.COMPLETE, 1)
        assert (await memory.recall("vessel")).hits[0].text == "a boat"
        assert (await memory.embed()).refused == 0


@pytest.mark.parametrize("numbers", [[1.0] * 3, [float("nan")] * 32, [float("inf")] * 32, [0.0] * 32, ["x"] * 32])
async def test_invalid_vectors_are_rejected_and_never_stored(numbers: list[float]) -> None:
    class Wrong(WordEmbedder):
        def vector(self, text: str) -> list[float]:
            return numbers

    async with opened("memory:", Wrong()) as memory:
        await tell(memory, "a boat", "some tea")
        report = await memory.embed()
        assert report.outcome is EmbeddingOutcome.FAILED
        assert "words-1" in report.reason
        assert "vectors" not in (await memory.inspect()).documents


async def test_too_few_vectors_are_rejected() -> None:
    class Short(WordEmbedder):
        async def embed_documents(self, texts: Any, /) -> list[list[float]]:
            return []

    async with opened("memory:", Short()) as memory:
        await tell(memory, "a boat", "some tea")
        assert "returned 0 vectors" in (await memory.embed()).reason


async def test_a_faulty_embedder_stops_nothing() -> None:
    class Faulty(WordEmbedder):
        async def embed_documents(self, texts: Any, /) -> list[list[float]]:
            raise KeyError("inside")

    async with opened("memory:", Faulty()) as memory:
        await tell(memory, "a boat")
        assert (await memory.embed()).reason == "'words-1' failed with KeyError"


async def test_a_speakers_name_is_read_as_the_first_person() -> None:
    embedder = WordEmbedder()
    async with opened("memory:", embedder) as memory:
        await tell(memory, "a boat")
        await memory.embed()
        await memory.recall("what does Ada own, and Ada's sister?")
        assert embedder.queries == ["what does I own, and my sister?"]
        await memory.recall("what does Ada own, and Ada's sister?")
        assert len(embedder.queries) == 1


async def test_without_an_embedder_the_report_says_that_nothing_is_embedded() -> None:
    async with opened("memory:", None) as memory:
        await tell(memory, "a boat")
        assert (await memory.embed()).outcome is EmbeddingOutcome.NO_EMBEDDER
        assert (await memory.switch_model()).outcome is EmbeddingOutcome.NO_EMBEDDER
        assert (await memory.recall("boat")).vectors is VectorUse.NONE


async def test_an_empty_space_has_nothing_to_embed() -> None:
    async with opened("memory:", WordEmbedder()) as memory:
        assert (await memory.embed()).outcome is EmbeddingOutcome.EMPTY_SPACE
        assert (await memory.switch_model()).outcome is EmbeddingOutcome.EMPTY_SPACE


async def test_a_model_switch_resumes_and_recall_never_stops(path: str) -> None:
    old, new = WordEmbedder("words-1"), WordEmbedder("words-2", dimensions=48)
    async with opened(path, old) as memory:
        await tell(memory, *(f"boat {number}" for number in range(5)))
        await memory.embed()
    async with opened(path, new, former_embedder=old) as memory:
        first = await memory.switch_model(ModelSwitchRequest(texts=2))
        assert (first.outcome, first.remaining, first.switched) == (EmbeddingOutcome.MORE, 3, False)
        await tell(memory, "a ship")
        assert (await memory.recall("vessel")).vectors is VectorUse.COMPARED
        assert new.queries == []
    async with opened(path, new, former_embedder=old) as memory:
        last = await memory.switch_model()
        assert (last.outcome, last.embedded, last.switched, last.compared) == (
            EmbeddingOutcome.COMPLETE, 4, True, "words-2",
        )  # fmt: skip
        assert (await memory.recall("vessel")).vectors is VectorUse.COMPARED
        assert len(new.queries) == 1
        assert (await memory.inspect()).documents["vectors"] == 6
        again = await memory.switch_model()
        assert (again.changed, again.switched, again.dropped) == (False, False, 0)


async def test_another_models_vectors_are_not_compared(path: str) -> None:
    async with opened(path, WordEmbedder("words-1")) as memory:
        await tell(memory, "a boat")
        await memory.embed()
    async with opened(path, WordEmbedder("words-2")) as memory:
        assert (await memory.recall("boat")).vectors is VectorUse.OTHER_MODEL
        assert (await memory.embed()).outcome is EmbeddingOutcome.OTHER_MODEL
    async with opened(path, WordEmbedder("words-1", dimensions=8)) as memory:
        assert (await memory.recall("boat")).vectors is VectorUse.OTHER_MODEL
        await tell(memory, "a car")
        report = await memory.embed()
        assert (report.outcome, report.remaining) == (EmbeddingOutcome.FAILED, 1)
        assert "8 dimensions, but those stored under its name have 32" in report.reason


async def test_stored_vectors_of_a_wrong_dimension_stop_no_recall(path: str) -> None:
    async with opened(path, WordEmbedder()) as memory:
        ids = await tell(memory, "a boat", "some tea")
        await memory.embed()
        store = memory.context.store
        first, second = await store.scan(ADA, "vectors", limit=9)
        wrong = vector_set("words-1", 3, {"0" * 16: [1.0, 2.0, 3.0]}).to_bytes()
        entries = (EntryDraft(JournalAction.MAINTENANCE, second.ref),)
        puts = (PutChange(second.ref, wrong, second.revision),)
        await store.commit(Batch(space=ADA, at=memory.context.clock.now(), entries=entries, puts=puts))
    async with opened(path, WordEmbedder()) as memory:
        report = await memory.recall("vessel")
        assert (report.hits[0].id, report.unembedded, first.revision) == (ids[0], 1, 1)
        await memory.recover()
        assert (await memory.embed()).remaining == 0


async def test_vectors_are_erased_with_their_text(path: str) -> None:
    async with opened(path, WordEmbedder()) as memory:
        ids = await tell(memory, "a boat", "some tea")
        await memory.embed()
        erased = await memory.delete(ids[0])
        assert erased.removed == {"turns": 1, "vectors": 1}
        found = await memory.inspect(fingerprints=True)
        assert (found.documents["vectors"], found.unembedded_units) == (1, 0)
        assert {hit.text for hit in (await memory.recall("some tea")).hits} == {"some tea"}


async def test_removing_a_message_from_a_turn_removes_its_vector(path: str) -> None:
    async with opened(path, WordEmbedder()) as memory:
        messages = (elytron.Message(text="a boat"), elytron.Message(role=EvidenceRole.ASSISTANT, text="some tea"))
        write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
        turn = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids[0]
        await memory.embed()
        await memory.erase(elytron.MemoryEraseRequest(ids=(f"{turn}#0",)))
        await memory.embed()
        (document,) = await memory.context.store.scan(ADA, "vectors", limit=9)
        assert document.body.count(b"=") <= 2
        assert {hit.text for hit in (await memory.recall("some tea")).hits} == {"some tea"}


async def test_a_restored_memory_has_its_vector_again(path: str) -> None:
    embedder = WordEmbedder()
    async with opened(path, embedder) as memory:
        ids = await tell(memory, "a boat", "some tea")
        await memory.embed()
        calls = len(embedder.batches)
        await memory.forget(elytron.MemoryForgetRequest(ids=(ids[0],)))
        await memory.recall("tea")
        await memory.forget(elytron.MemoryForgetRequest(ids=(ids[0],), undo=True))
        report = await memory.recall("vessel")
        assert (report.hits[0].text, report.unembedded, len(embedder.batches)) == ("a boat", 0, calls)


@pytest.mark.parametrize("engine", ["memory:", "sqlite", "file"])
async def test_two_runtimes_see_each_others_vectors_and_a_rebuild_agrees(engine: str, tmp_path: Path) -> None:
    store = {"memory:": "memory:", "sqlite": str(tmp_path / "m.db"), "file": f"file://{tmp_path}/f"}[engine]
    async with opened(store, WordEmbedder()) as memory:
        await tell(memory, *(f"boat {number}" for number in range(30)))
        await memory.embed()
        before = await memory.recall("vessel")
        await memory.recover()
        after = await memory.recall("vessel")
        assert [(hit.id, hit.score) for hit in after.hits] == [(hit.id, hit.score) for hit in before.hits]
        if engine != "memory:":
            async with opened(store, WordEmbedder()) as other:
                await other.add("a new ship")
                await other.embed()
            assert (await memory.recall("new vessel")).unembedded == 0


async def test_an_archive_includes_vectors(tmp_path: Path) -> None:
    async with opened("memory:", WordEmbedder()) as memory:
        await tell(memory, "a boat", "some tea")
        await memory.embed()
        told = await memory.export(tmp_path / "ada.zip", include_private=True)
    embedder = WordEmbedder()
    async with opened("memory:", embedder) as memory:
        await memory.import_archive(tmp_path / "ada.zip")
        assert (await memory.recall("vessel")).hits[0].text == "a boat"
        assert embedder.batches == []
        assert (await memory.inspect(fingerprints=True)).state_fingerprint == told.state_fingerprint


async def test_a_sealed_store_reveals_no_vector(tmp_path: Path) -> None:
    keys = FileKeys.create(tmp_path / "k.json")
    embedder = WordEmbedder()
    async with opened(str(tmp_path / "m.db"), embedder, keys=keys) as memory:
        await tell(memory, "a boat")
        await memory.embed()
    assert b"words-1" not in (tmp_path / "m.db").read_bytes()


async def test_the_limit_of_a_call_is_respected() -> None:
    async with opened("memory:", WordEmbedder()) as memory:
        memory.context.encoders.nudge = lambda space, work: None
        await tell(memory, *(f"boat {number}" for number in range(9)))
        report = await memory.embed(MemoryEmbedRequest(texts=4))
        assert (report.outcome, report.embedded, report.remaining) == (EmbeddingOutcome.MORE, 4, 5)


async def test_concurrently_embedding_runtimes_store_one_vector_per_text(path: str) -> None:
    async with opened(path, None) as memory:
        await tell(memory, *(f"boat {number}" for number in range(40)))
    async with opened(path, WordEmbedder()) as one, opened(path, WordEmbedder()) as other:
        reports = await asyncio.gather(one.embed(), other.embed())
        assert [report.outcome for report in reports] == [EmbeddingOutcome.COMPLETE] * 2
        assert (await one.inspect()).documents["vectors"] == 40


@pytest.mark.parametrize("numbers", [[1.0] * 3, [float("nan")] * 32, [0.0] * 32, ["x"] * 32])
async def test_an_invalid_query_vector_falls_back_to_words(numbers: list[float]) -> None:
    class Wrong(WordEmbedder):
        async def embed_query(self, text: str, /) -> list[float]:
            return numbers

    async with opened("memory:", Wrong()) as memory:
        await tell(memory, "a boat")
        await memory.embed()
        assert (await memory.recall("boat")).vectors is VectorUse.FAILED


async def test_only_a_changed_skill_is_embedded_again(path: str) -> None:
    embedder = WordEmbedder()
    async with opened(path, embedder) as memory:
        for steps in ("1. Row.\n2. Rest.", "1. Sail.\n2. Rest."):
            skill = elytron.RuntimeSkillWrite(name="boat", topic="boats", title="Boats", summary="How.", content=steps)
            await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=(skill,))))
            assert (await memory.embed()).remaining == 0
        assert (await memory.inspect()).documents["vectors"] == 1


async def test_running_passes_are_stopped_when_a_runtime_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(WordEmbedder):
        async def embed_documents(self, texts: Any, /) -> list[list[float]]:
            await asyncio.Event().wait()
            return []

    monkeypatch.setattr("elytron.state.encoders.EMBED_CLOSE_WAIT_S", 0.01)
    async with opened("memory:", Stuck()) as memory:
        await tell(memory, "a boat")
        await asyncio.sleep(0)


async def test_inspection_counts_vectors_by_model_including_other_models(tmp_path: Path) -> None:
    store, old, new = str(tmp_path / "m.db"), WordEmbedder("old"), WordEmbedder("new")
    async with opened(store, old) as memory:
        await tell(memory, "a boat", "some tea")
        await memory.embed()
        found = await memory.inspect(fingerprints=True)
        assert (found.embedded_units, found.unembedded_units, found.stale_units) == ({"old": 2}, 0, 0)
    async with opened(store, new, former_embedder=old) as memory:
        found = await memory.inspect(fingerprints=True)
        assert (found.embedded_units, found.unembedded_units, found.stale_units) == ({"old": 2}, 2, 2)
        assert found.compared_model == "old"
        assert (await memory.switch_model()).switched
        found = await memory.inspect(fingerprints=True)
        assert (found.embedded_units, found.unembedded_units, found.stale_units) == ({"new": 2}, 0, 0)
    async with opened(store, None) as memory:
        assert (await memory.inspect()).unembedded_units == 0
