"""The benchmark wall: real answers, measured against a threshold."""

import itertools
import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from elytron_core.errors import UnreadableFile
from elytron_replay import runner
from elytron_replay.gates import (
    CaseThresholds,
    EvaluationSource,
    MemoryProbe,
    WallKind,
    WallSize,
    load_case,
    measure_case,
    render_wall,
    run_wall,
)
from elytron_replay.runner import StepResult

CASES = sorted((Path(__file__).parents[2] / "fixtures/wall").glob("*.json"))
"""The threshold except latency: `elytron replay --wall` checks that, as `.ci/run` does next to the rigs."""


def told(probe: MemoryProbe, report: JsonValue) -> tuple[MemoryProbe, StepResult]:
    return probe, StepResult(1, report, (), 7.0)


def recalled(*texts: str) -> JsonValue:
    return {"hits": [{"text": text} for text in texts]}


def probe(**fields: object) -> MemoryProbe:
    return MemoryProbe.model_validate({"op": "recall", "request": {"query": "q"}, **fields})


@pytest.mark.anyio
async def test_the_shipped_wall_passes_at_both_sizes_for_all_seven_kinds() -> None:
    report = await run_wall(CASES, ["memory"])
    assert report.ok, render_wall(report)
    assert report.evaluation_source is EvaluationSource.RUNTIME_REPLAY
    assert {(row.kind, row.size) for row in report.rows} == {(kind, size) for kind in WallKind for size in WallSize}


@pytest.mark.anyio
async def test_a_kind_without_a_case_or_a_missed_threshold_fails_the_wall() -> None:
    report = await run_wall(CASES[:1], ["memory"], sizes=(WallSize.COMPACT,))
    assert not report.ok
    assert len(report.missing) == len(WallKind) - 1
    no_tokens = CaseThresholds(tokens=0)
    strict = await run_wall(CASES[:1], ["memory"], thresholds=no_tokens, sizes=(WallSize.COMPACT,))
    assert strict.rows[0].shortfalls[0].startswith("tokens: ")
    assert "fails on" in render_wall(strict)


@pytest.mark.anyio
async def test_the_stores_that_fail_the_wall_are_listed() -> None:
    report = await run_wall(CASES, ["memory", "file"], sizes=(WallSize.COMPACT,))
    assert (report.ok, report.below) == (True, ())
    assert "the wall passes on memory, file (" in render_wall(report)
    flaw = "accuracy: 0 < 9000"
    rows = [row if row.store == "memory" else row.model_copy(update={"shortfalls": (flaw,)}) for row in report.rows]
    missed = report.model_copy(update={"rows": tuple(rows)})
    assert (missed.ok, missed.below) == (False, ("file",))
    assert "the wall fails on file (" in render_wall(missed)


@pytest.mark.anyio
async def test_a_case_whose_story_deviates_is_not_measured(tmp_path: Path) -> None:
    case = json.loads(CASES[0].read_text("utf-8"))
    case["steps"][0]["expect"] = {"changed": "never"}
    del case["noise"]
    (tmp_path / "broken.json").write_text(json.dumps(case), "utf-8")
    report = await run_wall([tmp_path / "broken.json"], ["memory"], sizes=(WallSize.COMPACT,))
    assert (report.rows[0].metrics, report.rows[0].ok) == (None, False)
    assert "step 1" in report.rows[0].shortfalls[0]


def test_shares_are_counted_in_basis_points() -> None:
    asked = [
        told(probe(relevant=("tea", "cake")), recalled("nothing", "tea", "cake")),
        told(probe(relevant=("milk",)), recalled("milk")),
    ]
    found = measure_case(WallKind.MULTI_SESSION_RECALL, asked)
    assert (found.accuracy, found.recall_at_5, found.precision, found.mrr) == (10_000, 10_000, 7_500, 7_500)
    assert (found.reuse, found.faithfulness, found.violations, found.latency_ms) == (10_000, 10_000, 0, 7.0)


def test_a_relevant_text_beyond_fifth_place_is_not_an_answer() -> None:
    asked = [told(probe(relevant=("tea",)), recalled("a", "b", "c", "d", "e", "tea"))]
    found = measure_case(WallKind.PROCEDURAL_REUSE, asked)
    assert (found.accuracy, found.reuse, found.recall_at_5, found.recall_at_10, found.mrr) == (0, 0, 0, 10_000, 1_667)


def test_a_forbidden_text_anywhere_in_the_report_is_a_violation() -> None:
    report: JsonValue = {"hits": [], "why": ["the secret"]}
    found = measure_case(WallKind.PRIVACY_REFUSAL, [told(probe(forbidden=("secret",)), report)])
    assert (found.accuracy, found.violations) == (0, 1)
    assert CaseThresholds().shortfalls(found) == ("accuracy: 0 < 9000", "violations: 1 > 0")


@pytest.mark.anyio
async def test_the_time_of_a_case_is_that_of_its_slowest_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = load_case(CASES[0])
    told_before = len(case.steps) + (case.noise is not None)
    slow, slowest = 400.0, 700.0
    takes_ms = [9_000.0] * told_before + [slow] * len(case.probes)
    takes_ms[told_before] = slowest
    looks = itertools.count()

    def clock() -> float:
        """Return a time at which each step has taken its given duration; it is read before and after each."""
        step, is_over = divmod(next(looks), 2)
        return sum(takes_ms[: step + is_over]) / 1000

    monkeypatch.setattr(runner, "perf_counter", clock)
    report = await run_wall(CASES[:1], ["memory"], sizes=(WallSize.COMPACT,))
    (row,) = report.rows
    assert next(looks) == 2 * len(takes_ms)
    assert row.metrics is not None
    assert (row.metrics.latency_ms, row.shortfalls) == (slowest, ())
    # A busy machine is slow: this is reported and fails nothing.
    assert (row.is_slow, row.ok) == (True, True)
    assert "1 cases had slow answers" in render_wall(report)


def test_a_block_with_content_of_no_memory_is_not_faithful() -> None:
    asked = probe(op="project", request={"query": "q"}, relevant=("tea",))
    lying: JsonValue = {"system_memory_block": "tea", "checks": {"faithful": False}}
    assert measure_case(WallKind.SUBJECT_PROJECTION, [told(asked, lying)]).faithfulness == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "does not exist"), (b"{", "cannot be parsed"), (b'{"format":"elytron.wall"}', "version")],
)
def test_a_damaged_case_is_reported(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(UnreadableFile, match=problem):
        load_case(tmp_path / "c.json")


@pytest.mark.anyio
async def test_missing_noise_is_reported(tmp_path: Path) -> None:
    (tmp_path / "case.json").write_bytes(CASES[0].read_bytes())
    with pytest.raises(UnreadableFile, match="does not exist"):
        await run_wall([tmp_path / "case.json"])
