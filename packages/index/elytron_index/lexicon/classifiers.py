"""The classifier of questions that ships: one linear model with a weight for each label.

`benchmarks/sentences/questions.tsv` are the questions that it was fitted to.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from elytron_core.policy.extraction.rule_facts import own_sentences
from elytron_core.policy.ranking.query import QuestionLabel
from elytron_core.ports.models import StatementLabel
from elytron_core.text.features import READ_CHARS
from elytron_core.text.phrases import LastingTime, StandingPhrases

QUESTION_MODEL: Final = "questions"
_CACHED: Final = 1_024


class LinearQuestionClassifier:
    """Reads labels off a linear model, which is loaded at the first question of a process."""

    @property
    def version(self) -> str:
        """The version of the model."""
        from elytron_index.lexicon.linear_model import LinearModel

        return LinearModel.load(QUESTION_MODEL).version

    def classify(self, question: str, /) -> frozenset[QuestionLabel]:
        """Return the labels of a question."""
        return _question_labels(question)


@lru_cache(maxsize=_CACHED)
def _question_labels(question: str) -> frozenset[QuestionLabel]:
    # Imported now: a process that reads no question needs no numeric library.
    from elytron_index.lexicon.linear_model import LinearModel

    return frozenset(map(QuestionLabel, LinearModel.load(QUESTION_MODEL).holding(question)))


STATEMENT_MODEL: Final = "statements"
_LABELS: Final = {
    LastingTime.NOT: frozenset[StatementLabel](),
    LastingTime.FROM_NOW_ON: frozenset((StatementLabel.STANDING,)),
    LastingTime.ON_OCCASION: frozenset(StatementLabel),
}


class PhraseStatementClassifier:
    """Compares texts with the phrases that ship, which are read at the first text of a process."""

    @property
    def version(self) -> str:
        """The version of the phrases."""
        return StandingPhrases.load().version

    def classify(self, texts: Sequence[str], /) -> Sequence[frozenset[StatementLabel]]:
        """Return the labels of each text, in order."""
        phrases = StandingPhrases.load()
        return [_LABELS[phrases.lasting(text[:READ_CHARS])] for text in texts]


class LinearStatementClassifier:
    """Reads labels off a linear model, sentence by sentence; it is loaded at the first text of a process.

    A text has the labels of its sentences. What holds on an occasion holds from now on.
    """

    @property
    def version(self) -> str:
        """The version of the model."""
        from elytron_index.lexicon.linear_model import LinearModel

        return LinearModel.load(STATEMENT_MODEL).version

    def classify(self, texts: Sequence[str], /) -> Sequence[frozenset[StatementLabel]]:
        """Return the labels of each text, in order."""
        return list(map(_statement_labels, texts))


def pieces_of(text: str, /) -> list[str]:
    """Return the sentences of a text's own voice, which the linear model judges one by one."""
    return list(own_sentences(text[:READ_CHARS]))


def _statement_labels(text: str) -> frozenset[StatementLabel]:
    # Imported now: the phrases, which are the default, need no numeric library.
    from elytron_index.lexicon.linear_model import LinearModel

    model = LinearModel.load(STATEMENT_MODEL)
    found = _LABELS[LastingTime.NOT].union(*(map(StatementLabel, model.holding(piece)) for piece in pieces_of(text)))
    return found | {StatementLabel.STANDING} if StatementLabel.OCCASION in found else found
