"""Likeness of two runtime skills: shared parts have points, and from a threshold on they are duplicates.

Compared are only skills that share their topic, a word of their titles or the whole summary, and of these the ones that
share most, so that a look through thousands stays short.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from elytron_core.model import Value
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.procedural import Skill
from elytron_core.text import similarity as text_similarity

DUPLICATE: Final = 16
"""Points of likeness from which on two skills are one."""
COMPARED: Final = 12
WORDS: Final = 16


class LikenessPoints(Value):
    """The points for what two skills have in common; texts less alike than `floor` have nothing in common."""

    topic: float = 6
    title: float = 8
    summary: float = 6
    procedure: float = 12
    floor: float = 0.4


LIKENESS: Final = LikenessPoints()


class Look:
    """The compared parts of a skill, made once: its topic and the trigrams of its texts."""

    def __init__(self, skill: Skill, /) -> None:
        self._skill = skill
        self.topic = long_term.topic_key(skill.topic)

    @cached_property
    def title(self) -> frozenset[str]:
        return _grams(self._skill.title)

    @cached_property
    def summary(self) -> frozenset[str]:
        return _grams(self._skill.summary)

    @cached_property
    def procedure(self) -> frozenset[str]:
        return _grams(self._skill.procedure)

    @cached_property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Return under what it is looked for."""
        title = text_similarity.normalise(self._skill.title)
        words = dict.fromkeys((*title.split()[:WORDS], *text_similarity.words_of(title, limit=WORDS)))
        summary = text_similarity.normalise(self._skill.summary)
        return (
            ("topic", self.topic),
            *(("word", word) for word in words),
            *((("summary", summary),) if summary else ()),
        )


class Looks:
    """Looks by name, and which of them may be like another."""

    def __init__(self) -> None:
        self._looks: dict[str, Look] = {}
        self._names: dict[tuple[str, str], set[str]] = {}

    def put(self, skill: Skill, /) -> None:
        """Take `skill` in, in the place of an earlier revision."""
        self.drop(skill.name)
        look = self._looks[skill.name] = Look(skill)
        for key in look.keys:
            self._names.setdefault(key, set()).add(skill.name)

    def drop(self, name: str, /) -> None:
        """Leave the skill of this name out."""
        look = self._looks.pop(name, None)
        for key in look.keys if look is not None else ():
            self._names[key].discard(name)

    def twins(self, skill: Skill, /) -> Iterator[str]:
        """Yield the names of others that say the same as `skill`, those that share most first."""
        look = Look(skill)
        shared = Counter(name for key in look.keys for name in self._names.get(key, ()) if name != skill.name)
        for name in sorted(shared, key=lambda one: (-shared[one], one))[:COMPARED]:
            if is_duplicate(look, self._looks[name]):
                yield name


def similarity(one: Look, other: Look, /) -> float:
    """Return the points of two skills' likeness, 0 to 32; if they cannot reach a duplicate's points, less is counted.

    Long texts are compared last, and only if they can still decide.
    """
    found = LIKENESS.topic * (one.topic == other.topic) + LIKENESS.title * _alike(
        one.title, other.title, LIKENESS.floor
    )
    found += LIKENESS.summary * _alike(one.summary, other.summary, LIKENESS.floor)
    if found + LIKENESS.procedure < DUPLICATE:
        return found
    return found + LIKENESS.procedure * _alike(one.procedure, other.procedure, LIKENESS.floor)


def is_duplicate(one: Look, other: Look, /) -> bool:
    """Return whether two skills are one under two names."""
    return similarity(one, other) >= DUPLICATE


def _grams(text: str) -> frozenset[str]:
    return text_similarity.trigrams(text_similarity.normalise(text))


def _alike(one: frozenset[str], other: frozenset[str], floor: float) -> float:
    likeness = text_similarity.likeness(one, other)
    return likeness if likeness >= floor else 0.0
