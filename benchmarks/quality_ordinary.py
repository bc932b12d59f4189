"""Small spaces of single facts, and ordinary conversations of about 200 turns: everyday use of memory.

A small space has 5 to 40 memories (`benchmarks/quality_data/small`), each asked for in paraphrase. An ordinary
conversation (`benchmarks/quality_data/ordinary`) is asked questions of eight kinds. Both have questions that nothing
answers: about an unknown detail of something mentioned ("nothing"), and about matters never mentioned ("elsewhere").
Everything was written before anything was measured, except the latter: these came later, from a writer who had seen no
measurement. The half "fit" is for inspection and for choosing weights. The half "held" gives the figures of the docs,
and no weight, word or rule is chosen by it.
"""

import json
from datetime import datetime
from typing import Any, Literal

from benchmarks.quality_sets import MADE, UNANSWERED, Question, Told, Turn, turns_of

Half = Literal["fit", "held"]
SMALL = MADE / "small"
ORDINARY = MADE / "ordinary"


def small(half: Half, /) -> list[Told]:
    """Return the small spaces of one half. The kind of a question is the language of its space."""
    groups = [json.loads(path.read_text("utf-8")) for path in sorted(SMALL.glob("*.json"))]
    return [space_of(space) for group in groups for space in group["spaces"] if space["half"] == half]


def ordinary(half: Half, /) -> list[Told]:
    """Return the ordinary conversations, each with the questions of one half."""
    talks = [json.loads(path.read_text("utf-8")) for path in sorted(ORDINARY.glob("*.json"))]
    return [_talk(talk, half) for talk in talks]


def first_spaces() -> list[Told]:
    """Return small spaces of a person's or team's first memories, most of them asked for in their own words."""
    group = json.loads((MADE / "marks" / "marks.json").read_text("utf-8"))
    return [space_of(space) for space in group["spaces"]]


def space_of(space: dict[str, Any], /) -> Told:
    """Return the content and the questions of one small space."""
    turns = tuple(
        Turn(said["id"], "main", said["speaker"], "user", datetime.fromisoformat(said["at"]), said["text"])
        for said in space["memories"]
    )
    questions = tuple(
        Question(
            asked["kind"] if asked["kind"] in UNANSWERED else space["language"], asked["text"], frozenset(asked["gold"])
        )
        for asked in space["questions"]
    )
    return _checked(Told(space["name"], turns, questions))


def _talk(talk: dict[str, Any], half: Half) -> Told:
    asked = [question for question in talk["questions"] if question["half"] == half]
    questions = tuple(Question(each["kind"], each["text"], frozenset(each["gold"])) for each in asked)
    return _checked(Told(talk["name"], tuple(turns_of(talk["sessions"])), questions))


def _checked(told: Told) -> Told:
    known = {turn.id for turn in told.turns}
    assert all(question.gold <= known for question in told.questions), told.name
    assert all((question.kind in UNANSWERED) == (not question.gold) for question in told.questions), told.name
    return told
