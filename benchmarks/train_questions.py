"""The fit of the model that says what a question wants, and its figures on questions that it has not seen.

    python -m benchmarks.train_questions [--blind FILE]

Without more the model is fitted to `benchmarks/sentences/questions.tsv` and written into `elytron_index`; how well each
label is found is printed for questions held out in turn. --blind writes nothing and prints totals alone on a file of
the same form, by the model that ships.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.linear_fit import Labelled, Pieces, Settings, fit, found_at, held_out, labelled, mark_of, pack
from elytron_core.policy.ranking.query import QuestionLabel
from elytron_index.lexicon.classifiers import QUESTION_MODEL, LinearQuestionClassifier

QUESTIONS: Final = Path(__file__).parent / "sentences" / "questions.tsv"
WRITTEN: Final = Path(__file__).parents[1] / "packages/index/elytron_index" / f"{QUESTION_MODEL}.model"
SETTINGS: Final = Settings(hashed=0.3, buckets=1 << 14)
FALSE: Final = {
    QuestionLabel.ASSISTANT: 0.03,
    QuestionLabel.LATEST: 0.04,
    QuestionLabel.RETELLING: 0.05,
}
"""So many of the questions held out that do not have a label are above its mark. Whose words are asked for weighs most
in recall, so that a false `assistant` costs most."""

Marks = NDArray[np.bool_]


def show(texts: Sequence[Labelled], label: QuestionLabel, holds: Callable[[Marks], tuple[float, float]]) -> None:
    """Print one line for all texts and one for each language."""
    groups = np.array([each.group for each in texts])
    for group in ("all", *sorted(set(groups.tolist()))):
        chosen = groups == group if group != "all" else np.ones(len(texts), np.bool_)
        found, false = holds(chosen)
        print(f"{label:<10}{group:<5}found {found:.1%}  false {false:.1%}")


def train() -> None:
    """Fit the model, print its figures and write it."""
    texts = labelled(QUESTIONS)
    pieces = Pieces([[each.text] for each in texts], SETTINGS)
    weights: list[NDArray[np.float64]] = []
    marks: list[float] = []
    for label in QuestionLabel:
        truth = np.array([label in each.labels for each in texts])
        scores = held_out(pieces, truth, SETTINGS)
        mark = mark_of(scores, truth, FALSE[label])
        show(texts, label, lambda chosen, s=scores, t=truth, m=mark: found_at(s[chosen], t[chosen], m))
        weights.append(fit(pieces, truth, np.ones(len(texts), np.bool_), SETTINGS))
        marks.append(mark)
    WRITTEN.write_bytes(pack(QUESTION_MODEL, tuple(QuestionLabel), weights, marks, pieces))
    print(f"{len(texts)} questions; {WRITTEN.name}: {WRITTEN.stat().st_size} bytes")


def blind(path: Path) -> None:
    """Print totals of the model that ships on the questions of `path`."""
    texts, classifier = labelled(path), LinearQuestionClassifier()
    found = [classifier.classify(each.text) for each in texts]
    for label in QuestionLabel:
        truth = np.array([label in each.labels for each in texts])
        told = np.array([label in labels for labels in found], np.float64)
        show(texts, label, lambda chosen, s=told, t=truth: found_at(s[chosen], t[chosen], 0.5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blind", type=Path, metavar="FILE", help="figures of the model that ships on FILE")
    arguments = parser.parse_args()
    if arguments.blind is None:
        train()
    else:
        blind(arguments.blind)


if __name__ == "__main__":
    main()
