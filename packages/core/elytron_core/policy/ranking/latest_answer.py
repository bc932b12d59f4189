"""The last word of several messages on one matter, if a question asks how things are.

It is found by signs, not by understanding: the question is in the present, both messages hold much of its words and are
of the same speaker, a sentence of the later one speaks of a change of what is asked for, and one of the older is about
it too, with a number if the other has one. Then the later one goes before the older, and the older is marked; neither
is left out, so that a reader of both sees what was said when.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from elytron_core.clock import Instant
from elytron_core.text import analyser
from elytron_core.text.phrases import pattern_table

WINDOW: Final = 10
"""The best hits that are looked at, under any limit, so that a page goes on where the one before it ended."""
HELD: Final = 0.5
"""The least share of the query's words, counted by rarity, that both hold."""

_PHRASES: Final = pattern_table("changes")
_WORD: Final = re.compile(r"[a-z]+")
_ENDING: Final = re.compile(r"(?:ing|ed|es|s)\Z")
_NUMBER: Final = re.compile(r"\d")
_FORM_WORDS: Final = analyser.ENGLISH | analyser.ASKING | analyser.FORMS
_TELLS: Final = re.compile(r"[^.!?。！？\s][^.!?。！？]*(?:[.!。！]|\Z)")
"""A sentence that is no question."""


class BestMessage(NamedTuple):
    """A message among the best: whose it is, when it was said, and the share of the query's words that it holds."""

    speaker: str | None
    role: str | None
    at: Instant
    coverage: float
    text: str


def asks_how_things_are(query: str, /) -> bool:
    """Return whether a question is about how things are, not about the past and not for a full account."""
    lowered = " ".join(query.lower().split())
    if _PHRASES["past"].search(lowered):
        return False
    if not lowered.isascii() and _PHRASES["chinese_state"].search(lowered):
        return True
    return _PHRASES["present"].search(lowered) is not None


def last_words(told: Sequence[BestMessage | None], query: str, /) -> dict[int, int]:
    """Return for the places of messages that were overtaken the place of the last word on what `query` asks for."""
    asked = _question_pattern(query)
    overtaken: dict[int, int] = {}
    changes = [place for place, each in enumerate(told) if each is not None and _speaks_of_change(each.text)]
    changed: dict[int, frozenset[bool]] = {}
    for place, older in enumerate(told):
        later = [other for other in changes if _may_overtake(told[other], older)]
        if not later or older is None:
            continue
        for other in later:
            if other not in changed:
                changed[other] = _number_signs(
                    filter(_PHRASES["change"].search, _telling_sentences(told[other], asked))
                )
        of_older = _number_signs(_telling_sentences(older, asked))
        later = [other for other in later if not changed[other].isdisjoint(of_older)]
        if later:
            overtaken[place] = max(later, key=lambda other: (_query_coverage(told[other]), -other))
    return {place: _last_word_place(place, overtaken) for place in overtaken}


def _last_word_place(place: int, overtaken: dict[int, int]) -> int:
    """Return the last word behind a message; each is later than the one before it, so there is an end."""
    while place in overtaken:
        place = overtaken[place]
    return place


def in_succession(count: int, overtaken: dict[int, int], /) -> list[int]:
    """Return the places 0 to `count` with each last word right before the first message that it overtook."""
    order: list[int] = []
    for place in range(count):
        last = overtaken.get(place)
        if last is not None and last not in order:
            order.append(last)
        if place not in order:
            order.append(place)
    return order


def _speaks_of_change(text: str) -> bool:
    lowered = text.lower()
    if text.isascii() and _unchanging_words().isdisjoint(_WORD.findall(lowered)):
        return False
    return _PHRASES["change"].search(lowered) is not None


@cache
def _unchanging_words() -> frozenset[str]:
    """Return words without one of which an English text speaks of no change: looked for first, for it takes less."""
    return _PHRASES.words("changing")


def _may_overtake(later: BestMessage | None, older: BestMessage | None) -> bool:
    if later is None or older is None or min(older.coverage, later.coverage) < HELD:
        return False
    return later.at > older.at and (later.speaker, later.role) == (older.speaker, older.role)


def _number_signs(sentences: Iterable[str]) -> frozenset[bool]:
    """Return whether the sentences have numbers."""
    return frozenset(map(_has_number, sentences))


def _question_pattern(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the words of an English question that are more than its form; None if it has none."""
    words = {_ENDING.sub("", word) for word in _WORD.findall(query.lower()) if word not in _FORM_WORDS}
    return re.compile("|".join(rf"\b{word}" for word in sorted(words) if len(word) > 2)) if words else None


def _telling_sentences(told: BestMessage | None, asked: re.Pattern[str] | None) -> list[str]:
    """Return the sentences, in small letters, that are no questions and have a word of what is asked for."""
    sentences: list[str] = _TELLS.findall(told.text.lower()) if told is not None else []
    return [each for each in sentences if asked is None or asked.search(each)]


def _has_number(text: str) -> bool:
    return _NUMBER.search(text) is not None


def _query_coverage(told: BestMessage | None) -> float:
    return told.coverage if told is not None else 0.0
