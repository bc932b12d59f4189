"""Times in the words of other languages than English: "la semana pasada", "vor drei Tagen", "在三月", "지난 월요일".

The words are data of CLDR (`benchmarks/time_words.py` makes the file): names of months, spans relative to now, counts
of units before now. A language is asked for by its code; its words are read at the first question in it.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

_FILE: Final = "time_words.json"
_UNSPACED: Final = frozenset({"ja", "th", "zh"})
"""Languages without spaces between words."""
_JOINED: Final = _UNSPACED | {"ko"}
"""Those whose words go on behind a phrase without a space."""
_YEAR: Final = r"(?:19|2\d)\d\d"
_BETWEEN: Final = r"\W{0,3}(?:[^\W\d]{1,2}\W{1,2})?"
"""Characters between the parts of a date: "4. Mai", "4 de mayo", "1er mars"."""


class RelativeTime(NamedTuple):
    """A time that is named by its distance from now."""

    unit: str
    """`day`, `week`, `month`, `year`, or a day of the week."""
    distance: int
    """0 for this one, -1 for the last one; of a day of the week -7 for that of the last week."""
    is_counted: bool = False
    """True for a count of units before now, which people round."""


class MonthName(NamedTuple):
    """A month that is named, with a day and a year if they are; 0 if not."""

    year: int
    month: int
    day: int


class TimeWords:
    """The words for times of one language."""

    def __init__(self, language: str, words: Mapping[str, Any], /) -> None:
        self._spans: Final[Mapping[str, tuple[str, int]]] = words["spans"]
        self._counts: Final[Mapping[str, tuple[str, int]]] = words["ago"]
        self._months: Final[Mapping[str, int]] = words["months"]
        self._numbers: Final[Mapping[str, int]] = words["numbers"]
        before, after = (
            "" if language in each else mark for each, mark in ((_UNSPACED, r"(?<!\w)"), (_JOINED, r"(?!\w)"))
        )
        number = rf"(?:\d{{1,3}}|{_any_of(self._numbers)})"
        counts = "|".join(
            _spaced_pattern(phrase).replace("#", rf"\s*{number}\s*") for phrase in _longest_first(self._counts)
        )
        spans = "|".join(map(_spaced_pattern, _longest_first(self._spans)))
        self._number: Final = re.compile(number, re.IGNORECASE)
        self._relative: Final = re.compile(rf"{before}(?:(?P<count>{counts})|(?P<span>{spans})){after}", re.IGNORECASE)
        self._named: Final = re.compile(
            rf"(?:(?P<first>{_YEAR})[^\W\d]?\W{{0,2}})?(?:(?<!\d)(?P<before>\d{{1,2}}){_BETWEEN})?"
            rf"{before}(?<!\d)(?P<month>{_any_of(self._months)}){after}"
            rf"(?:\W{{0,3}}(?P<after>\d{{1,2}})(?!\d))?(?:{_BETWEEN}(?P<last>{_YEAR})(?!\d))?"
        )

    @staticmethod
    @cache
    def load(language: str) -> "TimeWords | None":
        """Return the words of `language`, a code of two letters; None if there are none."""
        words = _word_tables().get(language)
        return TimeWords(language, words) if words is not None else None

    def relative(self, text: str, /) -> Iterator[RelativeTime]:
        """Yield the times that `text` names by their distance from now, in order."""
        for found in self._relative.finditer(_plain_text(text)):
            phrase = " ".join(found[0].lower().split())
            if found["span"]:
                yield RelativeTime(*self._spans[phrase])
                continue
            number = self._number.search(phrase)
            form = phrase
            if number is not None and phrase not in self._counts:
                form = re.sub(r"\s*#\s*", "#", f"{phrase[: number.start()]}#{phrase[number.end() :]}")
            unit, count = self._counts.get(form, ("", 0))
            if unit and not count and number is not None:
                count = int(number[0]) if number[0].isdecimal() else self._numbers[number[0]]
            if count:
                yield RelativeTime(unit, -count, is_counted=True)

    def months(self, text: str, /) -> Iterator[MonthName]:
        """Yield the months that `text` names, in order."""
        for found in self._named.finditer(_plain_text(text)):
            day = int(found["before"] or found["after"] or 0)
            yield MonthName(int(found["first"] or found["last"] or 0), self._months[found["month"]], day)

    def without_relative(self, text: str, /) -> str:
        """Return `text` without times that are named by their distance from now."""
        return self._relative.sub(" ", _plain_text(text))


@cache
def _word_tables() -> Mapping[str, Mapping[str, Any]]:
    return json.loads(files("elytron_core.text").joinpath("data", _FILE).read_text("utf-8"))["languages"]


def _plain_text(text: str) -> str:
    return unicodedata.normalize("NFC", text).replace("\u2019", "'")


def _longest_first(phrases: Mapping[str, Any]) -> list[str]:
    return sorted(phrases, key=lambda phrase: (-len(phrase), phrase))


def _any_of(phrases: Mapping[str, Any]) -> str:
    return "|".join(map(_spaced_pattern, _longest_first(phrases)))


def _spaced_pattern(phrase: str) -> str:
    """Return the pattern of `phrase` with any white space for its spaces."""
    return r"\s+".join(map(re.escape, phrase.split(" "))).replace(r"\#", "#")
