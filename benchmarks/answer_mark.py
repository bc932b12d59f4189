"""The mark from which recall says `found`: what each mark makes of right answers and of questions without one.

    python -m benchmarks.answer_mark

For each mark: the share that is found of questions whose answer is in the first three hits ("right"), of questions of
an unknown detail ("near"), and of matters never mentioned ("far"). The mark was chosen on the first two groups, by
right less far, in sum: first memories of a person or team, each space alone, and all in one. The others show what it
does elsewhere.
"""

import asyncio
import json
from typing import Final

import numpy as np

from benchmarks.answer_score import asked_of
from benchmarks.quality_ordinary import ordinary, small, space_of
from benchmarks.quality_sets import ELSEWHERE, MADE, NOTHING, Told
from elytron_core.policy.ranking import weights

MARKS: Final = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
FIRST: Final = 3
"""Hits among which an answer counts as right."""


def first_spaces() -> list[Told]:
    """Return the small spaces of first memories."""
    group = json.loads((MADE / "marks" / "marks.json").read_text("utf-8"))
    return [space_of(space) for space in group["spaces"]]


def in_one_space(spaces: list[Told], /) -> Told:
    """Return all memories and questions of `spaces` as one space."""
    turns = tuple(turn for space in spaces for turn in space.turns)
    return Told("together", turns, tuple(question for space in spaces for question in space.questions))


async def run() -> None:
    """Print the shares for each group and mark."""
    first = first_spaces()
    groups = {
        "first spaces": first,
        "in one space": [in_one_space(first)],
        "small, held": small("held"),
        "ordinary, held": ordinary("held"),
    }
    print(f"{'group':<16}{'mark':>6}{'right':>8}{'near':>8}{'far':>8}")
    for name, spaces in groups.items():
        asked = await asked_of(spaces, None)
        kinds = np.array([question.kind for space in spaces for question in space.questions])
        estimates = np.array([weights.answer_chance(one.signs, encoder=None) for one in asked])
        is_right = np.array([bool(one.evidence[:FIRST].any()) for one in asked])
        for mark in MARKS:
            found = estimates >= mark
            shares = (float(found[which].mean()) for which in (is_right, kinds == NOTHING, kinds == ELSEWHERE))
            print(f"{name:<16}{mark:>6.2f}" + "".join(f"{share:>8.2f}" for share in shares))


if __name__ == "__main__":
    asyncio.run(run())
