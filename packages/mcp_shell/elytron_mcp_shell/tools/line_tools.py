"""The seven tools that a host is shown unless it asks for others: flat arguments, and answers in short lines."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from elytron_adapter.flat_calls import ADD, CONTEXT, FACTS, SEARCH, AddRequest, ContextRequest, FactRequest
from elytron_adapter.flat_calls import SearchRequest as FlatSearch
from elytron_core import limits
from elytron_core.clock import as_datetime
from elytron_core.contracts.control import (
    ControlDecision,
    ControlOutcome,
    ListOrder,
    MemoryControlReport,
    MemoryForgetRequest,
    MemoryListReport,
    MemoryListRequest,
)
from elytron_core.contracts.inspection import MemoryInspectionReport, MemoryInspectionRequest
from elytron_core.contracts.recall import MemoryRecallReport, NothingReason, RecallFilters, RecallHit, RecallOutcome
from elytron_core.contracts.transcript import MemoryWriteReport
from elytron_core.model import Request, Value
from elytron_core.scope import Name, Scope, Tags

LISTED_RECENT: Final = 10
LINE_CHARS: Final = 1_000
"""Characters of a memory in a line of a tool's answer; a longer one ends with an ellipsis."""
SPEAKERS_NAMED: Final = 12
TOOLS_LISTED_CHARS: Final = 6_000
"""Characters of the whole list of tools that a host is shown without asking for more."""


Told = Annotated[str, Field(min_length=1)]


class AddLineRequest(Request):
    text: Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]
    speaker: Name | None = None
    conversation: Name | None = None
    tags: Tags = ()


class SearchLineRequest(Request):
    query: Told
    limit: Annotated[int, Field(ge=1, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT
    conversation: Name | None = None


class ContextLineRequest(Request):
    query: Told
    max_chars: Annotated[int, Field(ge=0, le=limits.PROJECTION_CHARS_MAX)] = limits.PROJECTION_CHARS_DEFAULT


class RememberFact(Request):
    topic: Told
    content: Told


class ForgetRequest(Request):
    ids: Annotated[tuple[Name, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]


class ListRecent(Request):
    limit: Annotated[int, Field(ge=1, le=limits.PAGE_MAX)] = LISTED_RECENT
    conversation: Name | None = None


class StatusRequest(Request):
    """Takes nothing."""


@dataclass(frozen=True, slots=True)
class LineTool:
    """A tool that makes one call of an operation and answers in lines.

    `ask` makes the request over the caller's own scope, `tell` reads the report.
    """

    name: str
    description: str
    taken: type[Request]
    operation: str
    ask: Callable[[Any, Scope | None], Value]
    tell: Callable[[Any], str]


def line_tools() -> tuple[LineTool, ...]:
    """Return the seven tools."""
    return (
        LineTool("add", "Store what was said or decided. It can be found at once.", AddLineRequest, ADD.operation,
                 _ask_add, _tell_write),
        LineTool("search", "Find what was said before, best first, one memory a line: [date speaker] text (id).",
                 SearchLineRequest, SEARCH.operation, _ask_search, _tell_search),
        LineTool("context", "Get one block about a question, for the prompt.", ContextLineRequest, CONTEXT.operation,
                 _ask_context, lambda report: CONTEXT.tell(report).text or _NOTHING),
        LineTool("remember_fact", "Store a fact that holds. A new one replaces the old one of its topic.",
                 RememberFact, FACTS.operation, _ask_fact, _tell_write),
        LineTool("forget", "Hide memories by their ids. This can be undone.", ForgetRequest, "forget",
                 lambda asked, _own: MemoryForgetRequest(ids=asked.ids), _tell_control),
        LineTool("list_recent", "List what was stored last, latest first.", ListRecent, "list",
                 _ask_list, _tell_list),
        LineTool("status", "Say how much the memory holds.", StatusRequest, "inspect",
                 lambda _asked, _own: MemoryInspectionRequest(), _tell_status),
    )  # fmt: skip


_NOTHING = "Nothing relevant is stored."
_DOUBT = "Doubtful: these are the nearest memories, and perhaps none of them answers."


def _ask_add(asked: AddLineRequest, own: Scope | None) -> Value:
    flat = AddRequest(text=asked.text, speaker=asked.speaker, conversation=asked.conversation, tags=asked.tags)
    return ADD.ask(flat, own)


def _ask_search(asked: SearchLineRequest, own: Scope | None) -> Value:
    return SEARCH.ask(FlatSearch(query=asked.query, limit=asked.limit, conversation=asked.conversation), own)


def _ask_context(asked: ContextLineRequest, own: Scope | None) -> Value:
    return CONTEXT.ask(ContextRequest(query=asked.query, max_chars=asked.max_chars), own)


def _ask_fact(asked: RememberFact, own: Scope | None) -> Value:
    return FACTS.ask(FactRequest(topic=asked.topic, content=asked.content), own)


def _ask_list(asked: ListRecent, _own: Scope | None) -> Value:
    conversations = (asked.conversation,) if asked.conversation is not None else ()
    filters = RecallFilters(conversations=conversations) if conversations else RecallFilters()
    return MemoryListRequest(limit=asked.limit, order=ListOrder.LATEST, filters=filters)


def _tell_write(report: MemoryWriteReport) -> str:
    return "\n".join(
        _join_lines(decision.outcome.value, f"({decision.id})" if decision.id is not None else "", decision.reason)
        for decision in report.decisions
    )


def _tell_search(report: MemoryRecallReport) -> str:
    if report.reason is NothingReason.EMPTY_SPACE:
        return "Nothing was stored here yet."
    # A model takes lines for answers: it gets none that do not answer, and doubt comes before the others.
    if report.outcome is RecallOutcome.NOTHING:
        return _NOTHING
    doubt = f"{_DOUBT}\n" if report.outcome is RecallOutcome.DOUBTFUL else ""
    return f"{doubt}{_hit_lines(report.hits)}"


def _tell_list(report: MemoryListReport) -> str:
    return _hit_lines(report.items) or "Nothing is stored."


def _tell_control(report: MemoryControlReport) -> str:
    return "\n".join(_decision_line(decision) for decision in report.decisions)


def _decision_line(decision: ControlDecision) -> str:
    if decision.outcome is ControlOutcome.NOT_FOUND:
        return f"not_found ({decision.id}) no memory has this id: search shows ids"
    return _join_lines(decision.outcome.value, f"({decision.id})", decision.reason or "")


def _tell_status(report: MemoryInspectionReport) -> str:
    held = ", ".join(f"{count} {plane.value}" for plane, count in report.planes.items() if count) or "nothing"
    spoken = ", ".join(report.speakers[:SPEAKERS_NAMED])
    more = len(report.speakers) - SPEAKERS_NAMED
    return "\n".join(
        (
            f"memories: {held}",
            f"conversations: {len(report.conversations)}{' or more' if report.conversations_clipped else ''}",
            f"speakers: {spoken or 'none'}{f' and {more} more' if more > 0 else ''}",
            f"last stored: {as_datetime(report.last_at).date() if report.last_at is not None else 'never'}",
        )
    )


def _hit_lines(hits: Iterable[RecallHit]) -> str:
    return "\n".join(map(_hit_line, hits))


def _hit_line(hit: RecallHit) -> str:
    day = str(as_datetime(hit.at).date()) if hit.at is not None else ""
    head = _join_lines(day, hit.speaker or hit.title or "")
    # One memory is one line: what a text holds of line ends would look like another memory.
    text = " ".join(hit.text.split())
    if len(text) > LINE_CHARS:
        text = f"{text[: LINE_CHARS - 1]}…"
    return _join_lines(f"[{head}]" if head else "", text, f"({hit.id})")


def _join_lines(*parts: str) -> str:
    return " ".join(part for part in parts if part)
