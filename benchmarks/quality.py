"""Measure how well recall finds answers: as shipped, against plain baselines, and without each signal in turn.

    python -m benchmarks.quality [--long] [--unseen] [--small] [--ordinary] [--languages] [--decoys] [--data FILE]
                                 [--half HALF] [--only NAME ...] [--embedder NAME] [--ablation]

The default is the constructed sets of `benchmarks/quality_data`. --long selects the long conversations with an
assistant, --unseen those that were written before recall was run on them, --small and --ordinary the small spaces and
ordinary conversations, --languages spaces in many languages, --decoys spaces in which the questions' words mislead, and
--data a file in LoCoMo's format, which is not part of this project. Each group has its own table. --half chooses the
questions of small spaces and ordinary conversations: "held" for the figures of the docs, "fit" for everything that is
chosen by inspection.

recall@10 is the share of a question's evidence among the first ten hits; nDCG@10 weighs it by rank. "first" and "three"
are the shares of questions with some evidence at rank one and within the first three. "shown" is the share of answered
questions for which anything was found, "false" that of questions that nothing answers. "near" and "far" are AUROC: the
probability that the best hit of a question with a correct first hit scores above that of a question about an unknown
detail of something mentioned (near), or about something never mentioned (far). A wrong first hit counts as one that
scores below. With an embedder, rows with vectors are added.
"""

import argparse
import asyncio
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.quality_asked import add_sets, groups
from benchmarks.quality_sets import APART, ELSEWHERE, NOTHING, UNANSWERED, Told
from benchmarks.quality_sums import FIFTH, HALF, Likeness, Meaning, Share, Sum
from benchmarks.quality_systems import Found, Fts5, Fused, Plain, Shipped, System
from elytron_core.ports.models import Embedder

ASKED = 10
MEASURES = ("recall", "ndcg", "first", "three")
SIGNALS = (
    "kin", "asking", "answer", "near", "window", "session", "name", "speaker", "present", "owner", "standing",
    "date", "fits", "told", "sentence", "informative", "again", "misled", "text_vectors",
)  # fmt: skip
WITHOUT = {"asking": 1.0}
"""Values with which a weight has no effect, where that is not 0."""


@dataclass
class Score:
    """The measures of the questions of one kind."""

    recall: list[float] = field(default_factory=list[float])
    ndcg: list[float] = field(default_factory=list[float])
    first: list[float] = field(default_factory=list[float])
    three: list[float] = field(default_factory=list[float])

    def add(self, found: Sequence[str], gold: frozenset[str]) -> None:
        places = [place for place, each in enumerate(found[:ASKED]) if each in gold]
        ideal = sum(1 / math.log2(place + 2) for place in range(min(ASKED, len(gold))))
        self.recall.append(len(places) / len(gold))
        self.ndcg.append(sum(1 / math.log2(place + 2) for place in places) / ideal)
        self.first.append(float(places[:1] == [0]))
        self.three.append(float(places != [] and places[0] < 3))


@dataclass
class Measured:
    """The results of one system. `answered` and `unanswered` are the scores of best hits, -inf without a hit.

    `right` has the scores of the answered questions, -inf where the best hit is wrong.
    """

    kinds: dict[str, Score]
    answered: list[float]
    right: list[float]
    unanswered: dict[str, list[float]]
    took_ms: list[float]

    @property
    def shown(self) -> list[float]:
        """For each question with an answer, 1 if anything was found."""
        return [float(score > -math.inf) for score in self.answered]

    @property
    def false(self) -> list[float]:
        """For each question that nothing answers, 1 if anything was found."""
        return [float(score > -math.inf) for scores in self.unanswered.values() for score in scores]

    def auroc(self, kind: str) -> float | None:
        """Return the probability that a correct best hit scores above an unanswered question's; ties count half."""
        others = self.unanswered.get(kind, [])
        pairs = [(one > other) + (one == other) / 2 for one in self.right for other in others]
        return statistics.fmean(pairs) if pairs else None

    def all(self, measure: str) -> list[float]:
        """Return the values of a measure for every kind except the one that is listed separately."""
        return [value for kind, score in self.kinds.items() if kind != APART for value in getattr(score, measure)]

    def line(self, name: str, kinds: Sequence[str]) -> str:
        """Return the row of a table."""
        whole = "".join(f"{_percent(self.all(each)):>8}" for each in MEASURES)
        whole += f"{_percent(self.shown):>8}" + "".join(
            f"{'-':>8}" if chance is None else f"{chance:>8.2f}" for chance in map(self.auroc, (NOTHING, ELSEWHERE))
        )
        each = "".join(f"{_percent(self.kinds[kind].recall):>12}" for kind in kinds)
        false = _percent(self.false) if self.unanswered else "-"
        return f"{name:<24}{whole}{each}{false:>8}{statistics.median(self.took_ms):>8.2f}"


async def measure(system: System, sets: Sequence[Told]) -> Measured:
    """Tell `system` everything, then ask it everything."""
    kinds: defaultdict[str, Score] = defaultdict(Score)
    answered: list[float] = []
    right: list[float] = []
    unanswered: defaultdict[str, list[float]] = defaultdict(list)
    took: list[float] = []
    for told in sets:
        await system.tell(told)
        for question in told.questions:
            start = time.perf_counter()
            found = await system.ask(told, question.text, ASKED)
            took.append(1_000 * (time.perf_counter() - start))
            if question.kind in UNANSWERED:
                unanswered[question.kind].append(_best(found))
                continue
            if question.kind != APART:
                answered.append(_best(found))
                is_right = bool(found) and found[0].id in question.gold
                right.append(found[0].score if is_right else -math.inf)
            kinds[question.kind].add([each.id for each in found], question.gold)
    return Measured(dict(kinds), answered, right, unanswered, took)


def systems(embedder: Embedder | None, *, ablation: bool) -> dict[str, System]:
    """Return the systems to measure, by the name of their row."""
    if ablation:
        signals = SIGNALS if embedder is None else (*SIGNALS, "vector", "passage")
        return {
            "as shipped": Shipped(embedder),
            **{f"without {name}": Shipped(embedder, **{name: WITHOUT.get(name, 0.0)}) for name in signals},
        }
    words, meaning = Share(), Meaning()
    rows: dict[str, System] = {
        "as shipped": Shipped(),
        "SQLite FTS5, Porter": Fts5(),
        "BM25 alone": Plain(),
        "text vectors alone": Sum((1.0, meaning)),
        "sum": Sum((1.0, meaning), (HALF, words), around=FIFTH),
    }
    if embedder is not None:
        likeness = Likeness(embedder)
        rows["with the encoder"] = Shipped(embedder)
        rows["encoder's cosine alone"] = Sum((1.0, likeness))
        rows["sum with the encoder"] = Sum((1.0, likeness), (HALF, meaning), (HALF, words), around=FIFTH)
        rows["both, by rank fusion"] = Fused(Plain(), Sum((1.0, likeness)))
    return rows


async def run(sets: Sequence[Told], rows: dict[str, System]) -> None:
    """Print one line per system."""
    kinds = sorted({question.kind for told in sets for question in told.questions} - UNANSWERED)
    turns, asked = sum(len(told.turns) for told in sets), sum(len(told.questions) for told in sets)
    print(f"{len(sets)} spaces, {turns} turns, {asked} questions; percent; recall@{ASKED} by kind\n")
    whole = "".join(f"{each:>8}" for each in (*MEASURES, "shown", "near", "far"))
    head = "".join(f"{kind.removeprefix('5 ')[:11]:>12}" for kind in kinds)
    print(f"{'':<24}{whole}{head}{'false':>8}{'ms':>8}")
    for name, system in rows.items():
        print((await measure(system, sets)).line(name, kinds), flush=True)


def _best(found: Sequence[Found]) -> float:
    return found[0].score if found else -math.inf


def _percent(values: Sequence[float]) -> str:
    return f"{100 * statistics.fmean(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sets(parser)
    parser.add_argument("--embedder", metavar="NAME", help="an embedder by its name, folder or server")
    parser.add_argument("--ablation", action="store_true", help="each signal off in turn")
    arguments = parser.parse_args()
    embedder: Embedder | None = None
    if arguments.embedder is not None:
        from elytron.embedding.embedders import embedder_of

        embedder = embedder_of(arguments.embedder)
    for sets in groups(arguments):
        asyncio.run(run(sets, systems(embedder, ablation=arguments.ablation)))


if __name__ == "__main__":
    main()
