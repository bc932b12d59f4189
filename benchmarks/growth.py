"""Measure how an index grows: search time, memory, opening time, the longest pause of an add, and accuracy.

    python -m benchmarks.growth [sizes...]          default: 1000 10000 100000; 1000000 takes a while

The corpus is one space of texts with vectors in conversations of 30. `recall@10` compares the ten nearest vectors with
an exact float32 scan, for filters that admit all, a tenth, and a hundredth of the units. The exponent is that of the
search time between two lines; 1 means proportional to the size.
"""

import gc
import math
import re
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import Corpus, corpus
from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.ports.store import DocumentRef
from elytron_core.text.analyser import TextAnalyser
from elytron_index import DocumentChange, EmbeddedDocument, IndexQuery, SearchUnit, UnitFilters
from elytron_index.space_index import SpaceIndex

AT = 1_700_000_000_000
BATCH = 200
SEARCHES = 200
ADDS = 300
COMPARED = 40
_OTHERS: dict[str, Any] = {field.name: 0.0 for field in fields(SignalWeights) if field.name != "vector"}
ONLY_VECTORS = replace(SignalWeights(), **_OTHERS)
SHARES = (("all", ()), ("1/10", ("some",)), ("1/100", ("few",)))


def main(sizes: list[int]) -> None:
    """Print the table."""
    print(f"{'units':>9}{'p50 ms':>9}{'cpu ms':>9}{'exponent':>10}{'MB':>8}{'file MB':>9}{'open ms':>9}{'add ms':>8}"
          f"{'longest':>9}   recall@10 {' '.join(name for name, _ in SHARES)}")  # fmt: skip
    before: tuple[int, float] | None = None
    for size in sizes:
        data = corpus(size)
        gc.collect()
        empty = resident_bytes()
        index = filled(data)
        memory = resident_bytes() - empty
        p50, cpu = searched(index, data)
        near = " ".join(f"{share:.3f}" for share in nearest(index, data))
        add, longest = added(index, data)
        saved = index.to_bytes()
        began = time.perf_counter()
        assert SpaceIndex.from_bytes(saved, TextAnalyser()) is not None
        opened = time.perf_counter() - began
        exponent = f"{math.log(cpu / before[1]) / math.log(size / before[0]):.2f}" if before else ""
        print(f"{size:>9}{p50 * 1e3:>9.2f}{cpu * 1e3:>9.2f}{exponent:>10}{memory / 1e6:>8.0f}{len(saved) / 1e6:>9.0f}"
              f"{opened * 1e3:>9.0f}{add * 1e3:>8.2f}{longest * 1e3:>9.1f}   {near}")  # fmt: skip
        before = size, cpu


def steps(data: Corpus, first: int, end: int, /) -> tuple[list[DocumentChange], list[EmbeddedDocument]]:
    """Return the units `first` to `end` as changes, and their vectors."""
    changes: list[DocumentChange] = []
    embedded: list[EmbeddedDocument] = []
    for place in range(first, end):
        thread = f"{place // 30:024x}"
        ref = DocumentRef("turns", f"{thread}.{place % 30:012x}")
        tags = ("some", "few") if place % 100 == 0 else ("some",) if place % 10 == 0 else ()
        unit = SearchUnit(
            ref, 0, "transcript", data.texts[place % len(data.texts)], role="user", thread=thread, order=place % 30,
            at=AT + place * 60_000, scope=(("conversation", f"c{place // 30}"),), tags=tags, check=place + 1,
        )  # fmt: skip
        changes.append(DocumentChange(ref, (unit,)))
        embedded.append(EmbeddedDocument(ref, "m", {place + 1: data.vectors[place % len(data.texts)].tobytes()}))
    return changes, embedded


def filled(data: Corpus, /) -> SpaceIndex:
    """Return the index of the corpus."""
    index = SpaceIndex(TextAnalyser())
    for first in range(0, len(data.texts), BATCH):
        end = min(first + BATCH, len(data.texts))
        changes, embedded = steps(data, first, end)
        index.apply(changes, embedded=embedded, watermark=end)
    return index


def queries(data: Corpus, /) -> Iterator[IndexQuery]:
    """Yield the questions as recall asks them."""
    filters = UnitFilters(planes=("transcript",), as_of=AT * 2)
    for text, vector in zip(data.questions, data.asked, strict=True):
        yield IndexQuery(text=text, limit=26, vector=("m", vector.tobytes()), filters=filters)


def searched(index: SpaceIndex, data: Corpus, /) -> tuple[float, float]:
    """Return the median seconds of a search, and its mean processor seconds."""
    asked = list(queries(data))[:SEARCHES]
    for query in asked[:20]:
        index.search(query)
    spent: list[float] = []
    cpu = time.process_time()
    for query in asked:
        began = time.perf_counter()
        index.search(query)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent), (time.process_time() - cpu) / len(asked)


def nearest(index: SpaceIndex, data: Corpus, /) -> Iterator[float]:
    """Yield the share of the ten nearest vectors that a search finds, for each filter."""
    everyone = np.arange(len(data.texts))
    for step, (_, tags) in zip((1, 10, 100), SHARES, strict=True):
        allowed = everyone[everyone % step == 0]
        found = 0
        for asked in data.asked[:COMPARED]:
            cosines = data.vectors[allowed] @ asked
            best = {f"{place // 30:024x}.{place % 30:012x}" for place in allowed[np.argsort(-cosines)[:10]].tolist()}
            query = IndexQuery(
                "", limit=10, vector=("m", asked.tobytes()), filters=UnitFilters(tags_any=tags), weights=ONLY_VECTORS
            )
            found += len(best & {item.unit.ref.key for item in index.search(query).candidates})
        yield found / (COMPARED * min(10, len(allowed)))


def added(index: SpaceIndex, data: Corpus, /) -> tuple[float, float]:
    """Return the median and the longest seconds for adding one unit with its vector."""
    spent: list[float] = []
    for place in range(len(data.texts), len(data.texts) + ADDS):
        changes, embedded = steps(data, place, place + 1)
        began = time.perf_counter()
        index.apply(changes, watermark=place + 1)
        index.apply([], embedded=embedded, watermark=place + 1)
        spent.append(time.perf_counter() - began)
    return statistics.median(spent), max(spent)


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 where the system does not report it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [1_000, 10_000, 100_000])
