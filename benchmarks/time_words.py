"""Rebuild the table of time words: `packages/core/elytron_core/text/data/time_words.json`.

    uv run --group dev --with PyICU python -m benchmarks.time_words

All data comes from CLDR, as provided by ICU, and from dateparser's additions: names of months, days and spans relative
to now, counts of days, weeks, months and years before now, and the numbers from one to twelve in words. None of it is
written by hand.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

LANGUAGES: Final = ("ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
OUTPUT: Final = Path("packages/core/elytron_core/text/data/time_words.json")
UNITS: Final = ("day", "week", "month", "year")
WEEKDAYS: Final = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
IN_LAST_WEEK: Final = -7
"""Distance of a day that is named by its week; a distance of -1 is the last such day."""
MOST_NUMBER: Final = 12
SAMPLES: Final = (1, 2, 3, 5, 12, 21)
"""Counts that produce all forms of the counted word in any of the languages."""
_FEWEST_CHARS: Final = 4
"""Minimum number of letters of an added phrase in scripts with spaces, because shorter ones are abbreviations."""
_AGO: Final = re.compile(r"\\1 (day|week|month|year) ago")
_OFFSET: Final = re.compile(r"(\d) (day|week|month|year) ago")
_NUMBER: Final = re.compile(r"\d+")
_ALIKE: Final = str.maketrans({"\u2019": "'", "\u200b": None, "\u00ad": None})
_FIGURE: Final = r"(\d++[.,]?\d*+)"


def plain(text: str, /) -> str:
    """Return `text` in the form used for comparison."""
    text = unicodedata.normalize("NFC", text).lower().translate(_ALIKE)
    return " ".join(text.split())


def main() -> int:
    """Write the table."""
    icu: Any = import_module("icu")
    tables = {language: language_table(icu, language) for language in LANGUAGES}
    text = json.dumps({"source": f"CLDR of ICU {icu.ICU_VERSION}", "languages": tables}, ensure_ascii=False, indent=0)
    OUTPUT.write_text(text + "\n", encoding="utf-8")
    print(
        f"{len(tables)} languages, {sum(len(each['spans']) for each in tables.values())} spans, {len(text)} characters"
    )
    return 0


def language_table(icu: Any, language: str, /) -> dict[str, Any]:
    """Return the words of one language."""
    locale = icu.Locale(language)
    names = icu.DateFormatSymbols(locale)
    months = {
        unicodedata.normalize("NFC", name): number
        for width in (names.FORMAT, names.STANDALONE)
        for number, name in enumerate(names.getMonths(width, names.WIDE)[:12], 1)
    }
    added: Mapping[str, Any] = import_module(f"dateparser.data.date_translation_data.{language}").info
    numbers = dict(_numbers(icu, locale))
    numbers |= {
        plain(word): int(number)
        for each in added.get("simplifications", ())
        for word, number in each.items()
        if re.fullmatch(r"[^\W\d_]+", word) and str(number).isdigit() and 0 < int(number) <= MOST_NUMBER
    }
    return {
        "months": months,
        "spans": dict(_spans(icu, locale, added)),
        "ago": dict(_counts(icu, locale, added)),
        "numbers": numbers,
    }


def _numbers(icu: Any, locale: Any) -> Iterator[tuple[str, int]]:
    spelled = icu.RuleBasedNumberFormat(icu.URBNFRuleSetTag.SPELLOUT, locale)
    for place in range(spelled.getNumberOfRuleSetNames()):
        rules = spelled.getRuleSetName(place)
        if "cardinal" not in rules or "financial" in rules:
            continue
        spelled.setDefaultRuleSet(rules)
        for number in range(1, MOST_NUMBER + 1):
            yield plain(spelled.format(number)), number


def _spans(icu: Any, locale: Any, added: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield phrases for a span with its unit and its distance from now."""
    relative = icu.RelativeDateTimeFormatter(locale)
    weeks: dict[int, str] = {}
    directions = {-2: icu.UDateDirection.LAST_2, -1: icu.UDateDirection.LAST, 0: icu.UDateDirection.THIS}
    for unit in (*UNITS, *WEEKDAYS):
        for distance, direction in directions.items():
            if distance == -2 and unit != "day":
                continue
            phrase = plain(relative.format(direction, getattr(icu.UDateAbsoluteUnit, unit.upper())))
            if unit == "week":
                weeks[distance] = phrase
            if phrase and not _NUMBER.search(phrase):
                is_of_week = unit not in UNITS and distance == -1 and weeks[distance] in phrase
                yield phrase, (unit.lower(), IN_LAST_WEEK if is_of_week else distance)
    for told, phrases in added["relative-type"].items():
        if found := _OFFSET.fullmatch(told):
            for phrase in map(plain, phrases):
                if len(phrase) >= _FEWEST_CHARS or not phrase.isascii():
                    yield phrase, (found[2], -int(found[1]))


def _counts(icu: Any, locale: Any, added: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield phrases for a count of units before now, with `#` for the count, or without it for a fixed count."""
    relative = icu.RelativeDateTimeFormatter(locale)
    for unit in UNITS:
        for count in SAMPLES:
            phrase = relative.format(count, icu.UDateDirection.LAST, getattr(icu.UDateRelativeUnit, f"{unit}s".upper()))
            if _NUMBER.search(phrase):
                yield _count_form(_NUMBER.sub("#", phrase)), (unit, 0)
            else:
                yield plain(phrase), (unit, count)
    for told, patterns in added.get("relative-type-regex", {}).items():
        found = _AGO.fullmatch(told)
        for pattern in patterns if found else ():
            phrase = _count_form(pattern.replace(_FIGURE, "#"))
            word = max(re.findall(r"[^\W\d_]+", phrase), key=len, default="")
            if (
                found
                and "\\" not in phrase
                and phrase.count("#") == 1
                and (len(word) >= _FEWEST_CHARS or not word.isascii())
            ):
                yield phrase, (found[1], 0)


def _count_form(phrase: str) -> str:
    """Return `phrase` without spaces next to its `#`."""
    return re.sub(r"\s*#\s*", "#", plain(phrase))


if __name__ == "__main__":
    raise SystemExit(main())
