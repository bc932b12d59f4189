from pathlib import Path

from tests.replay.stories import SHIPPED, say, story, written

from elytron_replay import gate
from elytron_replay.operations import MANDATORY, names


def test_the_shipped_stories_exercise_every_operation() -> None:
    report = gate(SHIPPED)
    assert (report.missing, report.ok) == ((), True)
    assert set(report.exercised) == set(names())


def test_mandatory_operations_are_registered_ones() -> None:
    assert set(MANDATORY) <= set(names())


def test_what_no_story_exercises_is_missing_mandatory_ones_first(tmp_path: Path) -> None:
    path = written(tmp_path, story({"op": "write", "request": say("I like tea.")}, {"op": "history"}))
    report = gate([path])
    assert report.ok is False
    assert report.missing[:3] == ("recall", "project", "inspect")
    assert set(report.missing) == set(names()) - {"write", "history"}
    assert report.exercised["write"] == ("tea",)


def test_a_step_that_is_refused_exercises_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, story({"op": "recall", "request": {}, "error": "invalid_input"}))
    assert "recall" in gate([path]).missing
