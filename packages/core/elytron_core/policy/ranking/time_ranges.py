"""Times that a question speaks of, as spans of moments: "on 4 May", "in June", "last spring", "three weeks ago".

They never filter: what was said at such a time, or soon after it, is only the likelier answer. UTC throughout.

The words of other languages than English ("la semana pasada", "vor drei Tagen", "在三月", "지난 월요일") are data of
CLDR (`benchmarks/time_words.py` makes the file): names of months, spans relative to now, counts of units before now.
A language is asked for by its code; its words are read at the first question in it.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant, as_datetime

_FILE: Final = "time_words.json"
_UNSPACED: Final = frozenset({"ja", "th", "zh"})
"""Languages without spaces between words."""
_JOINED: Final = _UNSPACED | {"ko"}
"""Languages in which words follow a phrase without a space."""
_YEAR_DIGITS: Final = r"(?:19|2\d)\d\d"
_BETWEEN: Final = r"\W{0,3}(?:[^\W\d]{1,2}\W{1,2})?"
"""Characters between the parts of a date: "4. Mai", "4 de mayo", "1er mars"."""


class RelativeTime(NamedTuple):
    """A time relative to now."""

    unit: str
    """`day`, `week`, `month`, `year`, or a day of the week."""
    distance: int
    """0 for the current one, -1 for the last one; for a day of the week, -7 is that of the last week."""
    is_counted: bool = False
    """True for a count of units before now, which people round."""


class MonthName(NamedTuple):
    """A named month, with day and year if stated; 0 if not."""

    year: int
    month: int
    day: int


class TimeWords:
    """One language's words for times."""

    def __init__(self, language: str, words: Mapping[str, Any], /) -> None:
        self._spans: Final[Mapping[str, tuple[str, int]]] = words["spans"]
        self._counts: Final[Mapping[str, tuple[str, int]]] = words["ago"]
        self._months: Final[Mapping[str, int]] = words["months"]
        self._numbers: Final[Mapping[str, int]] = words["numbers"]
        word_start, word_end = (
            "" if language in languages else boundary
            for languages, boundary in ((_UNSPACED, r"(?<!\w)"), (_JOINED, r"(?!\w)"))
        )
        number_pattern = rf"(?:\d{{1,3}}|{_any_of(self._numbers)})"
        count_pattern = "|".join(
            _spaced_pattern(phrase).replace("#", rf"\s*{number_pattern}\s*") for phrase in _longest_first(self._counts)
        )
        span_pattern = "|".join(map(_spaced_pattern, _longest_first(self._spans)))
        self._number: Final = re.compile(number_pattern, re.IGNORECASE)
        self._relative: Final = re.compile(
            rf"{word_start}(?:(?P<count>{count_pattern})|(?P<span>{span_pattern})){word_end}", re.IGNORECASE
        )
        self._pattern: Final = re.compile(
            rf"(?:(?P<first>{_YEAR_DIGITS})[^\W\d]?\W{{0,2}})?(?:(?<!\d)(?P<before>\d{{1,2}}){_BETWEEN})?"
            rf"{word_start}(?<!\d)(?P<month>{_any_of(self._months)}){word_end}"
            rf"(?:\W{{0,3}}(?P<after>\d{{1,2}})(?!\d))?(?:{_BETWEEN}(?P<last>{_YEAR_DIGITS})(?!\d))?"
        )

    @staticmethod
    @cache
    def load(language: str) -> "TimeWords | None":
        """Return the words of `language`, a code of two letters; None if there are none."""
        words = _word_tables().get(language)
        return TimeWords(language, words) if words is not None else None

    def relative(self, text: str, /) -> Iterator[RelativeTime]:
        """Yield the relative times in `text`, in order."""
        for match in self._relative.finditer(_plain_text(text)):
            phrase = " ".join(match[0].lower().split())
            if match["span"]:
                yield RelativeTime(*self._spans[phrase])
                continue
            number_match = self._number.search(phrase)
            phrase_form = phrase
            if number_match is not None and phrase not in self._counts:
                phrase_form = re.sub(
                    r"\s*#\s*", "#", f"{phrase[: number_match.start()]}#{phrase[number_match.end() :]}"
                )
            unit, count = self._counts.get(phrase_form, ("", 0))
            if unit and not count and number_match is not None:
                count = int(number_match[0]) if number_match[0].isdecimal() else self._numbers[number_match[0]]
            if count:
                yield RelativeTime(unit, -count, is_counted=True)

    def months(self, text: str, /) -> Iterator[MonthName]:
        """Yield the months named in `text`, in order."""
        for match in self._pattern.finditer(_plain_text(text)):
            day = int(match["before"] or match["after"] or 0)
            yield MonthName(int(match["first"] or match["last"] or 0), self._months[match["month"]], day)

    def without_relative(self, text: str, /) -> str:
        """Return `text` without relative times."""
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


MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR: Final = r"(?P<year>(?:19|2\d)\d\d)"
_BEFORE: Final = r"(?:(?P<before>\d{1,2})(?:st|nd|rd|th)?(?: of)? )?"
_AFTER: Final = r"(?: (?P<after>\d{1,2})(?:st|nd|rd|th)?)?"
_MONTH_DATE = re.compile(rf"\b{_BEFORE}{_MONTH}\.?{_AFTER},? {_YEAR}\b", re.IGNORECASE | re.ASCII)
_DAY: Final = r"(?:[-/.月](?P<day>0?[1-9]|[12]\d|3[01])(?!\d))?"
_NUMERIC = re.compile(rf"(?<![\w.]){_YEAR}(?:[-/.年](?P<month>0?[1-9]|1[0-2])(?!\d){_DAY}|(?!\w))", re.ASCII)


class NamedDate(NamedTuple):
    """A named date; 0 for a month or day that was not named."""

    year: int
    month: int = 0
    day: int = 0

    def is_met_by(self, other: "NamedDate") -> bool:
        """Return whether `other` names at least as much, and the same."""
        return (
            self.year == other.year
            and self.month in {0, other.month}
            and (self.day in {0, other.day} or not self.month)
        )


def named_in(text: str, /) -> tuple[NamedDate, ...]:
    """Return the distinct dates in `text`, in digits (2025-03-02, 2025/3, 2025年3月2日, 2025) or English."""
    worded_dates = [
        NamedDate(
            int(match["year"]),
            MONTHS.index(match["name"][:3].lower()) + 1,
            int(match["before"] or match["after"] or 0),
        )
        for match in _MONTH_DATE.finditer(text)
    ]
    numeric_dates = [
        NamedDate(int(match["year"]), int(match["month"] or 0), int(match["day"] or 0))
        # The year of a written date must not be found again as a separate year.
        for match in _NUMERIC.finditer(_MONTH_DATE.sub(" ", text))
    ]
    return tuple(dict.fromkeys(worded_dates + numeric_dates))


def day_of(at: Instant, /) -> NamedDate:
    """Return the day of `at`, UTC."""
    utc_datetime = as_datetime(at)
    return NamedDate(utc_datetime.year, utc_datetime.month, utc_datetime.day)


class TimeSpan(NamedTuple):
    """A mentioned time from `start` until before `end`; `worth` is 1, or less for a vague time."""

    start: int
    end: int
    worth: float = 1.0


YEARS_BACK: Final = 12
"""A month or day without a year may be in any of the last 12 years, in this one or in the next."""
YEAR_WORTH: Final = 0.3
_DAY_WORD: Final = timedelta(days=1)

_MONTH_WORD: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|(?-i:May)|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_BARE = re.compile(
    rf"\b(?:(?P<before>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?{_MONTH_WORD}\b\.?"
    r"(?: (?P<after>\d{1,2})(?:st|nd|rd|th)?\b)?",
    re.IGNORECASE | re.ASCII,
)
_CHINESE = re.compile(r"(?<!年)(?<!\d)(?P<month>1[0-2]|[1-9])月(?:(?P<day>[12]\d|3[01]|[1-9])[日号])?")
# In looked-up words, `(?a:...)` keeps IGNORECASE from matching "ı" with "i" and "ſ" with "s".
_RELATIVE = re.compile(
    r"\b(?P<which>(?a:last|this|past|previous))\s+(?P<unit>(?a:week(?:end)?|month|year|night|spring|summer|autumn|fall"
    r"|winter|monday|tuesday|wednesday|thursday|friday|saturday|sunday))\b",
    re.IGNORECASE,
)
_AGO = re.compile(
    r"\b(?P<count>(?a:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|a couple of|a few))\s+"
    r"(?P<unit>(?a:day|week|month|year))s?\s+ago\b",
    re.IGNORECASE,
)
COUNTS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "a couple of": 2, "a few": 3,
}  # fmt: skip
_DAYS_OF: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_SLACK_OF: Final = {"day": 0, "week": 3, "month": 15, "year": 180}
_NEAR: Final = {"today": 0, "tonight": 0, "yesterday": -1, "今天": 0, "昨天": -1, "前天": -2}
_NEAR_WORD = re.compile(r"\b(?a:today|tonight|yesterday)\b|今天|昨天|前天", re.IGNORECASE)
_CHINESE_RELATIVE: Final = {"上周": "last week", "上个月": "last month", "去年": "last year", "今年": "this year"}
_CHINESE_RELATIVE_WORD = re.compile("|".join(_CHINESE_RELATIVE))
_YEAR_WORD = re.compile(r"[0-9]{4}")
_RELATIVE_SIGNS: Final = ("last", "this", "past", "previous", "ago", "today", "tonight", "yesterday")
"""An ASCII text without any of these names contains no relative time."""
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}


def spans_in(text: str, now: Instant, language: str = "", /) -> tuple[TimeSpan, ...]:
    """Return the distinct times mentioned in `text`, as seen at `now`, in order.

    `language` is the code of the language that `text` is in, empty for English or if it is unknown.
    """
    today = as_datetime(now).date()
    words = TimeWords.load(language) if language else None
    spans = _worded_spans(text, today, words) if words is not None else _english_spans(text, today)
    return tuple(dict.fromkeys(span for span in spans if span.start < span.end))


def _english_spans(text: str, today: date) -> list[TimeSpan]:
    """Return the times of an English text, and of a Chinese one."""
    is_chinese = not text.isascii()
    has_month, has_relative = (is_chinese or _has_sign(text, signs) for signs in (MONTHS, _RELATIVE_SIGNS))
    full_dates = named_in(text) if _YEAR_WORD.search(text) else ()
    if not (full_dates or has_month or has_relative):
        return []
    spans: list[TimeSpan] = []
    for named_date in full_dates:
        spans += _of_named(named_date, None)
    for named_date in _without_year(text) if has_month else ():
        # A month named with its year does not also mean the other years.
        if not any(full_date.month == named_date.month and full_date.day == named_date.day for full_date in full_dates):
            spans += (span for year in _plausible_years(today) for span in _of_named(named_date, year))
    spans += _relative_spans(text, today) if has_relative else ()
    return spans


def _worded_spans(text: str, today: date, words: TimeWords) -> list[TimeSpan]:
    """Return the times of a text by another language's words."""
    full_dates = list(named_in(text)) if _YEAR_WORD.search(text) else []
    dates_without_year: list[NamedDate] = []
    for named_date in (*map(NamedDate._make, words.months(text)), *_numbered_months(text)):
        (full_dates if named_date.year else dates_without_year).append(named_date)
    exact_years = {named_date.year for named_date in full_dates if named_date.month}
    spans: list[TimeSpan] = []
    for named_date in dict.fromkeys(full_dates):
        if named_date.month or named_date.year not in exact_years:
            spans += _of_named(named_date, None)
    for named_date in dict.fromkeys(dates_without_year):
        if not any(
            full_date.month == named_date.month and named_date.day in {0, full_date.day} for full_date in full_dates
        ):
            spans += (span for year in _plausible_years(today) for span in _of_named(named_date, year))
    return [*spans, *(_of_distance(relative_time, today) for relative_time in words.relative(text))]


def without_relative(text: str, language: str = "", /) -> str:
    """Return `text` without relative times: "last spring" is not a word that was said last spring."""
    words = TimeWords.load(language) if language else None
    if words is not None:
        return words.without_relative(text)
    if text.isascii() and not _has_sign(text, _RELATIVE_SIGNS):
        return text
    for expression in (_NEAR_WORD, _AGO, _RELATIVE, _CHINESE_RELATIVE_WORD):
        text = expression.sub(" ", text)
    return text


def _has_sign(text: str, signs: Sequence[str]) -> bool:
    return any(map(text.lower().__contains__, signs))


def _plausible_years(today: date) -> range:
    return range(today.year - YEARS_BACK, today.year + 2)


def _without_year(text: str) -> Iterator[NamedDate]:
    for match in _BARE.finditer(text):
        yield NamedDate(0, MONTHS.index(match["month"][:3].lower()) + 1, int(match["before"] or match["after"] or 0))
    yield from _numbered_months(text)


def _numbered_months(text: str) -> Iterator[NamedDate]:
    for match in _CHINESE.finditer(text):
        yield NamedDate(0, int(match["month"]), int(match["day"] or 0))


def _of_named(named_date: NamedDate, year: int | None) -> list[TimeSpan]:
    year = named_date.year if year is None else year
    try:
        if not named_date.month:
            return [_make_span(date(year, 1, 1), date(year + 1, 1, 1), YEAR_WORTH)]
        if named_date.day:
            return [
                _make_span(
                    date(year, named_date.month, named_date.day),
                    date(year, named_date.month, named_date.day) + _DAY_WORD,
                )
            ]
        return [_make_span(date(year, named_date.month, 1), _next_month(date(year, named_date.month, 1)))]
    except ValueError:  # 30 February, or a year beyond the calendar
        return []


def _relative_spans(text: str, today: date) -> Iterator[TimeSpan]:
    for chinese_word, english_words in _CHINESE_RELATIVE.items():
        text = text.replace(chinese_word, f" {english_words} ")
    for match in _NEAR_WORD.finditer(text):
        day = today + _NEAR[match[0].lower()] * _DAY_WORD
        yield _make_span(day, day + _DAY_WORD)
    for match in _AGO.finditer(text):
        count_text = match["count"].lower()
        unit = match["unit"].lower()
        count = COUNTS.get(count_text) or int(count_text)
        yield _counted_span(unit, count, today)
    for match in _RELATIVE.finditer(text):
        yield _of_unit(match["unit"].lower(), today, is_this=match["which"].lower() == "this")


def _counted_span(unit: str, count: int, today: date) -> TimeSpan:
    """Return the time `count` units before `today`, as precisely as people mean it."""
    day = today - count * _DAYS_OF[unit] * _DAY_WORD
    return _make_span(day - _SLACK_OF[unit] * _DAY_WORD, day + (_SLACK_OF[unit] + 1) * _DAY_WORD)


def _of_distance(time: RelativeTime, today: date) -> TimeSpan:
    if time.is_counted:
        return _counted_span(time.unit, -time.distance, today)
    if time.unit == "day":
        return _make_span(today + time.distance * _DAY_WORD, today + (time.distance + 1) * _DAY_WORD)
    if time.unit in _WEEKDAYS and time.distance != -1:
        day = today + (_WEEKDAYS.index(time.unit) - today.weekday() + time.distance) * _DAY_WORD
        return _make_span(day, day + _DAY_WORD)
    if time.distance >= -1:
        return _of_unit(time.unit, today, is_this=time.distance == 0)
    # "the week before last" is one week earlier than the last one.
    return _of_unit(time.unit, today + (time.distance + 1) * _DAYS_OF[time.unit] * _DAY_WORD, is_this=False)


def _of_unit(unit: str, today: date, *, is_this: bool) -> TimeSpan:
    monday = today - today.weekday() * _DAY_WORD
    if unit in _WEEKDAYS:
        # On a Monday, "last Monday" is a week ago and not today.
        day = today - ((today.weekday() - _WEEKDAYS.index(unit) - 1) % 7 + 1) * _DAY_WORD
        return _make_span(day, day + _DAY_WORD)
    if unit in _SEASONS:
        span_start = date(today.year, _SEASONS[unit], 1)
        # A season that is not over yet cannot be the last one.
        while _season_end(span_start) > today and not (is_this and span_start <= today):
            span_start = span_start.replace(year=span_start.year - 1)
        return _make_span(span_start, _season_end(span_start))
    match unit:
        case "night":
            return _make_span(today - _DAY_WORD, today + _DAY_WORD)
        case "week":
            span_start = monday if is_this else monday - 7 * _DAY_WORD
            return _make_span(span_start, span_start + 7 * _DAY_WORD)
        case "weekend":
            span_start = monday + 5 * _DAY_WORD if is_this else monday - 2 * _DAY_WORD
            return _make_span(span_start, span_start + 2 * _DAY_WORD)
        case "month":
            period_start = today.replace(day=1)
            return (
                _make_span(period_start, _next_month(period_start))
                if is_this
                else _make_span((period_start - _DAY_WORD).replace(day=1), period_start)
            )
        case _:
            period_start = date(today.year if is_this else today.year - 1, 1, 1)
            return _make_span(period_start, date(period_start.year + 1, 1, 1))


def _season_end(start: date) -> date:
    month = start.month + 3
    return date(start.year + (month > 12), month - 12 if month > 12 else month, 1)


def _next_month(month_start: date) -> date:
    return (month_start + 31 * _DAY_WORD).replace(day=1)


def _make_span(start: date, end: date, nearness: float = 1.0) -> TimeSpan:
    return TimeSpan(_day_instant(start), _day_instant(end), nearness)


def _day_instant(day: date) -> int:
    epoch_ms = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    # A span at the edge of the calendar must not exceed the times that can be stored.
    return min(max(epoch_ms, limits.EARLIEST_MS), limits.LATEST_MS)


class AnchorSide(StrEnum):
    """Side of its anchor on which a time is."""

    BEFORE = "before"
    AFTER = "after"


class TimeAnchor(NamedTuple):
    """An event by which a time is named."""

    text: str
    side: AnchorSide
    reach_ms: int
    """Distance from the anchor within which messages count."""


LEAST_COVERED: Final = 0.5
"""If no message contains this share of an anchor's words, its time is unknown."""
_REACH_MS: Final = 90 * DAY_MS
_TALK_MS: Final = 8 * 3_600_000
"""Messages up to this much earlier or later belong to the talk about the anchor."""
_WORTH: Final = 0.5
_FAR_WORTH: Final = 0.25
_MOST_AWAY: Final = 1_000
"""A larger count of days, weeks, months or years is reduced to this: no one remembers such times."""
_SIGNS: Final = ("before", "after", "since", "until", "prior to", "following")
"""A text without these has no anchor."""
_ANCHOR: Final = re.compile(
    r"\b(?:(?P<count>\d{1,4}|an?|one|two|three|four|five|six|a couple of|a few) (?P<unit>day|week|month|year)s? )?"
    r"(?P<side>before|prior to|until|after|since|following)"
    r" (?!(?:all|then|that|this|it|now|when|what|which|how|who)\b)(?P<what>[^?.!,;]*\w)",
    re.IGNORECASE,
)
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 31, "year": 366}
_BEFORE_EVENT: Final = frozenset({"before", "prior to", "until"})


def anchor_in(text: str, lowered_text: str, /) -> TimeAnchor | None:
    """Return the event by which `text`, lower-cased in `lowered_text`, names a time; None if it names none."""
    if not any(sign in lowered_text for sign in _SIGNS):
        return None
    anchor_match = _ANCHOR.search(text)
    if anchor_match is None:
        return None
    side = AnchorSide.BEFORE if anchor_match["side"].lower() in _BEFORE_EVENT else AnchorSide.AFTER
    return TimeAnchor(
        anchor_match["what"], side, max(_REACH_MS, _anchor_distance(anchor_match["count"], anchor_match["unit"]))
    )


def spans_of(anchor: TimeAnchor, at: Instant, /) -> tuple[TimeSpan, TimeSpan]:
    """Return the times that `anchor`, mentioned at `at`, can mean: near it, and all on its side of it."""
    match anchor.side:
        case AnchorSide.BEFORE:
            end = at + _TALK_MS
            return TimeSpan(at - anchor.reach_ms, end, _WORTH), TimeSpan(limits.EARLIEST_MS, end, _FAR_WORTH)
        case AnchorSide.AFTER:
            start = at - _TALK_MS
            return TimeSpan(start, at + anchor.reach_ms, _WORTH), TimeSpan(start, limits.LATEST_MS, _FAR_WORTH)


def _anchor_distance(count: str | None, unit: str | None) -> int:
    """Return the distance from the anchor in milliseconds plus half of it, because people say round numbers."""
    if count is None or unit is None:
        return 0
    unit_count = int(count) if count.isdigit() else COUNTS.get(count.lower(), 1)
    return min(unit_count, _MOST_AWAY) * _UNIT_DAYS[unit.lower()] * DAY_MS * 3 // 2
