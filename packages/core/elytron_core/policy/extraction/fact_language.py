"""Language files for facts without a model: how speakers of a language state facts about themselves, as data.

A file says how sentences are framed and which forms state a fact, in the notation of `phrase_grammar`. An error in a
file is an UnreadableFile that names the place and repeats no content.
"""

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Annotated, Final

from pydantic import Field, ValidationError

from elytron_core import limits
from elytron_core.errors import UnreadableFile
from elytron_core.model import Value, invalid_input
from elytron_core.planes.facts import FactConfidence, FactKind, FactOperation

FACT_FORMS: Final = 256
MAX_PHRASES: Final = 512
PHRASE_CHARS: Final = 400
PHRASE_EXPANDED_CHARS: Final = 16_000
"""A phrase with the parts that it names."""


_NAME: Final = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_SHAPES: Final = {
    # A shape that can match in only one way is atomic, so that the engine never backtracks into it.
    "name": rf"(?>{_NAME})",
    "names": rf"(?>{_NAME}(?: {_NAME}){{0,2}})",
    "place": rf"(?>{_NAME}(?:[ ,]{{1,2}}(?:(?:de|da|do|del|la|of|am|upon|sur) )?{_NAME}){{0,3}})",
    "stops": r"(?>[,.!，！。]{0,3} ?)",
}
_SIZED: Final = {
    "digits": (r"(?>\d{{{0},{1}}})", 0),
    "letters": (r"[\u3400-\u9fffA-Za-z·]{{{0},{1}}}?", 0),
    "thing": (r"\w[\w'’&+#./ -]{{{0},{1}}}?", 1),
    "text": (r"[\w'’ ,/%-]{{{0},{1}}}?", 0),
    "words": (r"[\w-]+(?: [\w-]+){{{0},{1}}}?", 1),
    "title": (r"[\w'’-]+(?: [\w'’-]+){{{0},{1}}}?(?<=\w)", 1),
    "small": (r"[a-z][\w-]+(?: [a-z][\w-]+){{{0},{1}}}?", 1),
    "adjectives": (r"(?:[a-z]+ ){{{0},{1}}}?", 0),
}
"""Shapes with a size, and how much of the size the expression takes outside its repetition."""
_WIDE: Final = frozenset(_SIZED) - {"digits"}
_WIDE_MOST: Final = 3
_OPTIONAL_MOST: Final = 16
_DEPTH_MOST: Final = 8
_SIZE_MOST: Final = 120
_SLOTS: Final = ("x", "y", "z")
_BRACED: Final = re.compile(r"(?:(?P<slot>[a-z]):)?(?P<name>[a-z_]{1,40})(?: (?P<least>\d{1,3})-(?P<most>\d{1,3}))?\}")


class PhraseFlaw(ValueError):
    """A fault in a phrase, worded without repeating the phrase."""


class PhraseGrammar:
    """The phrases of one file: its parts, each of which may use those before it."""

    def __init__(self, parts: Mapping[str, Sequence[str]], /) -> None:
        self._parts: dict[str, str] = {}
        for name, phrases in parts.items():
            if name in _SHAPES or name in _SIZED:
                raise PhraseFlaw(f"the part {name!r} has the name of a shape")
            self._parts[name] = self.one_of(phrases)

    def one_of(self, phrases: Sequence[str], /) -> str:
        """Return an expression for any of `phrases`. Raises PhraseFlaw."""
        return f"(?:{'|'.join(map(self.expression, phrases))})"

    def expression(self, phrase: str, /) -> str:
        """Return `phrase` as a regular expression. Raises PhraseFlaw."""
        phrase_reading = _PhraseReading(phrase, self._parts)
        expression = phrase_reading.alternatives()
        if phrase_reading.place < len(phrase):
            raise PhraseFlaw("a phrase has an unmatched bracket")
        if len(expression) > PHRASE_EXPANDED_CHARS:
            raise PhraseFlaw(f"a phrase has more than {PHRASE_EXPANDED_CHARS} characters with its parts")
        # Each open shape multiplies the ways in which an expression can fail to match.
        if expression.count(_WIDE_SIGN) > _WIDE_MOST:
            raise PhraseFlaw(f"a phrase has more than {_WIDE_MOST} open shapes ({', '.join(sorted(_WIDE))})")
        # Each optional group doubles the ways in which a phrase can be tried.
        if expression.count(")?") > _OPTIONAL_MOST:
            raise PhraseFlaw(f"a phrase has more than {_OPTIONAL_MOST} optional groups")
        return expression


_WIDE_SIGN: Final = "(?:(?#)"
"""An empty comment before each open shape, by which they are counted."""


class _PhraseReading:
    """A parser of one phrase."""

    def __init__(self, phrase: str, parts: Mapping[str, str]) -> None:
        self._phrase = phrase
        self._parts = parts
        self._depth = 0
        self._slots: set[str] = set()
        self.place = 0

    def alternatives(self) -> str:
        """Return the expression of the phrases up to the end or the closing bracket."""
        sequences = [self._sequence()]
        while self._next() == "|":
            self.place += 1
            sequences.append(self._sequence())
        return sequences[0] if len(sequences) == 1 else f"(?:{'|'.join(sequences)})"

    def _next(self) -> str:
        return self._phrase[self.place : self.place + 1]

    def _sequence(self) -> str:
        pieces: list[str] = []
        while (char := self._next()) and char not in "|)":
            self.place += 1
            if char == "(":
                pieces.append(self._group())
            elif char == "{":
                pieces.append(self._braced())
            elif char in "}?":
                raise PhraseFlaw(f"a phrase has {char!r} without an opening bracket")
            else:
                pieces.append("['’]" if char == "'" else re.escape(char))
        return "".join(pieces)

    def _group(self) -> str:
        self._depth += 1
        # Phrases are parsed recursively, so a file must not choose the depth.
        if self._depth > _DEPTH_MOST:
            raise PhraseFlaw(f"a phrase has brackets nested more than {_DEPTH_MOST} deep")
        group_pattern = self.alternatives()
        if self._next() != ")":
            raise PhraseFlaw("a phrase has an unclosed bracket")
        self._depth -= 1
        self.place += 1
        if self._next() != "?":
            return f"(?:{group_pattern})"
        self.place += 1
        return f"(?:{group_pattern})?"

    def _braced(self) -> str:
        if self._phrase.startswith(tuple(f"{slot_name}:(" for slot_name in _SLOTS), self.place):
            slot_name = self._phrase[self.place]
            self.place += 3
            inner_pattern = self._group()
            if self._next() != "}":
                raise PhraseFlaw("a slot is not closed")
            self.place += 1
            return self._slot_pattern(slot_name, inner_pattern)
        braced_match = _BRACED.match(self._phrase, self.place)
        if braced_match is None:
            raise PhraseFlaw("a phrase has braces that do not name a part or a shape")
        self.place = braced_match.end()
        inner_pattern = self._name_pattern(braced_match)
        return (
            inner_pattern if braced_match["slot"] is None else self._slot_pattern(braced_match["slot"], inner_pattern)
        )

    def _slot_pattern(self, slot_name: str, inner_pattern: str) -> str:
        if slot_name not in _SLOTS or slot_name in self._slots or "(?P<" in inner_pattern:
            raise PhraseFlaw(f"the slots {', '.join(_SLOTS)} may each be used once, and not inside each other")
        self._slots.add(slot_name)
        return f"(?P<{slot_name}>{inner_pattern})"

    def _name_pattern(self, match: re.Match[str]) -> str:
        name = match["name"]
        if name in _SIZED:
            least_count, most_count = (int(match[bound_name] or 0) for bound_name in ("least", "most"))
            shape_pattern, included_count = _SIZED[name]
            if not included_count <= least_count <= most_count or not 1 <= most_count <= _SIZE_MOST:
                raise PhraseFlaw(f"the shape {name!r} needs a size, such as 1-12, of at most {_SIZE_MOST}")
            sized_pattern = shape_pattern.format(least_count - included_count, most_count - included_count)
            return f"{_WIDE_SIGN}{sized_pattern})" if name in _WIDE else sized_pattern
        if match["least"] is not None:
            raise PhraseFlaw(f"{name!r} does not take a size")
        part_pattern = self._parts.get(name) or _SHAPES.get(name)
        if part_pattern is None:
            raise PhraseFlaw("a phrase uses a part that is not defined before it")
        # A part may be used several times, but an expression can have each slot only once.
        if "(?P<" in part_pattern:
            raise PhraseFlaw("a part has a slot, but only the phrase of a fact may have slots")
        return part_pattern


Phrase = Annotated[str, Field(min_length=1, max_length=PHRASE_CHARS)]
Phrases = Annotated[tuple[Phrase, ...], Field(max_length=MAX_PHRASES)]
Template = Annotated[str, Field(max_length=PHRASE_CHARS)]
_SLOT: Final = re.compile(r"\(\?P<(\w)>")


class SlotGuard(Value):
    """Conditions on the slot `x`, beyond its shape. All of them must hold."""

    begins: Phrases = ()
    """Phrases that it must not begin with."""
    contains: Phrases = ()
    """Phrases that it must not contain."""
    ends: Phrases = ()
    """Phrases that it must not end with."""
    equals: Phrases = ()
    """Phrases that it must not equal."""
    words_most: int | None = None
    least: int | None = None
    """The smallest number that it may be."""
    most: int | None = None


class FactForm(Value):
    """A form of sentence that states a fact: its phrase, and what is stored for it.

    `topic` and `content` are filled with the slots; `{who}` is who spoke. A form that deletes needs no content.
    """

    says: Phrase
    kind: FactKind
    topic: Template
    content: Template = ""
    guards: tuple[str, ...] = ()
    operation: FactOperation = FactOperation.UPSERT
    confidence: FactConfidence = FactConfidence.HIGH


class GreetingForm(FactForm):
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
    abbreviations: Annotated[tuple[str, ...], Field(max_length=MAX_PHRASES)] = ()
    capitals: Annotated[tuple[str, ...], Field(max_length=MAX_PHRASES)] = ()
    unsure: Annotated[Phrases, Field(min_length=1)]
    unsure_ends: Phrases = ()
    others: Phrases = ()
    parts: dict[str, Phrases] = {}
    guards: dict[str, SlotGuard] = {}
    introduction: GreetingForm | None = None
    facts: Annotated[tuple[FactForm, ...], Field(min_length=1, max_length=FACT_FORMS)]


def parse_language(data: bytes, /, *, name: str) -> FactLanguage:
    """Return the language in a TOML file of this name, checked as a whole. Raises UnreadableFile."""
    import tomllib  # deferred until a message is read: most calls of the command read none

    if len(data) > limits.FACT_LANGUAGE_BYTES:
        raise UnreadableFile(name=name, problem=f"has more than {limits.FACT_LANGUAGE_BYTES} bytes")
    try:
        language = FactLanguage.model_validate(tomllib.loads(data.decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        raise UnreadableFile(name=name, problem="is not valid TOML") from None
    except ValidationError as error:
        invalid_field = invalid_input(error, names=_NAMES)
        raise UnreadableFile(name=name, problem=f"in {invalid_field.field}: {invalid_field.problem}") from None
    _check_language(language, name)
    return language


_NAMES: Final = frozenset(
    field for model in (FactLanguage, GreetingForm, FactForm, SlotGuard) for field in model.model_fields
)


def _check_language(language: FactLanguage, name: str) -> None:
    """Check the phrases as a whole. Raises UnreadableFile."""
    checked_place = "parts"
    try:
        grammar = PhraseGrammar(language.parts)
        for field in FactLanguage.model_fields:
            checked_place = field
            if field in _PHRASE_LISTS:
                grammar.one_of(getattr(language, field))
        for guard_name, guard in language.guards.items():
            checked_place = guard_name
            for phrases in (guard.begins, guard.contains, guard.ends, guard.equals):
                grammar.one_of(phrases)
        checked_place = "note"
        _check_template(language.note, {"who", "x"})
        forms: Sequence[FactForm] = (
            *(() if (introduction := language.introduction) is None else (introduction,)),
            *language.facts,
        )
        for number, form in enumerate(forms):
            checked_place = f"form {number + 1 - (language.introduction is not None)}"
            _check_form(form, grammar, language)
    except PhraseFlaw as phrase_flaw:
        raise UnreadableFile(name=name, problem=f"in {checked_place!r}: {phrase_flaw}") from None


_PHRASE_LISTS: Final = frozenset(
    {"openings", "requests", "errands", "own", "joints", "subjects", "verbs", "states", "asides"}
    | {"unsure", "unsure_ends", "others"}
)


def _check_form(form: FactForm, grammar: PhraseGrammar, language: FactLanguage) -> None:
    slots = set(_SLOT.findall(grammar.expression(form.says)))
    if "x" not in slots:
        raise PhraseFlaw("the phrase of a fact needs the slot x")
    if not set(form.guards) <= language.guards.keys():
        raise PhraseFlaw("it names an undefined guard")
    if not form.content and form.operation is not FactOperation.DELETE:
        raise PhraseFlaw("it needs content")
    _check_template(form.topic, slots)
    _check_template(form.content, slots | {"who"})


def _check_template(template: str, slots: set[str]) -> None:
    try:
        fields = [
            (field, format_spec, conversion)
            for _, field, format_spec, conversion in Formatter().parse(template)
            if field is not None
        ]
    except ValueError:
        raise PhraseFlaw("a template has an unclosed brace") from None
    if any(field not in slots or format_spec or conversion for field, format_spec, conversion in fields):
        raise PhraseFlaw("a template uses a slot that its phrase does not have")
