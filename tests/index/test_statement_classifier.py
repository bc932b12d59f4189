"""Which statements are classified as standing."""

import pytest

from elytron_core.ports.models import StatementClassifier, StatementLabel
from elytron_index.lexicon.classifiers import LinearStatementClassifier, PhraseStatementClassifier

STANDING, OCCASION = StatementLabel.STANDING, StatementLabel.OCCASION
NOTHING: set[StatementLabel] = set()


@pytest.fixture(params=[PhraseStatementClassifier, LinearStatementClassifier])
def classifier(request: pytest.FixtureRequest) -> StatementClassifier:
    return request.param()


def test_a_text_has_the_labels_of_its_standing_statements(classifier: StatementClassifier) -> None:
    texts = (
        "My brother is coming. I'm allergic to peanuts, by the way.",
        "When I ask about restaurants, only list places with a garden.",
        "我对花生过敏。",
        "We missed the ferry yesterday.",
        "",
    )
    assert list(classifier.classify(texts)) == [{STANDING}, {STANDING, OCCASION}, {STANDING}, set(), set()]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("Please always put dates in words.", {STANDING}),
        ("Could you always answer in German?", {STANDING}),
        ("If you explain a rule, add an example.", {STANDING, OCCASION}),
        ("I’d rather walk than drive.", {STANDING}),
        ("Do you always answer like that?", NOTHING),
        ("Please keep it short this time.", NOTHING),
        ("I never heard of it.", NOTHING),
    ],
)
def test_phrases_match_whole_texts_and_the_starts_of_clauses(text: str, labels: set[StatementLabel]) -> None:
    assert list(PhraseStatementClassifier().classify([text])) == [labels]


def test_each_classifier_has_its_own_version() -> None:
    assert PhraseStatementClassifier().version == PhraseStatementClassifier().version
    assert PhraseStatementClassifier().version != LinearStatementClassifier().version
