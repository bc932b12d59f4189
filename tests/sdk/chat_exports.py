"""WhatsApp exports of one conversation, in the formats of phones in many languages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

DIGITS: Final = {
    name: str.maketrans("0123456789", digits)
    for name, digits in (
        ("Arabic digits", "٠١٢٣٤٥٦٧٨٩"),
        ("Persian digits", "۰۱۲۳۴۵۶۷۸۹"),
        ("Devanagari digits", "०१२३४५६७८९"),
    )
}
NO_DIGITS: Final[dict[int, int]] = {}
START: Final = datetime(2024, 4, 2, 9, 11, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ChatLine:
    """One message of a conversation."""

    at: datetime
    speaker: str
    text: str


def conversation(count: int, *, minutes: int = 37, start: datetime = START) -> list[ChatLine]:
    """Return a conversation of two, with short answers that repeat, even within a minute."""
    lines: list[ChatLine] = []
    for number in range(count):
        at = start + timedelta(minutes=minutes * (number // 3), seconds=7 * (number % 3))
        text = "ok" if number % 3 else f"Berth {number} is free: come at {number % 24}."
        lines.append(ChatLine(at, "Mila" if number % 2 else "Teo Ash", text))
    return lines


def _persian_date(at: datetime) -> str:
    # From 20 March 2024 on, the first half of the year has months of 31 days.
    day = (at.date() - datetime(2024, 3, 20, tzinfo=UTC).date()).days
    return f"1403/{day // 31 + 1}/{day % 31 + 1}"


FORMS: Final = {
    "British, 24 hours": "%d/%m/%Y, %H:%M - ",
    "Indian, 12 hours": "%d/%m/%y, {h}:%M {am|pm} - ",
    "Indian, narrow space": "%d/%m/%y, {h}:%M\u202f{am|pm} - ",
    "American": "{m}/{d}/%y, {h}:%M {AM|PM} - ",
    "American iPhone": "[{m}/{d}/%y, {h}:%M:%S\u202f{AM|PM}] ",
    "Canadian": "%Y-%m-%d, {h}:%M {a.m.|p.m.} - ",
    "German": "%d.%m.%y, %H:%M - ",
    "German iPhone": "[%d.%m.%y, %H:%M:%S] ",
    "French": "%d/%m/%Y à %H:%M - ",
    "Spanish, 12 hours": "{d}/{m}/%y, {h}:%M {a.\xa0m.|p.\xa0m.} - ",
    "Portuguese": "%d/%m/%Y %H:%M - ",
    "Italian iPhone": "[%d/%m/%y, %H:%M:%S] ",
    "Dutch": "%d-%m-%Y %H:%M - ",
    "Finnish": "{d}.{m}.%Y klo %H.%M - ",
    "Russian": "%d.%m.%Y, %H:%M - ",
    "Bulgarian": "%d.%m.%y г., %H:%M ч. - ",
    "Croatian": "%d. %m. %Y. u %H:%M - ",
    "Hungarian": "%Y. %m. %d. %H:%M - ",
    "Greek": "{d}/{m}/%y, {h}:%M {π.μ.|μ.μ.} - ",
    "Turkish": "%d.%m.%Y %H:%M - ",
    "Turkish, 12 hours": "%d.%m.%Y {ÖÖ|ÖS} {h}:%M - ",
    "Arabic": "{d}\u200f/{m}\u200f/%Y, {h}:%M {ص|م} - ",
    "Arabic digits": "\u200f{d}\u200f/{m}\u200f/%Y، {h}:%M {ص|م} - ",
    "Arabic digits, iPhone": "\u200f[{d}\u200f/{m}\u200f/%Y، {h}:%M:%S {ص|م}] ",
    "Persian digits": "%Y/{m}/{d}،\u200f %H:%M - ",
    "Persian digits and calendar": "{persian}،\u200f %H:%M - ",
    "Hebrew": "{d}.{m}.%Y, %H:%M - ",
    "Hebrew iPhone": "\u200f[{d}.{m}.%Y, %H:%M:%S] \u200f",
    "Hindi": "%d/%m/%Y, {h}:%M {पूर्वाह्न|अपराह्न} - ",
    "Devanagari digits": "%d/%m/%Y, {h}:%M {am|pm} - ",
    "Thai": "{d}/{m}/{buddhist} %H:%M - ",
    "Thai, short year": "{d}/{m}/{be} %H:%M น. - ",
    "Vietnamese": "%d/%m/%Y, {h}:%M {SA|CH} - ",
    "Chinese, 24 hours": "%Y/{m}/{d} %H:%M - ",
    "Chinese, 12 hours": "%Y/{m}/{d} {上午|下午}{h}:%M - ",
    "Chinese iPhone": "[%Y/{m}/{d} %H:%M:%S] ",
    "Chinese iPhone, 12 hours": "[%Y/{m}/{d} {上午|下午}{h}:%M:%S] ",
    "Chinese, long date": "%Y年{m}月{d}日 {上午|下午}{h}:%M - ",
    "Chinese, wide brackets": "［%Y/{m}/{d} %H:%M:%S］",
    "Japanese": "%Y/%m/%d %H:%M - ",
    "Japanese iPhone": "[%Y/%m/%d {午前|午後}{h}:%M:%S] ",
    "Korean": "%Y년 {m}월 {d}일 {오전|오후} {h}:%M, ",
    "Korean iPhone": "[%Y. {m}. {d}. {오전|오후} {h}:%M:%S] ",
}
"""A phone's prefix before the speaker: `strftime`, halves of the day, and numbers without zeros."""
_COLONS: Final = {"Korean": " : ", "Chinese iPhone": ":", "Chinese, wide brackets": "："}


def _line(form: str, line: ChatLine) -> str:
    at = line.at
    numbers = {
        "{d}": at.day, "{m}": at.month, "{h}": at.hour % 12 or 12, "{buddhist}": at.year + 543,
        "{be}": (at.year + 543) % 100, "{persian}": _persian_date(at),
    }  # fmt: skip
    head = FORMS[form]
    for name, number in numbers.items():
        head = head.replace(name, str(number))
    head = re.sub(r"\{(.+?)\|(.+?)\}", lambda halves: halves[1 if at.hour < 12 else 2], at.strftime(head))
    digits = next((digits for name, digits in DIGITS.items() if form.startswith(name)), NO_DIGITS)
    return f"{head.translate(digits)}{line.speaker}{_COLONS.get(form, ': ')}{line.text}\n"


def exported(lines: Sequence[ChatLine], form: str = "British, 24 hours", *, hours: float = 0) -> str:
    """Return an export of `lines` from a phone whose clock is `hours` ahead."""
    moved = (ChatLine(line.at + timedelta(hours=hours), line.speaker, line.text) for line in lines)
    return "".join(_line(form, line) for line in moved)
