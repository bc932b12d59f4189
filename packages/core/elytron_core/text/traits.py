"""Traits of a text by word lists and shapes, and tables of patterns for phrases that no model reads yet.

Traits are times, numbers, names, quotations, whom a text speaks of, and whether it asks: mainly English, with some
Chinese. They are read once, when a text is indexed, and never decide alone.

A table is frozen: no phrases are added, and its judgements of taste wait for a model that is at least as good. Its TOML
file has `[parts]`, texts that patterns name as `{part}`, and patterns, each with its alternatives. It is read when one
of its patterns is first used.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum, IntFlag
from functools import cache, cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, NamedTuple, cast

_PART: Final = re.compile(r"\{([a-z_]+)\}")


class PatternTable:
    """The patterns of one file, by name."""

    def __init__(self, name: str, /) -> None:
        self._name = name
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str, /) -> re.Pattern[str]:
        """Return a pattern, compiled on first use."""
        pattern = self._compiled.get(name)
        if pattern is None:
            pattern = self._compiled[name] = self._compile(self._tables["patterns"][name])
        return pattern

    @property
    def names(self) -> Sequence[str]:
        """The names of all patterns."""
        return tuple(self._tables["patterns"])

    def words(self, name: str, /) -> frozenset[str]:
        """Return a set of words."""
        return frozenset(self._tables["words"][name].split())

    @cached_property
    def _tables(self) -> Mapping[str, Mapping[str, Any]]:
        import tomllib  # deferred until a question is asked: most calls of the command ask none

        text = files("elytron_core.text").joinpath("data", f"{self._name}.toml").read_text("utf-8")
        return tomllib.loads(text)

    def _compile(self, pattern_row: Mapping[str, Any]) -> re.Pattern[str]:
        alternatives = "|".join(cast("Sequence[str]", pattern_row["any"]))
        flags = re.IGNORECASE if pattern_row.get("ignores_case") else re.NOFLAG
        return re.compile(self._filled(alternatives), flags)

    def _filled(self, text: str) -> str:
        parts = cast("Mapping[str, str | Sequence[str]]", self._tables.get("parts", {}))

        def part(match: re.Match[str]) -> str:
            part_value = parts[match[1]]
            return self._filled(part_value if isinstance(part_value, str) else f"(?:{'|'.join(part_value)})")

        return _PART.sub(part, text)


@cache
def pattern_table(name: str, /) -> PatternTable:
    """Return a shipped file's table, by its name."""
    return PatternTable(name)


class PhrasePattern:
    """The pattern of `expression`."""

    def __init__(self, expression: str, flags: re.RegexFlag = re.NOFLAG, /) -> None:
        self._expression = expression
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself."""
        return re.compile(self._expression, self._flags)


_FILE: Final = "standing_phrases.json"


class LastingTime(IntEnum):
    """How long a statement applies."""

    NOT = 0
    FROM_NOW_ON = 1
    ON_OCCASION = 2
    """From now on, whenever something is requested or mentioned."""


_LASTS: Final = {"from now on": LastingTime.FROM_NOW_ON, "on occasion": LastingTime.ON_OCCASION}
_WORD: Final = re.compile("[a-z0-9][a-z0-9']*")
_END: Final = re.compile(r"[.!?\n]+(?=\s|$)|$")
_OPENING: Final = re.compile(r"[.!?;:,(\n–—][\s\"'*-]*([a-z'-]+) ?")


class _PhraseRule(NamedTuple):
    phrase: str
    pattern: PhrasePattern
    lasting: LastingTime
    is_sure: bool
    """True if it counts for any rest of the sentence."""


class StandingPhrases:
    """The phrases of a data file, and what they imply about texts."""

    def __init__(self, data: bytes, /) -> None:
        tables = json.loads(data)
        self.version: Final = f"phrases-{sha256(data).hexdigest()[:12]}"
        self._once: Final = PhrasePattern(tables["once"])
        self._polite: Final = PhrasePattern(tables["polite"])
        self._chinese: Final = PhrasePattern(tables["chinese"])
        self._leads: Final = PhrasePattern(rf"(?:(?:{tables['leads']})[\s,]+)+([a-z'-]+) ?")
        self._led: Final = frozenset(_WORD.findall(tables["leads"]))
        self._phrased: Final = _by_phrase(tables["tables"])
        self._opened: Final = _by_opening(tables["tables"])
        self._signs: Final = frozenset(self._phrased).union(*map(_WORD.findall, self._opened))
        """An ASCII text without any of these words implies nothing of the kind."""

    @staticmethod
    @cache
    def load() -> "StandingPhrases":
        """Return the shipped phrases, loaded and cached at a process's first call."""
        return StandingPhrases(files("elytron_core.text").joinpath("data", _FILE).read_bytes())

    def lasting(self, text: str, /) -> LastingTime:
        """Return how long the statement of `text` applies."""
        lowered_text = (text if text.isascii() else text.replace("’", "'")).lower()
        known_words = self._signs.intersection(_WORD.findall(lowered_text))
        longest_time = LastingTime.NOT
        # Phrases are found by a word that each contains, since few texts have any.
        for word in known_words & self._phrased.keys():
            for rule in self._phrased[word]:
                if rule.phrase not in lowered_text or rule.lasting <= longest_time:
                    continue
                if (phrase_match := rule.pattern.compiled.search(lowered_text)) and self._holds(
                    rule, lowered_text, phrase_match
                ):
                    longest_time = rule.lasting
        if longest_time:
            return longest_time
        if not lowered_text.isascii() and self._chinese.compiled.search(lowered_text):
            return LastingTime.FROM_NOW_ON
        return self._clauses(f".{lowered_text}") if known_words else LastingTime.NOT

    def _holds(self, rule: _PhraseRule, text: str, phrase_match: re.Match[str]) -> bool:
        """Return whether the hit is neither one-off nor a question, other than a polite one."""
        if rule.is_sure:
            return True
        sentence_start = max(
            text.rfind(sentence_end, 0, phrase_match.start()) for sentence_end in (". ", "! ", "? ", "\n")
        )
        end_match = _END.search(text, phrase_match.end())
        sentence = text[sentence_start + 1 : end_match.end() if end_match else None]
        return self._once.compiled.search(sentence) is None and (
            not sentence.endswith("?") or self._polite.compiled.search(sentence) is not None
        )

    def _clauses(self, marked_text: str) -> LastingTime:
        """Return what the clauses of `marked_text` state; each of them begins with a mark."""
        for opening_match in _OPENING.finditer(marked_text):
            word = opening_match[1]
            if word in self._opened and (lasting := self._begins(marked_text, opening_match)):
                return lasting
            # After words that may lead: "please", "could you".
            if (
                word in self._led
                and (lead_match := self._leads.compiled.match(marked_text, opening_match.start(1)))
                and (lasting := self._begins(marked_text, lead_match))
            ):
                return lasting
        return LastingTime.NOT

    def _begins(self, marked_text: str, opening_match: re.Match[str]) -> LastingTime:
        for rule in self._opened.get(opening_match[1], ()):
            if (phrase_match := rule.pattern.compiled.match(marked_text, opening_match.end())) and self._holds(
                rule, marked_text, phrase_match
            ):
                return rule.lasting
        return LastingTime.NOT


def _by_phrase(tables: list[dict[str, Any]]) -> dict[str, tuple[_PhraseRule, ...]]:
    """Return the rules by their phrases' longest word, one pattern each: its fixed beginning is found fast."""
    rules: dict[str, tuple[_PhraseRule, ...]] = {}
    for table in tables:
        for phrases, expression in table["by_phrase"]:
            for phrase in (phrase_sign.replace("_", " ") for phrase_sign in phrases.split()):
                word = max(_WORD.findall(phrase), key=len)
                pattern = PhrasePattern(expression.replace("{}", phrase))
                rule = _PhraseRule(phrase, pattern, _LASTS[table["lasts"]], table["is_sure"])
                rules[word] = (*rules.get(word, ()), rule)
    return rules


def _by_opening(tables: list[dict[str, Any]]) -> dict[str, tuple[_PhraseRule, ...]]:
    """Return the rules by the word that a clause begins with; their patterns continue from there."""
    rules: dict[str, tuple[_PhraseRule, ...]] = {}
    for table in tables:
        expressions_by_word: dict[str, list[str]] = {}
        for opening_words, expression in table["by_opening"]:
            for word in opening_words.split():
                expressions_by_word.setdefault(word, []).append(expression)
        # Words with the same expressions share one pattern, which is compiled once.
        patterns = {
            expressions: PhrasePattern(expressions) for expressions in map("|".join, expressions_by_word.values())
        }
        for word, word_expressions in expressions_by_word.items():
            rule = _PhraseRule(word, patterns["|".join(word_expressions)], _LASTS[table["lasts"]], table["is_sure"])
            rules[word] = (*rules.get(word, ()), rule)
    return rules


class TextTrait(IntFlag):
    """Traits of a text; an index stores the sum."""

    NOTHING = 0
    ASKS = 1
    NUMBER = 2
    TIME = 4
    NAME = 8
    QUOTE = 16
    ENDS_ASKING = 32
    CHANGE = 64
    STANDING = 128
    """It states something lasting, as a classifier of statements judges; `read_traits` never sets it."""
    OCCASIONAL = 256
    """It states something that applies whenever something is requested or mentioned; judged likewise."""


class TextTraits(NamedTuple):
    """Traits of a text, and how much it states rather than reacts: at most about 0.6, negative for bare replies."""

    traits: TextTrait
    factuality: float


READ_CHARS: Final = 2_000
"""The part of a text that is read for its traits."""
FULL_CHARS: Final = 500
"""A longer text counts in proportion, `FULL_CHARS` to its length: long texts contain something of everything."""

_TIMES = """
ago april august december evening february friday january july june last march monday month months morning next night
november october recently saturday september since sunday thursday today tomorrow tonight tuesday wednesday week weekend
weeks year years yesterday
"""
_NUMBERS = """
both couple dozen eight eleven fifth first five four fourth nine once one second seven several six ten third three
twelve twice two
"""
_CHANGES = """
actually anymore became changed correction corrected instead longer moved new newly now postponed renamed replaced
rescheduled switched update updated
"""
_SELF = "i i'm i've i'd i'll me mine my our us we we'll we're we've"
_YOU = "you you'll you're you've your yours"
_REPLIES = """
absolutely awesome aww congrats congratulations cool definitely glad great no ok okay sounds sure thank thanks that's
totally wow yeah yep yes
"""
_TIME_WORDS, _NUMBER_WORDS, _CHANGE_WORDS, _SELF_WORDS, _YOU_WORDS, _REPLY_WORDS = (
    frozenset(words.split()) for words in (_TIMES, _NUMBERS, _CHANGES, _SELF, _YOU, _REPLIES)
)
_NAME = re.compile(r" (?<=[a-z] )[A-Z][a-z]+(?![a-z]*[!,?])")
"""A capital inside a sentence, but not in an address: "Hey Ada,". It begins with a space, which is fast to find."""
_QUOTE = re.compile(r"[\"“「《][^\"”」》]{2,80}[\"”」》]")
_SIGNS: Final = _TIME_WORDS.union(_NUMBER_WORDS, _CHANGE_WORDS, _SELF_WORDS, _YOU_WORDS, _REPLY_WORDS)
"""The words with any meaning here; for most texts only a few are examined further."""
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_CHINESE_TIME = re.compile(r"昨天|今天|明天|前天|上周|下周|上个?月|下个?月|去年|今年|明年|最近|星期|月\d|\d[年月日号]")
_CHINESE_CHANGE = re.compile(r"改成|改为|换成|换了|变成|不再|更新|现在")
_CHINESE_NUMBER = re.compile(r"[一二三四五六七八九十两几百千万]+[个只次位本张条块年月天岁]")

TOLD_BY_TIME, TOLD_BY_TRAIT, TOLD_BY_ASKING = 0.15, 0.1, -0.1
TOLD_BY_SELF, TOLD_BY_YOU, TOLD_BY_REPLY = 0.1, -0.05, -0.1
"""Amounts that each trait, the first person, the second, and a reply's first word add to what a text states."""


# As numbers: a flag's own operators create an object each, which takes most of the time of reading a text.
_ASKS, _NUMBER, _TIME, _NAME_TRAIT, _QUOTE_TRAIT, _ENDS_ASKING, _CHANGE = (
    int(trait)
    for trait in (
        TextTrait.ASKS, TextTrait.NUMBER, TextTrait.TIME, TextTrait.NAME, TextTrait.QUOTE, TextTrait.ENDS_ASKING,
        TextTrait.CHANGE,
    )
)  # fmt: skip


@cache
def _told_by(traits: int) -> tuple[TextTrait, float]:
    """Return the traits whose sum is `traits`, and the amount that they add to what a text states."""
    stated_amount = TOLD_BY_TIME * bool(traits & _TIME) + TOLD_BY_ASKING * bool(traits & _ASKS)
    stated_amount += sum(TOLD_BY_TRAIT for trait in (_NUMBER, _NAME_TRAIT, _QUOTE_TRAIT) if traits & trait)
    return TextTrait(traits), stated_amount


def read_traits(text: str, /) -> TextTraits:
    """Return the traits of `text` and how much it states; the same text gives the same in every process."""
    head_text = text[:READ_CHARS]
    is_ascii = head_text.isascii()
    lowered_text = (head_text if is_ascii else head_text.replace("’", "'")).lower()
    words = _WORD.findall(lowered_text)
    known_words = _SIGNS.intersection(words)
    traits = 0
    if "?" in head_text or "？" in head_text:
        traits |= _ASKS
    # The end of the whole text counts, not that of the part that is read.
    if text.rstrip().endswith(("?", "？")):
        traits |= _ENDS_ASKING
    has_digit = _DIGIT.search(head_text) is not None
    if has_digit:
        traits |= _NUMBER | (_TIME if _YEAR.search(head_text) else 0)
    if known_words:
        traits |= _NUMBER * (not known_words.isdisjoint(_NUMBER_WORDS))
        traits |= _TIME * (not known_words.isdisjoint(_TIME_WORDS))
        traits |= _CHANGE * (not known_words.isdisjoint(_CHANGE_WORDS))
    if _NAME.search(head_text):
        traits |= _NAME_TRAIT
    # Only one of these marks is ASCII, so most texts need no search.
    if (not is_ascii or '"' in head_text) and _QUOTE.search(head_text):
        traits |= _QUOTE_TRAIT
    if not is_ascii:
        traits |= _TIME if _CHINESE_TIME.search(head_text) else 0
        traits |= _NUMBER if _CHINESE_NUMBER.search(head_text) else 0
        traits |= _CHANGE if _CHINESE_CHANGE.search(head_text) else 0
    trait, stated_amount = _told_by(traits)
    if known_words:
        stated_amount += TOLD_BY_SELF * _word_share(words, known_words, _SELF_WORDS) + TOLD_BY_YOU * _word_share(
            words, known_words, _YOU_WORDS
        )
        stated_amount += TOLD_BY_REPLY * (words[0] in _REPLY_WORDS)
    return TextTraits(trait, stated_amount * min(1.0, FULL_CHARS / max(len(text), 1)))


def _word_share(words: list[str], known_words: frozenset[str], sought_words: frozenset[str]) -> float:
    """Return how often `words`, with strings `known_words`, has one of `sought_words`; four occurrences already count
    fully."""
    return 0.0 if known_words.isdisjoint(sought_words) else min(sum(map(sought_words.__contains__, words)), 4) / 4
