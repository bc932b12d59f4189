"""Evaluate recall with a user's own questions and the evidence that should answer them."""

import re
import statistics
import unicodedata
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, Protocol, TypeVar, cast

from pydantic import Field, ValidationError

from elytron_core import limits
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.recall import (
    WHY_NOT_IDS,
    AbsenceReason,
    HitDiversity,
    MemoryRecallReport,
    MemoryRecallRequest,
    NothingReason,
    RecallGate,
    RecallHit,
    RecallOutcome,
    VectorUse,
)
from elytron_core.errors import ElytronError, InvalidInput, InvalidJson, UnreadableFile
from elytron_core.ids import SpaceId, is_id
from elytron_core.model import OperationRequest, Value, invalid_input
from elytron_core.scope import MaxChars, Scope
from elytron_core.strict_json import parse_json
from elytron_core.text.similarity import estimate_tokens, is_blank

ReportT = TypeVar("ReportT", bound=Value)
MAX_FILE_BYTES: Final = 20_000_000
MAX_QUESTIONS: Final = 10_000
MAX_LINE_BYTES: Final = 100_000
MAX_EVIDENCE: Final = 100
_QUESTION_FIELDS: Final = ("question", "query")
_EVIDENCE_FIELDS: Final = ("evidence", "expected")
_OTHER_FIELDS: Final = ("id", "space")
_HIT_CHARS: Final = 120
_ID_FORM: Final = re.compile(r"[0-9a-f]{24}\.[0-9a-f]{12}(?:\.\d+)?")
"""Form of a turn's or message's id; facts have a UUID."""
_QUOTE_SEARCHED: Final = 50
"""Number of hits searched for the memory that contains a quotation, when the quotation itself is the query."""


class RecallQuestion(Value):
    """A question and its evidence, as memory ids or quotations. Without evidence, nothing should be recalled."""

    line: int
    query: Annotated[str, Field(min_length=1, max_length=limits.QUERY_CHARS)]
    evidence: Annotated[tuple[str, ...], Field(max_length=MAX_EVIDENCE)] = ()
    space: SpaceId | None = None
    """Space to ask; None for the caller's space."""


class SkippedLine(Value):
    """A line that is not a valid question, and the reason."""

    line: int
    problem: str


class QuestionFile(Value):
    """The questions of a file, the skipped lines, and the number of occurrences of each ignored field."""

    questions: tuple[RecallQuestion, ...]
    skipped: tuple[SkippedLine, ...] = ()
    ignored_fields: Mapping[str, int] = {}


class RecallConfiguration(Value):
    """How the questions are asked. `gate` applies only to the memory block; searches run without it."""

    limit: Annotated[int, Field(ge=1, le=100)] = 10
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    diversity: HitDiversity = HitDiversity.AUTO
    gate: RecallGate = RecallGate.AUTO
    max_chars: MaxChars = 2_000
    embedder: str | None = None
    """Name of the encoder that the caller opens the memory with."""


class EvidenceAbsence(StrEnum):
    """Why evidence is missing from the hits of a question."""

    NOT_STORED = "not_stored"
    """No memory that can be recalled contains it."""
    UNKNOWN_ID = "unknown_id"
    """It is written like an id, and no memory has this id."""
    EMPTY_SPACE = "empty_space"
    """Nothing is stored in the space that the question names."""
    HIDDEN = "hidden"
    FILTERED = "filtered"
    NO_MATCH = "no_match"
    MIN_SCORE = "min_score"
    HELD_BACK = "held_back"
    LIMIT = "limit"
    """It matches, but ranks below the limit."""


_REASONS: Final = {
    AbsenceReason.UNKNOWN: EvidenceAbsence.NOT_STORED,
    AbsenceReason.HIDDEN: EvidenceAbsence.HIDDEN,
    AbsenceReason.FILTERED: EvidenceAbsence.FILTERED,
    AbsenceReason.NO_MATCH: EvidenceAbsence.NO_MATCH,
    AbsenceReason.MIN_SCORE: EvidenceAbsence.MIN_SCORE,
    AbsenceReason.HELD_BACK: EvidenceAbsence.HELD_BACK,
    AbsenceReason.EARLIER_PAGE: EvidenceAbsence.LIMIT,
    AbsenceReason.LIMIT: EvidenceAbsence.LIMIT,
    AbsenceReason.TOKENS: EvidenceAbsence.LIMIT,
}


class MissedEvidence(Value):
    """Evidence that was not recalled. `place` is its rank, if it has one."""

    evidence: str
    reason: EvidenceAbsence
    place: int | None = None


class QuestionResult(Value):
    """The result of one question: the ranks of its evidence among the hits, from 1, and its memory block's size."""

    question: RecallQuestion
    outcome: RecallOutcome
    hits: int
    relevant_hits: int
    evidence_places: tuple[int, ...] = ()
    missed: tuple[MissedEvidence, ...] = ()
    best_hit: str = ""
    """Beginning of the best hit of an unrelated question."""
    evidence_shown: int = 0
    """Number of pieces of evidence shown in the memory block."""
    recalled_shown: int = 0
    """Number of recalled memories shown in the block."""
    block_chars: int = 0
    block_tokens: int = 0

    @property
    def recalled_share(self) -> float:
        """Return the share of the evidence that is among the hits."""
        return len(self.evidence_places) / len(self.question.evidence) if self.question.evidence else 0.0

    @property
    def is_answered_unrelated(self) -> bool:
        """Return whether a search or the block has something for a question that nothing should answer."""
        is_answered = self.outcome is not RecallOutcome.NOTHING or self.recalled_shown > 0
        return not self.question.evidence and is_answered


class RecallFigures(Value):
    """Means over the questions. A figure is None if no question of its kind was asked."""

    answerable: int
    unrelated: int
    failed: int = 0
    recall: float | None = None
    """Mean share of a question's evidence found among its hits."""
    precision: float | None = None
    """Mean share of a question's hits that are evidence."""
    any_evidence: float | None = None
    """Share of questions with at least one piece of evidence among the hits."""
    reciprocal_rank: float | None = None
    evidence_shown: float | None = None
    """Mean share of a question's evidence shown in the memory block."""
    unrelated_answered: float | None = None
    """Share of unrelated questions whose search has an outcome other than `nothing`."""
    unrelated_shown: float | None = None
    """Share of unrelated questions whose memory block shows recalled memories."""
    block_chars: float | None = None
    block_tokens: float | None = None


class RecallEvaluation(Value):
    """The results of all questions in one configuration."""

    configuration: RecallConfiguration
    figures: RecallFigures
    results: tuple[QuestionResult, ...]
    answered_unrelated: tuple[int, ...] = ()
    """Line numbers of the unrelated questions that got an answer or a block."""
    failures: tuple[SkippedLine, ...] = ()
    """Questions that the memory rejected, with the reason."""
    vectors: Mapping[VectorUse, int] = {}
    """How often vectors were compared, or why they were not."""


class RecallComparison(Value):
    """Two configurations on the same questions: for how many the second found more, less or as much evidence."""

    first: RecallEvaluation
    second: RecallEvaluation
    more: tuple[int, ...]
    """Line numbers of the questions for which the second configuration finds more evidence."""
    fewer: tuple[int, ...]
    unchanged: int


class EvaluationReport(Value):
    """The report of `elytron evaluate recall`."""

    file: QuestionFile
    evaluation: RecallEvaluation
    comparison: RecallComparison | None = None


class RecallCaller(Protocol):
    """The memory that is evaluated."""

    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Run an operation and return its report."""
        ...


def parse_questions(data: bytes, /, *, name: str) -> QuestionFile:
    """Parse questions from JSON lines, the content of the file `name`. Invalid lines are reported and skipped.

    Raises:
        UnreadableFile: The file has no valid question, or too many.
    """
    questions: list[RecallQuestion] = []
    skipped_lines: list[SkippedLine] = []
    ignored_counts: dict[str, int] = {}
    for number, text in enumerate(data.split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            questions.append(_parse_question(number, text, ignored_counts))
        except InvalidInput as error:
            skipped_lines.append(SkippedLine(line=number, problem=f"{error.field} {error.problem}"))
    if len(questions) > MAX_QUESTIONS:
        raise UnreadableFile(name=name, problem=f"has more than {MAX_QUESTIONS:,} questions")
    if not questions:
        reason_text = f"; line {skipped_lines[0].line}: {skipped_lines[0].problem}" if skipped_lines else ""
        raise UnreadableFile(name=name, problem=f'has no question: write lines like {{"question": "..."}}{reason_text}')
    return QuestionFile(questions=tuple(questions), skipped=tuple(skipped_lines), ignored_fields=ignored_counts)


def _parse_question(number: int, text: bytes, ignored: dict[str, int]) -> RecallQuestion:
    """Parse the question on one line and count its unknown fields. Raises InvalidInput."""
    try:
        line = parse_json(text, limit=MAX_LINE_BYTES)
    except InvalidJson as error:
        raise InvalidInput(field="JSON", problem=error.problem) from None
    if not isinstance(line, dict):
        raise InvalidInput(field="JSON", problem="is not an object")
    query = _one_field(line, _QUESTION_FIELDS)
    if query is None:
        raise InvalidInput(field="question", problem="is missing")
    if not isinstance(query, str) or is_blank(query):
        raise InvalidInput(field="question", problem="is not a text with visible characters")
    evidence = _one_field(line, _EVIDENCE_FIELDS)
    items = cast("list[object]", evidence) if isinstance(evidence, list) else [] if evidence is None else [evidence]
    texts = [item for item in items if isinstance(item, str) and not is_blank(item)]
    if len(texts) < len(items):
        raise InvalidInput(field="evidence", problem="must be a list of texts, each a memory id or a quotation")
    for name in line.keys() - {*_QUESTION_FIELDS, *_EVIDENCE_FIELDS, *_OTHER_FIELDS}:
        ignored[name] = ignored.get(name, 0) + 1
    try:
        return RecallQuestion.model_validate(
            {"line": number, "query": query, "evidence": tuple(dict.fromkeys(texts)), "space": line.get("space")}
        )
    except ValidationError as error:
        raise invalid_input(error) from None


def _one_field(line: Mapping[str, object], names: Sequence[str]) -> object:
    present_names = [name for name in names if name in line]
    if len(present_names) > 1:
        raise InvalidInput(field=present_names[1], problem=f"means the same as {present_names[0]}: remove one of them")
    return line[present_names[0]] if present_names else None


async def evaluate_recall(
    memory: RecallCaller, questions: Sequence[RecallQuestion], configuration: RecallConfiguration, /
) -> RecallEvaluation:
    """Ask `memory` each question and return what was recalled, missed and shown. Nothing is written."""
    results: list[QuestionResult] = []
    failures: list[SkippedLine] = []
    vector_use_counts: dict[VectorUse, int] = {}
    for question in questions:
        try:
            result, use = await _ask_question(memory, question, configuration)
        except ElytronError as error:
            failures.append(SkippedLine(line=question.line, problem=str(error)))
            continue
        results.append(result)
        vector_use_counts[use] = vector_use_counts.get(use, 0) + 1
    return RecallEvaluation(
        configuration=configuration,
        figures=_count_figures(results, failed=len(failures)),
        results=tuple(results),
        answered_unrelated=tuple(result.question.line for result in results if result.is_answered_unrelated),
        failures=tuple(failures),
        vectors=vector_use_counts,
    )


def compare_evaluations(first: RecallEvaluation, second: RecallEvaluation, /) -> RecallComparison:
    """Compare, for the questions that both answered, how much evidence each configuration found."""
    counts_before = {
        result.question.line: len(result.evidence_places) for result in first.results if result.question.evidence
    }
    counts_after = {
        result.question.line: len(result.evidence_places) for result in second.results if result.question.evidence
    }
    shared_lines = sorted(counts_before.keys() & counts_after.keys())
    improved_lines = tuple(line for line in shared_lines if counts_after[line] > counts_before[line])
    worsened_lines = tuple(line for line in shared_lines if counts_after[line] < counts_before[line])
    return RecallComparison(
        first=first,
        second=second,
        more=improved_lines,
        fewer=worsened_lines,
        unchanged=len(shared_lines) - len(improved_lines) - len(worsened_lines),
    )


async def _ask_question(
    memory: RecallCaller, question: RecallQuestion, configuration: RecallConfiguration
) -> tuple[QuestionResult, VectorUse]:
    scope = Scope(space=question.space) if question.space is not None else None
    evidence_ids = [await _ids_of(memory, text, scope) for text in question.evidence]
    request = MemoryRecallRequest(
        scope=scope,
        query=question.query,
        limit=configuration.limit,
        min_score=configuration.min_score,
        diversity=configuration.diversity,
    )
    report = await memory.operate(request)
    best_ranks = [_place_of(report.hits, ids, text) for ids, text in zip(evidence_ids, question.evidence, strict=True)]
    evidence_places = tuple(sorted(rank for rank in best_ranks if rank is not None))
    missed_evidence = [
        await _explain_miss(memory, request, text, ids, is_empty=report.reason is NothingReason.EMPTY_SPACE)
        for rank, ids, text in zip(best_ranks, evidence_ids, question.evidence, strict=True)
        if rank is None
    ]
    relevant_ids = {hit.id for hit in report.hits if _is_evidence(hit, evidence_ids, question.evidence)}
    projection = await memory.operate(
        MemoryProjectionRequest(
            scope=scope,
            query=question.query,
            max_chars=configuration.max_chars,
            recall_gate=configuration.gate,
            recent_messages_limit=0,
            answers_only=True,
        )
    )
    block_ids = frozenset(projection.selected_ids)
    result = QuestionResult(
        question=question,
        outcome=report.outcome,
        hits=len(report.hits),
        relevant_hits=len(relevant_ids),
        best_hit=report.hits[0].text[:_HIT_CHARS] if report.hits and not question.evidence else "",
        evidence_places=evidence_places,
        missed=tuple(missed_evidence),
        evidence_shown=sum(not block_ids.isdisjoint(ids) for ids in evidence_ids),
        recalled_shown=len(block_ids),
        block_chars=len(projection.system_memory_block) if block_ids else 0,
        block_tokens=estimate_tokens(projection.system_memory_block) if block_ids else 0,
    )
    return result, report.vectors


async def _ids_of(memory: RecallCaller, text: str, scope: Scope | None) -> frozenset[str]:
    """Return the ids of the memories that `text` names, or that contain it as a quotation."""
    if len(text) <= 2 * limits.KEY_CHARS and not any(character.isspace() for character in text):
        report = await memory.operate(MemoryRecallRequest(scope=scope, query=text, limit=1, why_not=(text,)))
        if any(absence.absence is not AbsenceReason.UNKNOWN for absence in report.why_not):
            return frozenset({text})
    report = await memory.operate(
        MemoryRecallRequest(scope=scope, query=text[: limits.QUERY_CHARS], limit=_QUOTE_SEARCHED)
    )
    quotation = _plain_text(text)
    return frozenset(hit.id for hit in report.hits if quotation in _plain_text(hit.text))


def _plain_text(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _place_of(hits: Sequence[RecallHit], ids: frozenset[str], text: str) -> int | None:
    return next((rank for rank, hit in enumerate(hits, 1) if _is_evidence(hit, [ids], [text])), None)


def _is_evidence(hit: RecallHit, ids: Sequence[frozenset[str]], texts: Sequence[str]) -> bool:
    hit_text = _plain_text(hit.text)
    return any(hit.id in memory_ids for memory_ids in ids) or any(_plain_text(text) in hit_text for text in texts)


async def _explain_miss(
    memory: RecallCaller, request: MemoryRecallRequest, text: str, ids: frozenset[str], *, is_empty: bool
) -> MissedEvidence:
    """Return why none of the memories `ids` is among the hits; of several reasons, that of the best-ranked memory."""
    if is_empty:
        return MissedEvidence(evidence=text, reason=EvidenceAbsence.EMPTY_SPACE)
    if not ids:
        is_like_id = _ID_FORM.fullmatch(text) is not None or is_id(text)
        reason = EvidenceAbsence.UNKNOWN_ID if is_like_id else EvidenceAbsence.NOT_STORED
        return MissedEvidence(evidence=text, reason=reason)
    explained_request = request.model_copy(update={"why_not": tuple(sorted(ids))[:WHY_NOT_IDS]})
    report: MemoryRecallReport = await memory.operate(explained_request)
    absences = [absence for absence in report.why_not if absence.absence in _REASONS]
    if not absences:
        return MissedEvidence(evidence=text, reason=EvidenceAbsence.NOT_STORED)
    nearest_absence = min(absences, key=lambda absence: (absence.place is None, absence.place or 0))
    return MissedEvidence(evidence=text, reason=_REASONS[nearest_absence.absence], place=nearest_absence.place)


def _count_figures(results: Sequence[QuestionResult], *, failed: int) -> RecallFigures:
    answerable_results = [result for result in results if result.question.evidence]
    unrelated_results = [result for result in results if not result.question.evidence]
    return RecallFigures(
        answerable=len(answerable_results),
        unrelated=len(unrelated_results),
        failed=failed,
        recall=_mean_of([result.recalled_share for result in answerable_results]),
        precision=_mean_of(
            [result.relevant_hits / result.hits if result.hits else 0.0 for result in answerable_results]
        ),
        any_evidence=_mean_of([bool(result.evidence_places) for result in answerable_results]),
        reciprocal_rank=_mean_of(
            [1 / result.evidence_places[0] if result.evidence_places else 0.0 for result in answerable_results]
        ),
        evidence_shown=_mean_of(
            [result.evidence_shown / len(result.question.evidence) for result in answerable_results]
        ),
        unrelated_answered=_mean_of([result.outcome is not RecallOutcome.NOTHING for result in unrelated_results]),
        unrelated_shown=_mean_of([result.recalled_shown > 0 for result in unrelated_results]),
        block_chars=_mean_of([result.block_chars for result in results]),
        block_tokens=_mean_of([result.block_tokens for result in results]),
    )


def _mean_of(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 4) if values else None
