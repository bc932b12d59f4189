"""Fit the numbers behind a hit's score and the outcome to the bundled conversations, and test how well they hold.

    python -m benchmarks.answer_score [--embedder NAME ...] [--without GROUP ...]

A score combines two estimates: that one of a question's first ten hits is evidence (a logistic model of one number),
and that it is this one (a share that decreases with the distance from the best hit). A third estimate, that the first
hit answers, decides between `found` and `doubtful`. There a wrong first hit counts as wrong, and the numbers are the
same without an encoder and with each one that is named. Every group of conversations has the same weight, and so have,
in each group, questions with an answer and questions that nothing answers; those about an unknown detail have a quarter
of that in the first estimate. Of sets with halves, the half "fit" is used; `quality_data/unseen` is not read. With an
embedder, the group `long` takes a quarter of an hour.

The output contains the numbers in `elytron_core.policy.ranking` (with encoders without `long`). For each group it also
shows what numbers fitted to the other groups achieve: the means next to the shares that are evidence, and reliability
tables over all groups.
"""

import argparse
import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.linear_fit import logistic
from benchmarks.quality_languages import decoys, misled, other_language, own_language, with_others
from benchmarks.quality_long import long_chats
from benchmarks.quality_ordinary import first_spaces, ordinary, small
from benchmarks.quality_sets import NOTHING, Told, made
from benchmarks.quality_systems import Shipped
from elytron.recall import order
from elytron_core.contracts.recall import RecallOutcome
from elytron_core.ids import TurnId
from elytron_core.limits import PROJECTED_SCORE
from elytron_core.planes import transcript
from elytron_core.policy.ranking import outcome
from elytron_core.policy.ranking.outcome import FirstHitSigns, FirstHitWeights
from elytron_core.policy.ranking.weights import COMPARED, AnswerSigns, EstimateNumbers, hit_shares
from elytron_core.ports.models import Embedder
from elytron_index import FoundCandidates

SHARPNESS: Final = tuple(float(number) for number in range(4, 21))
PIECES: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5)
BINS: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.01)
SETS: Final[dict[str, Callable[[], list[Told]]]] = {
    "made": made,
    "long": long_chats,
    "small": lambda: small("fit"),
    "first": first_spaces,
    "ordinary": lambda: ordinary("fit"),
    "misled": lambda: [*misled(), *with_others(decoys("fit"))],
    "languages": lambda: [*with_others(own_language("fit")), *with_others(other_language("fit"))],
}
NEAR: Final = 0.25
"""Weight of a question about an unknown detail in the estimate that one of the hits answers."""
WRONG: Final = 0.5
"""Weight of an answered question with a wrong first hit in the estimate of the first hit."""
KEPT: Final = 0.9
"""Share of correct first hits that must not be `nothing`.

In other languages evidence is a weak sign, and this determines the intercept.
"""

Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """The hits for one question, with 1 for a hit that is evidence."""

    signs: AnswerSigns
    evidence: Floats
    is_answered: bool
    is_near: bool = False
    """True if it asks for an unknown detail of something that was mentioned."""
    is_right: bool = False
    """True if the first hit is evidence."""
    first: FirstHitSigns | None = None
    outcome: RecallOutcome = RecallOutcome.NOTHING


class Group(NamedTuple):
    """The questions of some conversations with their weights. Those with an answer weigh as much as all others."""

    asked: list[Asked]
    worth: Floats

    @classmethod
    def of(cls, asked: list[Asked], /) -> "Group":
        counted = np.array([NEAR if one.is_near else 1.0 for one in asked])
        return cls(asked, _balanced(counted, [one.is_answered for one in asked]))

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
        """The sign, for each question, that it is answered."""
        return np.array([one.signs.evidence for one in self.asked])


async def asked_of(sets: Sequence[Told], embedder: Embedder | None) -> list[Asked]:
    """Return the first hits of every question."""
    seen: list[FoundCandidates] = []
    firsts: list[FirstHitSigns] = []
    shipped, chance = order.answer_scores, outcome.first_hit_chance

    def scores(found: FoundCandidates, /) -> list[float]:
        seen.append(found)
        return shipped(found)

    def chance_of(signs: FirstHitSigns, /) -> float:
        firsts.append(signs)
        return chance(signs)

    setattr(order, "answer_scores", scores)  # noqa: B010 - to look on, as nothing else may
    setattr(outcome, "first_hit_chance", chance_of)  # noqa: B010
    asked: list[Asked] = []
    for told in sets:
        system = Shipped(embedder)
        await system.tell(told)
        for question in told.questions:
            seen.clear()
            firsts.clear()
            report = await system.memory(told).recall(question.text, limit=COMPARED)
            is_right = bool(question.gold.intersection(system.names(told, [hit.id for hit in report.hits[:1]])))
            for found in seen:
                places = [item.unit for item in found.candidates[:COMPARED]]
                ids = [transcript.message_id(TurnId(place.ref.key), place.part) for place in places]
                gold = [name in question.gold for name in system.names(told, ids)]
                signs = order.signs_of(found)
                signs = signs._replace(behind=signs.behind[:COMPARED])
                first = firsts[0] if firsts else None
                is_near = question.kind == NOTHING
                asked.append(
                    Asked(signs, np.array(gold), bool(question.gold), is_near, is_right, first, report.outcome)
                )
    return asked


def of_language(asked: Iterable[Asked], *, is_foreign: bool) -> list[Asked]:
    """Return the questions that involve a language other than English, or the other questions."""
    return [one for one in asked if one.signs.is_foreign is is_foreign]


def first_hit(groups: Iterable[Sequence[Asked]], /) -> FirstHitWeights:
    """Return the numbers of the estimate that the first hit answers, with equal weight for each of `groups`."""
    kept = [[one for one in group if one.first is not None] for group in groups]
    worth = [
        _balanced(
            np.array([WRONG if one.is_answered and not one.is_right else 1.0 for one in group]),
            [one.is_right for one in group],
        )
        for group in kept
    ]
    asked = [one for group in kept for one in group]
    signs = np.array([one.first.numbers for one in asked if one.first is not None])
    counted = np.concatenate(worth)
    right = np.array([one.is_right for one in asked], np.float64)
    return FirstHitWeights(*logistic(signs, right, counted / counted.mean()))


def kept_by(estimate: EstimateNumbers, asked: Sequence[Asked], /) -> EstimateNumbers:
    """Return `estimate` with the intercept at which the threshold of a block keeps `KEPT` of the correct first hits."""
    least = float(np.quantile([one.signs.evidence for one in asked if one.is_right], 1.0 - KEPT))
    return estimate._replace(
        intercept=float(np.log(PROJECTED_SCORE / (1.0 - PROJECTED_SCORE))) - estimate.evidence * least
    )


def _balanced(counted: Floats, is_positive: Sequence[bool]) -> Floats:
    """Return weights with which the positive ones and all others count the same in total."""
    positive = np.array(is_positive)
    halves = float(counted[positive].sum()), float(counted[~positive].sum())
    return np.array([0.5 * one / halves[not is_one] for one, is_one in zip(counted, is_positive, strict=True)])


def fitted(group: Group, /) -> EstimateNumbers:
    """Return the best-fitting numbers: first those of questions, then those of hits."""
    intercept, weight = logistic(group.evidence[:, None], group.found, group.worth / group.worth.mean())
    tried = (EstimateNumbers(intercept, weight, *numbers) for numbers in product(SHARPNESS, PIECES))
    return min(tried, key=lambda estimate: _loss(group, estimate))


def chances(group: Group, estimate: EstimateNumbers, /) -> Floats:
    """Return the estimate for each question."""
    return 1.0 / (1.0 + np.exp(-(estimate.intercept + estimate.evidence * group.evidence)))


def scores_of(group: Group, estimate: EstimateNumbers, /) -> tuple[Floats, Floats, Floats]:
    """Return the score of each hit, 1 for each that is evidence, and the weights."""
    scores = [
        chance * np.array(hit_shares(one.signs, estimate))
        for one, chance in zip(group.asked, chances(group, estimate), strict=True)
    ]
    worth = [np.full(len(hits), counted) for hits, counted in zip(scores, group.worth, strict=True)]
    gold = np.concatenate([one.evidence for one in group.asked]).astype(np.float64)
    return np.concatenate(scores), gold, np.concatenate(worth)


def _loss(group: Group, estimate: EstimateNumbers) -> float:
    scores, gold, worth = scores_of(group, estimate)
    scores = np.clip(scores, 1e-4, 1.0 - 1e-4)
    return float(-(worth * (gold * np.log(scores) + (1.0 - gold) * np.log(1.0 - scores))).sum())


async def run(embedders: Sequence[Embedder], without: Sequence[str]) -> None:
    """Print the numbers, and how well they hold for a group they were not fitted to."""
    pooled: list[list[Asked]] = []
    print(f"{'':<32}", *EstimateNumbers._fields)
    for embedder in (None, *embedders):
        sets = {name: await asked_of(told(), embedder) for name, told in SETS.items() if name not in without}
        pooled += sets.values()
        name = "nothing installed" if embedder is None else embedder.info.model
        for is_foreign in (False, True):
            halves = {key: of_language(asked, is_foreign=is_foreign) for key, asked in sets.items()}
            groups = {key: Group.of(asked) for key, asked in halves.items() if _has_both(asked)}
            joined = Group.joined(groups.values())
            numbers = kept_by(fitted(joined), joined.asked) if is_foreign else fitted(joined)
            language = "other languages" if is_foreign else "English"
            print(f"{f'{name}, {language}':<32}", *(f"{number:.2f}" for number in numbers), flush=True)
            if not is_foreign:
                _print_left_out(groups)
    print("\nfirst hit", *FirstHitWeights._fields)
    print(*(f"{number:.2f}" for number in first_hit(pooled)))


def _has_both(asked: Sequence[Asked]) -> bool:
    return len({one.is_answered for one in asked}) == 2


def _print_left_out(groups: dict[str, Group]) -> None:
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
    print()


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
    parser.add_argument("--embedder", nargs="+", default=(), metavar="NAME", help="embedders by their names or folders")
    parser.add_argument("--without", nargs="+", default=(), choices=[*SETS], metavar="GROUP", help="groups left out")
    arguments = parser.parse_args()
    embedders: list[Embedder] = []
    if arguments.embedder:
        from elytron.embedding.embedders import embedder_of

        embedders = [embedder_of(name) for name in arguments.embedder]
    asyncio.run(run(embedders, arguments.without))


if __name__ == "__main__":
    main()
