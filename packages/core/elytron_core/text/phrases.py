"""Tables of patterns as data: phrases of languages that no model reads yet, in TOML files beside the code.

A table is frozen: it is no place for further phrases. What is taste in it waits for a model that is at least as good.
A file has `[parts]`, texts that patterns name as `{part}`, and patterns, each with its alternatives. It is read when a
pattern of it is first used.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
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
        """Return a pattern, which is compiled at its first use."""
        found = self._compiled.get(name)
        if found is None:
            found = self._compiled[name] = self._compile(self._tables["patterns"][name])
        return found

    @property
    def names(self) -> Sequence[str]:
        """The names of all patterns."""
        return tuple(self._tables["patterns"])

    def words(self, name: str, /) -> frozenset[str]:
        """Return a set of words."""
        return frozenset(self._tables["words"][name].split())

    @cached_property
    def _tables(self) -> Mapping[str, Mapping[str, Any]]:
        import tomllib  # not before a question is asked: most calls of the command ask none

        text = files("elytron_core.text").joinpath("data", f"{self._name}.toml").read_text("utf-8")
        return tomllib.loads(text)

    def _compile(self, told: Mapping[str, Any]) -> re.Pattern[str]:
        alternatives = "|".join(cast("Sequence[str]", told["any"]))
        flags = re.IGNORECASE if told.get("ignores_case") else re.NOFLAG
        return re.compile(self._filled(alternatives), flags)

    def _filled(self, text: str) -> str:
        parts = cast("Mapping[str, str | Sequence[str]]", self._tables.get("parts", {}))

        def part(met: re.Match[str]) -> str:
            given = parts[met[1]]
            return self._filled(given if isinstance(given, str) else f"(?:{'|'.join(given)})")

        return _PART.sub(part, text)


@cache
def pattern_table(name: str, /) -> PatternTable:
    """Return the table of a file that ships, by its name."""
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
    """Time for which a statement is to hold."""

    NOT = 0
    FROM_NOW_ON = 1
    ON_OCCASION = 2
    """From now on, whenever something is asked for or spoken of."""


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
    """The phrases of a data file, and what they say of texts."""

    def __init__(self, data: bytes, /) -> None:
        told = json.loads(data)
        self.version: Final = f"phrases-{sha256(data).hexdigest()[:12]}"
        self._once: Final = PhrasePattern(told["once"])
        self._polite: Final = PhrasePattern(told["polite"])
        self._chinese: Final = PhrasePattern(told["chinese"])
        self._leads: Final = PhrasePattern(rf"(?:(?:{told['leads']})[\s,]+)+([a-z'-]+) ?")
        self._led: Final = frozenset(_WORD.findall(told["leads"]))
        self._phrased: Final = _by_phrase(told["tables"])
        self._opened: Final = _by_opening(told["tables"])
        self._signs: Final = frozenset(self._phrased).union(*map(_WORD.findall, self._opened))
        """A text in ASCII without any of these words says nothing of the kind."""

    @staticmethod
    @cache
    def load() -> "StandingPhrases":
        """Return the phrases that ship. They are read at the first call of a process and kept."""
        return StandingPhrases(files("elytron_core.text").joinpath("data", _FILE).read_bytes())

    def lasting(self, text: str, /) -> LastingTime:
        """Return how long what `text` says is to hold."""
        lowered = (text if text.isascii() else text.replace("’", "'")).lower()
        known = self._signs.intersection(_WORD.findall(lowered))
        found = LastingTime.NOT
        for word in known & self._phrased.keys():
            for rule in self._phrased[word]:
                if rule.phrase not in lowered or rule.lasting <= found:
                    continue
                if (hit := rule.pattern.compiled.search(lowered)) and self._holds(rule, lowered, hit):
                    found = rule.lasting
        if found:
            return found
        if not lowered.isascii() and self._chinese.compiled.search(lowered):
            return LastingTime.FROM_NOW_ON
        return self._clauses(f".{lowered}") if known else LastingTime.NOT

    def _holds(self, rule: _PhraseRule, text: str, hit: re.Match[str]) -> bool:
        """Return whether the hit is neither for once nor a question, other than a polite one."""
        if rule.is_sure:
            return True
        start = max(text.rfind(mark, 0, hit.start()) for mark in (". ", "! ", "? ", "\n"))
        end = _END.search(text, hit.end())
        sentence = text[start + 1 : end.end() if end else None]
        return self._once.compiled.search(sentence) is None and (
            not sentence.endswith("?") or self._polite.compiled.search(sentence) is not None
        )

    def _clauses(self, marked: str) -> LastingTime:
        """Return what the clauses of `marked` say; each of them begins with a mark."""
        for opening in _OPENING.finditer(marked):
            word = opening[1]
            if word in self._opened and (found := self._begins(marked, opening)):
                return found
            # After words that may lead: "please", "could you".
            if (
                word in self._led
                and (led := self._leads.compiled.match(marked, opening.start(1)))
                and (found := self._begins(marked, led))
            ):
                return found
        return LastingTime.NOT

    def _begins(self, marked: str, opening: re.Match[str]) -> LastingTime:
        for rule in self._opened.get(opening[1], ()):
            if (hit := rule.pattern.compiled.match(marked, opening.end())) and self._holds(rule, marked, hit):
                return rule.lasting
        return LastingTime.NOT


def _by_phrase(tables: list[dict[str, Any]]) -> dict[str, tuple[_PhraseRule, ...]]:
    """Return the rules by the longest word of their phrases, a pattern for each: its fixed beginning is found fast."""
    rules: dict[str, tuple[_PhraseRule, ...]] = {}
    for table in tables:
        for signs, follows in table["by_phrase"]:
            for phrase in (sign.replace("_", " ") for sign in signs.split()):
                word = max(_WORD.findall(phrase), key=len)
                pattern = PhrasePattern(follows.replace("{}", phrase))
                rule = _PhraseRule(phrase, pattern, _LASTS[table["lasts"]], table["is_sure"])
                rules[word] = (*rules.get(word, ()), rule)
    return rules


def _by_opening(tables: list[dict[str, Any]]) -> dict[str, tuple[_PhraseRule, ...]]:
    """Return the rules by the word that a clause begins with; their patterns go on from there."""
    rules: dict[str, tuple[_PhraseRule, ...]] = {}
    for table in tables:
        follows: dict[str, list[str]] = {}
        for signs, expression in table["by_opening"]:
            for word in signs.split():
                follows.setdefault(word, []).append(expression)
        patterns = {expressions: PhrasePattern(expressions) for expressions in map("|".join, follows.values())}
        for word, each in follows.items():
            rule = _PhraseRule(word, patterns["|".join(each)], _LASTS[table["lasts"]], table["is_sure"])
            rules[word] = (*rules.get(word, ()), rule)
    return rules
