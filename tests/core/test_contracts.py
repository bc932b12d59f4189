"""What reports say about themselves, and what requests reject at the boundary."""

import pytest

from elytron_core.contracts import archive, inspection, memories, projection, recall, transcript
from elytron_core.errors import InvalidInput
from elytron_core.ids import FactId, TurnId
from elytron_core.scope import ScopedRequest


def test_a_receipt_lists_what_is_stored_and_counts_outcomes() -> None:
    report = transcript.MemoryWriteReport(
        space="ada",
        decisions=(
            transcript.WriteDecision(plane="transcript", id=TurnId("t1"), outcome=transcript.WriteOutcome.STORED),
            transcript.WriteDecision(plane="long_term", outcome=transcript.WriteOutcome.REJECTED),
            transcript.WriteDecision(plane="long_term", id=FactId("f1"), outcome=transcript.WriteOutcome.STORED),
        ),
        sequence=3,
        changed=True,
    )
    assert report.ids == ("t1", "f1")
    assert [report.count(outcome) for outcome in (transcript.WriteOutcome.STORED, transcript.WriteOutcome.UPDATED)] == [
        2,
        0,
    ]


@pytest.mark.parametrize(
    ("request_type", "given", "message"),
    [
        (recall.MemoryRecallRequest, {}, "query is not valid: field required"),
        (
            recall.MemoryRecallRequest,
            {"query": "q", "limit": 0},
            "limit is not valid: input should be greater than or equal to 1",
        ),
        (
            memories.MemoryForgetRequest,
            {"ID_s": ("a",)},
            (
                "ID_s is not a field, and ids is missing: did you mean ids? Choose from scope, min_sequence, ids, "
                "reason, undo, dry_run"
            ),
        ),
        (
            transcript.MemoryWriteRequest,
            {"write": {"kind": "notes", "notes": [{"period": f"2026-{month}", "text": "x"} for month in (12, 13)]}},
            "write.notes.notes.1.period is not valid: must be a day (2026-08-03) or a month (2026-08)",
        ),
        (archive.MemorySpaceExportRequest, {"path": "a\0b"}, r"path does not match ^[^\x00]+$"),
        (
            projection.MemoryProjectionRequest,
            {"query": "q", "max_chars": -1},
            "max_chars is not valid: input should be greater than or equal to 0",
        ),
        (
            transcript.MemoryWriteRequest,
            {"write": {"kind": "hunter2"}},
            (
                "write has an unknown kind: choose from transcript, long_term, procedural, "
                "agent_tool_usage_feedback, candidates, capsules, execution, summary, notes, garden, subjects"
            ),
        ),
        (
            transcript.MemoryWriteRequest,
            {"write": {"kind": "transcript", "turns": []}},
            "write.transcript.turns is not valid: tuple should have at least 1 item after validation, not 0",
        ),
        (
            memories.MemoryForgetRequest,
            {"ids": ()},
            "ids is not valid: tuple should have at least 1 item after validation, not 0",
        ),
        (archive.MemorySpaceExportRequest, {"path": ""}, "path is not valid: string should have at least 1 character"),
        (
            inspection.MemoryReplayRequest,
            {"limit": 10_000},
            "limit is not valid: input should be less than or equal to 1000",
        ),
    ],
)
def test_a_request_is_rejected_by_field(
    request_type: type[ScopedRequest], given: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        request_type(**given)  # pyright: ignore[reportArgumentType]
    assert raised.value.message == message
