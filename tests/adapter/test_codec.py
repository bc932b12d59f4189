"""The codec reads JSON strictly and never echoes rejected values."""

import json
from typing import Any

import pytest

from elytron.registry import OPERATIONS, AnyOperation, by_name
from elytron_adapter import envelope
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.memories import HistoryEvent, HistoryItem, MemoryHistoryReport
from elytron_core.contracts.recall import MemoryRecallRequest, RecallFilters, RecallPlane
from elytron_core.errors import ElytronError, InvalidInput, InvalidJson, PayloadTooLarge
from elytron_core.scope import Scope

RECALL = by_name("recall")
WRITE = by_name("write")
CANARY = "s3cret"
RECALLED = ", ".join(MemoryRecallRequest.model_fields)
WRITTEN = "scope, min_sequence, write, idempotency_key, dry_run"
FILTERS = ", ".join(RecallFilters.model_fields)
PLANES = [f"'{plane}'" for plane in RecallPlane]


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def turn(**fields: Any) -> bytes:
    draft = {"messages": [{"text": "hi"}]} | fields
    return body(write={"kind": "transcript", "turns": [draft]})


def test_a_request_is_read_with_its_defaults() -> None:
    data = body(query="tea", limit=3, scope={"space": "ada"}, filters={"planes": ["transcript"], "speakers": ["Bo"]})
    assert envelope.decode_request(RECALL, data) == MemoryRecallRequest(
        query="tea",
        limit=3,
        scope=Scope.model_validate({"space": "ada"}),
        filters=RecallFilters(planes=(RecallPlane.TRANSCRIPT,), speakers=("Bo",)),
    )


REFUSED: dict[str, tuple[AnyOperation, bytes, type[ElytronError], str]] = {
    "a number in quotes": (
        RECALL,
        body(query="x", limit="3"),
        InvalidInput,
        "limit is not valid: input should be a valid integer",
    ),
    "a number where a text stands": (
        RECALL,
        body(query=7),
        InvalidInput,
        "query is not valid: input should be a valid string",
    ),
    "a yes where a number stands": (
        RECALL,
        body(query="x", limit=True),
        InvalidInput,
        "limit is not valid: input should be a valid integer",
    ),
    "a missing field": (RECALL, b"{}", InvalidInput, "query is not valid: field required"),
    "an unknown field": (
        RECALL,
        body(query="x", s3cret="s3cret"),
        InvalidInput,
        f"request has an unknown field: choose from {RECALLED}",
    ),
    "an unknown field that there is elsewhere": (
        WRITE,
        body(text="s3cret"),
        InvalidInput,
        f"request has an unknown field, and write is missing: choose from {WRITTEN}",
    ),
    "an unknown field within": (
        RECALL,
        body(query="x", filters={"s3cret": 1}),
        InvalidInput,
        f"filters has an unknown field: choose from {FILTERS}",
    ),
    "a misspelled field that is needed": (
        WRITE,
        body(write={"kind": "transcript", "turns": [{"messages": [{"Texts": "s3cret"}]}]}),
        InvalidInput,
        (
            "write.turns.0.messages.0 has an unknown field, and text is missing (and 2 more): did you mean text? "
            "Choose from role, text, speaker, at, authority"
        ),
    ),
    "an unknown field of a scope": (
        RECALL,
        body(query="x", scope={"Spaces": "s3cret"}),
        InvalidInput,
        (
            "scope has an unknown field, and space is missing: did you mean space? "
            "Choose from space, agent, app, project, channel, chat, conversation"
        ),
    ),
    "an unknown word": (
        RECALL,
        body(query="x", filters={"planes": ["s3cret"]}),
        InvalidInput,
        f"filters.planes.0 is not valid: input should be {', '.join(PLANES[:-1])} or {PLANES[-1]}",
    ),
    "two wrong fields": (
        RECALL,
        body(query=7, limit=0),
        InvalidInput,
        "query is not valid: input should be a valid string (and 1 more)",
    ),
    "a list": (RECALL, b'["s3cret"]', InvalidInput, "request is not valid: input should be an object"),
    "a wrong value in metadata": (
        WRITE,
        turn(metadata={"s3cret": ["s3cret"]}),
        InvalidInput,
        "write.turns.0.metadata is not valid: input should be a valid string (and 4 more)",
    ),
    "a NUL in a name": (
        RECALL,
        body(query="x", scope={"space": "s3cret\0"}),
        InvalidInput,
        "scope.space has control characters or surrounding white space",
    ),
    "a name that is too long": (
        RECALL,
        body(query="x", scope={"space": "s3cret" * 40}),
        InvalidInput,
        "scope.space is not valid: string should have at most 200 characters",
    ),
    "a write of an unknown kind": (
        WRITE,
        body(write={"kind": "s3cret"}),
        InvalidInput,
        (
            "write has an unknown kind: choose from transcript, long_term, procedural, "
            "agent_tool_usage_feedback, candidates, capsules, execution, summary, notes, garden, subjects"
        ),
    ),
    "NaN": (RECALL, b'{"query": "s3cret", "limit": NaN}', InvalidJson, "the JSON has NaN, which is not a JSON number"),
    "no JSON": (RECALL, b"s3cret", InvalidJson, "the JSON cannot be parsed at line 1, column 1"),
    "too many bytes": (
        RECALL,
        b" " * (limits.JSON_BYTES + 1),
        PayloadTooLarge,
        "the JSON has more than 16777216 bytes: split it into parts",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_name_the_field_and_never_echo_the_value(case: str) -> None:
    operation, data, kind, message = REFUSED[case]
    with pytest.raises(kind) as refused:
        envelope.decode_request(operation, data)
    assert refused.value.message == message
    assert CANARY not in str(refused.value.details())


def test_a_report_is_written_without_fields_that_have_no_value() -> None:
    item = HistoryItem(id="m", event=HistoryEvent.ADDED, at=Instant(5))
    report = MemoryHistoryReport(space="ada", id="m", items=(item,))
    told = b'{"id":"m","event":"added","at":5,"reason":"","by":""}'
    assert envelope.encode_value(report) == b'{"space":"ada","id":"m","items":[' + told + b"]}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_describes_its_request_and_report(operation: AnyOperation) -> None:
    described = envelope.operation_schemas(operation)
    assert described["request"]["additionalProperties"] is False
    assert set(described["report"]["properties"]) == {
        field.serialization_alias or name for name, field in operation.report.model_fields.items()
    }
