"""Languages that an embedder reads, and recall when it does not read the query's or a memory's."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from tests.sdk.encoders import WordEmbedder

import elytron
from elytron.indexing.units import CHOICE
from elytron_core.contracts.maintenance.embedding import MemoryEmbedRequest, ModelSwitchRequest
from elytron_core.contracts.recall import VectorUse
from elytron_core.errors import ModelRefused
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import EmbeddingChoice, ModelReach
from elytron_core.ports.store import Batch, EntryDraft, JournalAction, PutChange
from elytron_core.scope import Scope

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
PAIRS: dict[str, list[list[str]]] = json.loads(
    files("elytron.embedding").joinpath("language_pairs.json").read_text("utf-8")
)
MEANINGS = {question: memory for told in PAIRS.values() for memory, question in told}


class PolyglotEmbedder(WordEmbedder):
    """Treats the trial's questions like the memories that answer them."""

    def vector(self, text: str) -> list[float]:
        return super().vector(MEANINGS.get(text, text))


class EnglishBiased(WordEmbedder):
    """Treats everything not in English like the word boat."""

    def vector(self, text: str) -> list[float]:
        return super().vector(text if text.isascii() else "boat")


class TrialRefused(PolyglotEmbedder):
    """Refuses batches as long as those of the trial."""

    async def embed_documents(self, texts: list[str], /) -> list[list[float]]:  # type: ignore[override]
        if len(texts) >= len(MEANINGS):
            raise ModelRefused("too many at once")
        return [self.vector(text) for text in texts]


async def chosen(memory: elytron.MemoryRuntime) -> EmbeddingChoice:
    (document,) = await memory.context.store.get(ADA, [CHOICE])
    assert document is not None
    return EmbeddingChoice.from_bytes(document.body)


def opened(embedder: WordEmbedder, store: str = "memory:") -> elytron.RuntimeOpening:
    return elytron.open(store, space="ada", embedder=embedder)


@pytest.mark.parametrize(
    ("embedder", "reach"),
    [
        (WordEmbedder(), ModelReach.ENGLISH),
        (PolyglotEmbedder(), ModelReach.MANY),
        (TrialRefused(), ModelReach.MANY),
    ],
)
async def test_a_model_is_chosen_with_the_languages_it_was_found_to_read(
    embedder: WordEmbedder, reach: ModelReach
) -> None:
    async with opened(embedder) as memory:
        await memory.add("a boat")
        await memory.embed()
        assert (await chosen(memory)).reach is reach


async def test_a_runtime_tests_its_embedder_once_for_all_spaces() -> None:
    embedder = WordEmbedder()
    async with opened(embedder) as memory:
        for user in ("ben", "cleo", "dora"):
            added = await memory.add("a boat", user_id=user)
            await memory.operate(MemoryEmbedRequest(scope=Scope(space=added.space)))
        assert embedder.batches.count(len(MEANINGS)) == 2


async def test_a_query_in_an_unsupported_language_skips_the_embedder() -> None:
    async with opened(EnglishBiased()) as memory:
        for text in ("Das Boot liegt im Hafen.", "Der Tee ist grün.", "Die Katze schläft."):
            await memory.add(text)
        await memory.embed()
        report = await memory.recall("Welche Farbe hat das heiße Getränk?")
        assert (report.vectors, report.hits[0].text) == (VectorUse.OTHER_LANGUAGE, "Der Tee ist grün.")
        assert (await memory.recall("Where is the ship?")).vectors is VectorUse.COMPARED


async def test_a_memory_in_an_unsupported_language_is_compared_by_the_table() -> None:
    async with opened(EnglishBiased()) as memory:
        for text in (
            "The cat sleeps on the chair.",
            "Der grüne Tee schmeckt süß.",
            "Das Schiff fährt zur Brücke.",
        ):
            await memory.add(text)
        await memory.embed()
        report = await memory.recall("What about the boat?")
        assert (report.vectors, report.hits[0].text) == (VectorUse.COMPARED, "Das Schiff fährt zur Brücke.")
        tea = await memory.recall("Is the boat's green tea sweet?")
        assert tea.hits[0].text == "Der grüne Tee schmeckt süß."


async def test_a_model_chosen_by_an_earlier_build_is_tested_when_it_embeds_again(tmp_path: Path) -> None:
    path = f"sqlite:{tmp_path / 'memory.db'}"
    async with opened(WordEmbedder(), path) as memory:
        await memory.add("a boat")
        await memory.embed()
        (document,) = await memory.context.store.get(ADA, [CHOICE])
        assert document is not None
        body = EmbeddingChoice.from_bytes(document.body).model_copy(update={"reach": None}).to_bytes()
        change = PutChange(CHOICE, body, document.revision)
        entries = (EntryDraft(JournalAction.OPERATOR, CHOICE),)
        await memory.context.store.commit(
            Batch(space=ADA, at=memory.context.clock.now(), entries=entries, puts=(change,))
        )
    async with opened(WordEmbedder(), path) as memory:
        assert (await memory.recall("Wo ist das grüne Boot?")).vectors is VectorUse.COMPARED
        await memory.embed()
        assert (await chosen(memory)).reach is ModelReach.ENGLISH
        assert (await memory.recall("Wo ist das grüne Boot?")).vectors is VectorUse.OTHER_LANGUAGE
        assert not (await memory.operate(ModelSwitchRequest())).changed
    async with opened(WordEmbedder(), path) as memory:
        assert (await memory.recall("Wo ist das grüne Boot?")).vectors is VectorUse.OTHER_LANGUAGE
