from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.replay.stories import read, say, story

from elytron_replay.comparison import JsonDifference
from elytron_replay.runner import DEFAULT_STORES, FixtureOutcome, ReplayEngine, named_engine, run_fixture

pytestmark = pytest.mark.anyio


@pytest.fixture(params=DEFAULT_STORES)
def store(request: pytest.FixtureRequest) -> ReplayEngine:
    name: str = request.param
    return named_engine(name)


def problems(outcome: FixtureOutcome) -> list[tuple[int, str]]:
    return [(step.number, found.path) for step in outcome.steps for found in step.problems]


async def test_a_story_has_the_same_outcome_each_time(store: ReplayEngine) -> None:
    fixture = read(story({"op": "write", "request": say("I like tea.")}, {"op": "recall", "request": {"query": "tea"}}))
    first = await run_fixture(fixture, store)
    assert first.ok
    assert first == await run_fixture(fixture, store)
    assert set(first.fingerprints) == {"ada"}


async def test_steps_see_the_time_of_the_story(store: ReplayEngine) -> None:
    steps: list[dict[str, JsonValue]] = [
        {"op": "write", "request": say("I like tea."), "save": {"turn": "decisions.0.id"}},
        {"op": "write", "at": "2026-02-01T00:00:00Z", "request": say("I like coffee.")},
        {"op": "get", "request": {"id": "${turn}"}, "expect": {"at": "${time 2026-01-01T00:00:00Z}"}},
        {"op": "inspect", "expect": {"last_at": "${time 2026-02-01T00:00:00Z}"}},
    ]
    assert problems(await run_fixture(read(story(*steps)), store)) == []


@pytest.mark.parametrize("how", ["closed", "crashed"])
async def test_acknowledged_data_survives_reopening_the_store(store: ReplayEngine, how: str) -> None:
    steps: list[dict[str, JsonValue]] = [
        {"op": "write", "request": say("I like tea."), "save": {"turn": "decisions.0.id"}},
        {"op": "recall", "reopen": how, "request": {"query": "tea"}, "expect": {"hits": [{"id": "${turn}"}]}},
        {"op": "write", "reopen": how, "request": say("I like coffee."), "expect": {"sequence": {"$at_most": 9}}},
        {"op": "replay", "reopen": how, "expect": {"total_turns": 2}},
    ]
    outcome = await run_fixture(read(story(*steps)), store)
    assert problems(outcome) == []
    untold = [{**step, "reopen": None} for step in steps]
    assert (await run_fixture(read(story(*untold)), store)).fingerprints == outcome.fingerprints


async def test_a_story_may_end_with_a_closed_runtime(store: ReplayEngine) -> None:
    steps: list[dict[str, JsonValue]] = [
        {"op": "write", "request": say("I like tea.")},
        {"op": "close", "expect": {"phase": "closed"}},
        {"op": "recall", "request": {"query": "tea"}, "error": "store_closed"},
    ]
    outcome = await run_fixture(read(story(*steps)), store)
    shorter = await run_fixture(read(story(steps[0])), store)
    assert outcome.ok
    assert outcome.fingerprints == shorter.fingerprints


async def test_an_unmet_expectation_is_reported_and_the_story_continues(store: ReplayEngine) -> None:
    steps: list[dict[str, JsonValue]] = [
        {"op": "write", "request": say("I like tea."), "expect": {"changed": False}, "minimum": {"sequence": 99}},
        {"op": "recall", "request": {"query": "tea"}, "expect": {"outcome": "found"}},
    ]
    outcome = await run_fixture(read(story(*steps)), store)
    assert (outcome.ok, outcome.ended_at) == (False, None)
    assert problems(outcome) == [(1, "changed"), (1, "sequence")]


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ({"op": "get", "request": {"id": "nobody"}}, JsonDifference("", "a report", "not_found")),
        (
            {"op": "recall", "request": {"query": "tea"}, "error": "not_found"},
            JsonDifference("", "the error 'not_found'", '"considered": 0'),
        ),
        (
            {"op": "recall", "request": {"query": "tea"}, "save": {"x": "hits.0.id"}},
            JsonDifference("save.x", "hits.0.id", "(absent)"),
        ),
    ],
)
async def test_a_step_with_an_unexpected_outcome_ends_the_story(
    step: dict[str, JsonValue], found: JsonDifference
) -> None:
    outcome = await run_fixture(read(story(step, {"op": "inspect"})), named_engine("memory"))
    assert (outcome.ok, outcome.ended_at, len(outcome.steps)) == (False, 1, 1)
    assert outcome.fingerprints == {}
    (problem,) = outcome.steps[0].problems
    assert (problem.path, problem.left) == (found.path, found.left)
    assert found.right in problem.right


async def test_an_expected_refusal_is_not_a_problem_and_includes_its_details() -> None:
    step: dict[str, JsonValue] = {
        "op": "get",
        "request": {"id": "nobody"},
        "error": "not_found",
        "expect": {"what": "memory"},
    }
    outcome = await run_fixture(read(story(step)), named_engine("memory"))
    assert outcome.ok
    assert outcome.steps[0].report == {
        "error": "not_found",
        "message": "no memory of this name in this scope",
        "what": "memory",
    }


async def test_an_expectation_whose_reference_does_not_fit_is_a_problem() -> None:
    steps: list[dict[str, JsonValue]] = [
        {"op": "inspect", "save": {"documents": "documents"}},
        {"op": "inspect", "expect": {"space": "in ${documents}"}},
    ]
    outcome = await run_fixture(read(story(*steps)), named_engine("memory"))
    assert problems(outcome) == [(2, "expect")]


async def test_paths_of_the_story_are_the_same_in_every_run() -> None:
    steps: list[dict[str, JsonValue]] = [
        {"op": "write", "request": say("I like tea.")},
        {"op": "export", "request": {"path": "${tmp}/a", "include_private": True}, "expect": {"path": "${tmp}/a"}},
    ]
    outcome = await run_fixture(read(story(*steps)), named_engine("memory"))
    assert outcome.ok
    report = outcome.steps[1].report
    assert isinstance(report, dict)
    assert report["path"] == "${tmp}/a"


async def test_a_story_can_start_with_an_archive(store: ReplayEngine, tmp_path: Path) -> None:
    export: dict[str, JsonValue] = {
        "op": "export",
        "request": {"path": str(tmp_path / "ada.archive"), "include_private": True},
    }
    before = await run_fixture(
        read(story({"op": "write", "request": say("I like tea.")}, export)), named_engine("memory")
    )
    assert before.ok
    begun = story(
        {"op": "recall", "request": {"query": "tea"}, "expect": {"outcome": "found"}},
        archive={"space": "ada", "path": "ada.archive"},
    )
    outcome = await run_fixture(read(begun), store, beside=tmp_path)
    assert outcome.ok
    assert outcome.fingerprints == before.fingerprints
