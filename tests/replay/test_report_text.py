from elytron_replay.gates import GateReport
from elytron_replay.matrix import (
    FingerprintRecording,
    FixtureVerdict,
    MatrixReport,
    MatrixRow,
    StoreDifference,
    render_gate,
    render_matrix,
)

STORES = ("memory", "sqlite")


def row(
    fixture: str,
    *,
    sqlite: FixtureVerdict = FixtureVerdict.EQUAL,
    recording: FingerprintRecording = FingerprintRecording.EQUAL,
) -> MatrixRow:
    return MatrixRow(
        fixture=fixture,
        title=f"The story of {fixture}.",
        steps=3,
        verdicts={"memory": FixtureVerdict.EQUAL, "sqlite": sqlite},
        fingerprint="0123456789abcdef" * 4,
        recording=recording,
    )


def test_equal_stories_are_a_table_and_a_sentence() -> None:
    report = MatrixReport(stores=STORES, rows=(row("tea"), row("coffee-break")))
    assert render_matrix(report) == (
        "fixture       memory  sqlite  fingerprint\n"
        "tea           equal   equal   0123456789ab equal\n"
        "coffee-break  equal   equal   0123456789ab equal\n"
        "\n"
        "2 of 2 fixtures equal on memory, sqlite"
    )


def test_differences_are_listed_by_step_path_and_side() -> None:
    at_step = StoreDifference(
        step=2, operation="recall", path="hits.0.id", left_side="memory", left='"a"', right_side="sqlite", right='"b"'
    )
    refused = StoreDifference(
        step=3, operation="get", path="", left_side="expected", left="a report", right_side="sqlite", right="{}"
    )
    at_end = StoreDifference(
        step=None,
        operation="",
        path="fingerprints.ada.state",
        left_side="recorded",
        left="1",
        right_side="sqlite",
        right="2",
    )
    differing = row("tea", sqlite=FixtureVerdict.DIFFERS).model_copy(update={"differences": (at_step, refused, at_end)})
    assert render_matrix(MatrixReport(stores=STORES, rows=(differing,))) == (
        "fixture  memory  sqlite   fingerprint\n"
        "tea      equal   differs  0123456789ab equal\n"
        "\n"
        "0 of 1 fixtures equal on memory, sqlite\n"
        "\n"
        "tea: The story of tea.\n"
        "  step 2 (recall): hits.0.id\n"
        '    memory  "a"\n'
        '    sqlite  "b"\n'
        "  step 3 (get): the whole report\n"
        "    expected  a report\n"
        "    sqlite    {}\n"
        "  at the end: fingerprints.ada.state\n"
        "    recorded  1\n"
        "    sqlite    2"
    )


def test_a_story_without_recorded_fingerprints_shows_the_next_step() -> None:
    report = MatrixReport(stores=STORES, rows=(row("tea", recording=FingerprintRecording.MISSING),))
    assert render_matrix(report).endswith(
        "tea: The story of tea.\n  no fingerprints are recorded: review the fixture, then run `elytron replay --record`"
    )


def test_the_first_of_many_differences_are_shown_and_the_rest_counted() -> None:
    one = StoreDifference(step=1, operation="get", path="x", left_side="a", left="1", right_side="b", right="2")
    many = row("tea", sqlite=FixtureVerdict.DIFFERS).model_copy(update={"differences": (one,) * 23})
    lines = render_matrix(MatrixReport(stores=STORES, rows=(many,))).splitlines()
    assert lines.count("  step 1 (get): x") == 20
    assert lines[-1] == "  and 3 more"


def test_the_gate_counts_fixtures_and_names_what_is_missing() -> None:
    report = GateReport(
        exercised={"write": ("tea", "milk"), "recall": (), "erase": ()},
        demanded=("write", "recall"),
        missing=("recall",),
    )
    assert render_gate(report).splitlines() == [
        "operation  fixtures",
        "write      2         demanded",
        "recall     0         demanded",
        "erase      0",
        "",
        "not covered: recall",
    ]
    whole = GateReport(exercised={"write": ("tea",)}, demanded=("write",), missing=())
    assert render_gate(whole).splitlines()[-1] == "every required operation is covered"
