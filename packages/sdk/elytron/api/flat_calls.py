"""Operations with flat requests and answers (add, search, facts, context), for callers that know nothing of planes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from elytron.api import calls
from elytron_core import limits
from elytron_core.clock import format_instant
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.projection import MemoryProjectionReport, MemoryProjectionRequest
from elytron_core.contracts.recall import (
    MemoryRecallReport,
    MemoryRecallRequest,
    RecallFilters,
    RecallOutcome,
)
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryWriteReport,
    MemoryWriteRequest,
    WriteDecision,
    WriteOutcome,
)
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId
from elytron_core.model import Request, Value
from elytron_core.planes import facts
from elytron_core.scope import FutureClaims, Name, Scope, Space
from elytron_core.tags import Tags
from elytron_core.time_kinds import TimeKind

RequestT = TypeVar("RequestT", bound="FlatRequest")
AnswerT = TypeVar("AnswerT", bound=Value)

Moment = Annotated[Annotated[str, Field(max_length=limits.NAME_CHARS)] | float, TimeKind.CLAIM]
"""ISO 8601 text, or a number: epoch seconds below 100,000,000,000, else milliseconds."""


class FlatRequest(Request):
    """A flat request. `space` is for callers whose key opens several; all others omit it."""

    space: Space | None = None

    def scope_of(self, caller_scope: Scope | None, /, *, conversation: str | None = None) -> Scope | None:
        """Return the requested scope, or `caller_scope`; None leaves it to the caller's key."""
        if self.space is None and conversation is None:
            return None
        is_own_space = caller_scope is not None and self.space in {None, caller_scope.space}
        default_scope = caller_scope if is_own_space else Scope(space=self.space) if self.space is not None else None
        return calls.scope_of(default_scope, conversation=conversation)


class FlatMessage(Value):
    """One message, as model APIs write it."""

    role: EvidenceRole = EvidenceRole.USER
    content: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)]
    name: Name | None = None
    timestamp: Moment | None = None


class AddRequest(FlatRequest):
    """Store `text`, or `messages`, as evidence. Give one of the two."""

    text: Annotated[str, Field(max_length=limits.MESSAGE_CHARS)] | None = None
    messages: Annotated[tuple[FlatMessage, ...], Field(max_length=limits.TURNS_PER_COMMIT)] = ()
    speaker: Name | None = None
    conversation: Name | None = None
    at: Moment | None = None
    """When it was said: ISO 8601, or seconds since 1970."""
    tags: Tags = ()


class AddReport(Value):
    """The ids of what is stored, one per message; `refused` says why others are not."""

    ids: tuple[str, ...]
    refused: tuple[str, ...] = ()
    future_claims: FutureClaims = ()


class SearchRequest(FlatRequest):
    """Find up to `limit` memories that answer `query`, in one conversation or in all."""

    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)]
    limit: Annotated[int, Field(ge=1, le=limits.RECALL_MAX)] = limits.RECALL_DEFAULT
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    conversation: Name | None = None


class FlatHit(Value):
    """One memory. `at` is ISO 8601 in UTC."""

    id: str
    text: str
    score: float
    at: str | None = None
    speaker: str | None = None
    conversation: str | None = None


class SearchReport(Value):
    """Hits for the query, best first."""

    hits: tuple[FlatHit, ...]
    outcome: RecallOutcome
    """Outcome of recall: `found`, `doubtful`, or `nothing` if no hit answers."""


class FactRequest(FlatRequest):
    """Store a fact. A newer one with the same topic takes the older one's place."""

    topic: facts.Topic
    content: Annotated[str, Field(min_length=1, max_length=limits.FACT_CHARS)]


class FactReport(Value):
    """Outcome of the fact, and why."""

    id: str | None = None
    outcome: WriteOutcome
    reason: str = ""


class ContextRequest(FlatRequest):
    """Build the block for `query` in at most `max_chars` characters."""

    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)]
    max_chars: Annotated[int, Field(ge=0, le=limits.PROJECTION_CHARS_MAX)] = limits.PROJECTION_CHARS_DEFAULT
    conversation: Name | None = None


class ContextReport(Value):
    """The block that a model may be shown; empty if nothing answers."""

    text: str


@dataclass(frozen=True, slots=True)
class FlatCall(Generic[RequestT, AnswerT]):
    """One operation with a flat request and a flat answer.

    `ask` makes the operation's request, over the caller's own scope if that is known; `tell` reads its report.
    """

    name: str
    summary: str
    operation: str
    request: type[RequestT]
    answer: type[AnswerT]
    ask: Callable[[RequestT, Scope | None], Value]
    tell: Callable[[Value], AnswerT]


def own_scope(space: SpaceId | None, scope: Scope | None, /) -> Scope | None:
    """Return the default scope of a caller who may only use `space`, or any (None), of a runtime."""
    if space is None or (scope is not None and scope.space == space):
        return scope
    return Scope(space=space)


def _ask_add(call: AddRequest, caller_scope: Scope | None) -> MemoryWriteRequest:
    if (call.text is None) == (not call.messages):
        raise InvalidInput(field="text", problem="or messages: pass one of the two")
    messages = call.text or [message.model_dump(exclude_none=True, mode="json") for message in call.messages]
    write = calls.transcript_of(messages, speaker=call.speaker, at=call.at, tags=call.tags)
    scope = call.scope_of(caller_scope, conversation=call.conversation)
    return calls.write_of(write, scope=scope, idempotency_key=None)


def _tell_add(report: Value) -> AddReport:
    assert isinstance(report, MemoryWriteReport)
    refusal_reasons = tuple(_decision_reason(one) for one in report.decisions if one.id is None)
    return AddReport(ids=report.ids, refused=refusal_reasons, future_claims=report.future_claims)


def _ask_search(call: SearchRequest, caller_scope: Scope | None) -> MemoryRecallRequest:
    conversations = (call.conversation,) if call.conversation is not None else ()
    filters = RecallFilters(conversations=conversations) if conversations else RecallFilters()
    return MemoryRecallRequest(
        scope=call.scope_of(caller_scope), query=call.query, limit=call.limit, min_score=call.min_score, filters=filters
    )


def _tell_search(report: Value) -> SearchReport:
    assert isinstance(report, MemoryRecallReport)
    hits = tuple(
        FlatHit(
            id=hit.id,
            text=hit.text,
            score=hit.score,
            at=format_instant(hit.at) if hit.at is not None else None,
            speaker=hit.speaker,
            conversation=hit.conversation,
        )
        for hit in report.hits
    )
    return SearchReport(hits=hits, outcome=report.outcome)


def _ask_facts(call: FactRequest, caller_scope: Scope | None) -> MemoryWriteRequest:
    write = LongTermExtraction(facts=(FactDraft(topic=call.topic, content=call.content),))
    return MemoryWriteRequest(scope=call.scope_of(caller_scope), write=write)


def _tell_facts(report: Value) -> FactReport:
    assert isinstance(report, MemoryWriteReport)
    (decision,) = report.decisions
    return FactReport(id=decision.id, outcome=decision.outcome, reason=decision.reason)


def _ask_context(call: ContextRequest, caller_scope: Scope | None) -> MemoryProjectionRequest:
    scope = call.scope_of(caller_scope, conversation=call.conversation)
    return MemoryProjectionRequest(scope=scope, query=call.query, max_chars=call.max_chars)


def _tell_context(report: Value) -> ContextReport:
    assert isinstance(report, MemoryProjectionReport)
    return ContextReport(text=report.system_memory_block)


def _decision_reason(decision: WriteDecision) -> str:
    return f"{decision.outcome}: {decision.reason}" if decision.reason else decision.outcome.value


ADD = FlatCall("add", "Store a text or messages.", "write", AddRequest, AddReport, _ask_add, _tell_add)
SEARCH = FlatCall(
    "search", "Find memories that answer a query.", "recall", SearchRequest, SearchReport, _ask_search, _tell_search
)
FACTS = FlatCall("facts", "Store a fact.", "write", FactRequest, FactReport, _ask_facts, _tell_facts)
CONTEXT = FlatCall(
    "context",
    "Build a bounded context block for a model.",
    "project",
    ContextRequest,
    ContextReport,
    _ask_context,
    _tell_context,
)

FLAT_CALLS = (ADD, SEARCH, FACTS, CONTEXT)
"""Every flat call."""
