"""Fit the model that detects standing wishes, and measure it on statements it has not seen.

    python -m benchmarks.train_statements [--cross] [--blind FILE]

By default, the model is fitted to `benchmarks/sentences/statements.tsv` and written into `elytron_index`. --cross
prints how well each label is found in held-out statements. --blind writes nothing, and prints only totals on a file of
the same format, for the bundled model: the share of statements with a label that are found at the bundled threshold,
and at the threshold that admits 5 % of the others.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.linear_fit import (
    FALSE,
    Floats,
    Labelled,
    Pieces,
    Settings,
    fit,
    found_at,
    held_out,
    highest,
    labelled,
    mark_of,
    pack,
)
from elytron_core.ports.models import StatementLabel
from elytron_index.lexicon.classifiers import STATEMENT_MODEL, pieces_of
from elytron_index.lexicon.linear_model import LinearModel

Mask = NDArray[np.bool_]

SENTENCES = Path(__file__).parent / "sentences" / "statements.tsv"
WRITTEN = Path(__file__).parents[1] / "packages/index/elytron_index" / f"{STATEMENT_MODEL}.model"
SETTINGS = Settings(hashed=0.33, vectors=0.05, buckets=1 << 17, frequent=300, least=2)
MARKS = {StatementLabel.STANDING: 1.0, StatementLabel.OCCASION: 0.0}
"""Scores above which a label applies, chosen on held-out statements, preferring few false ones to many found."""


def cut(text: str) -> list[str]:
    """Return the pieces of `text`, or all of it if it has none."""
    return pieces_of(text) or [text]


def truth_of(texts: list[Labelled], label: StatementLabel) -> Mask:
    """Return which of `texts` have a label. What applies on an occasion also applies from now on."""
    wanted = {label} if label is StatementLabel.OCCASION else set(StatementLabel)
    return np.array([not wanted.isdisjoint(each.labels) for each in texts])


def show(texts: list[Labelled], label: StatementLabel, scores: Floats, mark: float) -> None:
    """Print one line for each language and one for all."""
    truth, groups = truth_of(texts, label), np.array([each.group for each in texts])
    for group in ("all", *sorted(set(groups.tolist()))):
        chosen = groups == group if group != "all" else np.ones(len(texts), np.bool_)
        found, false = found_at(scores[chosen], truth[chosen], mark)
        at, _ = found_at(scores[chosen], truth[chosen], mark_of(scores[chosen], truth[chosen], FALSE))
        print(f"{label:<10}{group:<5}{truth[chosen].sum():>5} found {found:.1%} false {false:.1%}; at 5 %: {at:.1%}")


def blind(path: Path) -> None:
    """Print totals of the bundled model on the statements of `path`."""
    texts, model = labelled(path), LinearModel.load(STATEMENT_MODEL)
    for place, label in enumerate(map(StatementLabel, model.labels)):
        scores = np.array([max(model.scores(piece)[place] for piece in cut(each.text)) for each in texts])
        show(texts, label, scores, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cross", action="store_true", help="figures on statements held out in turn")
    parser.add_argument("--blind", type=Path, metavar="FILE", help="figures of the model that ships on FILE")
    arguments = parser.parse_args()
    if arguments.blind is not None:
        blind(arguments.blind)
        return
    texts = labelled(SENTENCES)
    pieces = Pieces([cut(each.text) for each in texts], SETTINGS)
    weights: list[Floats] = []
    for label in StatementLabel:
        truth = truth_of(texts, label)
        if arguments.cross:
            show(texts, label, held_out(pieces, truth, SETTINGS), MARKS[label])
        weights.append(fit(pieces, truth, np.ones(len(texts), np.bool_), SETTINGS))
        show(texts, label, highest(pieces.scores(weights[-1]), pieces.owner, len(texts)), MARKS[label])
    WRITTEN.write_bytes(
        pack(STATEMENT_MODEL, tuple(StatementLabel), weights, [MARKS[label] for label in StatementLabel], pieces)
    )
    print(f"{WRITTEN.name}: {WRITTEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
