"""Embedders and a small encoder for tests: real ones of the port, whose vectors can be told by hand."""

import hashlib
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import elytron
from elytron_core.errors import ModelRefused, ModelUnavailable
from elytron_core.ports.models import EmbedderInfo

Numbers = NDArray[Any]
DIMENSIONS = 32
TYPES = {"f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i1": "I8", "u4": "U32"}
SAME = {"vessel": "boat", "ship": "boat", "automobile": "car", "moved": "relocated"}


class WordEmbedder:
    """Adds up one direction per word; words that mean the same share one. Fails or refuses as it is told."""

    def __init__(self, name: str = "words-1", /, *, dimensions: int = DIMENSIONS) -> None:
        self.info = EmbedderInfo(name, dimensions)
        self.is_down = False
        self.refuses = ""
        self.batches: list[int] = []
        self.queries: list[str] = []

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        self.batches.append(len(texts))
        if self.is_down:
            raise ModelUnavailable("down")
        if self.refuses and any(self.refuses in text for text in texts):
            raise ModelRefused("not this one")
        return [self.vector(text) for text in texts]

    async def embed_query(self, text: str, /) -> Sequence[float]:
        self.queries.append(text)
        if self.is_down:
            raise ModelUnavailable("down")
        return self.vector(text)

    def vector(self, text: str) -> list[float]:
        total = np.zeros(self.info.dimensions)
        for word in text.lower().replace("?", " ").replace(".", " ").replace(":", " ").split():
            seed = hashlib.blake2b(SAME.get(word, word).encode(), digest_size=4).digest()
            total += np.random.default_rng(int.from_bytes(seed, "big")).standard_normal(self.info.dimensions)
        return total.tolist()


def tiny_model(folder: Path, /) -> Path:
    """Leave a BERT encoder of two layers with random weights in `folder`, as publishers do; return the folder."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["[UNK]", "the", "boat", "is", "blue", "we", "moved", "to", "lisbon", "in", "may", "a", "car"]
    places = {word: place for place, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(places, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": 16, "num_attention_heads": 2,
              "num_hidden_layers": 2, "vocab_size": 32, "layer_norm_eps": 1e-12}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(safetensors(tiny_weights()))
    return folder


def tiny_weights() -> dict[str, Numbers]:
    dice = np.random.default_rng(3)
    shapes = {"embeddings.word_embeddings": (32, 16), "embeddings.position_embeddings": (64, 16),
              "embeddings.token_type_embeddings": (2, 16)}  # fmt: skip
    for layer in range(2):
        name = f"encoder.layer.{layer}"
        shapes |= {f"{name}.attention.self.{part}": (16, 16) for part in ("query", "key", "value")}
        shapes |= {f"{name}.attention.output.dense": (16, 16), f"{name}.intermediate.dense": (32, 16),
                   f"{name}.output.dense": (16, 32)}  # fmt: skip
    weights = {
        f"{name}.weight": dice.standard_normal(shape).astype("<f4") * np.float32(0.3) for name, shape in shapes.items()
    }
    weights |= {f"{name}.bias": np.zeros(shape[0], "<f4") for name, shape in shapes.items() if "layer" in name}
    norms = ["embeddings.LayerNorm"]
    parts = ("attention.output.LayerNorm", "output.LayerNorm")
    norms += [f"encoder.layer.{layer}.{part}" for layer in range(2) for part in parts]
    for name in norms:
        weights |= {f"{name}.weight": np.ones(16, "<f4"), f"{name}.bias": np.zeros(16, "<f4")}
    return weights


def safetensors(weights: dict[str, Numbers], /) -> bytes:
    """Return weights as a safetensors file."""
    told: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, numbers in weights.items():
        data = numbers.tobytes()
        told[name] = {
            "dtype": TYPES[numbers.dtype.str[1:]],
            "shape": list(numbers.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    header = json.dumps(told).encode()
    return struct.pack("<Q", len(header)) + header + body


async def compare(store: str, folder: str, score: str) -> None:
    """Recall from a store with the Model2Vec folder alone, and have the best hit's `score` in digits."""
    async with elytron.open(store, embedder=folder) as memory:
        report = await memory.recall("boats")
        assert (report.vectors.value, report.unembedded, repr(report.hits[0].score)) == ("compared", 0, score)
    assert "onnxruntime" not in sys.modules
