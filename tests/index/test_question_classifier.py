"""The question classifier: what a question asks for, reproducibly."""

from pathlib import Path

import pytest

from elytron_core.policy.ranking.question import QuestionLabel
from elytron_index.lexicon.classifiers import LinearQuestionClassifier

SENTENCES = Path(__file__).parents[2] / "benchmarks" / "sentences"
ASSISTANT, LATEST, RETELLING, SEVERAL, TIME, NUMBER, NAME = QuestionLabel
PATTERNED = (ASSISTANT, LATEST, RETELLING)


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
        ("Wann hat Kerstin den Führerschein gemacht?", {TIME}),
        ("¿Quién cuida de las gallinas cuando no estoy?", {NAME}),
        ("À combien de concerts suis-je allé cet hiver ?", {NUMBER, SEVERAL}),
        ("銀行とのやりとりを要約して", {RETELLING}),
        ("Wieso hat Silke das Klavier verkauft?", set[QuestionLabel]()),
    ],
)
def test_a_question_has_the_labels_of_what_it_asks_for(question: str, labels: set[QuestionLabel]) -> None:
    assert LinearQuestionClassifier().classify(question) == labels


def test_the_version_names_the_models_and_their_weights() -> None:
    names, digests = zip(*(each.split("-") for each in LinearQuestionClassifier().version.split()), strict=True)
    assert names == ("questions", "foreign_questions")
    assert [len(digest) for digest in digests] == [12, 12]


@pytest.mark.parametrize(
    ("file", "label"),
    [("questions.tsv", label) for label in PATTERNED] + [("foreign_questions.tsv", label) for label in QuestionLabel],
)
def test_the_shipped_models_were_fitted_to_the_shipped_questions(file: str, label: QuestionLabel) -> None:
    lines = (SENTENCES / file).read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    classifier = LinearQuestionClassifier()
    held = {wanted: [label in classifier.classify(text) for labels, _, text in rows
                     if (label in labels.split(",")) is wanted]
            for wanted in (True, False)}  # fmt: skip
    assert sum(held[True]) / len(held[True]) > 0.8
    assert sum(held[False]) / len(held[False]) < 0.05
