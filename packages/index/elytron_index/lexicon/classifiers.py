"""The bundled classifiers: of questions, by a linear model with weights for each label, and of statements.

`benchmarks/train_questions.py` and `benchmarks/train_statements.py` fit their models.
"""

from collections.abc import Sequence
from typing import Final

from elytron_core.lru_cache import remember_answers
from elytron_core.policy.extraction.rule_facts import own_sentences
from elytron_core.policy.ranking.question import PATTERN_LANGUAGES, QuestionLabel
from elytron_core.ports.models import StatementLabel
from elytron_core.text.traits import READ_CHARS, LastingTime, StandingPhrases

QUESTION_MODEL: Final = "questions"
"""Also for the languages whose questions have patterns."""
FOREIGN_QUESTION_MODEL: Final = "foreign_questions"
_CACHED: Final = 1_024


class LinearQuestionClassifier:
    """Labels questions with a linear model, loaded at a process's first question in its language."""

    @property
    def version(self) -> str:
        """The versions of the models."""
        from elytron_index.lexicon.linear_model import LinearModel

        return " ".join(LinearModel.load(name).version for name in (QUESTION_MODEL, FOREIGN_QUESTION_MODEL))

    def classify(self, question: str, /) -> frozenset[QuestionLabel]:
        """Return the labels of a question."""
        return _question_labels(question)


@remember_answers(_CACHED)
def _question_labels(question: str) -> frozenset[QuestionLabel]:
    # Imported late: a process that reads no question needs no numeric library.
    from elytron_index.lexicon.linear_model import LinearModel
    from elytron_index.lexicon.text_vectors import language_of

    name = QUESTION_MODEL if language_of(question) in PATTERN_LANGUAGES else FOREIGN_QUESTION_MODEL
    return frozenset(map(QuestionLabel, LinearModel.load(name).holding(question)))


ASK_MODEL: Final = "asks"


class LinearAskClassifier:
    """Judges with a linear model whether a prompt asks memory; loaded at a process's first prompt."""

    @property
    def version(self) -> str:
        """The version of the model."""
        from elytron_index.lexicon.linear_model import LinearModel

        return LinearModel.load(ASK_MODEL).version

    def margin(self, prompt: str, /) -> float:
        """Return how much the prompt asks memory: positive if it does; a prompt without words does not."""
        return _ask_margin(prompt)


@remember_answers(_CACHED)
def _ask_margin(prompt: str) -> float:
    # Imported late: a process that injects nothing needs no numeric library.
    from elytron_index.lexicon.linear_model import LinearModel

    return LinearModel.load(ASK_MODEL).scores(prompt)[0]


STATEMENT_MODEL: Final = "statements"
_LABELS: Final = {
    LastingTime.NOT: frozenset[StatementLabel](),
    LastingTime.FROM_NOW_ON: frozenset((StatementLabel.STANDING,)),
    LastingTime.ON_OCCASION: frozenset(StatementLabel),
}


class PhraseStatementClassifier:
    """Compares texts with the shipped phrases, loaded at a process's first text."""

    @property
    def version(self) -> str:
        """The version of the phrases."""
        return StandingPhrases.load().version

    def classify(self, texts: Sequence[str], /) -> Sequence[frozenset[StatementLabel]]:
        """Return the labels of each text, in order."""
        phrases = StandingPhrases.load()
        return [_LABELS[phrases.lasting(text[:READ_CHARS])] for text in texts]


class LinearStatementClassifier:
    """Labels texts with a linear model, sentence by sentence; loaded at a process's first text.

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
    """Return the sentences in a text's own voice, which the linear model judges one by one."""
    return list(own_sentences(text[:READ_CHARS]))


def _statement_labels(text: str) -> frozenset[StatementLabel]:
    # Imported late: the phrases, which are the default, need no numeric library.
    from elytron_index.lexicon.linear_model import LinearModel

    model = LinearModel.load(STATEMENT_MODEL)
    labels = _LABELS[LastingTime.NOT].union(*(map(StatementLabel, model.holding(piece)) for piece in pieces_of(text)))
    return labels | {StatementLabel.STANDING} if StatementLabel.OCCASION in labels else labels
