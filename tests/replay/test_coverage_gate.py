from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.replay.stories import SHIPPED, say, story, written

from elytron_core.errors import InvalidInput
from elytron_replay import operation_gate
from elytron_replay.runner import MANDATORY, operation_names


def test_the_shipped_stories_exercise_every_operation() -> None:
    report = operation_gate(SHIPPED, demanded=operation_names())
    assert (report.missing, report.ok) == ((), True)
    assert set(report.exercised) == set(operation_names())


def test_mandatory_operations_are_registered() -> None:
    assert set(MANDATORY) <= set(operation_names())


def test_unexercised_operations_are_listed_mandatory_ones_first(tmp_path: Path) -> None:
    path = written(tmp_path, story({"op": "write", "request": say("I like tea.")}, {"op": "history"}))
    assert operation_gate([path]).missing == ("recall", "project", "inspect")
    report = operation_gate([path], demanded=operation_names())
    assert report.ok is False
    assert report.missing[:3] == ("recall", "project", "inspect")
    assert set(report.missing) == set(operation_names()) - {"write", "history"}
    assert report.exercised["write"] == ("tea",)


def test_a_refused_step_exercises_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, story({"op": "recall", "request": {}, "error": "invalid_input"}))
    assert "recall" in operation_gate([path]).missing


def test_custom_stories_pass_with_mandatory_and_custom_operations(tmp_path: Path) -> None:
    steps: tuple[dict[str, JsonValue], ...] = (
        {"op": "write", "request": say("I like tea.")},
        {"op": "recall", "request": {"query": "tea"}},
        {"op": "project", "request": {"query": "tea"}},
        {"op": "inspect"},
    )
    path = written(tmp_path, story(*steps))
    assert operation_gate([path]).ok
    assert operation_gate([path], demanded=["erase"]).missing == ("erase",)
    with pytest.raises(InvalidInput, match="an unknown operation"):
        operation_gate([path], demanded=["eraze"])
