"""Demonstrate recall with a year of an invented conversation and ten questions, and report the costs."""

import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from elytron.flows.transcript_import import ImportWrites, TranscriptImportReport, import_transcript
from elytron_core.contracts.projection import MemoryProjectionReport, MemoryProjectionRequest
from elytron_core.contracts.recall import MemoryRecallRequest, RecallHit
from elytron_core.errors import UnreadableFile
from elytron_core.model import OperationRequest, Value
from elytron_core.policy.ranking.excerpts import BETWEEN, passages_of

CONVERSATION = "harbour.jsonl"
QUESTIONS = "harbour.questions.json"
SHOWN_CHARS = 300
PROJECTED_CHARS = 1_200
_WORD = re.compile(r"\w{3,}")
ReportT = TypeVar("ReportT", bound=Value)


class DemoQuestion(Value):
    """A question about the conversation. `evidence` holds the numbers of the lines that answer it, counted from 1."""

    question: str
    evidence: tuple[int, ...]
    answer: str
    kind: Literal["single", "multi", "temporal", "update", "chinese"]


class AnsweredQuestion(Value):
    """The hits for a question. `evidence_at` lists the ranks, from 1, of the hits that contain the answer."""

    question: str
    answer: str
    hits: tuple[RecallHit, ...]
    evidence_at: tuple[int, ...]


class DemoReport(Value):
    """The results of the demonstration. A rate is present only if something was written."""

    store: str
    imported: TranscriptImportReport
    turns_per_s: float | None = None
    recall_p50_ms: float
    answered: tuple[AnsweredQuestion, ...]
    projection: MemoryProjectionReport


class DemoCaller(ImportWrites, Protocol):
    """The memory that is demonstrated."""

    async def call(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Run an operation and return its report."""
        ...


async def demonstrate_recall(
    memory: DemoCaller, /, *, store: str, progress: Callable[[int, int], None] | None = None
) -> DemoReport:
    """Import the conversation into `memory`, ask its questions and build the memory block for the first one.

    `store` is the name shown in the report.

    Raises:
        UnreadableFile: A file of the demonstration is damaged.
    """
    message_texts, questions = read_conversation()
    start_s = time.perf_counter()
    import_report = await import_transcript(memory, demo_folder() / CONVERSATION, progress=progress)
    import_s = time.perf_counter() - start_s
    recall_times_s: list[float] = []
    answered_questions = [
        await _ask_question(memory, question, message_texts, recall_times_s) for question in questions
    ]
    projection = await memory.call(MemoryProjectionRequest(query=questions[0].question, max_chars=PROJECTED_CHARS))
    return DemoReport(
        store=store,
        imported=import_report,
        turns_per_s=round(import_report.stored / import_s, 1) if import_report.stored else None,
        recall_p50_ms=round(statistics.median(recall_times_s) * 1000, 2),
        answered=tuple(answered_questions),
        projection=projection,
    )


def demo_folder() -> Path:
    """Return the folder with the conversation: inside the package if installed, among the fixtures in a checkout."""
    installed_folder = Path(__file__).parent / "demo_data"
    return installed_folder if installed_folder.is_dir() else Path(__file__).parents[3] / "fixtures" / "conversations"


def read_conversation() -> tuple[Sequence[str], tuple[DemoQuestion, ...]]:
    """Return the messages of the conversation and the questions about it. Raises UnreadableFile."""
    file_name = QUESTIONS
    try:
        questions = TypeAdapter(tuple[DemoQuestion, ...]).validate_json((demo_folder() / file_name).read_bytes())
        file_name = CONVERSATION
        texts = TypeAdapter(dict[str, str])
        lines = [texts.validate_json(line)["content"] for line in (demo_folder() / file_name).read_bytes().splitlines()]
    except (OSError, ValidationError, KeyError) as error:
        raise UnreadableFile(name=file_name, problem="of the demonstration is damaged: reinstall elytron") from error
    return lines, questions


async def _ask_question(
    memory: DemoCaller, question: DemoQuestion, lines: Sequence[str], times: list[float]
) -> AnsweredQuestion:
    start_s = time.perf_counter()
    report = await memory.call(MemoryRecallRequest(query=question.question))
    times.append(time.perf_counter() - start_s)
    evidence = {lines[number - 1] for number in question.evidence}
    evidence_ranks = tuple(rank for rank, hit in enumerate(report.hits, start=1) if hit.text in evidence)
    return AnsweredQuestion(
        question=question.question, answer=question.answer, hits=report.hits, evidence_at=evidence_ranks
    )


def telling_sentences(text: str, question: str, /) -> str:
    """Return the complete sentences of `text` that share the most words with `question`."""
    terms = [word.casefold() for word in _WORD.findall(question)]
    return BETWEEN.join(text[start:end].strip() for start, end in passages_of(text, terms, SHOWN_CHARS))
