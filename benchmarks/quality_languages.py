"""Small spaces in sixteen languages, and small spaces in English whose other memories share the questions' words.

`benchmarks/quality_data/languages` has questions in the language of their space, and questions in another one;
`benchmarks/quality_data/decoys` has questions in English. All was written before anything was measured. The half "fit"
is there to choose by, the half "held" gives the figures of the docs.
"""

import json
from datetime import datetime
from typing import Any

from benchmarks.quality_ordinary import Half
from benchmarks.quality_sets import MADE, Question, Told, Turn

LANGUAGES = MADE / "languages" / "languages.json"
DECOYS = MADE / "decoys" / "decoys.json"


def own_language(half: Half, /) -> list[Told]:
    """Return the spaces with their questions in the same language; the kind of a question is that language."""
    spaces = [_space(space, is_across=False) for space in _spaces(half)]
    return [told for told in spaces if told.questions]


def other_language(half: Half, /) -> list[Told]:
    """Return the spaces with their questions in another language; the kind of a question is the language it is in."""
    return [_space(space, is_across=True) for space in _spaces(half)]


def decoys(half: Half, /) -> list[Told]:
    """Return the English spaces whose other memories share words with the questions."""
    spaces: list[dict[str, Any]] = json.loads(DECOYS.read_text("utf-8"))["spaces"]
    return [_space(space, is_across=False) for space in spaces if space["half"] == half]


def _spaces(half: Half) -> list[dict[str, Any]]:
    spaces: list[dict[str, Any]] = json.loads(LANGUAGES.read_text("utf-8"))["spaces"]
    return [space for space in spaces if space["half"] == half]


def _space(space: dict[str, Any], *, is_across: bool) -> Told:
    turns = tuple(
        Turn(said["id"], "main", said["speaker"], "user", datetime.fromisoformat(said["at"]), said["text"])
        for said in space["memories"]
    )
    questions = tuple(
        Question(asked["language"], asked["text"], frozenset(asked["gold"]))
        for asked in space["questions"]
        if (asked["language"] != space["language"]) is is_across
    )
    known = {turn.id for turn in turns}
    assert all(question.gold and question.gold <= known for question in questions), space["name"]
    return Told(space["name"], turns, questions)
