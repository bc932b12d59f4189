"""Flat tools for a model that answer in short lines, one memory per line. MCP and frameworks offer the same ones."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from elytron.api.flat_calls import ADD, CONTEXT, FACTS, SEARCH, AddRequest, ContextRequest, FactRequest
from elytron.api.flat_calls import SearchRequest as FlatSearch
from elytron.registry import AnyOperation, by_name
from elytron_core import limits
from elytron_core.clock import as_datetime
from elytron_core.contracts.inspection import MemoryInspectionReport, MemoryInspectionRequest
from elytron_core.contracts.memories import (
    ControlDecision,
    ControlOutcome,
    ListOrder,
    MemoryControlReport,
    MemoryForgetRequest,
    MemoryListReport,
    MemoryListRequest,
)
from elytron_core.contracts.recall import MemoryRecallReport, NothingReason, RecallFilters, RecallHit, RecallOutcome
from elytron_core.contracts.transcript import MemoryWriteReport
from elytron_core.model import JsonSchema, Request, Value
from elytron_core.policy.admission.claimed_times import future_claim_text
from elytron_core.profiles import SpaceLoss
from elytron_core.scope import Name, Scope
from elytron_core.tags import Tags

LISTED_RECENT: Final = 10
LINE_CHARS: Final = 1_000
"""Characters of a memory in a line of a tool's answer; a longer one ends with an ellipsis."""
SPEAKERS_NAMED: Final = 12


ToolText = Annotated[str, Field(min_length=1)]


class AddLineRequest(Request):
    text: Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]
    speaker: Name | None = None
    conversation: Name | None = None
    tags: Tags = ()


class SearchLineRequest(Request):
    query: ToolText
    limit: Annotated[int, Field(ge=1, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT
    conversation: Name | None = None


class ContextLineRequest(Request):
    query: ToolText
    max_chars: Annotated[int, Field(ge=0, le=limits.PROJECTION_CHARS_MAX)] = limits.PROJECTION_CHARS_DEFAULT


class RememberFact(Request):
    topic: ToolText
    content: ToolText


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
    request_type: type[Request]
    operation: str
    ask: Callable[[Any, Scope | None], Value]
    tell: Callable[[Any], str]

    @property
    def adds_only(self) -> bool:
        """Return whether a call reads or adds, and changes nothing that is stored."""
        return adds_only(by_name(self.operation))

    @property
    def input_schema(self) -> JsonSchema:
        """Return the schema of its arguments, with types, bounds and defaults only."""
        schema = self.request_type.model_json_schema(mode="validation")
        fields = {name: _brief_field(field) for name, field in schema.get("properties", {}).items()}
        required_fields = {"required": schema["required"]} if "required" in schema else {}
        return {"type": "object", "properties": fields, **required_fields, "additionalProperties": False}


def _brief_field(field: JsonSchema) -> JsonSchema:
    value_form = next(
        (schema_form for schema_form in field.get("anyOf", ()) if schema_form.get("type") != "null"), field
    )
    brief_schema = {name: value_form[name] for name in ("type", "minimum", "maximum", "default") if name in value_form}
    return brief_schema | {"items": {"type": "string"}} if brief_schema["type"] == "array" else brief_schema


def line_tools() -> tuple[LineTool, ...]:
    """Return the seven tools."""
    return (
        LineTool("add", "Store what was said or decided. It can be found immediately.", AddLineRequest, ADD.operation,
                 _ask_add, _tell_write),
        LineTool("search", "Find what was said before, best first, one memory per line: [date speaker] text (id).",
                 SearchLineRequest, SEARCH.operation, _ask_search, _tell_search),
        LineTool("context", "Get a context block on a query for the prompt.", ContextLineRequest, CONTEXT.operation,
                 _ask_context, lambda report: CONTEXT.tell(report).text or _NOTHING),
        LineTool("remember_fact", "Store a current fact. It replaces the old one on its topic.",
                 RememberFact, FACTS.operation, _ask_fact, _tell_write),
        LineTool("forget", "Hide memories by id. This can be undone.", ForgetRequest, "forget",
                 lambda request, _own: MemoryForgetRequest(ids=request.ids), _tell_control),
        LineTool("list_recent", "List recent memories, newest first.", ListRecent, "list",
                 _ask_list, _tell_list),
        LineTool("status", "Report how much is stored.", StatusRequest, "inspect",
                 lambda _request, _own: MemoryInspectionRequest(), _tell_status),
    )  # fmt: skip


_NOTHING = "Nothing relevant is stored."
_LOST = "Damage took memories that were stored here; the operator was told. What is missing may have been known."
_DOUBT = "Uncertain: these are the nearest memories, and perhaps none answers the query."


def _ask_add(line: AddLineRequest, caller_scope: Scope | None) -> Value:
    flat_request = AddRequest(text=line.text, speaker=line.speaker, conversation=line.conversation, tags=line.tags)
    return ADD.ask(flat_request, caller_scope)


def _ask_search(line: SearchLineRequest, caller_scope: Scope | None) -> Value:
    return SEARCH.ask(FlatSearch(query=line.query, limit=line.limit, conversation=line.conversation), caller_scope)


def _ask_context(line: ContextLineRequest, caller_scope: Scope | None) -> Value:
    return CONTEXT.ask(ContextRequest(query=line.query, max_chars=line.max_chars), caller_scope)


def _ask_fact(line: RememberFact, caller_scope: Scope | None) -> Value:
    return FACTS.ask(FactRequest(topic=line.topic, content=line.content), caller_scope)


def _ask_list(line: ListRecent, _own: Scope | None) -> Value:
    conversations = (line.conversation,) if line.conversation is not None else ()
    filters = RecallFilters(conversations=conversations) if conversations else RecallFilters()
    return MemoryListRequest(limit=line.limit, order=ListOrder.LATEST, filters=filters)


def _tell_write(report: MemoryWriteReport) -> str:
    decisions = [
        _join_lines(decision.outcome.value, f"({decision.id})" if decision.id is not None else "", decision.reason)
        for decision in report.decisions
    ]
    return "\n".join((*decisions, *map(future_claim_text, report.future_claims)))


def _tell_search(report: MemoryRecallReport) -> str:
    if report.reason is NothingReason.EMPTY_SPACE:
        return "Nothing has been stored here yet."
    # A model takes lines for answers: it gets none that do not answer, and doubt comes before the others.
    if report.outcome is RecallOutcome.NOTHING:
        return f"{_loss_line(report.losses)}{_NOTHING}"
    doubt_line = f"{_DOUBT}\n" if report.outcome is RecallOutcome.DOUBTFUL else ""
    return f"{_loss_line(report.losses)}{doubt_line}{_hit_lines(report.hits)}"


def _loss_line(losses: Sequence[SpaceLoss]) -> str:
    return f"{_LOST}\n" if losses else ""


def _tell_list(report: MemoryListReport) -> str:
    return _loss_line(report.losses) + (_hit_lines(report.items) or "Nothing is stored.")


def _tell_control(report: MemoryControlReport) -> str:
    return "\n".join(_decision_line(decision) for decision in report.decisions)


def _decision_line(decision: ControlDecision) -> str:
    if decision.outcome is ControlOutcome.NOT_FOUND:
        return f"not_found ({decision.id}) no memory has this id; search shows ids"
    return _join_lines(decision.outcome.value, f"({decision.id})", decision.reason or "")


def _tell_status(report: MemoryInspectionReport) -> str:
    plane_counts = ", ".join(f"{count} {plane.value}" for plane, count in report.planes.items() if count) or "nothing"
    speaker_names = ", ".join(report.speakers[:SPEAKERS_NAMED])
    unnamed_count = len(report.speakers) - SPEAKERS_NAMED
    return _loss_line(report.losses) + "\n".join(
        (
            f"memories: {plane_counts}",
            f"conversations: {len(report.conversations)}{' or more' if report.conversations_clipped else ''}",
            f"speakers: {speaker_names or 'none'}{f' and {unnamed_count} more' if unnamed_count > 0 else ''}",
            f"last stored: {as_datetime(report.last_at).date() if report.last_at is not None else 'never'}",
        )
    )


def _hit_lines(hits: Iterable[RecallHit]) -> str:
    return "\n".join(map(_hit_line, hits))


def _hit_line(hit: RecallHit) -> str:
    date_text = str(as_datetime(hit.at).date()) if hit.at is not None else ""
    heading = _join_lines(date_text, hit.speaker or hit.title or "")
    # One memory is one line: what a text holds of line ends would look like another memory.
    text = " ".join(hit.text.split())
    if len(text) > LINE_CHARS:
        text = f"{text[: LINE_CHARS - 1]}…"
    return _join_lines(f"[{heading}]" if heading else "", text, f"({hit.id})")


def _join_lines(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def adds_only(operation: AnyOperation, /) -> bool:
    """Return whether a call of `operation` reads or adds, and changes nothing that is stored."""
    return not operation.mutates or operation.name == "write"
