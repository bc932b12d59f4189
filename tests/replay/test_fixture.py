import json
from pathlib import Path

import pytest
from tests.replay.stories import story

from elytron_core.errors import UnreadableFile
from elytron_replay.fixture import (
    Fixture,
    FixtureStep,
    SpaceFingerprints,
    StoreReopening,
    StoryClock,
    load_fixture,
    parse_fixture,
)

STORY = story(
    {"op": "write", "request": {"write": {"kind": "transcript"}}, "save": {"turn": "decisions.0.id"}},
    {"op": "get", "request": {"id": "${turn}"}, "expect": {"id": "${turn}"}},
)


def read(**changes: object) -> Fixture:
    return parse_fixture(json.dumps({**STORY, **changes}).encode(), name="tea.json")


def refusal(**changes: object) -> str:
    with pytest.raises(UnreadableFile) as caught:
        read(**changes)
    return caught.value.problem


def steps(*plain: dict[str, object]) -> list[dict[str, object]]:
    return list(plain)


def test_a_story_is_read_completely() -> None:
    fixture = read(seed="s", clock={"start": "2026-01-01T00:00:00Z", "step": 5})
    assert (fixture.id, fixture.spaces, fixture.seed) == ("tea", ("ada",), "s")
    assert fixture.clock == StoryClock.model_construct(start=1_767_225_600_000, step=5)
    assert fixture.steps[1] == FixtureStep(op="get", request={"id": "${turn}"}, expect={"id": "${turn}"})
    assert fixture.profile is None


def test_recorded_fingerprints_are_read() -> None:
    expected = {"ada": {"state": "0" * 64, "events": "f" * 64}}
    assert read(expected=expected).expected == {"ada": SpaceFingerprints(state="0" * 64, events="f" * 64)}


def test_a_step_can_reopen_the_store_and_set_the_clock() -> None:
    step = read(steps=steps({"op": "recall", "reopen": "crashed", "at": "2026-01-02T00:00:00Z"})).steps[0]
    assert (step.reopen, step.at) == (StoreReopening.CRASHED, 1_767_312_000_000)


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(UnreadableFile, match=r"'nowhere\.json'.*does not exist"):
        load_fixture(Path("nowhere.json"))


def test_a_file_is_loaded_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "tea.json"
    path.write_text(json.dumps(STORY), "utf-8")
    assert load_fixture(path) == read()


def test_invalid_json_is_rejected_with_its_position() -> None:
    with pytest.raises(UnreadableFile, match="cannot be parsed at line 2"):
        parse_fixture(b"{\n", name="tea.json")


def test_json_that_is_not_an_object_is_rejected() -> None:
    with pytest.raises(UnreadableFile, match="fixture: Input should be a valid dictionary"):
        parse_fixture(b"[]", name="tea.json")


def test_a_duplicate_key_is_rejected() -> None:
    with pytest.raises(UnreadableFile, match="is not JSON: it has an object with a duplicate key"):
        parse_fixture(b'{"format": "elytron.fixture", "format": "elytron.fixture"}', name="tea.json")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": "beetle.fixture"}, "format: Input should be 'elytron.fixture'"),
        ({"version": 2}, "version: Input should be 1"),
        ({"colour": "green"}, "colour: Extra inputs are not permitted"),
        ({"id": "Tea Time"}, "id: String should match"),
        ({"spaces": []}, "spaces: Tuple should have at least 1 item"),
        ({"steps": []}, "steps: Tuple should have at least 1 item"),
        ({"clock": {"start": 0}}, "clock.start: Value error, must be ISO 8601 text"),
        ({"clock": {"start": "yesterday"}}, "clock.start: Value error, timestamp is not an ISO 8601 timestamp"),
        ({"steps": steps({"op": "get", "wants": {}})}, "step 1, wants: Extra inputs are not permitted"),
        ({"steps": steps({"op": "get"}, {"op": "get", "reopen": "maybe"})}, "step 2, reopen: Input should be 'closed'"),
        ({"steps": steps({"op": "get", "save": {"tmp": "id"}})}, "step 1, save, tmp"),
        (
            {"steps": steps({"op": "get", "expect": {"hits": {"$near": 1}}})},
            "step 1, expect: Value error, '$near' is no",
        ),
        ({"expected": {"ada": {"state": "0", "events": "0"}}}, "expected.ada.state: String should match"),
    ],
)
def test_invalid_content_is_rejected_with_step_and_field(changes: dict[str, object], problem: str) -> None:
    assert refusal(**changes).startswith(problem)


def test_a_refused_step_saves_and_measures_nothing() -> None:
    step: dict[str, object] = {"op": "get", "error": "not_found", "minimum": {"hits": 1}}
    assert (
        refusal(steps=steps(step))
        == "step 1: Value error, a step with `error` has no report: remove `save` and `minimum`"
    )


def test_the_id_is_the_name_of_the_file() -> None:
    assert refusal(id="coffee") == "id: is 'coffee', but the file is named 'tea': use the same name for both"


@pytest.mark.parametrize("place", ["request", "expect"])
def test_a_reference_not_saved_by_an_earlier_step_is_rejected(place: str) -> None:
    step: dict[str, object] = {"op": "get", place: {"id": "${cup}"}, "save": {"cup": "id"}}
    assert refusal(steps=steps(step)) == "step 1: ${cup} is not saved by an earlier step"


def test_times_and_the_folder_are_always_available_references() -> None:
    request = {"path": "${tmp}/a", "since": "${time 2026-01-01T00:00:00Z}"}
    assert read(steps=steps({"op": "export", "request": request})).steps[0].request == request


def test_every_space_used_by_a_story_is_listed() -> None:
    elsewhere: dict[str, object] = {"op": "get", "request": {"scope": {"space": "bob"}}}
    assert refusal(steps=steps(elsewhere)) == "step 1: spaces lacks 'bob', which its request names"
    assert refusal(scope={"space": "bob"}) == "spaces: lacks 'bob', which the fixture uses"
    assert refusal(archive={"space": "bob", "path": "b.archive"}) == "spaces: lacks 'bob', which the fixture uses"
    assert refusal(expected={"bob": {"state": "0" * 64, "events": "0" * 64}}) == (
        "spaces: lacks 'bob', which the fixture uses"
    )
