"""The history checker of the nodes rig detects every violation in a record."""

import pytest
from benchmarks.rigs.node_history import CallKind, RecordCall, find_anomalies

ONE = RecordCall(CallKind.PUT, 0, 1, 1, "a")
TWO = RecordCall(CallKind.PUT, 2, 3, 2, "b")


@pytest.mark.parametrize(
    "call",
    [
        RecordCall(CallKind.READ, 4, 5, 2, "b"),
        RecordCall(CallKind.READ, 2, 5, 1, "a"),
        RecordCall(CallKind.REFUSED, 4, 5, 3, "c"),
        RecordCall(CallKind.UNKNOWN, 4, 5, 3, "c"),
        RecordCall(CallKind.PUT, 4, 5, 3, "c"),
    ],
    ids=["read", "read beside the put", "refused", "unknown", "put"],
)
def test_answers_possible_for_one_record_are_no_anomaly(call: RecordCall) -> None:
    assert [*find_anomalies([ONE, TWO, call])] == []


@pytest.mark.parametrize(
    "calls",
    [
        [RecordCall(CallKind.READ, 4, 5, 1, "a")],
        [RecordCall(CallKind.READ, 4, 5, 2, "a")],
        [RecordCall(CallKind.READ, 4, 5, 3, "c")],
        [RecordCall(CallKind.PUT, 4, 5, 2, "c")],
        [RecordCall(CallKind.REFUSED, 4, 5, 3, "c"), RecordCall(CallKind.READ, 4, 6, 3, "c")],
        [RecordCall(CallKind.UNKNOWN, 4, 5, 3, "c"), RecordCall(CallKind.READ, 4, 6, 4, "c")],
    ],
    ids=["an older one", "another value", "never put", "made twice", "refused and there", "another version"],
)
def test_answers_impossible_for_one_record_are_detected(calls: list[RecordCall]) -> None:
    assert [*find_anomalies([ONE, TWO, *calls])] != []
