"""The reader of one language's facts: its frame and its forms as patterns, each compiled when it is first used."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from importlib.resources import files
from typing import Final, NamedTuple

from elytron_core.policy.extraction.fact_language import FactForm, FactLanguage, Guard, parse_language
from elytron_core.policy.extraction.phrase_grammar import PhraseGrammar
from elytron_core.text.lazy_regex import Pattern

SHIPPED: Final = ("en", "zh")
"""The languages that ship."""

_NEVER: Final = r"(?!)"
_STOPS: Final = r"[,，:：! ]+"


class Statement(NamedTuple):
    """A form that a clause has, with the words in its slots."""

    form: FactForm
    slots: dict[str, str]


class FactReader:
    """The patterns of one language file."""

    def __init__(self, language: FactLanguage, /) -> None:
        self.language = language
        self._grammar = PhraseGrammar(language.parts)
        self._guards = {name: self._guard(guard) for name, guard in language.guards.items()}

    @cached_property
    def opening(self) -> Pattern:
        """Words with which a sentence begins before it states anything."""
        openings = self._one_of(self.language.openings)
        return Pattern(rf"\A(?:{openings}(?: [A-Z]\w+)?{_STOPS})+", re.IGNORECASE)

    @cached_property
    def request(self) -> Pattern:
        """A request to remember; the group `rest` is what."""
        between = " " if self.language.spaced else "[：:，, ]*"
        return Pattern(rf"{self._one_of(self.language.requests)}{between}(?P<rest>\S.*)", re.IGNORECASE)

    @cached_property
    def unsure(self) -> Pattern:
        """Signs that a sentence is no plain statement."""
        language = self.language
        said = self._word(self._one_of(language.unsure))
        others = self._word(rf"(?<!/){self._one_of(language.others)}(?!/)")
        return Pattern(rf"{said}|{others}|{self._one_of(language.unsure_ends)}$", re.IGNORECASE)

    @cached_property
    def errand(self) -> Pattern:
        """The beginning of an errand."""
        return Pattern(self._ended(self.language.errands), re.IGNORECASE)

    @cached_property
    def own(self) -> Pattern:
        """The beginning of a statement about oneself."""
        return Pattern(self._ended(self.language.own))

    @cached_property
    def stating(self) -> Pattern:
        """Signs of a statement that is worth remembering as it was said."""
        states = self._ended(self.language.states)
        mine = self._word(self._one_of(self.language.own))
        return Pattern(rf"(?i:{mine})|" + (rf"\w+ {states}" if self.language.spaced else states))

    @cached_property
    def joint(self) -> Pattern:
        """The place in a sentence from which on another statement follows, which is no part of the one before."""
        language = self.language
        own, joints = self._one_of(language.own), self._one_of(language.joints)
        if not language.spaced:
            return Pattern(rf"[,，；;] ?{joints}?(?={own})")
        subjects = self._one_of((*language.own, *language.subjects))
        goes_on = rf"(?:{subjects}\b|(?:[\w'’-]+ ){{0,4}}?{self._ended(language.verbs)})"
        return Pattern(rf"(?:[,;，；]| [-—–])? ?\b{joints} (?={goes_on})|(?:[,;]| [-—–]) ?(?={own}\b)")

    @cached_property
    def aside(self) -> Pattern:
        """The place where a statement ends and its reasons begin."""
        return Pattern(rf",? {self._one_of(self.language.asides)}\b|[，,—–]| - ")

    @cached_property
    def _small(self) -> tuple[tuple[Pattern, str], ...]:
        return tuple(
            (Pattern(rf"(?<![\w.-]){re.escape(word.lower())}(?=['’][a-z]{{1,2}}\b| [a-z])"), word)
            for word in self.language.capitals
        )

    def spelled(self, sentence: str, /) -> str:
        """Return `sentence` with the word for oneself as it should be written."""
        for pattern, word in self._small:
            sentence = pattern.compiled.sub(word, sentence)
        return sentence

    def introduced(self, text: str, /) -> Iterator[Statement]:
        """Yield the name that the greeting of a message gives."""
        form = self.language.introduction
        if form is not None and (met := self._introduction.compiled.match(text)) is not None:
            found = self._statement(form, met)
            if found is not None:
                yield found

    def stated(self, clauses: Iterable[str], /) -> Iterator[Statement]:
        """Yield each form that takes a clause whole, clause by clause."""
        for clause in clauses:
            for form, pattern in self._forms:
                met = pattern.compiled.fullmatch(clause)
                found = None if met is None else self._statement(form, met)
                if found is not None:
                    yield found

    def _statement(self, form: FactForm, met: re.Match[str]) -> Statement | None:
        slots = {name: (value or "").strip(" ,.'’") for name, value in met.groupdict().items()}
        if not slots["x"] or not all(self._guards[name](slots["x"]) for name in form.guards):
            return None
        return Statement(form, {"y": "", "z": "", **slots})

    @cached_property
    def _forms(self) -> tuple[tuple[FactForm, Pattern], ...]:
        return tuple((form, Pattern(self._grammar.expression(form.says))) for form in self.language.facts)

    @cached_property
    def _introduction(self) -> Pattern:
        form = self.language.introduction
        if form is None:
            return Pattern(_NEVER)
        follows = rf"| {self._one_of(form.follows)}\b" if form.follows else ""
        return Pattern(rf"\s*{self._grammar.expression(form.says)}(?=[.,!;\n。，！]{follows}|\s*\Z)")

    def _guard(self, guard: Guard) -> Callable[[str], bool]:
        contains, ends, equals = map(self._one_of, (guard.contains, guard.ends, guard.equals))
        forms = rf"\A{self._ended(guard.begins)}|{self._word(contains)}|{ends}\Z|\A{equals}\Z"
        wrong = Pattern(forms, re.IGNORECASE)

        def holds(slot: str) -> bool:
            if wrong.compiled.search(slot) or (guard.words_most is not None and len(slot.split()) > guard.words_most):
                return False
            if guard.least is None and guard.most is None:
                return True
            return slot.isdecimal() and (guard.least or 0) <= int(slot) <= (guard.most or int(slot))

        return holds

    def _one_of(self, phrases: tuple[str, ...]) -> str:
        return self._grammar.one_of(phrases) if phrases else _NEVER

    def _ended(self, phrases: tuple[str, ...]) -> str:
        return self._one_of(phrases) + (r"\b" if self.language.spaced else "")

    def _word(self, expression: str) -> str:
        return rf"\b{expression}\b" if self.language.spaced else expression


@cache
def shipped_readers() -> tuple[FactReader, ...]:
    """Return the readers of the languages that ship."""
    return tuple(map(_shipped, SHIPPED))


def _shipped(language: str) -> FactReader:
    name = f"facts.{language}.toml"
    data = files("elytron_core.policy.extraction").joinpath("data", name).read_bytes()
    return FactReader(parse_language(data, name=name))
