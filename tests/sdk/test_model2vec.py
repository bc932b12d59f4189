"""A Model2Vec folder as an embedder: Model2Vec's own vectors, identified by its files, rejected if damaged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model2vec import StaticModel
from tests.sdk.encoders import Numbers, compare, safetensors, tiny_model
from tests.sdk.kill_points import exit_code
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram, WordLevel, WordPiece
from tokenizers.pre_tokenizers import Whitespace

import elytron
from elytron.embedding import LocalEmbedder, Model2VecEmbedder, kept_models
from elytron.embedding.embedders import embedder_of
from elytron.embedding.installation import add_copy
from elytron_core.errors import InvalidInput, MissingExtra, ModelRefused, UnreadableFile

pytestmark = pytest.mark.anyio

WORDS = ("[UNK]", "[PAD]", "[CLS]", "the", "boat", "is", "blue", "we", "moved", "##s", "to", "lisbon", "茶", "好", "喝")
TEXTS = (
    "the boat is blue",
    "boats",
    "茶好喝 the boat",
    "zebra boat quokka",
    "we moved to lisbon " * 40,
    "lisbon",
    "the the the",
)
DIMENSIONS = 24


def word_level() -> Any:
    return WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]")


def word_piece() -> Any:
    return WordPiece({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]")


def unigram() -> Any:
    return Unigram([(word, -1.0 - place / 10) for place, word in enumerate(WORDS)], unk_id=0, byte_fallback=False)


def pairs() -> Any:
    letters = [*"abcdehilmnostuvwqkrz", "[UNK]", "bo", "at", "boat"]
    vocabulary = {letter: place for place, letter in enumerate(letters)}
    return BPE(vocabulary, [("b", "o"), ("a", "t"), ("bo", "at")], unk_token="[UNK]")


def folder_of(
    folder: Path,
    model: Callable[[], Any] = word_piece,
    *,
    kind: str = "<f4",
    config: dict[str, Any] | None = None,
    is_mapped: bool = False,
) -> Path:
    """Write a folder like Model2Vec does; return it."""
    tokenizer: Any = Tokenizer(model())
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_padding(length=32)
    many = tokenizer.get_vocab_size()
    dice = np.random.default_rng(5)
    rows = 6 if is_mapped else many
    table: Numbers = dice.standard_normal((rows, DIMENSIONS))
    numbers: dict[str, Numbers] = {"embeddings": (table * 40 if kind == "i1" else table).astype(kind)}
    if is_mapped:
        numbers["mapping"] = np.asarray(dice.integers(0, rows, many), "<i8")
        numbers["weights"] = np.asarray(dice.random(many), "<f4")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "model.safetensors").write_bytes(safetensors(numbers))
    told = {"model_type": "model2vec", "normalize": True} if config is None else config
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


CASES: dict[str, dict[str, Any]] = {
    "whole words": {"model": word_level},
    "pieces": {"model": word_piece},
    "unigram": {"model": unigram},
    "byte pairs": {"model": pairs},
    "16-bit floats": {"kind": "<f2"},
    "whole numbers": {"kind": "i1"},
    "mapped and weighed": {"is_mapped": True},
    "mapped whole numbers": {"is_mapped": True, "kind": "i1"},
    "not normal": {"config": {}},
    "few tokens": {"config": {"max_length": 3, "normalize": True}},
    "all tokens": {"config": {"max_length": None}},
}


@pytest.mark.parametrize("case", list(CASES))
async def test_vectors_match_model2vec(tmp_path: Path, case: str) -> None:
    folder = folder_of(tmp_path / "table", **CASES[case])
    theirs = np.asarray(StaticModel.from_pretrained(str(folder)).encode(list(TEXTS)), np.float64)
    ours = np.array(await Model2VecEmbedder(folder).embed_documents(TEXTS))
    known = theirs.any(axis=1)
    assert known.sum() >= len(TEXTS) - 2
    scale = np.abs(theirs).max()
    is_half = CASES[case].get("kind") == "<f2"
    assert np.abs(ours - theirs)[known].max() <= scale * (2e-3 if is_half else 1e-6)


async def test_a_text_without_a_known_token_has_a_vector_and_such_a_query_none(tmp_path: Path) -> None:
    embedder = Model2VecEmbedder(folder_of(tmp_path / "table"))
    vectors = await embedder.embed_documents(["quokka", "", "zebra"])
    assert vectors == [vectors[0]] * 3
    assert np.linalg.norm(vectors[0]) == pytest.approx(1.0)
    with pytest.raises(ModelRefused, match="does not know any token"):
        await embedder.embed_query("quokka")


def test_the_same_files_are_one_model_and_others_another(tmp_path: Path) -> None:
    one = embedder_of(str(folder_of(tmp_path / "one")))
    same = embedder_of(str(folder_of(tmp_path / "elsewhere")))
    other = embedder_of(str(folder_of(tmp_path / "other", kind="<f2")))
    assert isinstance(one, Model2VecEmbedder)
    assert one.info == same.info
    assert (one.info.dimensions, one.info.passages) == (DIMENSIONS, 0)
    assert other.info.model != one.info.model
    assert one.info.model in repr(one)


def test_a_stored_folder_is_the_same_model_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "table")
    monkeypatch.setattr("elytron.embedding.model_files.models_folder", lambda: tmp_path / "models")
    add_copy("words", folder, models=tmp_path / "models")
    kept = add_copy("words", folder, models=tmp_path / "models")
    assert [kept] == list(kept_models(models=tmp_path / "models"))
    assert embedder_of("words").info == embedder_of(str(folder)).info
    with elytron.open("memory:", embedder="words") as memory:
        memory.add("the boat is blue")
        assert memory.embed().model == kept.model
        assert memory.recall("boats").vectors == "compared"
    with pytest.raises(InvalidInput):
        add_copy("../words", folder, models=tmp_path / "models")


def cut(folder: Path, name: str) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:-9])


def weights(**numbers: Numbers) -> Callable[[Path], None]:
    return lambda folder: _put(folder, "model.safetensors", safetensors(numbers))


def _put(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)


def header(**told: Any) -> Callable[[Path], None]:
    data = json.dumps({"embeddings": told}).encode()
    return lambda folder: _put(folder, "model.safetensors", len(data).to_bytes(8, "little") + data + b"\0" * 64)


TABLE = np.zeros((len(WORDS), 4), "<f4")
DAMAGE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "no weights": ("model.safetensors", lambda folder: (folder / "model.safetensors").unlink()),
    "no tokenizer": ("tokenizer.json", lambda folder: (folder / "tokenizer.json").unlink()),
    "no config": ("config.json", lambda folder: (folder / "config.json").unlink()),
    "cut weights": ("model.safetensors", lambda folder: cut(folder, "model.safetensors")),
    "cut tokenizer": ("tokenizer.json", lambda folder: cut(folder, "tokenizer.json")),
    "cut config": ("config.json", lambda folder: cut(folder, "config.json")),
    "empty weights": ("model.safetensors", lambda folder: _put(folder, "model.safetensors", b"")),
    "a deep header": ("model.safetensors", lambda folder: _put(
        folder, "model.safetensors", (100_000).to_bytes(8, "little") + b"[" * 100_000)),
    "a deep config": ("config.json", lambda folder: _put(folder, "config.json", b"[" * 100_000)),
    "another config": ("config.json", lambda folder: _put(folder, "config.json", b'{"max_length": "many"}')),
    "no tokens read": ("config.json", lambda folder: _put(folder, "config.json", b'{"max_length": 0}')),
    "no table": ("model.safetensors", weights(other=TABLE)),
    "a flat table": ("model.safetensors", weights(embeddings=np.zeros(5, "<f4"))),
    "a strange table": ("model.safetensors", weights(embeddings=TABLE.astype("<u4"))),
    "too wide": ("model.safetensors", weights(embeddings=np.zeros((len(WORDS), 10_000), "i1"))),
    "too few rows": ("model.safetensors", weights(embeddings=TABLE[:-1])),
    "too few worths": ("model.safetensors", weights(embeddings=TABLE, weights=np.zeros(3, "<f4"))),
    "a map to nowhere": ("model.safetensors", weights(embeddings=TABLE, mapping=np.full(len(WORDS), 99, "<i8"))),
    "a map of parts": ("model.safetensors", weights(embeddings=TABLE, mapping=np.zeros(len(WORDS), "<f4"))),
    "beyond the end": ("model.safetensors", header(dtype="F32", shape=[15, 4], data_offsets=[0, 240])),
    "before the start": ("model.safetensors", header(dtype="I8", shape=[15, 4], data_offsets=[-60, 0])),
    "a length below 0": ("model.safetensors", header(dtype="I8", shape=[15, -1], data_offsets=[0, 60])),
    "no offsets": ("model.safetensors", header(dtype="I8", shape=[15, 4])),
}  # fmt: skip


@pytest.mark.parametrize("case", list(DAMAGE))
async def test_a_damaged_folder_is_rejected_naming_the_file(tmp_path: Path, case: str) -> None:
    name, damage = DAMAGE[case]
    folder = folder_of(tmp_path / "table")
    damage(folder)
    with pytest.raises(UnreadableFile) as refused:
        await Model2VecEmbedder(folder).embed_query("the boat")
    assert f"'{name}'" in refused.value.message
    with pytest.raises(UnreadableFile):
        add_copy("words", folder, models=tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


async def test_a_file_changed_since_opening_is_rejected(tmp_path: Path) -> None:
    embedder = Model2VecEmbedder(folder := folder_of(tmp_path / "table"))
    folder_of(folder, kind="<f2")
    with pytest.raises(UnreadableFile, match=r"model\.safetensors"):
        await embedder.embed_query("the boat")


def test_a_folder_with_too_large_a_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "table")
    monkeypatch.setattr("elytron_core.limits.MODEL_PACKAGE_BYTES", 100)
    with pytest.raises(UnreadableFile, match="larger"):
        Model2VecEmbedder(folder)


def test_an_unconverted_encoder_is_not_a_model2vec_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="embeddings"):
        embedder_of(str(tiny_model(tmp_path / "published")))


def test_missing_packages_are_reported_at_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "table")
    gone = {"onnxruntime"}

    def find_spec(name: str) -> str | None:
        return None if name in gone else name

    monkeypatch.setattr("elytron.embedding.model_files.find_spec", find_spec)
    assert Model2VecEmbedder(folder).info.dimensions == DIMENSIONS
    with pytest.raises(MissingExtra, match=r"needs onnxruntime of the extra 'local': in the checkout, run"):
        LocalEmbedder(folder)
    gone.add("tokenizers")
    with pytest.raises(MissingExtra, match="needs onnxruntime and tokenizers"):
        LocalEmbedder(folder)
    with pytest.raises(MissingExtra, match="needs tokenizers of the extra 'local':"):
        Model2VecEmbedder(folder)


def test_another_process_uses_stored_vectors(tmp_path: Path) -> None:
    folder, store = folder_of(tmp_path / "table"), f"sqlite:{tmp_path / 'm.db'}"
    with elytron.open(store, embedder=str(folder)) as memory:
        memory.add("the boat is blue")
        assert memory.embed().outcome == "complete"
        best = memory.recall("boats").hits[0]
    moved = shutil.move(folder, tmp_path / "moved")
    assert exit_code(compare, store, str(moved), repr(best.score)) == 0
