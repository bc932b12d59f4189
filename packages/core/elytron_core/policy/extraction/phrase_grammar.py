r"""Phrases by which sentences are described in a data file, as regular expressions of bounded work.

A phrase is literal text with four signs:

- `(a|b)` is one of several phrases, and `(a)?` one that may be absent;
- `{name}` is a part that the file defines, or a shape;
- `{x:name}` and `{x:(a|b)}` keep what was found as the slot `x`, `y` or `z`;
- `{digits 1-3}` is a shape with a size: from 1 to 3 words or characters.

A straight apostrophe matches the typographic one too. There is no open repetition: a phrase takes at most the cube of
the length of a sentence, and sentences are bounded.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from elytron_core import limits

_NAME: Final = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_SHAPES: Final = {
    # A shape that can be read in only one way is atomic: the engine never tries it again.
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
"""Shapes with a size, and how much of the size the expression takes outside of its repetition."""
_WIDE: Final = frozenset(_SIZED) - {"digits"}
_WIDE_MOST: Final = 3
_OPTIONAL_MOST: Final = 16
_DEPTH_MOST: Final = 8
_SIZE_MOST: Final = 120
_SLOTS: Final = ("x", "y", "z")
_BRACED: Final = re.compile(r"(?:(?P<slot>[a-z]):)?(?P<name>[a-z_]{1,40})(?: (?P<least>\d{1,3})-(?P<most>\d{1,3}))?\}")


class PhraseFlaw(ValueError):
    """A fault in a phrase, in words that do not repeat it."""


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
        reading = _Reading(phrase, self._parts)
        found = reading.alternatives()
        if reading.place < len(phrase):
            raise PhraseFlaw("a phrase has a bracket too many")
        if len(found) > limits.PHRASE_EXPANDED_CHARS:
            raise PhraseFlaw(f"a phrase comes to more than {limits.PHRASE_EXPANDED_CHARS} characters with its parts")
        if found.count(_WIDE_SIGN) > _WIDE_MOST:
            raise PhraseFlaw(f"a phrase has more than {_WIDE_MOST} open shapes ({', '.join(sorted(_WIDE))})")
        if found.count(")?") > _OPTIONAL_MOST:
            raise PhraseFlaw(f"a phrase has more than {_OPTIONAL_MOST} optional groups")
        return found


_WIDE_SIGN: Final = "(?:(?#)"
"""An empty comment before each open shape, by which they are counted."""


class _Reading:
    """One phrase while it is read from its beginning."""

    def __init__(self, phrase: str, parts: Mapping[str, str]) -> None:
        self._phrase = phrase
        self._parts = parts
        self._depth = 0
        self._slots: set[str] = set()
        self.place = 0

    def alternatives(self) -> str:
        """Return the expression of the phrases up to the end or the closing bracket."""
        found = [self._sequence()]
        while self._next() == "|":
            self.place += 1
            found.append(self._sequence())
        return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"

    def _next(self) -> str:
        return self._phrase[self.place : self.place + 1]

    def _sequence(self) -> str:
        found: list[str] = []
        while (sign := self._next()) and sign not in "|)":
            self.place += 1
            if sign == "(":
                found.append(self._group())
            elif sign == "{":
                found.append(self._braced())
            elif sign in "}?":
                raise PhraseFlaw(f"a phrase has {sign!r} without an opening one")
            else:
                found.append("['’]" if sign == "'" else re.escape(sign))
        return "".join(found)

    def _group(self) -> str:
        self._depth += 1
        if self._depth > _DEPTH_MOST:
            raise PhraseFlaw(f"a phrase has brackets more than {_DEPTH_MOST} deep")
        inner = self.alternatives()
        if self._next() != ")":
            raise PhraseFlaw("a phrase has a bracket that is never closed")
        self._depth -= 1
        self.place += 1
        if self._next() != "?":
            return f"(?:{inner})"
        self.place += 1
        return f"(?:{inner})?"

    def _braced(self) -> str:
        if self._phrase.startswith(tuple(f"{slot}:(" for slot in _SLOTS), self.place):
            slot = self._phrase[self.place]
            self.place += 3
            inner = self._group()
            if self._next() != "}":
                raise PhraseFlaw("a slot is never closed")
            self.place += 1
            return self._kept(slot, inner)
        found = _BRACED.match(self._phrase, self.place)
        if found is None:
            raise PhraseFlaw("a phrase has braces that hold no name of a part or a shape")
        self.place = found.end()
        inner = self._named(found)
        return inner if found["slot"] is None else self._kept(found["slot"], inner)

    def _kept(self, slot: str, inner: str) -> str:
        if slot not in _SLOTS or slot in self._slots or "(?P<" in inner:
            raise PhraseFlaw(f"slots are {', '.join(_SLOTS)}, each once and none inside another")
        self._slots.add(slot)
        return f"(?P<{slot}>{inner})"

    def _named(self, found: re.Match[str]) -> str:
        name = found["name"]
        if name in _SIZED:
            least, most = (int(found[end] or 0) for end in ("least", "most"))
            shape, counted = _SIZED[name]
            if not counted <= least <= most or not 1 <= most <= _SIZE_MOST:
                raise PhraseFlaw(f"the shape {name!r} needs a size, such as 1-12, of at most {_SIZE_MOST}")
            sized = shape.format(least - counted, most - counted)
            return f"{_WIDE_SIGN}{sized})" if name in _WIDE else sized
        if found["least"] is not None:
            raise PhraseFlaw(f"{name!r} takes no size")
        known = self._parts.get(name) or _SHAPES.get(name)
        if known is None:
            raise PhraseFlaw("a phrase names a part that the file does not define before it")
        if "(?P<" in known:
            raise PhraseFlaw("a part has a slot: slots belong to the phrase of a fact")
        return known
