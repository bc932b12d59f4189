"""Small spaces in sixteen languages, and small spaces whose other memories share the questions' words.

`benchmarks/quality_data/languages` has questions in the language of their space, and questions in another one;
`benchmarks/quality_data/decoys` has questions in English. Everything was written before anything was measured. The half
"fit" is for choosing, the half "held" gives the figures of the docs. `benchmarks/quality_data/misled` has more spaces
whose words mislead, in eight languages, with questions that nothing answers: the order of few statements and the
numbers of the outcome were chosen on all of it.
"""

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any

from benchmarks.quality_ordinary import Half, space_of
from benchmarks.quality_sets import ELSEWHERE, MADE, UNANSWERED, Question, Told, Turn

LANGUAGES = MADE / "languages" / "languages.json"
DECOYS = MADE / "decoys" / "decoys.json"
MISLED = MADE / "misled" / "misled.json"


def own_language(half: Half, /) -> list[Told]:
    """Return the spaces with their questions in the same language. The kind of a question is that language."""
    spaces = [_space(space, is_across=False) for space in _spaces(half)]
    return [told for told in spaces if told.questions]


def other_language(half: Half, /) -> list[Told]:
    """Return the spaces with their questions in another language. The kind of a question is its own language."""
    return [_space(space, is_across=True) for space in _spaces(half)]


def decoys(half: Half, /) -> list[Told]:
    """Return the English spaces whose other memories share words with the questions."""
    spaces: list[dict[str, Any]] = json.loads(DECOYS.read_text("utf-8"))["spaces"]
    return [_space(space, is_across=False) for space in spaces if space["half"] == half]


def misled() -> list[Told]:
    """Return the spaces whose words mislead. The kind of an answered question is the language of its space."""
    spaces: list[dict[str, Any]] = json.loads(MISLED.read_text("utf-8"))["spaces"]
    return [space_of(space) for space in spaces]


def with_others(spaces: list[Told], /) -> list[Told]:
    """Return `spaces`, each with as many questions of others in the same languages, which nothing there answers."""
    asked = [(space.name, each) for space in spaces for each in space.questions if each.kind not in UNANSWERED]
    joined: list[Told] = []
    for place, space in enumerate(spaces):
        turned = [*asked[place:], *asked[:place]]
        languages = Counter(each.kind for each in space.questions if each.kind not in UNANSWERED)
        others = tuple(
            replace(each, kind=ELSEWHERE, gold=frozenset())
            for language, count in languages.items()
            for each in [each for name, each in turned if name != space.name and each.kind == language][:count]
        )
        joined.append(replace(space, questions=space.questions + others))
    return joined


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
