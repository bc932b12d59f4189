"""Plain sums of a few numbers per turn, for comparison with recall: the parts, and their weights."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_sets import Told
from benchmarks.quality_systems import Found
from elytron.state.encoders import embed_texts
from elytron_core.ports.models import Embedder
from elytron_core.text.analyser import TextAnalyser
from elytron_index.lexicon.text_vectors import encoded_cosines, text_codes
from elytron_index.search.nearness import LANGUAGES_SHARE

Floats = NDArray[np.float64]

HALF: Final = 0.5
FIFTH: Final = 0.2
_BATCH = 64
_SATURATION = 1.2
_LENGTH = 0.75


class Part(Protocol):
    """Gives each turn a number for a question."""

    async def tell(self, told: Told, /) -> None: ...

    async def numbers(self, told: Told, text: str, /) -> Floats: ...


class Likeness:
    """The cosine of a text's vector to the question's."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, Floats] = {}

    async def tell(self, told: Told, /) -> None:
        if told.name in self._vectors:
            return
        found: list[Sequence[float]] = []
        for start in range(0, len(told.turns), _BATCH):
            texts = [turn.text for turn in told.turns[start : start + _BATCH]]
            found += await embed_texts(self._embedder, texts)
        self._vectors[told.name] = _unit(np.array(found, np.float64))

    async def numbers(self, told: Told, text: str, /) -> Floats:
        asked = _unit(np.array(await embed_texts(self._embedder, [text], as_queries=True), np.float64))
        return self._vectors[told.name] @ asked[0]


class Meaning:
    """The similarity of a text to the question by the bundled tables, computed as in recall."""

    def __init__(self) -> None:
        self._vectors: dict[str, tuple[NDArray[np.int8], NDArray[np.int8]]] = {}

    async def tell(self, told: Told, /) -> None:
        if told.name not in self._vectors:
            self._vectors[told.name] = text_codes([turn.text for turn in told.turns])

    async def numbers(self, told: Told, text: str, /) -> Floats:
        pairs = zip(text_codes((text,)), self._vectors[told.name], strict=True)
        english, languages = (encoded_cosines(asked[0], kept) for asked, kept in pairs)
        both = self._vectors[told.name][0].any(axis=1) & english.any() & languages.any()
        mixed = LANGUAGES_SHARE * languages + (1.0 - LANGUAGES_SHARE) * english
        return np.where(both, mixed, english + languages)


class Share:
    """The BM25 of a text as a share of the maximum that any text could have for the question."""

    def __init__(self) -> None:
        self._analyser = TextAnalyser()
        self._postings: dict[str, dict[str, list[tuple[int, float]]]] = {}

    async def tell(self, told: Told, /) -> None:
        if told.name in self._postings:
            return
        texts = [self._analyser.terms(turn.text) for turn in told.turns]
        typical = sum(map(len, texts)) / len(texts) or 1.0
        postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for row, terms in enumerate(texts):
            damping = _SATURATION * (1 - _LENGTH + _LENGTH * len(terms) / typical)
            for term, count in Counter(terms).items():
                postings[term].append((row, count / (count + damping)))
        self._postings[told.name] = dict(postings)

    async def numbers(self, told: Told, text: str, /) -> Floats:
        postings, many = self._postings[told.name], len(told.turns)
        found, most = np.zeros(many), 0.0
        for term in self._analyser.query_terms(text):
            holding = postings.get(term, ())
            rarity = math.log(1 + (many - len(holding) + 0.5) / (len(holding) + 0.5))
            most += rarity
            for row, worth in holding:
                found[row] += rarity * worth
        return found / most if most else found


class Sum:
    """Ranks turns by a weighted sum of parts, plus `around` times the sums of both neighbours in the conversation."""

    def __init__(self, *parts: tuple[float, Part], around: float = 0.0) -> None:
        self._parts = parts
        self._around = around
        self._beside: dict[str, NDArray[np.bool_]] = {}

    async def tell(self, told: Told, /) -> None:
        for _, part in self._parts:
            await part.tell(told)
        talks = [turn.conversation for turn in told.turns]
        self._beside[told.name] = np.array([one == next_ for one, next_ in pairwise(talks)], bool)

    async def ask(self, told: Told, text: str, limit: int, /) -> list[Found]:
        numbers = np.zeros(len(told.turns))
        for weight, part in self._parts:
            numbers += weight * await part.numbers(told, text)
        beside, alone = self._beside[told.name], numbers.copy()
        numbers[:-1] += self._around * np.where(beside, alone[1:], 0.0)
        numbers[1:] += self._around * np.where(beside, alone[:-1], 0.0)
        # Of equal ones, the later turn comes first, as in recall.
        best: list[int] = np.lexsort((-np.arange(len(numbers)), -numbers))[:limit].tolist()
        return [Found(told.turns[row].id, float(numbers[row])) for row in best if numbers[row] > 0.0]


def _unit(vectors: Floats) -> Floats:
    lengths: NDArray[Any] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)
