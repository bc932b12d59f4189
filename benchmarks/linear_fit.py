"""Fit linear models to labelled texts: logistic regression, one label at a time, stored in 8 bits.

A text may be cut into pieces. A label then applies to a text if it applies to one of its pieces, and a text trains with
the piece that speaks most for the label. Nothing is random; the same texts give the same file.
"""

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elytron_index.lexicon.linear_model import WordTable, features_of, tokens_of
from elytron_index.lexicon.text_vectors import DIMENSIONS

Floats = NDArray[np.float64]

BUCKETS = 1 << 15
VECTOR_SCALES = {WordTable.ENGLISH: 1 / 256, WordTable.LANGUAGES: 1 / 16}
"""Factor for the sum of a text's vectors that makes it as large as all other features together."""
STEPS = 150
NEWTON_STEPS = 30
ROUNDS = 2
"""Number of times the training piece is chosen again."""
FALSE = 0.05
"""Share of texts without a label that its threshold may admit, according to cross-validation."""
FOLDS = 4


@dataclass(frozen=True)
class Labelled:
    """A text with its labels."""

    text: str
    labels: frozenset[str]
    group: str = ""
    """Group for which separate totals are printed: the language."""


@dataclass(frozen=True)
class Settings:
    """How strongly weights are regularised, and the weight of a text with the label relative to one without."""

    hashed: float = 1.0
    vectors: float = 1.0
    positive: float = 1.0
    buckets: int = BUCKETS
    frequent: int = 0
    """Number of words that stay whole while others are reduced to their endings; 0 disables endings."""
    least: int = 1
    """Minimum number of pieces with a feature for it to have a weight."""
    table: WordTable = WordTable.ENGLISH


PLAIN = Settings()


def labelled(path: Path, /) -> list[Labelled]:
    """Read the texts of a file.

    A line has labels separated by commas or "-", the language, and the text, with tabs between.

    A line break inside a text is written as a backslash and an n. Lines that begin with "#" are comments.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return [
        Labelled(text.replace("\\n", "\n"), frozenset(labels.split(",")) - {"-"}, language)
        for labels, language, text in rows
    ]


class Pieces:
    """The features of all pieces of texts, as one sparse matrix."""

    def __init__(self, texts: Sequence[Sequence[str]], settings: Settings, /) -> None:
        self.frequent = _frequent([piece for pieces in texts for piece in pieces], settings.frequent)
        buckets, frequent = settings.buckets, frozenset(self.frequent)
        read = [features_of(piece, settings.table, frequent) for pieces in texts for piece in pieces]
        self.owner = np.repeat(np.arange(len(texts)), [len(pieces) for pieces in texts])
        self.buckets = buckets
        roots = np.sqrt(np.array([max(each.tokens, 1) for each in read], np.float64))
        sizes = [len(each.hashed) for each in read]
        self.columns = np.concatenate([each.hashed for each in read]) % buckets
        self.rows = np.repeat(np.arange(len(read)), sizes)
        counts = np.bincount(np.unique(self.rows * buckets + self.columns) % buckets, minlength=buckets)
        kept = counts[self.columns] >= settings.least
        self.columns, self.rows = self.columns[kept], self.rows[kept]
        self.values = 1.0 / roots[self.rows]
        self.table = settings.table
        self.vectors = np.array([each.vector for each in read]) * (VECTOR_SCALES[self.table] / roots)[:, None]

    def scores(self, weights: Floats, /) -> Floats:
        hashed, vectors, bias = weights[: self.buckets], weights[self.buckets : -1], weights[-1]
        sums = np.bincount(self.rows, hashed[self.columns] * self.values, len(self.vectors))
        return sums + self.vectors @ vectors + bias

    def slopes(self, errors: Floats, /) -> Floats:
        hashed = np.bincount(self.columns, errors[self.rows] * self.values, self.buckets)
        return np.concatenate((hashed, errors @ self.vectors, [errors.sum()]))


def _frequent(texts: Sequence[str], count: int) -> list[str]:
    """Return the words that occur in the most texts."""
    found = Counter(token for text in texts for token in set(tokens_of(text)))
    return sorted(token for token, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:count])


def fit(pieces: Pieces, truth: NDArray[np.bool_], taught: NDArray[np.bool_], settings: Settings, /) -> Floats:
    """Return the weights for a label, trained on the texts in `taught`, where `truth` says which texts have it."""
    owner = pieces.owner
    weights = np.zeros(pieces.buckets + DIMENSIONS + 1)
    is_single = np.bincount(owner)[owner] == 1
    importance = np.where(truth[owner], settings.positive, 1.0) * taught[owner]
    for turn in range(ROUNDS):
        if turn == 0:
            # At first, no text of several pieces with the label trains, because it is unknown which piece expresses it.
            share = np.where(truth[owner] & ~is_single, 0.0, 1.0)
        else:
            share = np.where(truth[owner] & ~is_single, _best(pieces.scores(weights), owner), 1.0)
        weights = _descend(pieces, truth[owner].astype(np.float64), importance * share, weights, settings)
    return weights


def _best(scores: Floats, owner: NDArray[np.int64]) -> Floats:
    """Return 1 for the highest-scoring piece of each text, and 0 for the others."""
    order = np.lexsort((-scores, owner))
    first = np.ones(len(order), np.bool_)
    first[1:] = owner[order][1:] != owner[order][:-1]
    found = np.zeros(len(scores))
    found[order[first]] = 1.0
    return found


def _descend(pieces: Pieces, truth: Floats, importance: Floats, start: Floats, settings: Settings) -> Floats:
    """Minimise the logistic loss with a quadratic penalty by Adam steps over all pieces at once."""
    penalty = np.full(len(start), settings.hashed)
    penalty[pieces.buckets : -1] = settings.vectors
    penalty[-1] = 0.0
    weights, first, second = start.copy(), np.zeros(len(start)), np.zeros(len(start))
    for step in range(1, STEPS + 1):
        errors = (1.0 / (1.0 + np.exp(-np.clip(pieces.scores(weights), -30.0, 30.0))) - truth) * importance
        slope = pieces.slopes(errors) + penalty * weights
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        rate = 0.05 * (1.0 - step / (STEPS + 1))
        weights -= rate * (first / (1.0 - 0.9**step)) / (np.sqrt(second / (1.0 - 0.999**step)) + 1e-8)
    return weights


def logistic(signs: Floats, truth: Floats, worth: Floats, /) -> tuple[float, ...]:
    """Return the intercept and the weight of each sign in a logistic model, fitted by Newton steps.

    Weights are regularised on standardised signs. `worth` is the weight of each row.
    """
    mean, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    rows = np.column_stack((np.ones(len(signs)), (signs - mean) / spread))
    penalty = np.diag([0.0, *[1.0] * signs.shape[1]])
    numbers = np.zeros(1 + signs.shape[1])
    for _ in range(NEWTON_STEPS):
        chance = 1.0 / (1.0 + np.exp(-(rows @ numbers)))
        slope = rows.T @ (worth * (truth - chance)) - penalty @ numbers
        curve = (rows * (worth * chance * (1.0 - chance))[:, None]).T @ rows + penalty
        numbers += np.linalg.solve(curve, slope)
    weights = numbers[1:] / spread
    return float(numbers[0] - weights @ mean), *map(float, weights)


def highest(scores: Floats, owner: NDArray[np.int64], texts: int, /) -> Floats:
    """Return the score of each text: the highest score of its pieces."""
    found = np.full(texts, -np.inf)
    np.maximum.at(found, owner, scores)
    return found


def held_out(pieces: Pieces, truth: NDArray[np.bool_], settings: Settings, /) -> Floats:
    """Return the score of each text by weights it did not train, holding out every fourth text in turn."""
    found = np.zeros(len(truth))
    for fold in range(FOLDS):
        out = np.arange(len(truth)) % FOLDS == fold
        scores = highest(pieces.scores(fit(pieces, truth, ~out, settings)), pieces.owner, len(truth))
        found[out] = scores[out]
    return found


def mark_of(scores: Floats, truth: NDArray[np.bool_], false: float, /) -> float:
    """Return the lowest threshold that at most the share `false` of the texts without the label exceed."""
    others = np.sort(scores[~truth])[::-1]
    return float(others[min(int(false * len(others)), len(others) - 1)])


def found_at(scores: Floats, truth: NDArray[np.bool_], mark: float, /) -> tuple[float, float]:
    """Return the share of texts with the label above `mark`, and the share of the others."""
    return float(np.mean(scores[truth] > mark)), float(np.mean(scores[~truth] > mark))


def pack(
    name: str, labels: Sequence[str], weights: Sequence[Floats], marks: Sequence[float], pieces: Pieces, /
) -> bytes:
    """Return the file of a model: one line of JSON, then the compressed weights of all labels."""
    buckets = pieces.buckets
    parts = [(each[:buckets], each[buckets:-1] * VECTOR_SCALES[pieces.table]) for each in weights]
    scales = [[float(np.abs(part).max()) / 127 or 1.0 for part in pair] for pair in parts]
    coded = [
        [np.rint(part / scale).astype(np.int8) for part, scale in zip(pair, scale, strict=True)]
        for pair, scale in zip(parts, scales, strict=True)
    ]
    data = np.stack([pair[0] for pair in coded], axis=1).tobytes() + np.stack([pair[1] for pair in coded], 1).tobytes()
    told = {
        "labels": list(labels),
        "buckets": buckets,
        "scales": scales,
        "biases": [float(each[-1]) - mark for each, mark in zip(weights, marks, strict=True)],
        "frequent": pieces.frequent,
        "table": pieces.table,
        "table_version": pieces.table.version,
    }
    body = json.dumps(told, sort_keys=True)
    version = f"{name}-{hashlib.sha256(body.encode() + data).hexdigest()[:12]}"
    return json.dumps({"version": version, **told}).encode() + b"\n" + zlib.compress(data, 9)


def model_of(
    name: str,
    texts: Sequence[Labelled],
    labels: Sequence[str],
    /,
    *,
    cut: Callable[[str], Sequence[str]] = lambda text: [text],
    settings: Settings = PLAIN,
    false: float = FALSE,
) -> bytes:
    """Return the file of a model fitted to `texts`, and print how well each label is found in held-out texts."""
    pieces = Pieces([list(cut(each.text)) or [each.text] for each in texts], settings)
    every = np.ones(len(texts), np.bool_)
    groups = np.array([each.group for each in texts])
    weights: list[Floats] = []
    marks: list[float] = []
    for label in labels:
        truth = np.array([label in each.labels for each in texts])
        scores = held_out(pieces, truth, settings)
        mark = mark_of(scores, truth, false)
        for group in ("", *sorted(set(groups.tolist()))):
            chosen = groups == group if group else every
            if truth[chosen].any():
                found, wrong = found_at(scores[chosen], truth[chosen], mark)
                print(f"{label:<14}{group or 'all':<6}{truth[chosen].sum():>6}  found {found:.1%}  false {wrong:.1%}")
        weights.append(fit(pieces, truth, every, settings))
        marks.append(mark)
    return pack(name, labels, weights, marks, pieces)
