"""The classifier of questions: what a question wants, in English and Chinese, the same at every call."""

from pathlib import Path

import pytest

from elytron_core.policy.ranking.query import QuestionLabel
from elytron_index.lexicon.classifiers import LinearQuestionClassifier

QUESTIONS = Path(__file__).parents[2] / "benchmarks" / "sentences" / "questions.tsv"
ASSISTANT, LATEST, RETELLING = QuestionLabel


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        ("What did you recommend for the sore throat?", {ASSISTANT}),
        ("Where does Noor live now?", {LATEST}),
        ("Summarise how the bridge was built.", {RETELLING}),
        ("Who called?", set[QuestionLabel]()),
        ("Can you recommend a tent?", set[QuestionLabel]()),
        ("你推荐的那本小说叫什么？", {ASSISTANT}),
        ("", set[QuestionLabel]()),
    ],
)
def test_a_question_has_the_labels_of_what_it_wants(question: str, labels: set[QuestionLabel]) -> None:
    assert LinearQuestionClassifier().classify(question) == labels


def test_the_version_names_the_model_and_its_weights() -> None:
    name, _, digest = LinearQuestionClassifier().version.partition("-")
    assert (name, len(digest)) == ("questions", 12)


@pytest.mark.parametrize("label", QuestionLabel)
def test_the_model_that_ships_was_fitted_to_the_questions_that_ship(label: QuestionLabel) -> None:
    rows = [line.split("\t") for line in QUESTIONS.read_text("utf-8").splitlines() if not line.startswith("#")]
    classifier = LinearQuestionClassifier()
    held = {wanted: [label in classifier.classify(text) for labels, _, text in rows if (label in labels) is wanted]
            for wanted in (True, False)}  # fmt: skip
    assert sum(held[True]) / len(held[True]) > 0.8
    assert sum(held[False]) / len(held[False]) < 0.05
