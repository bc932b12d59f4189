"""A graph over the vectors of one space beside the scan that recall uses, under filters of several widths.

    python -m benchmarks.graph [units]          20000 unless said otherwise; the extra `vectors` must be installed

The graph is usearch's HNSW over our own coarse codes (16 links a node, 128 looked at while building, 96 in a search).
It is asked for so many of the nearest that ten of them pass the filter on average, four times over, and what passes is
rescored exactly. `recall@10` compares both with an exact float32 scan. The last column builds the same graph from the
same vectors in another order: the share of queries that get the same ten.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from usearch.compiled import MetricKind, ScalarKind
from usearch.index import Index

from benchmarks.corpora import Corpus, corpus
from elytron_index.search.top_k import likely_edge
from elytron_index.structures.vectors import ModelVectors, coded

SEARCHES = 100
FOUND = 10
STEPS = (1, 10, 100)

Rows = NDArray[np.int64]


def kept(data: Corpus, /) -> ModelVectors:
    """Return the vectors as an index keeps them."""
    vectors = ModelVectors(data.vectors.shape[1])
    for row, vector in enumerate(data.vectors):
        vectors.put(row, coded(vector))
    return vectors


def graph(data: Corpus, order: Rows, /) -> Index:
    """Return a graph of the vectors, which came in `order`."""
    index = Index(
        ndim=data.vectors.shape[1], metric=MetricKind.Cos, dtype=ScalarKind.I8,
        connectivity=16, expansion_add=128, expansion_search=96,
    )  # fmt: skip
    codes = np.stack([coded(vector).coarse for vector in data.vectors])
    index.add(order, codes[order], threads=1)
    return index


def by_graph(index: Index, vectors: ModelVectors, allowed: NDArray[np.bool_], /) -> Callable[[int, Corpus], Rows]:
    """Return a search of the graph: more than is wanted, filtered, rescored."""
    wanted = min(len(allowed), 4 * FOUND * len(allowed) // max(1, int(allowed.sum())))

    def ask(number: int, data: Corpus) -> Rows:
        query = coded(data.asked[number])
        rows = index.search(query.coarse, wanted, threads=1).keys.astype(np.int64)
        rows = rows[allowed[rows]]
        return rows[np.argsort(-vectors.exact(query, rows), kind="stable")[:FOUND]]

    return ask


def by_scan(vectors: ModelVectors, allowed: NDArray[np.bool_], /) -> Callable[[int, Corpus], Rows]:
    """Return the scan of the coarse codes, filtered, its best made exact."""

    def ask(number: int, data: Corpus) -> Rows:
        query = coded(data.asked[number])
        rough = vectors.scan(query, len(allowed))[1]
        edge = likely_edge(rough, allowed, 4 * FOUND)
        rows = np.flatnonzero(allowed if edge is None else (rough >= edge) & allowed)
        if len(rows) > 16 * FOUND:
            rows = rows[np.argpartition(-rough[rows], 4 * FOUND)[: 4 * FOUND]]
        return rows[np.argsort(-vectors.exact(query, rows), kind="stable")[:FOUND]]

    return ask


def main(size: int, /) -> None:
    """Print the table."""
    data = corpus(size)
    vectors = kept(data)
    straight = np.arange(size)
    began = time.process_time()
    index = graph(data, straight)
    built = time.process_time() - began
    other = graph(data, np.random.default_rng(1).permutation(size))
    print(f"{size} units, graph built in {built:.0f} s ({built / size * 1e3:.2f} ms a unit)")
    print(f"{'filter':<8}{'scan ms':>9}{'recall@10':>11}{'graph ms':>10}{'recall@10':>11}{'same ten':>10}")
    for step in STEPS:
        allowed = straight % step == 0
        scan, first = measured(by_scan(vectors, allowed), data), measured(by_graph(index, vectors, allowed), data)
        second = measured(by_graph(other, vectors, allowed), data)
        same = statistics.mean(
            sorted(one.tolist()) == sorted(two.tolist()) for one, two in zip(first[1], second[1], strict=True)
        )
        print(f"{f'1/{step}':<8}{scan[0] * 1e3:>9.3f}{share(scan[1], data, allowed):>11.3f}"
              f"{first[0] * 1e3:>10.3f}{share(first[1], data, allowed):>11.3f}{same:>10.2f}")  # fmt: skip


def measured(ask: Callable[[int, Corpus], Rows], data: Corpus, /) -> tuple[float, list[Rows]]:
    """Return the median processor seconds of a search, and what was found."""
    spent: list[float] = []
    found: list[Rows] = []
    for number in range(SEARCHES):
        began = time.process_time()
        found.append(ask(number, data))
        spent.append(time.process_time() - began)
    return statistics.median(spent), found


def share(found: Sequence[Rows], data: Corpus, allowed: NDArray[np.bool_], /) -> float:
    """Return the share of the ten nearest that were found."""
    rows = np.flatnonzero(allowed)
    hits = 0
    for number, ten in enumerate(found):
        best = rows[np.argsort(-(data.vectors[rows] @ data.asked[number]))[:FOUND]]
        hits += len(set(best.tolist()) & set(ten.tolist()))
    return hits / (FOUND * len(found))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
