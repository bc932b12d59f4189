import json
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.replay.stories import SHIPPED, losing, say, story, written

from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_replay import record_fingerprints, render_matrix, run_matrix
from elytron_replay.fixture import write_out
from elytron_replay.matrix import FingerprintRecording, FixtureVerdict, compare_stores
from elytron_replay.runner import DEFAULT_STORES, named_engine

pytestmark = pytest.mark.anyio

STEPS: tuple[dict[str, JsonValue], ...] = (
    {"op": "write", "request": say("I like tea.")},
    {"op": "recall", "request": {"query": "tea"}},
)


async def test_every_shipped_story_matches_its_recording_on_every_engine() -> None:
    # An embedded store in a folder is the file engine with a bound.
    report = await run_matrix(SHIPPED, ["memory", "sqlite", "embedded"])
    assert report.ok, render_matrix(report)
    assert [row.fixture for row in report.rows] == [path.stem for path in SHIPPED]
    assert len(report.rows) >= 14


async def test_sealing_changes_no_story() -> None:
    report = await run_matrix(SHIPPED, ["memory+sealed"])
    assert report.ok, render_matrix(report)


async def test_recording_writes_only_what_all_stores_agree_on(tmp_path: Path) -> None:
    path = written(tmp_path, story(*STEPS))
    before = await run_matrix([path])
    assert [(row.recording, row.ok, row.differences) for row in before.rows] == [
        (FingerprintRecording.MISSING, False, ())
    ]
    after = await record_fingerprints([path])
    assert after.ok
    kept = json.loads(path.read_text("utf-8"))
    assert list(kept.pop("expected")) == ["ada"]
    assert kept == story(*STEPS)
    text = path.read_text("utf-8")
    assert (await record_fingerprints([path])).ok
    assert path.read_text("utf-8") == text


async def test_a_story_that_ends_differently_than_recorded_differs(tmp_path: Path) -> None:
    path = written(tmp_path, story(*STEPS))
    await record_fingerprints([path])
    kept = json.loads(path.read_text("utf-8"))
    kept["expected"]["ada"]["state"] = "0" * 64
    path.write_text(json.dumps(kept), "utf-8")
    report = await run_matrix([path], ["memory"])
    (row,) = report.rows
    assert (row.recording, row.verdicts, report.ok) == (
        FingerprintRecording.DIFFERS,
        {"memory": FixtureVerdict.DIFFERS},
        False,
    )
    (found,) = row.differences
    assert (found.step, found.path, found.left_side, found.right_side) == (
        None,
        "fingerprints.ada.state",
        "recorded",
        "memory",
    )
    assert found.left == '"' + "0" * 64 + '"'


async def test_a_story_with_an_unmet_expectation_is_not_recorded(tmp_path: Path) -> None:
    demanding = story({"op": "inspect", "expect": {"exists": True}})
    path = written(tmp_path, demanding)
    report = await record_fingerprints([path])
    assert not report.ok
    assert json.loads(path.read_text("utf-8")) == demanding
    (row,) = report.rows
    assert row.verdicts == dict.fromkeys(DEFAULT_STORES, FixtureVerdict.FAILED)
    assert {(found.step, found.path, found.left, found.right) for found in row.differences} == {
        (1, "exists", "true", "false")
    }


async def test_an_aborted_story_has_no_fingerprint(tmp_path: Path) -> None:
    report = await run_matrix([written(tmp_path, story({"op": "get", "request": {"id": "nobody"}}))], ["memory"])
    assert [(row.fingerprint, row.recording) for row in report.rows] == [("", FingerprintRecording.MISSING)]
    assert render_matrix(report).splitlines()[1] == "tea      failed  - missing"


async def test_a_store_that_loses_documents_differs_and_the_report_shows_where(tmp_path: Path) -> None:
    path = written(tmp_path, story(*STEPS))
    await record_fingerprints([path])
    report = await compare_stores([path], [named_engine("memory"), losing()])
    (row,) = report.rows
    assert (report.ok, row.ok) == (False, False)
    assert row.verdicts == {"memory": FixtureVerdict.EQUAL, "losing": FixtureVerdict.DIFFERS}
    places = {(found.step, found.operation, found.path, found.left_side, found.right_side) for found in row.differences}
    assert (2, "recall", "outcome", "memory", "losing") in places
    assert (None, "", "fingerprints.ada.state", "memory", "losing") in places
    assert (None, "", "fingerprints.ada.state", "recorded", "losing") in places
    assert "step 2 (recall): outcome" in render_matrix(report)


async def test_a_lost_document_required_by_a_story_fails(tmp_path: Path) -> None:
    path = written(tmp_path, story(STEPS[0], {"op": "replay", "expect": {"turns": {"$count": 1}}}))
    await record_fingerprints([path])
    report = await compare_stores([path], [named_engine("memory"), losing()])
    assert report.rows[0].verdicts == {"memory": FixtureVerdict.EQUAL, "losing": FixtureVerdict.FAILED}


async def test_an_empty_set_of_stories_is_not_ok() -> None:
    assert not (await run_matrix([])).ok


async def test_an_unknown_operation_is_rejected_before_anything_runs(tmp_path: Path) -> None:
    path = written(tmp_path, story({"op": "dream"}))
    with pytest.raises(UnreadableFile, match="step 1: 'dream' is not an operation; choose from write, recall"):
        await run_matrix([path])


async def test_a_matrix_without_stores_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="stores are missing"):
        await run_matrix(SHIPPED, [])
    with pytest.raises(InvalidInput, match="stores are missing"):
        await record_fingerprints(SHIPPED, [])


async def test_an_unknown_store_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'paper' is not a replay store"):
        await run_matrix(SHIPPED, ["paper"])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
async def test_a_shipped_story_has_the_format_of_a_recording(path: Path) -> None:
    assert path.read_text("utf-8") == write_out(json.loads(path.read_text("utf-8")))


async def test_a_story_is_replayed_in_its_profile_on_the_profiles_stores(tmp_path: Path) -> None:
    long: dict[str, JsonValue] = {"op": "write", "request": say("x" * 1_025), "error": "limit_exceeded"}
    for name in ("esp-embedded-sdk", "profile-esp-embedded-sdk"):
        path = written(tmp_path, story(long, profile=name))
        await record_fingerprints([path])
        (row,) = (await run_matrix([path])).rows
        assert row.ok
        assert row.verdicts == {
            "memory": FixtureVerdict.EQUAL,
            "file": FixtureVerdict.BARRED,
            "sqlite": FixtureVerdict.BARRED,
            "embedded": FixtureVerdict.EQUAL,
        }


async def test_a_story_that_ran_on_no_store_is_not_ok(tmp_path: Path) -> None:
    path = written(tmp_path, story(*STEPS, profile="esp-embedded-sdk"))
    report = await record_fingerprints([path], ["sqlite"])
    assert not report.ok
    assert report.rows[0].verdicts == {"sqlite": FixtureVerdict.BARRED}


async def test_an_unknown_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="profile"):
        await run_matrix([written(tmp_path, story(*STEPS, profile="toaster"))])
