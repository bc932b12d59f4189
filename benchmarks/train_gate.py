"""Fit the gate for unrequested text: which prompts ask for memory, and when recalled text is shown.

    python -m benchmarks.train_gate [--locomo FILE] [--embedder NAME] [--without GROUP ...] [--keep SHARE]

First, a linear model of prompts is fitted to the examples of `benchmarks/precision_data`, the questions of
`benchmarks/sentences` except those that request a product, and the questions of the sets below; it is written into
`elytron_index`. Then each of those sets is asked its questions and a share of the examples that do not ask for memory,
and the weights of `elytron_core.policy.ranking.recall_gate` are printed. A prompt's margin is that of a model that it
did not train. The bundled numbers are fitted with four conversations of LoCoMo in addition to the sets (--locomo). With
--embedder, only the weights for it are fitted and printed, optionally without `long`, whose texts take a quarter of an
hour to embed. Of sets with a held-out half, the half "fit" is used. `held.tsv` and `quality_data/unseen`, by which the
gate is judged, are not read.
"""

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.linear_fit import Labelled, Pieces, Settings, fit, found_at, held_out, labelled, logistic, pack
from benchmarks.precision import EXAMPLES, prompts
from benchmarks.quality_languages import decoys, other_language, own_language
from benchmarks.quality_long import long_chats
from benchmarks.quality_ordinary import ordinary, small
from benchmarks.quality_sets import APART, UNANSWERED, Told, Turn, locomo, made
from benchmarks.quality_systems import Shipped
from benchmarks.train_questions import FOREIGN, QUESTIONS, WRITTEN
from elytron.recall import order, retrieval
from elytron.recall.order import gate_signs
from elytron_core.limits import PROJECTED_SCORE
from elytron_core.policy.ranking.recall_gate import GateSigns, GateWeights, clipped_margin, gate_features
from elytron_core.ports.models import Embedder
from elytron_index import FoundCandidates
from elytron_index.lexicon.classifiers import ASK_MODEL
from elytron_index.lexicon.linear_model import WordTable

SETTINGS: Final = Settings(hashed=0.7, vectors=0.3, buckets=1 << 15, frequent=600, least=2, table=WordTable.LANGUAGES)
Sets = dict[str, Callable[[], list[Told]]]
SETS: Final[Sets] = {
    "small": lambda: [*small("fit"), *own_language("fit"), *other_language("fit"), *decoys("fit")],
    "ordinary": lambda: ordinary("fit"),
    "made": made,
    "long": long_chats,
    "growing": lambda: growing((10, 30, 100, 300, 800, 1_500)),
}
ASKED_APART: Final = UNANSWERED | {APART}
PROMPTS_OF_SET: Final = 1_400
KEPT: Final = 0.985
"""Share of the answered questions shown without the gate that must also be shown with it, as a mean over the sets."""
NEAR: Final = 0.25
"""Weight of an unknown detail of a known matter among what should not be shown."""
LABELS: Final = ("answered", "near", "none")
"""What memory answers, an unknown detail of what it knows, and what does not ask for memory."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found for a prompt in a space of a set."""

    group: str
    text: str
    label: str
    signs: GateSigns


def growing(sizes: Iterable[int], /) -> list[Told]:
    """Return growing beginnings of all ordinary conversations together, which answer nothing here."""
    turns: list[Turn] = []
    for told in ordinary("fit"):
        turns += (
            replace(turn, id=f"{told.name}-{turn.id}", conversation=f"{told.name}-{turn.conversation}")
            for turn in told.turns
        )
    return [Told(f"growing-{size}", tuple(turns[:size]), ()) for size in sizes]


def texts(sets: Sets, /) -> list[Labelled]:
    """Return the training texts of the prompt model, each once, in an order with a fixed seed."""
    asks = frozenset(("asks",))
    taught: dict[str, Labelled] = {}
    for question in (*labelled(QUESTIONS), *labelled(FOREIGN)):
        if "making" not in question.labels:
            taught.setdefault(question.text, Labelled(question.text, asks, question.group))
    for of_set in sets.values():
        for told in of_set():
            for question in told.questions:
                if question.kind not in ASKED_APART:
                    taught.setdefault(question.text, Labelled(question.text, asks, "sets"))
    for prompt in prompts(EXAMPLES):
        labels = asks if prompt.asks_memory else frozenset[str]()
        taught[prompt.text] = Labelled(prompt.text, labels, prompt.language)
    ordered = list(taught.values())
    random.Random(3).shuffle(ordered)
    return ordered


def train_asks(taught: Sequence[Labelled], /, *, write: bool) -> dict[str, float]:
    """Return the margin of each text by a model that it did not train. Print how they separate, and write the model."""
    pieces = Pieces([[each.text] for each in taught], SETTINGS)
    truth = np.array([bool(each.labels) for each in taught])
    margins = held_out(pieces, truth, SETTINGS)
    groups = np.array([each.group for each in taught])
    for group in ("all", *sorted(set(groups.tolist()))):
        chosen = groups == group if group != "all" else np.ones(len(taught), np.bool_)
        if truth[chosen].any() and not truth[chosen].all():
            held, wrong = found_at(margins[chosen], truth[chosen], 0.0)
            print(f"asks {group:<6}{chosen.sum():>6}  found {held:.1%}  false {wrong:.1%}")
    if write:
        weights = fit(pieces, truth, np.ones(len(taught), np.bool_), SETTINGS)
        path = WRITTEN / f"{ASK_MODEL}.model"
        path.write_bytes(pack(ASK_MODEL, ["asks"], [weights], [0.0], pieces))
        print(f"{path.name}: {path.stat().st_size} bytes")
    return dict(zip((each.text for each in taught), margins.tolist(), strict=True))


async def searched(sets: Sets, embedder: Embedder | None) -> list[Searched]:
    """Return what the questions of each set, and a share of the prompts that do not ask for memory, find there now."""
    nothing = [prompt.text for prompt in prompts(EXAMPLES) if not prompt.asks_memory]
    seen: list[FoundCandidates] = []
    shipped = order.answer_estimate

    def estimate(searches: Iterable[FoundCandidates], /) -> float:
        candidates = list(searches)
        seen.extend(candidates)
        return shipped(candidates)

    setattr(retrieval, "answer_estimate", estimate)  # noqa: B010 - to observe, as nothing else may
    rows: list[Searched] = []
    chosen = random.Random(5)
    for group, of_set in sets.items():
        spaces = of_set()
        count = max(12, PROMPTS_OF_SET // len(spaces))
        for told in spaces:
            system = Shipped(embedder)
            await system.tell(told)
            golds = {
                question.text: frozenset[str]() if question.kind == APART else question.gold
                for question in told.questions
            }
            for text in (*golds, *chosen.sample(nothing, min(count, len(nothing)))):
                seen.clear()
                hits = await system.ask(told, text, 10)
                gold = golds.get(text)
                is_lost = bool(gold) and not any(hit.id in gold for hit in hits)
                if seen and shipped(seen[:1]) >= PROJECTED_SCORE and not is_lost:
                    label = "none" if gold is None else "answered" if gold else "near"
                    rows.append(Searched(group, text, label, gate_signs(seen[0])))
    return rows


def weights_of(rows: Sequence[Searched], margins: dict[str, float], keep: float, /) -> GateWeights:
    """Return the weights that best separate answered questions from the rest, with a threshold that keeps `keep`."""
    features = np.array([gate_features(row.signs, clipped_margin(margins.get(row.text, 0.0))) for row in rows])
    truth = np.array([row.label == "answered" for row in rows], np.float64)
    counts = Counter((row.group, row.label) for row in rows)
    worth = np.array([(NEAR if row.label == "near" else 1.0) / counts[row.group, row.label] for row in rows])
    intercept, *numbers = logistic(features, truth, worth / worth.mean())
    totals = intercept + features @ np.array(numbers)
    answered = {
        group: np.array([total for row, total in zip(rows, totals, strict=True) if (row.group, row.label) == key])
        for group in {row.group for row in rows}
        if counts[key := (group, "answered")]
    }
    marks = np.quantile(np.concatenate(list(answered.values())), np.linspace(0.0, 0.15, 601))
    mark = max(mark for mark in marks if np.mean([(each >= mark).mean() for each in answered.values()]) >= keep)
    for group in dict.fromkeys(row.group for row in rows):
        here = [(row.label, total >= mark) for row, total in zip(rows, totals, strict=True) if row.group == group]
        each = {name: _share([is_open for label, is_open in here if label == name]) for name in LABELS}
        print(f"{group:<10}open for " + "  ".join(f"{name} {share}" for name, share in each.items()))
    return GateWeights(intercept - float(mark), *numbers)


def _share(outcomes: Sequence[bool]) -> str:
    return f"{100 * sum(outcomes) / len(outcomes):5.1f} % of {len(outcomes):<5}" if outcomes else "    - " + " " * 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", metavar="NAME", help="an embedder by its name, folder or server")
    parser.add_argument("--keep", type=float, default=KEPT, metavar="SHARE", help="answered questions that stay")
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="conversations in LoCoMo's form, as a further set")
    parser.add_argument("--without", nargs="+", default=(), choices=[*SETS], metavar="GROUP", help="groups left out")
    arguments = parser.parse_args()
    sets = {name: of_set for name, of_set in SETS.items() if name not in arguments.without}
    if arguments.locomo is not None:
        sets["locomo"] = lambda: locomo(arguments.locomo)
    embedder: Embedder | None = None
    if arguments.embedder is not None:
        from elytron.embedding.embedders import embedder_of

        embedder = embedder_of(arguments.embedder)
    margins = train_asks(texts(sets), write=embedder is None)
    rows = asyncio.run(searched(sets, embedder))
    weights = weights_of(rows, margins, arguments.keep)
    print(*(f"{name} {number:.3g}" for name, number in zip(GateWeights._fields, weights, strict=True)))


if __name__ == "__main__":
    main()
