"""Lasting facts that a user states outright, found with the language files only: few, and all stated plainly.

Only sentences in the user's own voice are read. Questions, conditions, guesses, wishes, hearsay, quotes, code, past
habits, role play ("pretend that I am ...") and fenced or marked text are skipped. A missed fact can be stated again,
while a false one is believed, so a form matches a whole statement or nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.model import Value
from elytron_core.planes.facts import FactConfidence, FactKind, FactOperation, topic_key
from elytron_core.policy.extraction.fact_language import (
    FactForm,
    FactLanguage,
    PhraseGrammar,
    SlotGuard,
    parse_language,
)
from elytron_core.text import similarity
from elytron_core.text.traits import PhrasePattern

SHIPPED: Final = ("en", "zh")
"""The languages that ship."""

_NEVER: Final = r"(?!)"
_STOPS: Final = r"[,，:：! ]+"


class StatementForm(NamedTuple):
    """A form that matches a clause, with the words in its slots."""

    form: FactForm
    slots: dict[str, str]


class FactReader:
    """The patterns of one language file."""

    def __init__(self, language: FactLanguage, /) -> None:
        self.language = language
        self._grammar = PhraseGrammar(language.parts)
        self._guards = {name: self._guard(guard) for name, guard in language.guards.items()}

    @cached_property
    def opening(self) -> PhrasePattern:
        """Words that may precede a statement in a sentence."""
        openings = self._one_of(self.language.openings)
        return PhrasePattern(rf"\A(?:{openings}(?: [A-Z]\w+)?{_STOPS})+", re.IGNORECASE)

    @cached_property
    def request(self) -> PhrasePattern:
        """A request to remember; the group `rest` is what."""
        separator = " " if self.language.spaced else "[：:，, ]*"
        return PhrasePattern(rf"{self._one_of(self.language.requests)}{separator}(?P<rest>\S.*)", re.IGNORECASE)

    @cached_property
    def unsure(self) -> PhrasePattern:
        """Signs that a sentence is not a plain statement."""
        language = self.language
        unsure_words = self._word(self._one_of(language.unsure))
        other_subjects = self._word(rf"(?<!/){self._one_of(language.others)}(?!/)")
        return PhrasePattern(rf"{unsure_words}|{other_subjects}|{self._one_of(language.unsure_ends)}$", re.IGNORECASE)

    @cached_property
    def errand(self) -> PhrasePattern:
        """Beginning of an errand."""
        return PhrasePattern(self._ended(self.language.errands), re.IGNORECASE)

    @cached_property
    def own(self) -> PhrasePattern:
        """Beginning of a statement about oneself."""
        return PhrasePattern(self._ended(self.language.own))

    @cached_property
    def stating(self) -> PhrasePattern:
        """Signs of a statement that is worth remembering verbatim."""
        state_verbs = self._ended(self.language.states)
        first_person = self._word(self._one_of(self.language.own))
        return PhrasePattern(
            rf"(?i:{first_person})|" + (rf"\w+ {state_verbs}" if self.language.spaced else state_verbs)
        )

    @cached_property
    def joint(self) -> PhrasePattern:
        """Position from which another, independent statement follows in a sentence."""
        language = self.language
        first_person, joining_words = self._one_of(language.own), self._one_of(language.joints)
        if not language.spaced:
            return PhrasePattern(rf"[,，；;] ?{joining_words}?(?={first_person})")
        subjects = self._one_of((*language.own, *language.subjects))
        statement_start = rf"(?:{subjects}\b|(?:[\w'’-]+ ){{0,4}}?{self._ended(language.verbs)})"
        return PhrasePattern(
            rf"(?:[,;，；]| [-—–])? ?\b{joining_words} (?={statement_start})|(?:[,;]| [-—–]) ?(?={first_person}\b)"
        )

    @cached_property
    def aside(self) -> PhrasePattern:
        """Position at which a statement ends and its reasons begin."""
        return PhrasePattern(rf",? {self._one_of(self.language.asides)}\b|[，,—–]| - ")

    @cached_property
    def _small(self) -> tuple[tuple[PhrasePattern, str], ...]:
        return tuple(
            (PhrasePattern(rf"(?<![\w.-]){re.escape(word.lower())}(?=['’][a-z]{{1,2}}\b| [a-z])"), word)
            for word in self.language.capitals
        )

    def spelled(self, sentence: str, /) -> str:
        """Return `sentence` with the word for oneself in its proper spelling."""
        for pattern, word in self._small:
            sentence = pattern.compiled.sub(word, sentence)
        return sentence

    def introduced(self, text: str, /) -> Iterator[StatementForm]:
        """Yield the name that the greeting of a message gives."""
        greeting_form = self.language.introduction
        if greeting_form is not None and (match := self._introduction.compiled.match(text)) is not None:
            statement = self._statement(greeting_form, match)
            if statement is not None:
                yield statement

    def stated(self, clauses: Iterable[str], /) -> Iterator[StatementForm]:
        """Yield each form that matches a whole clause, clause by clause."""
        for clause in clauses:
            for fact_form, pattern in self._forms:
                match = pattern.compiled.fullmatch(clause)
                statement = None if match is None else self._statement(fact_form, match)
                if statement is not None:
                    yield statement

    def _statement(self, fact_form: FactForm, match: re.Match[str]) -> StatementForm | None:
        slots = {name: (value or "").strip(" ,.'’") for name, value in match.groupdict().items()}
        if not slots["x"] or not all(self._guards[name](slots["x"]) for name in fact_form.guards):
            return None
        return StatementForm(fact_form, {"y": "", "z": "", **slots})

    @cached_property
    def _forms(self) -> tuple[tuple[FactForm, PhrasePattern], ...]:
        return tuple((form, PhrasePattern(self._grammar.expression(form.says))) for form in self.language.facts)

    @cached_property
    def _introduction(self) -> PhrasePattern:
        greeting_form = self.language.introduction
        if greeting_form is None:
            return PhrasePattern(_NEVER)
        following_words = rf"| {self._one_of(greeting_form.follows)}\b" if greeting_form.follows else ""
        return PhrasePattern(
            rf"\s*{self._grammar.expression(greeting_form.says)}(?=[.,!;\n。，！]{following_words}|\s*\Z)"
        )

    def _guard(self, guard: SlotGuard) -> Callable[[str], bool]:
        contained_words, end_words, equal_words = map(self._one_of, (guard.contains, guard.ends, guard.equals))
        expression = rf"\A{self._ended(guard.begins)}|{self._word(contained_words)}|{end_words}\Z|\A{equal_words}\Z"
        excluded_pattern = PhrasePattern(expression, re.IGNORECASE)

        def holds(slot: str) -> bool:
            if excluded_pattern.compiled.search(slot) or (
                guard.words_most is not None and len(slot.split()) > guard.words_most
            ):
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
    return tuple(map(_shipped_reader, SHIPPED))


def _shipped_reader(language: str) -> FactReader:
    name = f"facts.{language}.toml"
    data = files("elytron_core.policy.extraction").joinpath("data", name).read_bytes()
    return FactReader(parse_language(data, name=name))


@cache
def _topic_kinds() -> tuple[tuple[str, FactKind], ...]:
    """Return the topics that forms name, or their prefixes, each with its kind."""
    fact_forms = (form for reader in shipped_readers() for form in reader.language.facts)
    topics = ((topic_key(form.topic.partition("{")[0]), "{" in form.topic, form.kind) for form in fact_forms)
    return tuple((f"{topic} " if is_open else topic, kind) for topic, is_open, kind in topics if topic)


def kind_of_topic(kind: FactKind, topic: str, /) -> FactKind:
    """Return the kind for a fact about `topic`, so that extracted and written facts share one slot.

    Only the kind that says nothing, `fact`, gives way to the one that forms of sentences have for the topic.
    """
    if kind is not FactKind.FACT:
        return kind
    key = topic_key(topic)
    return next(
        (
            topic_kind
            for prefix, topic_kind in _topic_kinds()
            if key == prefix or (prefix.endswith(" ") and key.startswith(prefix))
        ),
        kind,
    )


READ_CHARS: Final = 20_000
"""Longer messages are pasted rather than said, and are not read."""
SENTENCE_CHARS: Final = 240
FACTS_PER_MESSAGE: Final = 8
SOMEBODY: Final = "The user"

_CODE: Final = PhrasePattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_FENCE: Final = PhrasePattern(r"<(?P<tag>[\w:-]{1,60})[^>\n]{0,200}>.*?(?:</(?P=tag)>|\Z)", re.DOTALL)
_BLACKED: Final = PhrasePattern(r"\[redacted:\w{1,40}\]")
"""Mark of a removed secret: the sentence around it is skipped, its neighbours are read."""
_QUOTE_LINES: Final = PhrasePattern(r"^[ \t]*(?:>|\|).*$", re.MULTILINE)
_QUOTES: Final = PhrasePattern(
    r"[\"“”«»„][^\"“”«»„\n]{1,400}[\"“”«»„]|「[^」\n]{1,400}」|『[^』\n]{1,400}』|《[^》\n]{1,100}》|(?<!\w)'[^'\n]{2,200}'(?!\w)"
)
_SPEECH_LINES: Final = PhrasePattern(
    r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t].*$|^[^\n:：]{1,40}[:：][ \t]*\S.*$", re.MULTILINE
)
_URL: Final = PhrasePattern(r"(?<!\S)(?=\S+?://\S)\S++")
_SENTENCES: Final = PhrasePattern(r"[^.!?。！？；;\n]*[.!?。！？；;\n]?")
_GAP: Final = "\u0000"
"""Replaces text that was cut out: a sentence that lost a part is no longer what was said."""
_DOT: Final = "\u0001"
"""Replaces the full stop of an abbreviation."""


class StatedFact(Value):
    """A fact that a user stated."""

    operation: FactOperation
    kind: FactKind
    topic: str
    content: str
    confidence: FactConfidence = FactConfidence.HIGH


def read_stated_facts(
    text: str, /, *, speaker: str | None = None, more: Sequence[FactReader] = ()
) -> tuple[StatedFact, ...]:
    """Return the facts that a user's message states outright, in order; for one topic, the last.

    `more` are readers of languages that do not ship. Topics carry the speaker's name if one is known, so that two
    people's facts never meet in one slot.
    """
    if len(text) > READ_CHARS:
        return ()
    readers = (*shipped_readers(), *more)
    facts_by_topic: dict[tuple[FactKind, str], StatedFact] = {}
    facts_by_sentence = (_read_sentence(sentence, readers, speaker) for sentence in _split_sentences(text, readers))
    for fact in chain(_introduced_names(text, readers, speaker), *facts_by_sentence):
        # Removed first, so that the last statement on a topic is also in the last position.
        facts_by_topic.pop((fact.kind, fact.topic), None)
        facts_by_topic[fact.kind, fact.topic] = fact
    return tuple(facts_by_topic.values())[:FACTS_PER_MESSAGE]


def own_sentences(text: str) -> Iterator[str]:
    """Yield the sentences in the user's own voice."""
    return _split_sentences(text, shipped_readers())


def _split_sentences(text: str, readers: tuple[FactReader, ...]) -> Iterator[str]:
    for removed_pattern in (_BLACKED, _CODE, _FENCE, _QUOTE_LINES, _QUOTES, _URL):
        text = removed_pattern.compiled.sub(_GAP, text)
    abbreviation = _abbreviation_pattern(readers)
    for line in text.splitlines():
        # A list or a script is material, unless the user asks to remember what follows the colon.
        if _SPEECH_LINES.compiled.fullmatch(line) and not _is_addressed(line, readers):
            continue
        for raw_sentence in _SENTENCES.compiled.findall(
            abbreviation.sub(lambda match: match[0].replace(".", _DOT), line)
        ):
            sentence = raw_sentence.replace(_DOT, ".").strip()
            if 4 <= len(sentence) <= SENTENCE_CHARS and _GAP not in sentence:
                yield sentence


def _is_addressed(line: str, readers: tuple[FactReader, ...]) -> bool:
    start_patterns = chain.from_iterable((reader.request, reader.opening) for reader in readers)
    return any(start_pattern.compiled.match(line) for start_pattern in start_patterns)


@cache
def _abbreviation_pattern(readers: tuple[FactReader, ...]) -> re.Pattern[str]:
    abbreviations = [re.escape(word) for reader in readers for word in reader.language.abbreviations]
    return re.compile(rf"\b(?:{'|'.join(abbreviations)})\.") if abbreviations else re.compile("(?!)")


def _introduced_names(text: str, readers: tuple[FactReader, ...], speaker: str | None) -> Iterator[StatedFact]:
    """Yield the name in the greeting of a message that begins with an introduction."""
    for reader in readers:
        fact = _first_stated_fact(reader.introduced(text), speaker)
        if fact is not None:
            yield fact


def _read_sentence(sentence: str, readers: tuple[FactReader, ...], speaker: str | None) -> Iterator[StatedFact]:
    """Yield the fact of each statement in a sentence; if it was to be remembered and one has none, the whole
    sentence."""
    if sentence[-1] in "?？":
        return
    for reader in readers:
        bare_sentence = reader.spelled(sentence).rstrip(".!。！；; \n\t)")
        opening_pattern, request_pattern = reader.opening.compiled, reader.request.compiled
        request_match = request_pattern.fullmatch(opening_pattern.sub("", bare_sentence, count=1))
        statement = opening_pattern.sub("", request_match["rest"] if request_match else bare_sentence, count=1).strip()
        # A sentence may mix languages, so the doubts of all of them count.
        if any(other_reader.unsure.compiled.search(statement) for other_reader in readers):
            return
        statement_parts = [part.strip() for part in reader.joint.compiled.split(statement) if part.strip()]
        # "In summer, I live in Nice" states nothing: the opening words change its meaning.
        own_parts = statement_parts if reader.own.compiled.match(statement) else statement_parts[:1]
        part_facts = (
            _first_stated_fact(reader.stated(_statement_clauses(part, reader)), speaker) for part in own_parts
        )
        facts = [fact for fact in part_facts if fact is not None]
        yield from facts
        if request_match and len(facts) < len(statement_parts):
            yield from _as_asked(statement, reader, speaker)


def _statement_clauses(statement: str, reader: FactReader) -> Iterator[str]:
    """Yield the whole statement, then its first part if it goes on with more."""
    yield statement
    first_clause = reader.aside.compiled.split(statement, maxsplit=1)[0].strip()
    if first_clause and first_clause != statement:
        yield first_clause


def _first_stated_fact(statements: Iterable[StatementForm], speaker: str | None) -> StatedFact | None:
    """Return the first fact whose topic fits its slot: cut, it could collide with another matter."""
    for fact_form, slots in statements:
        topic = _speaker_topic(
            fact_form.topic.format(**{name: value.casefold() for name, value in slots.items()}), speaker
        )
        if len(topic) <= limits.CANDIDATE_TOPIC_CHARS:
            content = " ".join(fact_form.content.format(who=speaker or SOMEBODY, **slots).split())
            return StatedFact(
                operation=fact_form.operation,
                kind=fact_form.kind,
                topic=topic,
                content=content,
                confidence=fact_form.confidence,
            )
    return None


def _as_asked(statement: str, reader: FactReader, speaker: str | None) -> Iterator[StatedFact]:
    """Yield what the user asked to remember, verbatim, if it is a statement and no errand."""
    is_short = len(statement) < 8 or (statement.isascii() and len(statement.split()) < 3)
    if is_short or reader.errand.compiled.match(statement) or not reader.stating.compiled.search(statement):
        return
    topic = " ".join(similarity.normalise_text(statement).split()[:6]) or statement[:20]
    content = reader.language.note.format(who=speaker or SOMEBODY, x=statement)
    clipped_topic = _speaker_topic(f"note: {topic}", speaker)[: limits.CANDIDATE_TOPIC_CHARS]
    yield StatedFact(operation=FactOperation.UPSERT, kind=FactKind.FACT, topic=clipped_topic, content=content)


def _speaker_topic(topic: str, speaker: str | None) -> str:
    return topic if speaker is None else f"{speaker}: {topic}"
