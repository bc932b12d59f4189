"""The lower bound of a recall's cost: an int8 scan with rescoring, precomputed postings, and reading the answers.

It has no facade, spaces, filters, times, neighbours or other processes, and its postings, which contain finished
scores, do not change when texts are added. It is a bound, not a usable memory.
"""

import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.corpora import Corpus
from elytron_index.structures.embeddings import dot_products

_SCALE = 381
K1, B = 1.2, 0.75


class Floor:
    """The lower bound for one corpus."""

    def __init__(self, path: Path, data: Corpus, /) -> None:
        self._data = data
        self._rows = sqlite3.connect(path, isolation_level=None)
        self._rows.execute("pragma journal_mode=wal")
        self._rows.execute("pragma synchronous=full")
        self._rows.execute("create table m(r integer primary key, id text unique, body text, at integer)")
        self._rows.execute("begin")
        rows = ((place, f"{place:032x}", text, place) for place, text in enumerate(data.texts))
        self._rows.executemany("insert into m values(?, ?, ?, ?)", rows)
        self._rows.execute("commit")
        self._codes = _coded(data.vectors)
        self._postings(data.texts)

    def _postings(self, texts: list[str]) -> None:
        words: dict[str, int] = {}
        terms: list[int] = []
        places: list[int] = []
        counts: list[int] = []
        lengths = np.array([len(text.split()) for text in texts], np.float32)
        for place, text in enumerate(texts):
            for word, count in Counter(text.split()).items():
                terms.append(words.setdefault(word, len(words)))
                places.append(place)
                counts.append(count)
        order = np.argsort(np.array(terms), kind="stable")
        term, place = np.array(terms)[order], np.array(places, np.int32)[order]
        count = np.array(counts, np.float32)[order]
        df = np.bincount(term, minlength=len(words))
        idf = np.log(1 + (len(texts) - df + 0.5) / (df + 0.5)).astype(np.float32)
        norm = K1 * (1 - B + B * lengths[place] / lengths.mean())
        self._words, self._places = words, place
        self._gains = idf[term] * count * (K1 + 1) / (count + norm)
        self._starts = np.concatenate([[0], np.cumsum(df)])
        self._scores = np.zeros(len(texts), np.float32)

    def recall(self, number: int, /) -> int:
        """Answer a question by reciprocal rank fusion, and return the number of rows read."""
        asked = self._data.asked[number]
        rough = dot_products(_coded(asked[None]), self._codes)[0]
        near = np.argpartition(rough, -60)[-60:]
        near = near[np.argsort(-(self._data.vectors[near] @ asked))[:30]]
        ranks = {int(row): 1 / (60 + place) for place, row in enumerate(near)}
        self._scores[:] = 0
        for word in self._data.questions[number].split():
            term = self._words[word]
            start, end = self._starts[term], self._starts[term + 1]
            self._scores[self._places[start:end]] += self._gains[start:end]
        best = np.argpartition(self._scores, -30)[-30:]
        for place, row in enumerate(best[np.argsort(-self._scores[best])].tolist()):
            ranks[row] = ranks.get(row, 0) + 1 / (60 + place)
        found = sorted(ranks, key=ranks.__getitem__, reverse=True)[:10]
        marks = ",".join("?" * len(found))
        return len(self._rows.execute(f"select r, id, body, at from m where r in ({marks})", found).fetchall())

    def close(self) -> None:
        self._rows.close()


def _coded(vectors: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(vectors * _SCALE), -127, 127).astype(np.int8)
