"""`elytron evaluate recall`: ask a user's own questions, in one configuration or two, and show what was found."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elytron_adapter.envelope import failure_of
from elytron_cli.config import FoundSetting, RunSettings
from elytron_cli.input.options import choice_option, common_options, force_option, limit_option, page_command
from elytron_cli.input.values import read_bytes, require_free, valid_value, write_file
from elytron_cli.session import open_session, run_output, run_settings
from elytron_cli.tables import layout as tables_layout
from elytron_cli.terminal.output import safe_line
from elytron_core.contracts.recall import RecallGate
from elytron_core.errors import InvalidInput, UnreadableFile

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_evaluation.recall_questions import EvaluationReport, RecallConfiguration, RecallEvaluation
    from elytron_evaluation.recall_questions import RecallQuestion as Question

_MISSES_SHOWN = 20
_LINES_SHOWN = 5
_NUMBERS_SHOWN = 100


@page_command("recall")
@click.argument("file", type=click.Path(path_type=Path))
@limit_option("Number of hits per question.", most=100, usual=10)
@click.option(
    "--max-chars", type=click.IntRange(1), default=2_000, show_default=True, help="Size of the block for a model."
)
@choice_option("--gate", RecallGate.AUTO, "Whether the block shows memories only if the question asks for them.")
@click.option(
    "--compare",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Ask again with this change: limit, min_score, diversity, gate, max_chars or embedder.",
)
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write the report to FILE.")
@force_option
@common_options
def recall_command(
    *,
    file: Path,
    limit: int,
    max_chars: int,
    gate: RecallGate,
    changes: tuple[str, ...],
    page: Path | None,
    force: bool,
) -> int | None:
    """Ask the questions of FILE and show how much of their evidence is recalled.

    FILE contains JSON lines: {"question": "...", "evidence": ["id or quotation", ...]}. A question without evidence is
    unrelated: nothing should answer it. Nothing is written to the memory, except that another embedder may add vectors.
    Unreadable lines are skipped and listed, and the exit code is then 6.
    """
    from elytron_evaluation.recall_page import evaluation_page
    from elytron_evaluation.recall_questions import (
        MAX_FILE_BYTES,
        EvaluationReport,
        RecallConfiguration,
        compare_evaluations,
        parse_questions,
    )

    if page is not None:
        require_free(page, force=force)
    settings = run_settings()
    embedder = settings.embedder.value if settings.embedder is not None else None
    first_configuration = valid_value(
        RecallConfiguration, limit=limit, max_chars=max_chars, gate=gate, embedder=embedder
    )
    second_configuration = (
        valid_value(RecallConfiguration, **(first_configuration.model_dump() | _read_changes(changes)))
        if changes
        else None
    )
    questions = parse_questions(read_bytes(file, limit=MAX_FILE_BYTES), name=file.name)
    ask_questions = partial(_ask_all, settings, questions.questions)
    evaluation = asyncio.run(ask_questions(first_configuration))
    comparison = (
        compare_evaluations(evaluation, asyncio.run(ask_questions(second_configuration)))
        if second_configuration is not None
        else None
    )
    report = EvaluationReport(file=questions, evaluation=evaluation, comparison=comparison)
    if page is not None:
        write_file(page, evaluation_page(report), force=force)
    run_output().report(report, _show_evaluation)
    return failure_of(UnreadableFile.key).exit if questions.skipped else None


def _read_changes(changes: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that the changes name, with their values. Raises InvalidInput."""
    from elytron_evaluation.recall_questions import RecallConfiguration

    fields: dict[str, Any] = {}
    for change in changes:
        name, equals_sign, value = change.partition("=")
        if not equals_sign or name not in RecallConfiguration.model_fields:
            names = ", ".join(RecallConfiguration.model_fields)
            raise InvalidInput(field="--compare", problem=f"is not NAME=VALUE with one of these names: {names}")
        fields[name] = (value or None) if name == "embedder" else _number_or_text(value)
    return fields


def _number_or_text(value: str) -> float | str:
    with suppress(ValueError):
        return int(value)
    with suppress(ValueError):
        return float(value)
    return value


async def _ask_all(
    settings: RunSettings, questions: "tuple[Question, ...]", configuration: "RecallConfiguration"
) -> "RecallEvaluation":
    from elytron_evaluation.recall_questions import evaluate_recall

    embedder = FoundSetting(configuration.embedder, "--compare") if configuration.embedder is not None else None
    async with open_session(replace(settings, embedder=embedder)) as session:
        return await evaluate_recall(session.runtime, questions, configuration)


def _show_evaluation(console: "Console", report: "EvaluationReport") -> None:
    from elytron_evaluation.recall_page import (
        ANSWERED_COLUMNS,
        REASONS,
        answered_rows,
        configuration_label,
        figure_rows,
    )

    baseline, comparison = report.evaluation, report.comparison
    evaluations = (baseline,) if comparison is None else (baseline, comparison.second)
    console.print(
        f"{baseline.figures.answerable} questions with evidence, {baseline.figures.unrelated} unrelated questions",
        soft_wrap=True,
    )
    for number, evaluation in enumerate(evaluations, 1):
        console.print(f"{number}: {safe_line(configuration_label(evaluation))}", soft_wrap=True)
        for vector_use, count in evaluation.vectors.items():
            console.print(f"   vectors {vector_use.value.replace('_', ' ')}: {count} questions", soft_wrap=True)
    columns = [figure_rows(evaluation.figures) for evaluation in evaluations]
    names = [str(number) for number in range(1, len(columns) + 1)]
    rows = ((cells[0][0], *(cell[1] for cell in cells)) for cells in zip(*columns, strict=True))
    tables_layout.show_table(console, ("figure", *names), rows, numbers=names)
    if comparison is not None:
        console.print(
            f"2 finds more evidence than 1 for {len(comparison.more)} questions, less for {len(comparison.fewer)}, and"
            f" as much for {comparison.unchanged}",
            soft_wrap=True,
        )
    missed_evidence = [(result.question, missed) for result in baseline.results for missed in result.missed]
    tables_layout.show_table(
        console,
        ("line", "question", "missed evidence", "reason", "rank"),
        (
            (question.line, question.query, missed.evidence, REASONS[missed.reason], missed.place or "")
            for question, missed in missed_evidence[:_MISSES_SHOWN]
        ),
        numbers=("line", "rank"),
    )
    if len(missed_evidence) > _MISSES_SHOWN:
        console.print(f"{len(missed_evidence) - _MISSES_SHOWN} more misses: see --json or --html", soft_wrap=True)
    answered = answered_rows(baseline)
    tables_layout.show_table(console, ANSWERED_COLUMNS, answered[:_MISSES_SHOWN], numbers=("line", "in the block"))
    if len(answered) > _MISSES_SHOWN:
        console.print(f"{len(answered) - _MISSES_SHOWN} more of them: see --json or --html", soft_wrap=True)
    _show_problems(console, report)


def _show_problems(console: "Console", report: "EvaluationReport") -> None:
    """Print what was not asked: lines that are no question, fields that mean nothing, and refused questions."""
    for problem_kind, lines in (("skipped", report.file.skipped), ("failed", report.evaluation.failures)):
        for line in lines[:_LINES_SHOWN]:
            console.print(f"line {line.line} {problem_kind}: {safe_line(line.problem)}", soft_wrap=True)
        if len(lines) > _LINES_SHOWN:
            numbers = ", ".join(str(line.line) for line in lines[_LINES_SHOWN:_NUMBERS_SHOWN])
            ellipsis = ", ..." if len(lines) > _NUMBERS_SHOWN else ""
            console.print(f"{len(lines) - _LINES_SHOWN} more lines {problem_kind}: {numbers}{ellipsis}", soft_wrap=True)
    if report.file.ignored_fields:
        fields = ", ".join(f"{safe_line(name)} ({count})" for name, count in report.file.ignored_fields.items())
        console.print(f"ignored fields: {fields}", soft_wrap=True)
