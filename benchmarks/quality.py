"""How well recall finds what answers: recall as shipped, plain baselines beside it, each signal off in turn.

    python -m benchmarks.quality [--long | --unseen | --data FILE] [--only NAME ...] [--embedder FOLDER] [--ablation]

Without more the made sets of `benchmarks/quality_data` are asked; with --long the long conversations with an assistant,
with --unseen those that were written before recall was asked about them, with --data a file in LoCoMo's form, which is
not part of this project. recall@10 is the share of a question's evidence among the first ten, nDCG@10 counts its
places; "false" is the share of questions that nothing answers and that something was found for all the same. With the
folder of an encoder, rows with vectors are added.
"""

import argparse
import asyncio
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.quality_asked import add_sets, chosen
from benchmarks.quality_sets import APART, NOTHING, Told
from benchmarks.quality_systems import OFF, Fts5, Fused, Plain, Shipped, System
from elytron_core.ports.models import Embedder

ASKED = 10
SIGNALS = (
    "kin", "asking", "answer", "near", "window", "session", "label", "name", "speaker", "present", "owner", "standing",
    "date", "fits", "told", "sentence", "informative", "again", "gist",
)  # fmt: skip
WITHOUT = {"asking": 1.0}
"""What a weight is that does nothing, where that is not 0."""


@dataclass
class Score:
    """The measures of the questions of one kind."""

    recall: list[float] = field(default_factory=list[float])
    ndcg: list[float] = field(default_factory=list[float])

    def add(self, found: Sequence[str], gold: frozenset[str]) -> None:
        places = [place for place, each in enumerate(found[:ASKED]) if each in gold]
        ideal = sum(1 / math.log2(place + 2) for place in range(min(ASKED, len(gold))))
        self.recall.append(len(places) / len(gold))
        self.ndcg.append(sum(1 / math.log2(place + 2) for place in places) / ideal)


@dataclass
class Measured:
    """What one system came to."""

    kinds: dict[str, Score]
    false: list[float]
    took_ms: list[float]

    def line(self, name: str, kinds: Sequence[str]) -> str:
        scored = [kind for kind in self.kinds if kind != APART]
        recall = [value for kind in scored for value in self.kinds[kind].recall]
        ndcg = [value for kind in scored for value in self.kinds[kind].ndcg]
        each = "".join(f"{_percent(self.kinds[kind].recall):>12}" for kind in kinds)
        false = _percent(self.false) if self.false else "-"
        return (
            f"{name:<24}{_percent(recall):>8}{_percent(ndcg):>8}{each}{false:>8}{statistics.median(self.took_ms):>8.2f}"
        )


async def measure(system: System, sets: Sequence[Told]) -> Measured:
    """Tell `system` everything, then ask it everything."""
    kinds: defaultdict[str, Score] = defaultdict(Score)
    false: list[float] = []
    took: list[float] = []
    for told in sets:
        await system.tell(told)
        for question in told.questions:
            start = time.perf_counter()
            found = await system.ask(told, question.text, ASKED)
            took.append(1_000 * (time.perf_counter() - start))
            if question.kind == NOTHING:
                false.append(float(bool(found)))
            else:
                kinds[question.kind].add(found, question.gold)
    return Measured(dict(kinds), false, took)


def systems(embedder: Embedder | None, *, ablation: bool) -> dict[str, System]:
    """Return what is measured, by the name of its row."""
    if ablation:
        signals = SIGNALS if embedder is None else (*SIGNALS, "vector", "passage")
        return {
            "as shipped": Shipped(embedder),
            **{f"without {name}": Shipped(embedder, **{name: WITHOUT.get(name, 0.0)}) for name in signals},
        }
    rows: dict[str, System] = {"as shipped": Shipped(), "SQLite FTS5, Porter": Fts5(), "BM25 alone": Plain(OFF)}
    if embedder is not None:
        rows["with the encoder"] = Shipped(embedder)
        rows["vectors alone"] = Plain(OFF, embedder)
        rows["both, by rank fusion"] = Fused(Plain(OFF), Plain(OFF, embedder))
    return rows


async def run(sets: Sequence[Told], rows: dict[str, System]) -> None:
    """Print one line per system."""
    kinds = sorted({question.kind for told in sets for question in told.questions} - {NOTHING})
    turns, asked = sum(len(told.turns) for told in sets), sum(len(told.questions) for told in sets)
    print(f"{len(sets)} spaces, {turns} turns, {asked} questions; percent; recall@{ASKED} by kind\n")
    head = "".join(f"{kind.removeprefix('5 ')[:11]:>12}" for kind in kinds)
    print(f"{'':<24}{'recall':>8}{'nDCG':>8}{head}{'false':>8}{'ms':>8}")
    for name, system in rows.items():
        print((await measure(system, sets)).line(name, kinds), flush=True)


def _percent(values: Sequence[float]) -> str:
    return f"{100 * statistics.fmean(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sets(parser)
    parser.add_argument("--embedder", type=Path, help="the folder of a local encoder")
    parser.add_argument("--ablation", action="store_true", help="each signal off in turn")
    arguments = parser.parse_args()
    embedder: Embedder | None = None
    if arguments.embedder is not None:
        from elytron.embedding.local import LocalEmbedder

        embedder = LocalEmbedder(arguments.embedder)
    asyncio.run(run(chosen(arguments), systems(embedder, ablation=arguments.ablation)))


if __name__ == "__main__":
    main()
