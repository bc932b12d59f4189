"""A user's own questions: what counts as recalled, why evidence is missed, and which lines are skipped."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron import MemoryRuntime
from elytron_core.contracts.recall import RecallGate
from elytron_core.errors import UnreadableFile
from elytron_evaluation.recall_page import evaluation_page
from elytron_evaluation.recall_questions import (
    EvaluationReport,
    EvidenceAbsence,
    QuestionFile,
    RecallConfiguration,
    RecallEvaluation,
    compare_evaluations,
    evaluate_recall,
    parse_questions,
)

pytestmark = pytest.mark.anyio

FACTS = (
    "The boat key is under the third oar.",
    "My sister Ada lives in Lisbon.",
    "The regatta is on the second Saturday of May.",
    "I am allergic to walnuts.",
)


def file_of(folder: Path, *lines: object) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return path


def questions_of(path: Path) -> QuestionFile:
    return parse_questions(path.read_bytes(), name=path.name)


async def filled_memory(*texts: str) -> tuple[MemoryRuntime, list[str]]:
    memory = await elytron.open("memory:", space="ada")
    return memory, [(await memory.add(text)).ids[0] for text in texts or FACTS]


async def evaluation_of(memory: MemoryRuntime, folder: Path, *lines: object, **values: Any) -> RecallEvaluation:
    questions = questions_of(file_of(folder, *lines))
    return await evaluate_recall(memory, questions.questions, RecallConfiguration(**values))


async def test_evidence_is_an_id_or_a_quotation(tmp_path: Path) -> None:
    memory, ids = await filled_memory()
    evaluation = await evaluation_of(
        memory,
        tmp_path,
        {"question": "Where is the boat key?", "evidence": [ids[0]]},
        {"query": "Where does my sister live?", "expected": "ada  LIVES in lisbon"},
    )
    assert [result.evidence_places for result in evaluation.results] == [(1,), (1,)]
    figures = evaluation.figures
    assert (figures.recall, figures.any_evidence, figures.reciprocal_rank, figures.evidence_shown) == (
        1.0,
        1.0,
        1.0,
        1.0,
    )


async def test_a_miss_says_whether_the_memory_is_absent_forgotten_or_ranked_lower(tmp_path: Path) -> None:
    memory, ids = await filled_memory()
    await memory.forget(ids[3])
    evaluation = await evaluation_of(
        memory,
        tmp_path,
        {"question": "Where is the boat key?", "evidence": ["The boat was sold to Tomas."]},
        {"question": "What am I allergic to?", "evidence": [ids[3]]},
        {"question": "Where is the boat key?", "evidence": [ids[0], ids[2]]},
        limit=1,
    )
    missed = [[(miss.reason, miss.place) for miss in result.missed] for result in evaluation.results]
    assert missed[0] == [(EvidenceAbsence.NOT_STORED, None)]
    assert missed[1] == [(EvidenceAbsence.HIDDEN, None)]
    assert [reason for reason, _ in missed[2]] in ([EvidenceAbsence.LIMIT], [EvidenceAbsence.NO_MATCH])
    assert evaluation.figures.recall == pytest.approx(0.5 / 3, abs=0.001)


async def test_an_unrelated_question_counts_against_the_block_that_it_gets(tmp_path: Path) -> None:
    memory, _ = await filled_memory()
    silent = await evaluation_of(memory, tmp_path, {"question": "Thanks, that is all."})
    shown = await evaluation_of(memory, tmp_path, {"question": "Thanks, that is all."}, gate=RecallGate.OFF)
    assert (silent.figures.unrelated, silent.figures.unrelated_shown, silent.figures.block_chars) == (1, 0.0, 0.0)
    assert shown.figures.unrelated_shown in {0.0, 1.0}
    assert silent.figures.recall is None


async def test_an_unrelated_question_with_an_answer_is_named_with_its_best_hit(tmp_path: Path) -> None:
    memory, _ = await filled_memory()
    lines = (
        {"question": "Thanks."},
        {"question": "Where is the boat key?"},
        {"question": "<b>?", "evidence": FACTS[0]},
    )
    file = questions_of(file_of(tmp_path, *lines))
    evaluation = await evaluate_recall(memory, file.questions, RecallConfiguration())
    assert evaluation.answered_unrelated == (2,)
    assert evaluation.results[1].best_hit == FACTS[0]
    page = evaluation_page(EvaluationReport(file=file, evaluation=evaluation))
    assert "Unrelated questions with an answer" in page
    assert FACTS[0] in page


async def test_a_miss_tells_an_unknown_id_and_an_empty_space_from_words_that_no_memory_has(tmp_path: Path) -> None:
    memory, ids = await filled_memory()
    unknown = ids[0][:-1] + ("1" if ids[0][-1] == "0" else "0")
    evaluation = await evaluation_of(
        memory,
        tmp_path,
        {"question": "Where is the boat key?", "evidence": [unknown, "019f0000-0000-7000-8000-000000000000", "red"]},
        {"question": "Where is the boat key?", "evidence": [FACTS[0]], "space": "nobody"},
    )
    assert [[miss.reason for miss in result.missed] for result in evaluation.results] == [
        [EvidenceAbsence.UNKNOWN_ID, EvidenceAbsence.UNKNOWN_ID, EvidenceAbsence.NOT_STORED],
        [EvidenceAbsence.EMPTY_SPACE],
    ]


async def test_another_space_is_searched_only_if_the_question_names_it(tmp_path: Path) -> None:
    memory, ids = await filled_memory()
    await memory.add("The boat key hangs in the kitchen.", user_id="tomas")
    evaluation = await evaluation_of(
        memory,
        tmp_path,
        {"question": "Where is the boat key?", "evidence": "hangs in the kitchen"},
        {"question": "Where is the boat key?", "evidence": "hangs in the kitchen", "space": "tomas"},
        {"question": "Where is the boat key?", "evidence": ids[0], "space": "tomas"},
    )
    assert [len(result.evidence_places) for result in evaluation.results] == [0, 1, 0]


async def test_two_configurations_are_compared_by_question(tmp_path: Path) -> None:
    memory, ids = await filled_memory("The key is red.", "The key is small.", "The key is old.")
    line = {"question": "What is known of the key?", "evidence": ids}
    first = await evaluation_of(memory, tmp_path, line, limit=1)
    second = await evaluation_of(memory, tmp_path, line, limit=10)
    comparison = compare_evaluations(first, second)
    assert (comparison.more, comparison.fewer, comparison.unchanged) == ((1,), (), 0)


def test_invalid_lines_are_reported_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    file = questions_of(
        file_of(
            tmp_path,
            '{"question": "torn',
            "[]",
            {"question": "  "},
            {"question": "a", "query": "b"},
            {"question": "a", "evidence": [7]},
            {"question": "x" * 9000},
            {"question": "Where?", "evidence": ["here", "here"], "topic": "home", "id": "q1"},
        )
    )
    assert [line.line for line in file.skipped] == [1, 2, 3, 4, 5, 6]
    assert file.questions[0].evidence == ("here",)
    assert file.ignored_fields == {"topic": 1}
    assert "query means the same as question" in file.skipped[3].problem


@pytest.mark.parametrize(("lines", "problem"), [((), "has no question"), (("{}",), "line 1: question is missing")])
def test_a_file_without_questions_is_refused(tmp_path: Path, lines: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UnreadableFile, match=problem):
        questions_of(file_of(tmp_path, *lines))


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.links += [name for name, _ in attrs if name in {"src", "href"}]


async def test_the_page_escapes_texts_and_loads_nothing(tmp_path: Path) -> None:
    memory, _ = await filled_memory()
    hostile = "<script>alert(1)</script><img src=x>"
    path = file_of(tmp_path, {"question": hostile, "evidence": [hostile]}, "broken <b>")
    file = questions_of(path)
    first = await evaluate_recall(memory, file.questions, RecallConfiguration())
    comparison = compare_evaluations(first, first)
    page = evaluation_page(EvaluationReport(file=file, evaluation=first, comparison=comparison))
    tags = _Tags()
    tags.feed(page)
    assert not tags.names & {"script", "img", "link", "iframe", "b"}
    assert tags.links == []
    assert "&lt;script&gt;" in page
    assert "no memory contains it" in page
