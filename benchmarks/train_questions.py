"""Fit the models that classify what a question wants, and measure them on questions they have not seen.

    python -m benchmarks.train_questions [--blind FILE]

By default, the models are fitted and written into `elytron_index`: one for English and Chinese to
`benchmarks/sentences/questions.tsv`, and one for other languages to those and `foreign_questions.tsv`, whose languages
share the multilingual table. The output shows how well each label is found for held-out questions. --blind writes
nothing, and prints only totals on a file of the same format, for the bundled models.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.linear_fit import Labelled, Pieces, Settings, fit, found_at, held_out, labelled, mark_of, pack
from elytron_core.policy.ranking.question import QuestionLabel, question_forms
from elytron_index.lexicon.classifiers import FOREIGN_QUESTION_MODEL, QUESTION_MODEL, LinearQuestionClassifier
from elytron_index.lexicon.linear_model import WordTable

SENTENCES: Final = Path(__file__).parent / "sentences"
QUESTIONS: Final = SENTENCES / "questions.tsv"
FOREIGN: Final = SENTENCES / "foreign_questions.tsv"
WRITTEN: Final = Path(__file__).parents[1] / "packages/index/elytron_index"
SETTINGS: Final = Settings(hashed=0.3, buckets=1 << 14)
FOREIGN_SETTINGS: Final = replace(SETTINGS, vectors=0.1, table=WordTable.LANGUAGES)
FALSE: Final = {
    QuestionLabel.ASSISTANT: 0.03,
    QuestionLabel.LATEST: 0.04,
    QuestionLabel.RETELLING: 0.05,
    QuestionLabel.SEVERAL: 0.05,
    QuestionLabel.TIME: 0.05,
    QuestionLabel.NUMBER: 0.05,
    QuestionLabel.NAME: 0.05,
}
"""Share of held-out questions without a label that exceed its threshold.

Whose words are asked for weighs most in recall, so a false `assistant` is the most expensive.
"""

PATTERNED_LABELS: Final = (QuestionLabel.ASSISTANT, QuestionLabel.LATEST, QuestionLabel.RETELLING)
"""The labels in English and Chinese; patterns determine the others."""

Marks = NDArray[np.bool_]


def questions(path: Path, /) -> list[Labelled]:
    """Return the questions of `path`. Those in English and Chinese have the labels that their words show."""
    shown = {"en": question_forms, "zh": question_forms}
    return [
        replace(each, labels=each.labels | shown[each.group](each.text)) if each.group in shown else each
        for each in labelled(path)
    ]


def show(texts: Sequence[Labelled], label: QuestionLabel, holds: Callable[[Marks], tuple[float, float]]) -> None:
    """Print one line for all texts and one for each language."""
    groups = np.array([each.group for each in texts])
    for group in ("all", *sorted(set(groups.tolist()))):
        chosen = groups == group if group != "all" else np.ones(len(texts), np.bool_)
        found, false = holds(chosen)
        print(f"{label:<10}{group:<5}found {found:.1%}  false {false:.1%}", flush=True)


def train(name: str, texts: Sequence[Labelled], labels: Sequence[QuestionLabel], settings: Settings, /) -> None:
    """Fit a model, print its figures and write it."""
    pieces = Pieces([[each.text] for each in texts], settings)
    weights: list[NDArray[np.float64]] = []
    marks: list[float] = []
    for label in labels:
        truth = np.array([label in each.labels for each in texts])
        scores = held_out(pieces, truth, settings)
        mark = mark_of(scores, truth, FALSE[label])
        show(texts, label, lambda chosen, s=scores, t=truth, m=mark: found_at(s[chosen], t[chosen], m))
        weights.append(fit(pieces, truth, np.ones(len(texts), np.bool_), settings))
        marks.append(mark)
    path = WRITTEN / f"{name}.model"
    path.write_bytes(pack(name, labels, weights, marks, pieces))
    print(f"{len(texts)} questions; {path.name}: {path.stat().st_size} bytes")


def blind(path: Path) -> None:
    """Print totals of the bundled models on the questions of `path`."""
    texts, classifier = questions(path), LinearQuestionClassifier()
    found = [classifier.classify(each.text) for each in texts]
    for label in QuestionLabel:
        truth = np.array([label in each.labels for each in texts])
        told = np.array([label in labels for labels in found], np.float64)
        show(texts, label, lambda chosen, s=told, t=truth: found_at(s[chosen], t[chosen], 0.5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blind", type=Path, metavar="FILE", help="figures of the models that ship on FILE")
    arguments = parser.parse_args()
    if arguments.blind is None:
        own = questions(QUESTIONS)
        train(QUESTION_MODEL, own, PATTERNED_LABELS, SETTINGS)
        train(FOREIGN_QUESTION_MODEL, [*own, *questions(FOREIGN)], tuple(QuestionLabel), FOREIGN_SETTINGS)
    else:
        blind(arguments.blind)


if __name__ == "__main__":
    main()
