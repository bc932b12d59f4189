"""Report recall outcomes for questions: those with a correct first hit, and those that nothing answers.

    python -m benchmarks.answer_mark [--half HALF] [--embedder NAME]

For each group, the table shows the shares of questions with a correct first hit that are not `nothing`, and that are
`found`. It also shows the share that is `found` among questions about an unknown detail ("near"), about matters never
mentioned ("far"), about either ("none"), and among answered ones with a wrong first hit ("wrong"). The last columns are
AUROC: the probability that the estimate for a correct first hit is above that of a near, a far and a wrong one. The
numbers were chosen on the groups `first` and `misled`, and on the half "fit" of the others.
"""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.answer_score import Asked, asked_of
from benchmarks.quality_languages import decoys, misled, other_language, own_language, with_others
from benchmarks.quality_ordinary import Half, first_spaces, ordinary, small
from benchmarks.quality_sets import Told
from elytron_core.contracts.recall import RecallOutcome
from elytron_core.policy.ranking.outcome import first_hit_chance
from elytron_core.ports.models import Embedder

KINDS: Final = ("near", "far", "wrong")

Floats = NDArray[np.float64]


def groups(half: Half, /) -> dict[str, list[Told]]:
    """Return the spaces of each group."""
    return {
        "first": first_spaces(),
        "misled": misled(),
        "decoys": with_others(decoys(half)),
        "small": small(half),
        "own language": with_others(own_language(half)),
        "across languages": with_others(other_language(half)),
        "ordinary": ordinary(half),
    }


def kind_of(one: Asked, /) -> str:
    """Return the class of a question: right or wrong by its first hit, near or far if nothing answers it."""
    if one.is_answered:
        return "right" if one.is_right else "wrong"
    return "near" if one.is_near else "far"


def line(name: str, asked: Sequence[Asked], /) -> str:
    """Return the row of a group."""
    kinds = {kind: [one for one in asked if kind_of(one) == kind] for kind in ("right", *KINDS)}
    cells = [_share([one.outcome is not RecallOutcome.NOTHING for one in kinds["right"]])]
    cells += [_share([one.outcome is RecallOutcome.FOUND for one in each]) for each in kinds.values()]
    cells.append(_share([one.outcome is RecallOutcome.FOUND for one in kinds["near"] + kinds["far"]]))
    chances = {kind: [first_hit_chance(one.first) for one in each if one.first] for kind, each in kinds.items()}
    cells += [_auroc(chances["right"], chances[kind]) for kind in KINDS]
    return f"{name:<18}{len(kinds['right']):>6}{len(kinds['near'] + kinds['far']):>6}" + "".join(
        f"{cell:>8}" for cell in cells
    )


def _share(values: Sequence[bool]) -> str:
    return f"{100 * sum(values) / len(values):.0f}" if values else "-"


def _auroc(right: Sequence[float], others: Sequence[float]) -> str:
    above: Floats = np.subtract.outer(np.array(right), np.array(others))
    return f"{float((above > 0.0).mean() + (above == 0.0).mean() / 2.0):.2f}" if above.size else "-"


async def run(half: Half, embedder: Embedder | None) -> None:
    """Print the shares for each group and for all together."""
    heads = ("shown", "found", "near", "far", "wrong", "none", "v near", "v far", "v wrong")
    print(f"{'':<18}{'right':>6}{'none':>6}" + "".join(f"{head:>8}" for head in heads))
    every: list[Asked] = []
    for name, spaces in groups(half).items():
        asked = await asked_of(spaces, embedder)
        every += asked
        print(line(name, asked), flush=True)
    print(line("all", every))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("fit", "held"), default="fit", help="the half of the sets that have halves")
    parser.add_argument("--embedder", metavar="NAME", help="an embedder by its name, folder or server")
    arguments = parser.parse_args()
    embedder: Embedder | None = None
    if arguments.embedder is not None:
        from elytron.embedding.embedders import embedder_of

        embedder = embedder_of(arguments.embedder)
    asyncio.run(run(arguments.half, embedder))


if __name__ == "__main__":
    main()
