"""The numbers of the score of a hit: fitted to the conversations that ship, and how well they hold.

    python -m benchmarks.answer_score [--embedder NAME]

Two estimates make a score: that one of the first ten hits of a question is evidence (a logistic model of one number),
and that it is this one (a share that falls with how far a hit is behind the best). Each group of conversations counts
the same (made, long, unseen, small, ordinary), and in each group questions with an answer and questions that nothing
answers; of small spaces and ordinary conversations the half "fit" is taken. With an embedder this takes a quarter of an
hour and more, for the long conversations have to be embedded. Printed are the numbers that stand in
`elytron_core.policy.ranking.weights`, and what numbers fitted to the other groups make of each group: the means
beside the shares that are evidence, and reliability tables over all, by hits and by questions.
"""

import argparse
import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_long import long_chats
from benchmarks.quality_ordinary import ordinary, small
from benchmarks.quality_sets import Told, made
from benchmarks.quality_systems import Shipped
from benchmarks.quality_unseen import unseen
from elytron.recall import order
from elytron_core.ids import TurnId
from elytron_core.planes import transcript
from elytron_core.policy.ranking.weights import COMPARED, AnswerSigns, EstimateNumbers, hit_shares
from elytron_core.ports.models import Embedder
from elytron_index import FoundCandidates

PRIOR: Final = 1.0
"""How strongly the weight of evidence is held towards 0, where evidence is standardised."""
STEPS: Final = 30
SHARPNESS: Final = tuple(float(number) for number in range(4, 21))
PIECES: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5)
BINS: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.01)
SETS: Final[dict[str, Callable[[], list[Told]]]] = {
    "made": made,
    "long": long_chats,
    "unseen": unseen,
    "small": lambda: small("fit"),
    "ordinary": lambda: ordinary("fit"),
}

Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """What was found for one question; 1 stands for a hit that is evidence."""

    signs: AnswerSigns
    evidence: Floats
    is_answered: bool


class Group(NamedTuple):
    """The questions of some conversations, and what each counts: those with an answer as much as all others."""

    asked: list[Asked]
    worth: Floats

    @classmethod
    def of(cls, asked: list[Asked], /) -> "Group":
        answered = sum(one.is_answered for one in asked)
        return cls(asked, np.array([0.5 / (answered if one.is_answered else len(asked) - answered) for one in asked]))

    @classmethod
    def joined(cls, groups: Iterable["Group"], /) -> "Group":
        asked, worth = zip(*groups, strict=True)
        return cls([one for group in asked for one in group], np.concatenate(worth))

    @property
    def found(self) -> Floats:
        """For each question, 1 if there is evidence among the first hits."""
        return np.array([one.evidence.any() for one in self.asked], np.float64)

    @property
    def evidence(self) -> Floats:
        """What says of each question that it is answered."""
        return np.array([one.signs.evidence for one in self.asked])


async def asked_of(sets: Sequence[Told], embedder: Embedder | None) -> list[Asked]:
    """Return what the first hits of every question are."""
    seen: list[FoundCandidates] = []
    shipped = order.answer_scores

    def scores(found: FoundCandidates, /) -> list[float]:
        seen.append(found)
        return shipped(found)

    setattr(order, "answer_scores", scores)  # noqa: B010 - to look on, as nothing else may
    asked: list[Asked] = []
    for told in sets:
        system = Shipped(embedder)
        await system.tell(told)
        for question in told.questions:
            seen.clear()
            await system.ask(told, question.text, COMPARED)
            for found in seen:
                places = [item.unit for item in found.found[:COMPARED]]
                ids = [transcript.message_id(TurnId(place.ref.key), place.part) for place in places]
                gold = [name in question.gold for name in system.names(told, ids)]
                signs = order.signs_of(found)
                asked.append(Asked(signs._replace(behind=signs.behind[:COMPARED]), np.array(gold), bool(question.gold)))
    return asked


def fitted(group: Group, /) -> EstimateNumbers:
    """Return the numbers that fit best: first those of questions, then those of hits."""
    intercept, weight = _logistic(group.evidence, group.found, group.worth / group.worth.mean())
    tried = (EstimateNumbers(intercept, weight, *numbers) for numbers in product(SHARPNESS, PIECES))
    return min(tried, key=lambda estimate: _loss(group, estimate))


def chances(group: Group, estimate: EstimateNumbers, /) -> Floats:
    """Return the estimate of each question."""
    return 1.0 / (1.0 + np.exp(-(estimate.intercept + estimate.evidence * group.evidence)))


def scores_of(group: Group, estimate: EstimateNumbers, /) -> tuple[Floats, Floats, Floats]:
    """Return the score of each hit, 1 for those that are evidence, and what each counts."""
    scores = [
        chance * np.array(hit_shares(one.signs, estimate))
        for one, chance in zip(group.asked, chances(group, estimate), strict=True)
    ]
    worth = [np.full(len(hits), counted) for hits, counted in zip(scores, group.worth, strict=True)]
    gold = np.concatenate([one.evidence for one in group.asked]).astype(np.float64)
    return np.concatenate(scores), gold, np.concatenate(worth)


def _logistic(signs: Floats, gold: Floats, worth: Floats) -> tuple[float, float]:
    """Return the intercept and the weight of one sign, by Newton's steps."""
    mean, spread = float(signs.mean()), float(signs.std()) + 1e-9
    rows = np.column_stack((np.ones(len(signs)), (signs - mean) / spread))
    held = np.diag([0.0, PRIOR])
    numbers = np.zeros(2)
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-(rows @ numbers)))
        slope = rows.T @ (worth * (gold - chance)) - held @ numbers
        curve = (rows * (worth * chance * (1.0 - chance))[:, None]).T @ rows + held
        numbers += np.linalg.solve(curve, slope)
    weight = float(numbers[1]) / spread
    return float(numbers[0]) - weight * mean, weight


def _loss(group: Group, estimate: EstimateNumbers) -> float:
    scores, gold, worth = scores_of(group, estimate)
    scores = np.clip(scores, 1e-4, 1.0 - 1e-4)
    return float(-(worth * (gold * np.log(scores) + (1.0 - gold) * np.log(1.0 - scores))).sum())


async def run(embedder: Embedder | None) -> None:
    """Print the numbers, and how well they hold for a group that they were not fitted to."""
    groups = {name: Group.of(await asked_of(told(), embedder)) for name, told in SETS.items()}
    print(*EstimateNumbers._fields)
    print(*(f"{number:.2f}" for number in fitted(Group.joined(groups.values()))))
    print(
        f"\n{'fitted to the others':<22}{'hits':>8}{'mean score':>12}{'evidence':>10}{'questions':>11}{'answered':>10}"
    )
    hits: list[tuple[Floats, Floats, Floats]] = []
    questions: list[tuple[Floats, Floats, Floats]] = []
    for name, group in groups.items():
        estimate = fitted(Group.joined(other for others, other in groups.items() if others != name))
        hits.append(scores_of(group, estimate))
        questions.append((chances(group, estimate), group.found, group.worth))
        (scores, gold, worth), (each, found, counted) = hits[-1], questions[-1]
        means = np.average(scores, weights=worth), np.average(gold, weights=worth)
        asked = np.average(each, weights=counted), np.average(found, weights=counted)
        print(f"{name:<22}{len(gold):>8}{means[0]:>12.3f}{means[1]:>10.3f}{asked[0]:>11.3f}{asked[1]:>10.3f}")
    _print_reliability("score", "hits", hits)
    _print_reliability("estimate", "questions", questions)


def _print_reliability(head: str, what: str, parts: Sequence[tuple[Floats, Floats, Floats]]) -> None:
    found, gold, worth = (np.concatenate(part) for part in zip(*parts, strict=True))
    print(f"\n{head:<22}{what:>10}{'mean':>10}{'evidence':>10}")
    for start, end in pairwise(BINS):
        here = (found >= start) & (found < end)
        if here.any():
            told = f"{start:.2f} to {min(end, 1.0):.2f}"
            means = np.average(found[here], weights=worth[here]), np.average(gold[here], weights=worth[here])
            print(f"{told:<22}{here.sum():>10}{means[0]:>10.3f}{means[1]:>10.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", metavar="NAME", help="an embedder by its name, folder or server")
    arguments = parser.parse_args()
    embedder: Embedder | None = None
    if arguments.embedder is not None:
        from elytron.embedding.embedders import embedder_of

        embedder = embedder_of(arguments.embedder)
    asyncio.run(run(embedder))


if __name__ == "__main__":
    main()
