"""The language file of facts without a model: how people of a language state facts about themselves, as data.

A file says how sentences of the language are framed, and which forms of sentence state a fact. Phrases are written in
the signs of `phrase_grammar`. What a file gets wrong is an UnreadableFile that names the place and repeats nothing.
"""

import re
from collections.abc import Sequence
from string import Formatter
from typing import Annotated, Final

from pydantic import Field, ValidationError

from elytron_core import limits
from elytron_core.errors import UnreadableFile
from elytron_core.model import Value, invalid
from elytron_core.planes.knowledge.long_term import Confidence, FactOperation, Kind
from elytron_core.policy.extraction.phrase_grammar import PhraseFlaw, PhraseGrammar

Phrase = Annotated[str, Field(min_length=1, max_length=limits.PHRASE_CHARS)]
Phrases = Annotated[tuple[Phrase, ...], Field(max_length=limits.PHRASES)]
Template = Annotated[str, Field(max_length=limits.PHRASE_CHARS)]
_SLOT: Final = re.compile(r"\(\?P<(\w)>")


class Guard(Value):
    """Conditions on the slot `x`, beyond its shape. All of them must hold."""

    begins: Phrases = ()
    """Phrases that it must not begin with."""
    contains: Phrases = ()
    """Phrases that it must not contain."""
    ends: Phrases = ()
    """Phrases that it must not end with."""
    equals: Phrases = ()
    """Phrases that it must not be."""
    words_most: int | None = None
    least: int | None = None
    """The smallest number that it may be."""
    most: int | None = None


class FactForm(Value):
    """A form of sentence that states a fact: its phrase, and what is stored for it.

    `topic` and `content` are filled with the slots; `{who}` is who spoke. A form that deletes needs no content.
    """

    says: Phrase
    kind: Kind
    topic: Template
    content: Template = ""
    guards: tuple[str, ...] = ()
    operation: FactOperation = FactOperation.UPSERT
    confidence: Confidence = Confidence.HIGH


class Introduction(FactForm):
    """The form of a greeting with a name, at the beginning of a message."""

    follows: Phrases = ()
    """Words that may follow the name; punctuation always may."""


class FactLanguage(Value):
    """The frame and the forms of one language."""

    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")]
    spaced: bool
    """True if words are separated by spaces."""
    openings: Phrases = ()
    requests: Phrases = ()
    errands: Phrases = ()
    note: Template = "{who} asked to remember: {x}"
    own: Annotated[Phrases, Field(min_length=1)]
    joints: Phrases = ()
    subjects: Phrases = ()
    verbs: Phrases = ()
    states: Phrases = ()
    asides: Phrases = ()
    abbreviations: Annotated[tuple[str, ...], Field(max_length=limits.PHRASES)] = ()
    capitals: Annotated[tuple[str, ...], Field(max_length=limits.PHRASES)] = ()
    unsure: Annotated[Phrases, Field(min_length=1)]
    unsure_ends: Phrases = ()
    others: Phrases = ()
    parts: dict[str, Phrases] = {}
    guards: dict[str, Guard] = {}
    introduction: Introduction | None = None
    facts: Annotated[tuple[FactForm, ...], Field(min_length=1, max_length=limits.FACT_FORMS)]


def parse_language(data: bytes, /, *, name: str) -> FactLanguage:
    """Return the language in a TOML file of this name, checked as a whole. Raises UnreadableFile."""
    import tomllib  # not before a message is read: most calls of the command read none

    if len(data) > limits.FACT_LANGUAGE_BYTES:
        raise UnreadableFile(name=name, problem=f"has more than {limits.FACT_LANGUAGE_BYTES} bytes")
    try:
        language = FactLanguage.model_validate(tomllib.loads(data.decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        raise UnreadableFile(name=name, problem="is no TOML") from None
    except ValidationError as error:
        found = invalid(error, known=_NAMES)
        raise UnreadableFile(name=name, problem=f"in {found.field}: {found.problem}") from None
    _check(language, name)
    return language


_NAMES: Final = frozenset(
    field for model in (FactLanguage, Introduction, FactForm, Guard) for field in model.model_fields
)


def _check(language: FactLanguage, name: str) -> None:
    """Check what the phrases mean together. Raises UnreadableFile."""
    place = "parts"
    try:
        grammar = PhraseGrammar(language.parts)
        for field in FactLanguage.model_fields:
            place = field
            if field in _PHRASE_LISTS:
                grammar.one_of(getattr(language, field))
        for title, guard in language.guards.items():
            place = title
            for phrases in (guard.begins, guard.contains, guard.ends, guard.equals):
                grammar.one_of(phrases)
        place = "note"
        _check_template(language.note, {"who", "x"})
        forms: Sequence[FactForm] = (*(() if (first := language.introduction) is None else (first,)), *language.facts)
        for number, form in enumerate(forms):
            place = f"form {number + 1 - (language.introduction is not None)}"
            _check_form(form, grammar, language)
    except PhraseFlaw as flaw:
        raise UnreadableFile(name=name, problem=f"in {place!r}: {flaw}") from None


_PHRASE_LISTS: Final = frozenset(
    {"openings", "requests", "errands", "own", "joints", "subjects", "verbs", "states", "asides"}
    | {"unsure", "unsure_ends", "others"}
)


def _check_form(form: FactForm, grammar: PhraseGrammar, language: FactLanguage) -> None:
    slots = set(_SLOT.findall(grammar.expression(form.says)))
    if "x" not in slots:
        raise PhraseFlaw("a phrase of a fact needs the slot x")
    if not set(form.guards) <= language.guards.keys():
        raise PhraseFlaw("it names a guard that the file does not define")
    if not form.content and form.operation is not FactOperation.DELETE:
        raise PhraseFlaw("it needs a content")
    _check_template(form.topic, slots)
    _check_template(form.content, slots | {"who"})


def _check_template(template: str, slots: set[str]) -> None:
    try:
        told = [(field, spec, way) for _, field, spec, way in Formatter().parse(template) if field is not None]
    except ValueError:
        raise PhraseFlaw("a template has a brace that is never closed") from None
    if any(field not in slots or spec or way for field, spec, way in told):
        raise PhraseFlaw("a template names a slot that its phrase has not")
