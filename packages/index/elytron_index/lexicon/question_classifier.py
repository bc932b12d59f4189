"""The classifier of questions that ships: one linear model with a weight for each label.

`benchmarks/sentences/questions.tsv` are the questions that it was fitted to.
"""

from functools import lru_cache
from typing import Final

from elytron_core.policy.query.question_label import QuestionLabel

MODEL: Final = "questions"
_CACHED: Final = 1_024


class LinearQuestionClassifier:
    """Reads labels off a linear model, which is loaded at the first question of a process."""

    @property
    def version(self) -> str:
        """The version of the model."""
        from elytron_index.lexicon.linear_model import LinearModel

        return LinearModel.load(MODEL).version

    def classify(self, question: str, /) -> frozenset[QuestionLabel]:
        """Return the labels of a question."""
        return _labels(question)


@lru_cache(maxsize=_CACHED)
def _labels(question: str) -> frozenset[QuestionLabel]:
    # Imported now: a process that reads no question needs no numeric library.
    from elytron_index.lexicon.linear_model import LinearModel

    return frozenset(map(QuestionLabel, LinearModel.load(MODEL).holding(question)))
