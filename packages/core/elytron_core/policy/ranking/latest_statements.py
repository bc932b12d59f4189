"""Latest statements: which messages a later one by the same author supersedes, when a question is about now.

When a question asks how things are now, the latest of several messages on one matter goes first. Signs decide, not
understanding: the question is in the present tense, both messages share much of its wording and have the same speaker,
a sentence of the later one speaks of a change of what is asked for, and one of the older is about it too, with a number
if the other has one. The older message is then marked and ranked after the later one. Neither is dropped, so a reader
sees what was said when.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from elytron_core.text import analyser
from elytron_core.text.traits import pattern_table

WINDOW: Final = 10
"""The best hits examined under any limit, so that a page continues where the one before it ended."""


SHARED_COVERAGE: Final = 0.5
"""Minimum share of the query's words, weighted by rarity, that both contain."""


_CHANGES: Final = pattern_table("changes")


_WORD: Final = re.compile(r"[a-z]+")


_ENDING: Final = re.compile(r"(?:ing|ed|es|s)\Z")


_NUMBER: Final = re.compile(r"\d")


_FORM_WORDS: Final = analyser.ENGLISH | analyser.ASKING | analyser.FORMS


_TELLS: Final = re.compile(r"[^.!?。！？\s][^.!?。！？]*(?:[.!。！]|\Z)")
"""A sentence that is no question."""


class BestMessage(NamedTuple):
    """One of the best messages: its author, its position in time, and its share of the query's words."""

    speaker: str | None
    role: str | None
    place: int
    """Its chronological position: a later message has a higher one."""
    coverage: float
    text: str


def asks_how_things_are(query: str, /) -> bool:
    """Return whether a question is about the current state, not about the past or a full account."""
    lowered_query = " ".join(query.lower().split())
    if _CHANGES["past"].search(lowered_query):
        return False
    if not lowered_query.isascii() and _CHANGES["chinese_state"].search(lowered_query):
        return True
    return _CHANGES["present"].search(lowered_query) is not None


def last_words(messages: Sequence[BestMessage | None], query: str, /) -> dict[int, int]:
    """Return for each superseded message's position that of the latest statement on what `query` asks for."""
    question_pattern = _question_pattern(query)
    later_by_older: dict[int, int] = {}
    change_places = [
        place for place, message in enumerate(messages) if message is not None and _speaks_of_change(message.text)
    ]
    signs_by_change: dict[int, frozenset[bool]] = {}
    for place, older_message in enumerate(messages):
        later_places = [
            later_place for later_place in change_places if _may_overtake(messages[later_place], older_message)
        ]
        if not later_places or older_message is None:
            continue
        for later_place in later_places:
            if later_place not in signs_by_change:
                signs_by_change[later_place] = _number_signs(
                    filter(_CHANGES["change"].search, _telling_sentences(messages[later_place], question_pattern))
                )
        older_signs = _number_signs(_telling_sentences(older_message, question_pattern))
        # Both must have a number, or neither: only such sentences can be two values of one thing.
        later_places = [
            later_place for later_place in later_places if not signs_by_change[later_place].isdisjoint(older_signs)
        ]
        if later_places:
            # Among equals the better hit counts, which has the lower position.
            later_by_older[place] = max(
                later_places, key=lambda later_place: (_query_coverage(messages[later_place]), -later_place)
            )
    return {place: _last_word_place(place, later_by_older) for place in later_by_older}


def _last_word_place(place: int, later_by_older: dict[int, int]) -> int:
    """Return the latest statement after a message; each is later than the one before it, so the loop ends."""
    while place in later_by_older:
        place = later_by_older[place]
    return place


def in_succession(count: int, later_by_older: dict[int, int], /) -> list[int]:
    """Return the positions 0 to `count` with each latest statement right before the first message that it
    superseded."""
    order: list[int] = []
    for place in range(count):
        latest_place = later_by_older.get(place)
        if latest_place is not None and latest_place not in order:
            order.append(latest_place)
        if place not in order:
            order.append(place)
    return order


def _speaks_of_change(text: str) -> bool:
    lowered_text = text.lower()
    if text.isascii() and _unchanging_words().isdisjoint(_WORD.findall(lowered_text)):
        return False
    return _CHANGES["change"].search(lowered_text) is not None


@cache
def _unchanging_words() -> frozenset[str]:
    """Return words of which an English text that mentions a change contains at least one; checked first because it is
    faster."""
    return _CHANGES.words("changing")


def _may_overtake(later_message: BestMessage | None, older_message: BestMessage | None) -> bool:
    if (
        later_message is None
        or older_message is None
        or min(older_message.coverage, later_message.coverage) < SHARED_COVERAGE
    ):
        return False
    return later_message.place > older_message.place and (later_message.speaker, later_message.role) == (
        older_message.speaker,
        older_message.role,
    )


def _number_signs(sentences: Iterable[str]) -> frozenset[bool]:
    """Return whether the sentences have numbers."""
    return frozenset(map(_has_number, sentences))


def _question_pattern(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the content words of an English question; None if it has none."""
    word_stems = {_ENDING.sub("", word) for word in _WORD.findall(query.lower()) if word not in _FORM_WORDS}
    return re.compile("|".join(rf"\b{word}" for word in sorted(word_stems) if len(word) > 2)) if word_stems else None


def _telling_sentences(message: BestMessage | None, question_pattern: re.Pattern[str] | None) -> list[str]:
    """Return the lower-cased sentences that are no questions and contain a word of the query."""
    sentences: list[str] = _TELLS.findall(message.text.lower()) if message is not None else []
    return [sentence for sentence in sentences if question_pattern is None or question_pattern.search(sentence)]


def _has_number(text: str) -> bool:
    return _NUMBER.search(text) is not None


def _query_coverage(message: BestMessage | None) -> float:
    return message.coverage if message is not None else 0.0
