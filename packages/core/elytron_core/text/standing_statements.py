"""Whether a text says what is to hold from now on: a wish for answers, a taste, what somebody cannot have.

Read by how its clauses begin, and by phrases that say it wherever they stand (`tastes`, `wishing`). What is wished for
once ("this time", "tomorrow") does not last, nor what a question has in it, unless it is a polite one.
"""

import re
from enum import IntEnum
from typing import Final, NamedTuple

from elytron_core.text import taste_phrases, wish_phrases
from elytron_core.text.lazy_regex import Pattern


class Lasting(IntEnum):
    """How long what a text says is to hold."""

    NOT = 0
    FROM_NOW_ON = 1
    ON_OCCASION = 2
    """From now on, whenever something is asked for or spoken of."""


_TABLES: Final = (
    (wish_phrases.OCCASIONS, wish_phrases.OCCASIONS_BY_OPENING, Lasting.ON_OCCASION, False),
    (taste_phrases.BY_PHRASE, taste_phrases.BY_OPENING, Lasting.FROM_NOW_ON, True),
    (wish_phrases.BY_PHRASE, wish_phrases.BY_OPENING, Lasting.FROM_NOW_ON, False),
)
"""By phrase, by opening, how long what they say is to hold, and whether it does so whatever else the sentence says."""


class _Rule(NamedTuple):
    phrase: str
    pattern: Pattern
    lasting: Lasting
    is_sure: bool

    def holds(self, text: str, hit: re.Match[str], /) -> bool:
        """Tell whether what was found is neither for once nor a question, other than a polite one."""
        if self.is_sure:
            return True
        start = max(text.rfind(mark, 0, hit.start()) for mark in (". ", "! ", "? ", "\n"))
        end = _END.search(text, hit.end())
        sentence = text[start + 1 : end.end() if end else None]
        return _ONCE.compiled.search(sentence) is None and (
            not sentence.endswith("?") or _POLITE.compiled.search(sentence) is not None
        )


_ONCE: Final = Pattern(wish_phrases.ONCE)
_POLITE: Final = Pattern(r"\b(?:could|can|would|will) you\b")
_END: Final = re.compile(r"[.!?\n]+(?=\s|$)|$")
_CHINESE: Final = Pattern(
    r"请(?:总是|始终|一律|务必|不要|别|用|叫我)|以后(?:都|请|一律|不要|别|用)|(?:永远|千万|一律)(?:不要|别|用)|(?:总是|始终)用"
    r"|不要再?给我|我(?:更|最|很|不|一直)?喜欢|我(?:讨厌|不爱|吃素|过敏|只[吃喝用])|我对.{1,12}过敏"
    r"|我(?:从来?)?(?:不|不能|不可以)[吃喝]"
)
_WORD: Final = re.compile("[a-z0-9][a-z0-9']*")
_LEADS: Final = Pattern(rf"(?:(?:{wish_phrases.LEADS})[\s,]+)+([a-z'-]+) ?")
_LED: Final = frozenset(_WORD.findall(wish_phrases.LEADS))
_OPENING: Final = re.compile(r"[.!?;:,(\n–—][\s\"'*-]*([a-z'-]+) ?")


def _by_phrase() -> dict[str, tuple[_Rule, ...]]:
    """Return the rules by the longest word of their phrases, a pattern for each: its fixed beginning is found fast."""
    rules: dict[str, tuple[_Rule, ...]] = {}
    for rows, _, kind, is_sure in _TABLES:
        for signs, follows in rows:
            for phrase in (sign.replace("_", " ") for sign in signs.split()):
                word = max(_WORD.findall(phrase), key=len)
                rule = _Rule(phrase, Pattern(follows.replace("{}", phrase)), kind, is_sure)
                rules[word] = (*rules.get(word, ()), rule)
    return rules


def _by_opening() -> dict[str, tuple[_Rule, ...]]:
    """Return the rules by the word that a clause begins with; their patterns go on from there."""
    rules: dict[str, tuple[_Rule, ...]] = {}
    for _, rows, kind, is_sure in _TABLES:
        follows: dict[str, list[str]] = {}
        for row in rows:
            for word in row.signs.split():
                follows.setdefault(word, []).append(row.follows)
        patterns = {expressions: Pattern(expressions) for expressions in map("|".join, follows.values())}
        for word, each in follows.items():
            rules[word] = (*rules.get(word, ()), _Rule(word, patterns["|".join(each)], kind, is_sure))
    return rules


_PHRASED: Final = _by_phrase()
_PHRASED_WORDS: Final = frozenset(_PHRASED)
_OPENED: Final = _by_opening()
SIGNS: Final = _PHRASED_WORDS.union(*map(_WORD.findall, _OPENED))
"""A text in ASCII without any of these words says nothing of the kind."""


def lasting(lowered: str, known: frozenset[str], /) -> Lasting:
    """Return whether `lowered`, which is in small letters and has of `SIGNS` those `known`, says what is to hold."""
    found = Lasting.NOT
    for word in _PHRASED_WORDS & known:
        for rule in _PHRASED[word]:
            if rule.phrase not in lowered or rule.lasting <= found:
                continue
            if (hit := rule.pattern.compiled.search(lowered)) and rule.holds(lowered, hit):
                found = rule.lasting
    if found:
        return found
    if not lowered.isascii() and _CHINESE.compiled.search(lowered):
        return Lasting.FROM_NOW_ON
    return _opened(f".{lowered}") if known else Lasting.NOT


def _opened(marked: str) -> Lasting:
    """Return what the clauses of `marked` say, of which each begins with a mark."""
    for opening in _OPENING.finditer(marked):
        word = opening[1]
        if word in _OPENED and (found := _begins(marked, opening)):
            return found
        # Behind what may stand before: "please", "could you".
        if (
            word in _LED
            and (led := _LEADS.compiled.match(marked, opening.start(1)))
            and (found := _begins(marked, led))
        ):
            return found
    return Lasting.NOT


def _begins(marked: str, opening: re.Match[str]) -> Lasting:
    for rule in _OPENED.get(opening[1], ()):
        if (hit := rule.pattern.compiled.match(marked, opening.end())) and rule.holds(marked, hit):
            return rule.lasting
    return Lasting.NOT
