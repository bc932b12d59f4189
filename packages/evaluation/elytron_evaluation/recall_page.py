"""Render a recall evaluation as one self-contained HTML file with figures, a comparison and every miss."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from elytron_evaluation.recall_questions import (
    EvaluationReport,
    EvidenceAbsence,
    QuestionResult,
    RecallEvaluation,
    RecallFigures,
)

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1e21 }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #d7dade }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
"""
REASONS: Final = {
    EvidenceAbsence.NOT_STORED: "no memory contains it",
    EvidenceAbsence.UNKNOWN_ID: "no memory has this id",
    EvidenceAbsence.EMPTY_SPACE: "nothing is stored in the space that was asked",
    EvidenceAbsence.HIDDEN: "it was forgotten, archived or replaced",
    EvidenceAbsence.FILTERED: "the scope or the filters exclude it",
    EvidenceAbsence.NO_MATCH: "nothing in it matches the question",
    EvidenceAbsence.MIN_SCORE: "its score is below the minimum",
    EvidenceAbsence.HELD_BACK: "the recall gate withheld it",
    EvidenceAbsence.LIMIT: "it ranks below the limit",
}


ANSWERED_COLUMNS: Final = ("line", "unrelated question", "outcome", "in the block", "best hit")


def figure_rows(figures: RecallFigures, /) -> Sequence[tuple[str, str]]:
    """Return rows of label and value, with `-` for figures that no question measured. k is the limit of hits."""
    return (
        ("recall@k", _percent_text(figures.recall)),
        ("precision@k", _percent_text(figures.precision)),
        ("questions with any evidence", _percent_text(figures.any_evidence)),
        ("mean reciprocal rank", "-" if figures.reciprocal_rank is None else f"{figures.reciprocal_rank:.3f}"),
        ("evidence shown in the block", _percent_text(figures.evidence_shown)),
        ("unrelated questions with an answer", _percent_text(figures.unrelated_answered)),
        ("unrelated questions with a block", _percent_text(figures.unrelated_shown)),
        ("characters per block", _count_text(figures.block_chars)),
        ("tokens per block (estimate)", _count_text(figures.block_tokens)),
    )


def evaluation_page(report: EvaluationReport, /) -> str:
    """Return the whole page, with all text of questions and memories escaped."""
    first_evaluation = report.evaluation
    evaluations = (first_evaluation,) if report.comparison is None else (first_evaluation, report.comparison.second)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Evaluation of recall</title>',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Evaluation of recall</h1>",
        f"<p>{_counts_text(report)}.</p>",
        _figures_table(evaluations),
    ]
    if report.comparison is not None:
        more_count, fewer_count = len(report.comparison.more), len(report.comparison.fewer)
        parts.append(
            f"<p>The second configuration finds more evidence for {more_count} questions, less for {fewer_count},"
            f" and as much for {report.comparison.unchanged}.</p>"
        )
    parts += [_misses_table(evaluation, number) for number, evaluation in enumerate(evaluations, 1)]
    parts += [_answered_table(evaluation, number) for number, evaluation in enumerate(evaluations, 1)]
    parts.append(_problems_table(report))
    return "\n".join([*parts, "</body></html>", ""])


def _counts_text(report: EvaluationReport) -> str:
    figures = report.evaluation.figures
    counts = f"{figures.answerable} questions with evidence, {figures.unrelated} unrelated questions"
    return f"{counts}, {len(report.file.skipped)} lines skipped"


def configuration_label(evaluation: RecallEvaluation, /) -> str:
    """Return the configuration as `name=value` pairs."""
    values = evaluation.configuration.model_dump(mode="json", exclude_none=True)
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _figures_table(evaluations: Sequence[RecallEvaluation]) -> str:
    columns = [figure_rows(evaluation.figures) for evaluation in evaluations]
    heading_cells = "".join(f"<th>{escape(configuration_label(evaluation))}</th>" for evaluation in evaluations)
    rows: list[str] = []
    for cells in zip(*columns, strict=True):
        values = "".join(f"<td class=number>{escape(value)}</td>" for _, value in cells)
        rows.append(f"<tr><td>{escape(cells[0][0])}</td>{values}</tr>")
    return _table_html(f"<th>figure</th>{heading_cells}", rows)


def _misses_table(evaluation: RecallEvaluation, number: int) -> str:
    rows = [_miss_row(result, index) for result in evaluation.results for index in range(len(result.missed))]
    if not rows:
        return f"<h2>Missed evidence, configuration {number}</h2><p>None.</p>"
    heading_cells = "<th>line</th><th>question</th><th>evidence</th><th>reason</th><th>rank</th>"
    return f"<h2>Missed evidence, configuration {number}</h2>{_table_html(heading_cells, rows)}"


def _miss_row(result: QuestionResult, place: int) -> str:
    missed_evidence = result.missed[place]
    cells = (result.question.query, missed_evidence.evidence, REASONS[missed_evidence.reason])
    texts = "".join(f"<td>{escape(text)}</td>" for text in cells)
    rank = "" if missed_evidence.place is None else str(missed_evidence.place)
    return f"<tr><td class=number>{result.question.line}</td>{texts}<td class=number>{rank}</td></tr>"


def answered_rows(evaluation: RecallEvaluation, /) -> list[tuple[int, str, str, int, str]]:
    """Return the unrelated questions that got an answer: line, question, outcome, memories in the block, best hit."""
    return [
        (result.question.line, result.question.query, result.outcome.value, result.recalled_shown, result.best_hit)
        for result in evaluation.results
        if result.is_answered_unrelated
    ]


def _answered_table(evaluation: RecallEvaluation, number: int) -> str:
    rows = [
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in answered_rows(evaluation)
    ]
    if not rows:
        return ""
    heading_cells = "".join(f"<th>{name}</th>" for name in ANSWERED_COLUMNS)
    return f"<h2>Unrelated questions with an answer, configuration {number}</h2>{_table_html(heading_cells, rows)}"


def _problems_table(report: EvaluationReport) -> str:
    lines = [*report.file.skipped, *report.evaluation.failures]
    if not lines:
        return ""
    rows = [f"<tr><td class=number>{line.line}</td><td>{escape(line.problem)}</td></tr>" for line in lines]
    return f"<h2>Skipped lines</h2>{_table_html('<th>line</th><th>problem</th>', rows)}"


def _table_html(head: str, rows: Iterable[str]) -> str:
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _percent_text(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _count_text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
