"""WhatsApp chat exports: localised dates and times, names, notices and media."""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Final

from elytron.importers import message_shape
from elytron.importers.message_shape import (
    DateOrder,
    DateReading,
    LeftOut,
    OmissionReason,
    ReaderPlace,
    ReadItem,
)
from elytron_core.clock import Instant, instant
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json

MARKS: Final = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff"
"""Bidirectional control characters, and the byte order mark."""
_M: Final = f"[{MARKS}]*"
_OPEN, _CLOSE, _COLON = "[\\[［【]", "[\\]］】]", "[:：]"
_PART: Final = rf"{_M}\s?(?:[./\-–／．]|[年月년월]){_M}\s?"
CHAT_LINE: Final = re.compile(
    rf"{_M}(?P<open>{_OPEN})?{_M}(?P<a>\d{{1,4}})(?P<sep>{_PART})(?P<b>\d{{1,2}}){_PART}(?P<c>\d{{1,4}})"
    rf"(?P<between>(?:[^\d\[\]:\n]){{1,24}}?)"
    rf"(?P<hour>\d{{1,2}})(?:[:：.h时時點点시]{_M}|시\s)(?P<minute>\d{{2}})(?:[:：.]{_M}(?P<second>\d{{2}}))?"
    rf"(?P<after>[^\d\[\]［］【】:：\n]{{0,24}}?){_M}"
    rf"(?(open){_CLOSE}{_M}\s?|(?:\s[-–—]{_M}\s|,\s(?=[^:：\n]{{1,100}}\s?{_COLON})))(?P<rest>.*)"
)
LIKE_CHAT_LINE: Final = re.compile(
    rf"{_M}{_OPEN}?{_M}(?:[^\W\d]{{1,12}}[.,]?\s?)?\d[^\n:：]{{3,40}}?\d{{1,2}}[:：.h时時点點시]\s?\d{{2}}[^\n]{{0,30}}?"
    rf"(?:{_CLOSE}|\s[-–—]{_M}\s|,\s)[^\n:：]{{1,60}}?{_COLON}"
)
"""Matches a line with a date, a time, a separator and a name, whatever their format."""

_AM, _PM, _NIGHT, _NOON, _UNKNOWN = range(5)
_PERIOD_WORDS: Final = {
    _AM: "am 上午 早上 清晨 早晨 午前 오전 ص صباحا قظ पूर्वाह्न ก่อนเที่ยง öö πμ לפנהצ sa sáng পূর্বাহ্ন முற்பகல் ಪೂರ್ವಾಹ್ನ pg дп",
    _PM: "pm 下午 晚上 傍晚 午後 오후 م مساء بظ अपराह्न หลังเที่ยง ös μμ אחהצ ch chiều অপরাহ্ণ பிற்பகல் ಅಪರಾಹ್ನ ptg пп",
    _NIGHT: "凌晨 半夜 深夜 午夜",
    _NOON: "中午 正午",
}
_PERIODS: Final = {word: period for period, words in _PERIOD_WORDS.items() for word in words.split()}
"""Words for halves of the day in exports, without punctuation, spaces and control characters."""
_NOT_A_PERIOD: Final = frozenset(
    ("", *("à at um om u el a las às em de kl klo ore uhr h la ob o г в о ч год н น 日 일 ه ال".split()))  # noqa: SIM905
)
"""Words next to a time that do not indicate a half of the day."""
_PLAIN: Final = re.compile(rf"[{MARKS}\s.,،。'\"״׳’·_-]+")
_HEAD_LINES = 200
FIRST_YEAR, LAST_YEAR = 2009, 2060
"""Plausible years of chats. WhatsApp was founded in the first one."""
_BUDDHIST = 543
_DENSER = 4
"""If reading an American-style chat with the month first makes it this many times longer, the day is first."""
_DENSE_DAYS = 5
"""Minimum number of days for that test; with fewer, the time span is not conclusive."""


@dataclass(frozen=True, slots=True)
class ChatEntry:
    """A dated line together with the lines that continue it."""

    line: int
    offset: int
    """Number of characters of the file before it."""
    date: tuple[str, str, str]
    time: tuple[int, int, int]
    text: str

    def continued(self, more: Sequence[str], /) -> "ChatEntry":
        """Return the entry with its continuation lines."""
        return replace(self, text="\n".join((self.text, *more))) if more else self

    def moment(self, order: DateOrder, /) -> Instant | None:
        """Return the entry's time for a date order, or None if that date does not exist."""
        day = _date_of(self.date, order)
        if day is None:
            return None
        hour, minute, second = self.time
        if hour > 23 or minute > 59 or second > 59:
            return None
        return instant(datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=UTC))


_MARK: Final = "\u200e"
"""Precedes text that WhatsApp itself wrote: a notice, or a placeholder for media."""
_SPEAKER: Final = re.compile(rf"(?P<name>[^:：\n]{{1,100}}?)\s?{_COLON} ?(?P<words>.*)", re.DOTALL)
_QUOTES: Final = (("“", "”"), ("„", "“”"), ("«", "»"), ("「", "」"), ("『", "』"), ("‘", "’"))
_NOTICE_WORDS: Final = 3
_STAND_IN: Final = re.compile(r"<[^<>\n]+>|\u200e.*|[A-Z]{3}-\d{8}-WA\d{4}\.\w{2,5} ?[(（][^()（）\n]+[)）]", re.DOTALL)
_CAPTIONED: Final = re.compile(
    r"\u200e?(?:<[^<>\n=/]*\s[^<>\n=/]*>|\u200e[^\n]*|[^\n]{1,120}\.\w{2,5} ?[(（][^()（）\n]+[)）])\n(?P<words>.*)",
    re.DOTALL,
)
_EDITED: Final = re.compile(r"\s*(?P<mark>\u200e?)<(?P<notice>[^<>\n]+)>\Z")


def read_whatsapp_export(text: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the messages in order; notices, media placeholders and deleted messages are left out.

    Dates are read in the chosen order, or otherwise in the order that fits the file best. That reading is yielded
    first.
    """
    assert isinstance(text, str)
    order, reason = place.dates
    reading = read_date_order(text) if order is None else DateReading(order=order, reason=reason)
    if reading is None:
        raise InvalidInput(field="dates", problem="have no consistent order of day, month and year")
    yield reading
    notices = _notice_names(text)
    for entry in chat_entries(text):
        place.now(f"line {entry.line}", entry.offset / len(text))
        read = place.attempt(_entry_message, entry, reading.order, notices)
        yield place.make_message(home, read) if isinstance(read, TurnDraft) else read


def _entry_message(entry: ChatEntry, order: DateOrder, notices: frozenset[str]) -> TurnDraft | LeftOut:
    match = _SPEAKER.match(entry.text)
    if match is None or entry.text.startswith(_MARK) or match["name"] in notices:
        return LeftOut(OmissionReason.SERVICE)
    words = match["words"].strip(" \n")
    if _plain_word(words) in _notice_forms("deleted"):
        return LeftOut(OmissionReason.DELETED)
    if (captioned := _CAPTIONED.fullmatch(words)) is not None:
        words = captioned["words"].strip(" \n")
    if _STAND_IN.fullmatch(words):
        return LeftOut(OmissionReason.MEDIA)
    edit_mark = _EDITED.search(words)
    if edit_mark is not None and (edit_mark["mark"] or _plain_word(edit_mark["notice"]) in _notice_forms("edited")):
        words = words[: edit_mark.start()]
    if not words.strip():
        return LeftOut(OmissionReason.NO_WORDS)
    at = entry.moment(order)
    if at is None:
        raise InvalidInput(field="date", problem=f"is not a valid date in the order {order.value}")
    speaker = message_shape.optional_title(match["name"].strip(f"{MARKS}~ \u202f\xa0"))
    return message_shape.message_turn(words, speaker=speaker, at=at)


@cache
def _notice_forms(kind: str) -> frozenset[str]:
    """Return the text, in all languages, that replaces a "deleted" message or follows an "edited" one."""
    data = files("elytron_core.text").joinpath("data", "chat_notices.toml").read_text("utf-8")
    return frozenset(_plain_word(form) for forms in tomllib.loads(data)[kind].values() for form in forms)


def _notice_names(text: str) -> frozenset[str]:
    """Return text before a colon that is not a name: notices that quote a subject with a colon."""
    names: Counter[str] = Counter()
    for entry in chat_entries(text):
        if (match := _SPEAKER.match(entry.text)) is not None and len(names) < _NAMES:
            names[match["name"]] += 1
    return frozenset(
        name for name, count in names.items() if _has_open_quote(name) or (count == 1 and _is_sentence_of(name, names))
    )


_NAMES = 10_000


def _has_open_quote(name: str) -> bool:
    """Return whether `name` contains an opening quotation mark without its closing one."""
    return name.count('"') % 2 == 1 or any(
        start in name and not any(end in name.partition(start)[2] for end in ends) for start, ends in _QUOTES
    )


def _is_sentence_of(name: str, names: Counter[str]) -> bool:
    """Return whether `name` consists of another speaker's name followed by at least three words."""
    words = name.split(" ")
    starts = (" ".join(words[:length]) for length in range(1, len(words) - _NOTICE_WORDS + 1))
    return any(names[start] > 0 for start in starts)


def begins_chat(text: str, /) -> bool:
    """Return whether `text` begins like an exported chat."""
    return _match_line(text.lstrip("\ufeff\r\n ")) is not None


def require_no_chat(text: str, /, *, name: str) -> None:
    """Raise UnreadableFile, which names the first line, if a text looks like a chat in an unknown format."""
    lines = [(number, line) for number, line in enumerate(text.split("\n")[:_HEAD_LINES], start=1) if line.strip()]
    alike = [number for number, line in lines if LIKE_CHAT_LINE.match(line.strip()) is not None]
    if len(alike) > 1 and alike[0] == lines[0][0] and 2 * len(alike) > len(lines):
        problem = "looks like a chat message, but its date or time has an unknown format"
        raise UnreadableFile(name=name, problem=f"{problem}: export the chat in another language", line=alike[0])


def chat_entries(text: str, /) -> Iterator[ChatEntry]:
    """Yield the dated lines, each with the undated lines that follow it."""
    pending: ChatEntry | None = None
    more: list[str] = []
    for number, (offset, line) in enumerate(_text_lines(text), start=1):
        match = _match_line(line)
        if match is None:
            more.append(line)
            continue
        if pending is not None:
            yield pending.continued(more)
        more.clear()
        hour = _full_hour(int(match["hour"]), _period_of(match))
        pending = ChatEntry(
            line=number,
            offset=offset,
            date=(match["a"], match["b"], match["c"]),
            time=(hour, int(match["minute"]), int(match["second"] or 0)),
            text=match["rest"],
        )
    if pending is not None:
        yield pending.continued(more)


@dataclass(slots=True)
class _OrderFit:
    """How well a file's dates fit one order."""

    order: DateOrder
    count: int = 0
    backward: int = 0
    """Number of times that time goes backwards."""
    last: int = 0
    low: int = sys.maxsize
    high: int = 0

    def add(self, at: Instant | None, /) -> None:
        """Add the next date, if it exists in this order."""
        if at is not None:
            self.count += 1
            self.backward += at < self.last
            self.last, self.low, self.high = at, min(self.low, at), max(self.high, at)


def read_date_order(text: str, /) -> DateReading | None:
    """Return the order of a chat's dates, or None if no date fits any order."""
    fits = {order: _OrderFit(order) for order in DateOrder}
    days: set[tuple[str, str, str]] = set()
    for entry in chat_entries(text):
        days.add(entry.date)
        for fit in fits.values():
            fit.add(entry.moment(fit.order))
    if not any(fit.count for fit in fits.values()):
        return None
    head = next(match for _, line in _text_lines(text) if (match := _match_line(line)) is not None)
    if not int(head["a"]) > 31:
        # A two-digit year comes last unless nothing else fits.
        fits[DateOrder.YMD].count -= 1
    best = max(fit.count for fit in fits.values())
    fitting = [fit for fit in fits.values() if fit.count == best]
    if len(fitting) == 1:
        order = fitting[0].order
        reason = "the year comes first" if order is DateOrder.YMD else "every other order has impossible dates"
        return DateReading(order=order, reason=reason)
    least = min(fit.backward for fit in fitting)
    rising = {fit.order: fit.high - fit.low for fit in fitting if fit.backward == least}
    if len(rising) == 1:
        return DateReading(order=next(iter(rising)), reason="time goes backwards in every other order")
    usual, reason = _usual_order(head)
    densest = min(rising, key=lambda order: rising[order])
    is_sparse = usual is DateOrder.MDY and len(days) >= _DENSE_DAYS
    if usual not in rising or (is_sparse and rising[usual] > _DENSER * rising[densest] > 0):
        usual, reason = densest, "the messages lie closest together in this order"
    is_same = len({(fits[order].low, fits[order].high) for order in rising}) == 1
    return DateReading(order=usual, reason=reason, is_ambiguous=not is_same)


def _usual_order(head: re.Match[str]) -> tuple[DateOrder, str]:
    """Return the order used by phones that write dates in the form of `head`."""
    period = f"{head['between']}{head['after']}".strip(f" \u202f\xa0,{MARKS}")
    if "/" in head["sep"] and period in {"AM", "PM"} and not (head["a"] + " " + head["b"]).startswith("0"):
        return DateOrder.MDY, "phones set to American English write dates in this form"
    return DateOrder.DMY, "phones that put the month first write dates in another form"


def _text_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its offset, without copying the whole text."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start:end].rstrip("\r")
        start = end + 1


def _match_line(line: str) -> re.Match[str] | None:
    match = CHAT_LINE.fullmatch(line)
    if match is None or len(match["c"]) == 3 or _period_of(match) == _UNKNOWN:
        return None
    return match


def _period_of(match: re.Match[str]) -> int | None:
    """Return the half of the day in a line: None if there is none, _UNKNOWN if its words are unknown."""
    periods: list[int] = []
    for words in (match["between"], match["after"]):
        if (period := _PERIODS.get(_plain_word(words))) is not None:
            periods.append(period)
            continue
        # "г., 3:45" and "a las 3:45" contain words next to the half of the day, or instead of it.
        for word in re.split(r"[\s,،、]+", words):
            plain = _plain_word(word)
            if (period := _PERIODS.get(plain)) is not None:
                periods.append(period)
            elif plain not in _NOT_A_PERIOD:
                return _UNKNOWN
    return periods[-1] if periods else None


def _plain_word(words: str) -> str:
    return _PLAIN.sub("", words.casefold())


def _full_hour(hour: int, period: int | None) -> int:
    """Return the hour on the 24-hour clock. 12 AM is midnight and 12 PM is noon; hours above 12 are unchanged."""
    if period is None or hour > 12:
        return hour
    if period in {_AM, _NIGHT}:
        return hour % 12
    if period == _NOON:
        return hour if hour > 10 else hour + 12
    return hour % 12 + 12


def _date_of(parts: tuple[str, str, str], order: DateOrder) -> date | None:
    fields = dict(zip(order.value, parts, strict=True))
    if len(fields["y"]) not in {2, 4} or len(fields["m"]) > 2 or len(fields["d"]) > 2:
        return None
    year, month, day = (int(fields[part]) for part in "ymd")
    if year < 100:
        # The Buddhist year 2562 is written as 62, which is no year of a chat.
        year = 2000 + year if 2000 + year <= LAST_YEAR else 2500 + year
    if year >= FIRST_YEAR + _BUDDHIST:
        year -= _BUDDHIST
    try:
        if FIRST_YEAR - 621 <= year <= LAST_YEAR - 621 and year < 1430:
            return _from_persian(year, month, day)
        return date(year, month, day) if FIRST_YEAR <= year <= LAST_YEAR else None
    except ValueError:
        return None


def _from_persian(year: int, month: int, day: int) -> date:
    """Convert a date in the Solar Hijri calendar, with leap years in 33-year cycles. Raises ValueError."""
    if not (1 <= month <= 12 and 1 <= day <= (31 if month <= 6 else 30)):
        raise ValueError
    # 1 Farvardin 1388 was 21 March 2009.
    leaps = sum(past % 33 in {1, 5, 9, 13, 17, 22, 26, 30} for past in range(1388, year))
    days = (year - 1388) * 365 + leaps + min(month - 1, 6) * 31 + max(month - 7, 0) * 30 + day - 1
    return date(2009, 3, 21) + timedelta(days=days)
