"""The numbers of the score of a hit: fitted to the conversations that ship, and how well they hold.

    python -m benchmarks.answer_score [--embedder NAME]

A logistic model of each of the first ten hits of each question: is it evidence? Each group of conversations counts the
same (made, long, unseen, small, ordinary); of small spaces and ordinary conversations the half "fit" is taken. With an
embedder the long conversations are left out, which take long to embed. Printed are the numbers that stand in
`elytron_core.policy.ranking.answer_score`, and for each group a model fitted to the others: the mean score beside the
share that is evidence, and a reliability table over all.
"""

import argparse
import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_long import long_chats
from benchmarks.quality_ordinary import ordinary, small
from benchmarks.quality_sets import Told, made
from benchmarks.quality_systems import Shipped
from benchmarks.quality_unseen import unseen
from elytron.recall import answer_scores, order
from elytron_core.ids import TurnId
from elytron_core.planes import transcript
from elytron_core.policy.ranking.answer_score import Signs
from elytron_core.ports.models import Embedder
from elytron_index import Candidates

HITS: Final = 10
PRIOR: Final = 1.0
"""How strongly weights are held towards 0, of standardised signs."""
STEPS: Final = 30
BINS: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.01)

Floats = NDArray[np.float64]


async def hits_of(sets: Sequence[Told], embedder: Embedder | None) -> tuple[Floats, Floats]:
    """Return the signs of the first hits of every question, and 1 for those that are evidence."""
    seen: list[Candidates] = []

    def scores(found: Candidates, /) -> list[float]:
        seen.append(found)
        return answer_scores.answer_scores(found)

    setattr(order, "answer_scores", scores)  # noqa: B010 - to look on, as nothing else may
    signs: list[Signs] = []
    gold: list[bool] = []
    for told in sets:
        system = Shipped(embedder)
        await system.tell(told)
        for question in told.questions:
            seen.clear()
            await system.ask(told, question.text, HITS)
            for found in seen:
                ids = [transcript.message_id(TurnId(item.unit.ref.key), item.unit.part) for item in found.found[:HITS]]
                gold += [name in question.gold for name in system.names(told, ids)]
                signs += list(answer_scores.signs_of(found))[:HITS]
    return np.array(signs), np.array(gold, np.float64)


def fitted(signs: Floats, gold: Floats, worth: Floats) -> Floats:
    """Return the intercept and the weight of each sign, by Newton's steps."""
    mean, spread = signs.mean(axis=0), signs.std(axis=0) + 1e-9
    rows = np.column_stack((np.ones(len(signs)), (signs - mean) / spread))
    held = np.diag([0.0, *[PRIOR] * signs.shape[1]])
    numbers = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-(rows @ numbers)))
        slope = rows.T @ (worth * (gold - chance)) - held @ numbers
        curve = (rows * (worth * chance * (1.0 - chance))[:, None]).T @ rows + held
        numbers += np.linalg.solve(curve, slope)
    weights = numbers[1:] / spread
    return np.concatenate(([numbers[0] - weights @ mean], weights))


def chances(numbers: Floats, signs: Floats) -> Floats:
    """Return the score of each hit."""
    return 1.0 / (1.0 + np.exp(-(numbers[0] + signs @ numbers[1:])))


def _joined(groups: dict[str, tuple[Floats, Floats]], but: str = "") -> tuple[Floats, Floats, Floats]:
    """Return the hits of all groups but one, and what each hit counts."""
    taken = [group for name, group in groups.items() if name != but]
    mean = float(np.mean([len(gold) for _, gold in taken]))
    worth = np.concatenate([np.full(len(gold), mean / len(gold)) for _, gold in taken])
    return np.concatenate([signs for signs, _ in taken]), np.concatenate([gold for _, gold in taken]), worth


async def run(embedder: Embedder | None) -> None:
    """Print the numbers, and how well they hold for a group that they were not fitted to."""
    sets: dict[str, list[Told]] = {
        "made": made(), "long": long_chats(), "unseen": unseen(), "small": small("fit"), "ordinary": ordinary("fit"),
    }  # fmt: skip
    if embedder is not None:
        sets = {name: sets[name] for name in ("made", "small", "ordinary")}
    groups = {name: await hits_of(told, embedder) for name, told in sets.items()}
    used = len(Signs._fields) - (embedder is None)
    groups = {name: (signs[:, :used], gold) for name, (signs, gold) in groups.items()}
    numbers = fitted(*_joined(groups))
    print("intercept", *Signs._fields[:used])
    print(*(f"{number:.2f}" for number in numbers))
    told_of: list[Any] = []
    print(f"\n{'fitted to the others':<22}{'hits':>8}{'mean score':>12}{'evidence':>10}")
    for name, (signs, gold) in groups.items():
        found = chances(fitted(*_joined(groups, but=name)), signs)
        told_of.append((found, gold))
        print(f"{name:<22}{len(gold):>8}{found.mean():>12.3f}{gold.mean():>10.3f}")
    found, gold = (np.concatenate(parts) for parts in zip(*told_of, strict=True))
    print(f"\n{'score':<22}{'hits':>8}{'mean score':>12}{'evidence':>10}")
    for start, end in pairwise(BINS):
        here = (found >= start) & (found < end)
        if here.any():
            told = f"{start:.2f} to {min(end, 1.0):.2f}"
            print(f"{told:<22}{here.sum():>8}{found[here].mean():>12.3f}{gold[here].mean():>10.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", metavar="NAME", help="an embedder by its name, folder or server")
    arguments = parser.parse_args()
    embedder: Embedder | None = None
    if arguments.embedder is not None:
        from elytron.embedding.model_names import embedder_of

        embedder = embedder_of(arguments.embedder)
    asyncio.run(run(embedder))


if __name__ == "__main__":
    main()
