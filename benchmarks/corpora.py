"""Data for speed measurements: texts by Zipf's law, clustered unit vectors, and questions close to the stored texts."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from elytron_core.ports.models import EmbedderInfo

DIMENSIONS = 384
VOCABULARY = 30_000
QUERIES = 500
ADDED = 400
"""Number of texts that can be added to a corpus."""
_NEAR = 0.5 / DIMENSIONS**0.5
_AROUND = 0.65 / DIMENSIONS**0.5

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts and questions with vectors.

    A question has three to five words of one text, and a vector near that text's.
    """

    texts: list[str]
    vectors: Matrix
    questions: list[str]
    asked: Matrix


def corpus(size: int, /, *, seed: int = 0) -> Corpus:
    """Return `size` texts of 10 to 35 words, the same in every run for the same `seed`."""
    dice, numbers = random.Random(3 + seed), np.random.default_rng(7 + seed)
    words = ["".join(dice.choices("bdfgklmnprstvz", k=2)) + "".join(dice.choices("aeiou", k=2)) + f"{place:x}"
             for place in range(VOCABULARY)]  # fmt: skip
    weights = list(accumulate(1 / rank**1.05 for rank in range(1, VOCABULARY + 1)))
    texts = [" ".join(dice.choices(words, cum_weights=weights, k=dice.randint(10, 35))) for _ in range(size)]
    centres = _unit(numbers.standard_normal((max(32, size // 100), DIMENSIONS), dtype=np.float32))
    vectors = centres[numbers.integers(0, len(centres), size)]
    for start in range(0, size, 50_000):
        part = vectors[start : start + 50_000]
        part += numbers.standard_normal(part.shape, dtype=np.float32) * _AROUND
        part[:] = _unit(part)
    near = numbers.integers(0, size, QUERIES)
    asked = _unit(vectors[near] + numbers.standard_normal((QUERIES, DIMENSIONS), dtype=np.float32) * _NEAR)
    questions: list[str] = []
    for _ in range(QUERIES):
        said = dice.choice(texts).split()
        questions.append(" ".join(dice.sample(said, dice.randint(3, 5))))
    return Corpus(texts, vectors, questions, asked)


def vectors_of(*known: Corpus) -> dict[str, Matrix]:
    """Return the vector of each text and question."""
    found: dict[str, Matrix] = {}
    for data in known:
        found |= dict(zip(data.texts, data.vectors, strict=True)) | dict(zip(data.questions, data.asked, strict=True))
    return found


def _unit(rows: Matrix) -> Matrix:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Looked:
    """An embedder that looks vectors up, so that everything except the model is measured."""

    info = EmbedderInfo("looked-up", DIMENSIONS)

    def __init__(self, *known: Corpus) -> None:
        self._known = vectors_of(*known)

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        return [self._known[text].tolist() for text in texts]

    async def embed_query(self, text: str, /) -> Sequence[float]:
        return self._known[text].tolist()
