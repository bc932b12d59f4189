"""Rebuild the table of text vectors from the sentence encoder in a folder (`elytron model add minilm` creates one).

    uv run --group dev --with scipy python -m benchmarks.text_vectors --encoder FOLDER --output text_vectors.bin

The sentences are the glosses and examples of WordNet 3.0 (`--wordnet`, its data files; Debian package `wordnet-base`)
and those of `benchmarks/text_vectors_sentences.txt`. The encoder's vectors are stored in the file that `--cache` names,
so that a second run takes only minutes. `--held-out 5` holds out every fifth sentence and prints how close its sum
comes to the encoder's vector; without it, the table is fitted to all sentences.

The encoder's vectors of length 1, minus their mean, are projected onto their first 128 principal directions. A text's
tokens are counted and divided by the square root of their number. The vectors of tokens start as the encoder's own
vector of each, weighted by the logarithm of its rank. They are fitted to the sentences by ridge regression towards that
start (conjugate gradients), then again with each sentence's length left free, so that only its direction counts.
"""

import argparse
import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_index.lexicon.text_vectors import CONTINUATION, DIMENSIONS, PieceVocabulary

Floats = NDArray[np.float32]

OWN: Final = Path(__file__).with_name("text_vectors_sentences.txt")
PARTS: Final = ("noun", "verb", "adj", "adv")
WORDS: Final = (3, 30)
"""Minimum and maximum number of words in a sentence of WordNet."""
OFTEN: Final = 3
"""Number of sentences with a word that make it a token, even if the encoder splits it into pieces."""
MARKS: Final = ("?", "!", ".", ",")
MAX_TOKENS: Final = 48
"""Maximum number of pieces of a sentence that are encoded."""
OWN_WEIGHT: Final = 10.0
"""Weight of one of our own sentences relative to one of WordNet's, of which there are a hundred times more."""
OWN_SPREAD: Final = 20.0
"""The same for the choice of directions."""
RIDGE: Final = 3.0
STEPS: Final = 15
ROUNDS: Final = 4
"""Number of repetitions of the fit with free sentence lengths."""
SHARE: Final = 0.9995
"""Share of all numbers within the range of 8 bits; the rest is clipped."""


@dataclass(frozen=True)
class Sentences:
    """The sentences of the fit, the encoder's vector of each, and which of them are our own."""

    texts: Sequence[str]
    vectors: Floats
    own: NDArray[np.bool_]


class Teacher:
    """The encoder in a folder. Each text is encoded separately, so that its vector depends only on it."""

    def __init__(self, folder: Path, /) -> None:
        runtime: Any = import_module("onnxruntime")
        tokenizers: Any = import_module("tokenizers")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = runtime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        self.pieces: Final[dict[str, int]] = self._tokenizer.get_vocab()
        self.name: Final[str] = json.loads((folder / "embedder.json").read_bytes())["model"]

    def encode(self, text: str, /) -> Floats:
        """Return the vector of a text, or that of a single token for a token of the encoder."""
        ids: list[int] = self._tokenizer.encode("" if text in self.pieces else text).ids
        if text in self.pieces:
            ids.insert(1, self.pieces[text])
        given = np.array([ids], np.int64)
        found: Floats = self._session.run(None, {"ids": given, "mask": np.ones_like(given)})[0][0]
        return found / np.float32(np.linalg.norm(found))

    def encode_all(self, texts: Sequence[str], cache: Path | None, /) -> Floats:
        """Return the vectors of `texts`. Vectors in the file `cache` are reused, and new ones are added to it."""
        known: dict[str, Floats] = {}
        if cache is not None and cache.exists():
            with np.load(cache) as kept:
                known = dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))
        new = [text for text in dict.fromkeys(texts) if text not in known]
        with ThreadPoolExecutor(2) as pool:
            known.update(zip(new, pool.map(self.encode, new), strict=True))
        if cache is not None and new:
            np.savez(cache, texts=np.array(list(known)), vectors=np.array(list(known.values()), np.float32))
        return np.array([known[text] for text in texts], np.float32)


def main() -> int:
    """Build the table and print how close it comes."""
    parser = argparse.ArgumentParser(description="make the table of text vectors")
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--held-out", type=int, default=0, metavar="N")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    teacher = Teacher(given.encoder)
    own = [line for line in OWN.read_text("utf-8").splitlines() if line]
    texts = list(dict.fromkeys((*glosses(given.wordnet), *own)))
    vectors = teacher.encode_all(texts, given.cache)
    sentences = Sentences(texts, vectors, np.isin(np.arange(len(texts)), range(len(texts) - len(own), len(texts))))
    tokens = vocabulary(texts, teacher)
    kept_back = np.array([_kept_back(text, given.held_out) for text in texts])
    matrix = fit(sentences, tokens, teacher.encode_all(tokens, given.cache), kept_back)
    data = pack(tokens, matrix, teacher.name)
    given.output.write_bytes(data)
    print(f"{len(texts)} sentences, {len(tokens)} tokens, {len(data) / 1e6:.2f} MB")
    return 0


def glosses(folder: Path, /) -> list[str]:
    """Return WordNet's definitions and examples, in the order of its files."""
    found: list[str] = []
    for part in PARTS:
        for line in (folder / f"data.{part}").read_text("utf-8", "replace").splitlines():
            _, mark, gloss = line.partition(" | ")
            if mark:
                found += (piece.strip().strip('"').strip() for piece in gloss.split(";"))
    return [sentence for sentence in found if WORDS[0] <= len(sentence.split()) <= WORDS[1]]


def vocabulary(texts: Sequence[str], teacher: Teacher, /) -> list[str]:
    """Return the encoder's words and letter pieces, and further words that occur in many of `texts`."""
    letters = re.compile(r"[a-z]+")
    counts = Counter(word for text in texts for word in dict.fromkeys(letters.findall(text.lower())))
    known = [token for token in teacher.pieces if letters.fullmatch(token.removeprefix(CONTINUATION))]
    further = [word for word, count in counts.items() if count >= OFTEN and word not in teacher.pieces]
    return [*sorted(known, key=teacher.pieces.__getitem__), *MARKS, *sorted(further, key=lambda it: (-counts[it], it))]


def fit(sentences: Sentences, tokens: Sequence[str], alone: Floats, kept_back: NDArray[np.bool_], /) -> Floats:
    """Return the vector of each token, and print how close their sums come to the sentences' vectors."""
    spread = np.where(sentences.own, OWN_SPREAD, 1.0) * ~kept_back
    mean = np.average(sentences.vectors, axis=0, weights=spread).astype(np.float32)
    centred = sentences.vectors - mean
    _, directions = np.linalg.eigh((centred * spread[:, None]).T.astype(np.float64) @ centred.astype(np.float64))
    along = directions[:, : -DIMENSIONS - 1 : -1].astype(np.float32)
    known = PieceVocabulary(tokens)
    held: Any = counts_matrix([known.rows(text) for text in sentences.texts], len(tokens))
    ranks = np.empty(len(tokens), np.float32)
    ranks[np.argsort(-held.getnnz(axis=0), kind="stable")] = np.arange(len(tokens))
    start = ((alone - alone.mean(axis=0)) @ along) * np.log1p(ranks)[:, None]
    wanted = (centred @ along).astype(np.float32)
    sums = held @ start
    start = (start * ((sums * wanted).sum() / (sums * sums).sum())).astype(np.float32)
    weights = np.where(sentences.own, OWN_WEIGHT, 1.0).astype(np.float32) * ~kept_back
    found = start
    lengths = np.ones(len(wanted), np.float32)
    for _ in range(1 + ROUNDS):
        found = fit_ridge(scaled_rows(held, lengths), wanted, weights, start, found)
        sums = held @ found
        lengths = (sums * wanted).sum(axis=1) / np.maximum((sums * sums).sum(axis=1), 1e-9)
        lengths = np.clip(lengths, 0.3, 3.0).astype(np.float32)
    _report(sums, wanted, sentences.own, kept_back)
    return found


def pack(tokens: Sequence[str], matrix: Floats, encoder: str, /) -> bytes:
    """Return the file: a line of JSON, the tokens (one per line), and the vectors in 8 bits, one after the other."""
    bound = float(np.quantile(np.abs(matrix), SHARE))
    rows = np.rint(np.clip(matrix.astype(np.float64) * (127 / bound), -127, 127)).astype(np.int8)
    names = "\n".join(tokens).encode("ascii")
    digest = hashlib.sha256(names + rows.tobytes()).hexdigest()[:12]
    told = {"version": f"en-{digest}", "vocabulary_bytes": len(names), "dimensions": DIMENSIONS, "encoder": encoder}
    return json.dumps(told).encode("ascii") + b"\n" + names + rows.tobytes()


def _kept_back(text: str, each: int) -> bool:
    return each > 0 and int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % each == 0


def counts_matrix(rows: Sequence[Sequence[int]], size: int) -> Any:
    """Return a sparse matrix with each text's token counts, divided by the square root of their number."""
    sparse: Any = import_module("scipy.sparse")
    heads = list(accumulate((len(row) for row in rows), initial=0))
    worths = [len(row) ** -0.5 for row in rows for _ in row]
    places = [place for row in rows for place in row]
    found = sparse.csr_matrix((np.array(worths, np.float32), places, heads), shape=(len(rows), size))
    found.sum_duplicates()
    return found


def scaled_rows(held: Any, lengths: Floats) -> Any:
    sparse: Any = import_module("scipy.sparse")
    return (sparse.diags(lengths) @ held).tocsr()


def fit_ridge(held: Any, wanted: Floats, weights: Floats, start: Floats, found: Floats) -> Floats:
    """Return the vectors whose sums come closest to `wanted` while staying near `start`, searching from `found`."""
    turned = held.T.tocsr()

    def applied(given: Floats) -> Floats:
        return turned @ (weights[:, None] * (held @ given)) + RIDGE * given

    rest = turned @ (weights[:, None] * wanted) + RIDGE * start - applied(found)
    way, size = rest, np.einsum("ij,ij->j", rest, rest)
    for _ in range(STEPS):
        image = applied(way)
        step = size / np.maximum(np.einsum("ij,ij->j", way, image), 1e-20)
        found = found + way * step
        rest = rest - image * step
        before, size = size, np.einsum("ij,ij->j", rest, rest)
        way = rest + way * (size / np.maximum(before, 1e-20))
    return found


def _report(sums: Floats, wanted: Floats, own: NDArray[np.bool_], kept_back: NDArray[np.bool_]) -> None:
    lengths = np.linalg.norm(sums, axis=1) * np.linalg.norm(wanted, axis=1)
    near = (sums * wanted).sum(axis=1) / np.maximum(lengths, 1e-9)
    for name, which in (("WordNet's", ~own), ("our own", own)):
        print(f"cosine to the encoder, {name}: {near[which & ~kept_back].mean():.3f} fitted", end="")
        print(f", {near[which & kept_back].mean():.3f} held out" if kept_back.any() else "")


if __name__ == "__main__":
    raise SystemExit(main())
