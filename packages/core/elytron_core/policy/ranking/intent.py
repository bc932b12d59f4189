"""The recall router: the intent of a query, the planes that answer it best, and the points by which they are favoured.

Intents are read from the words of the question alone. If they show none, or several, nothing is favoured.
"""

from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.model import Value
from elytron_core.planes.knowledge import long_term
from elytron_core.policy.ranking.weights import HALF_STRENGTH
from elytron_core.text.pattern_table import table


class Intent(StrEnum):
    """Purpose of a query."""

    FACTUAL = "factual"
    PROCEDURAL = "procedural"
    CONTINUITY = "continuity"
    EVIDENCE = "evidence"
    MIXED = "mixed"


class Route(Value):
    """Order of the planes for a query, and the points by which each of them is favoured."""

    intent: Intent
    planes: tuple[Plane, ...]
    bonus: dict[Plane, float] = {}
    slot: str | None = None
    """The slot that the query names as `kind:topic`, in its plain form."""

    def place(self, plane: Plane, /) -> int:
        """Return the place of `plane` among the planes; the last of all for one that it does not name."""
        return self.planes.index(plane) if plane in self.planes else len(self.planes)

    def favour(self, plane: Plane, /) -> float:
        """Return the points that a match in `plane` gets on top."""
        return self.bonus.get(plane, 0.0)


_FACTS, _SKILLS, _TURNS = Plane.LONG_TERM, Plane.PROCEDURAL, Plane.TRANSCRIPT
_CAPSULES, _STATE, _SUMMARY, _NOTES = Plane.CONTINUITY, Plane.EXECUTION, Plane.SUMMARY, Plane.ARCHIVE

ORDER: Final = MappingProxyType(
    {
        Intent.FACTUAL: (_FACTS, _TURNS, _CAPSULES, _SUMMARY, _NOTES, _STATE, _SKILLS),
        Intent.PROCEDURAL: (_SKILLS, _STATE, _FACTS, _CAPSULES, _TURNS, _NOTES, _SUMMARY),
        Intent.CONTINUITY: (_CAPSULES, _STATE, _SUMMARY, _TURNS, _NOTES, _FACTS, _SKILLS),
        Intent.EVIDENCE: (_TURNS, _NOTES, _SUMMARY, _FACTS, _CAPSULES, _STATE, _SKILLS),
        Intent.MIXED: (_FACTS, _TURNS, _SKILLS, _CAPSULES, _STATE, _SUMMARY, _NOTES),
    }
)
"""The order of the planes if their memories are worth the same."""
BONUS: Final = MappingProxyType(
    {
        Intent.FACTUAL: {_FACTS: 18.0},
        Intent.PROCEDURAL: {_SKILLS: 18.0, _STATE: 14.0},
        Intent.CONTINUITY: {_CAPSULES: 20.0, _STATE: 16.0, _SUMMARY: 12.0},
        Intent.EVIDENCE: {_TURNS: 32.0, _NOTES: 32.0},
        Intent.MIXED: {},
    }
)

_SIGNS: Final = (Intent.PROCEDURAL, Intent.CONTINUITY, Intent.EVIDENCE, Intent.FACTUAL)
"""Intents that are read from words; the words are listed in `text/data/intents.toml`."""
_KINDS: Final = frozenset(kind.value for kind in long_term.Kind)


def lifted(strength: float, favour: float, /) -> float:
    """Return a strength of match between 0 and 1 raised by `favour` points: good matches by more, none beyond 1.

    The order inside a plane stays as it is, and what does not match stays at 0.
    """
    return strength + strength * (1.0 - strength) * favour / (favour + HALF_STRENGTH)


def route(query: str, /) -> Route:
    """Return where to look for what `query` is after."""
    slot = _slot(query)
    if slot is not None:
        return _after(Intent.FACTUAL).model_copy(update={"slot": slot})
    text, signs = query.lower(), table("intents")
    told = [intent for intent in _SIGNS if signs[intent].search(text)]
    return _after(told[0] if len(told) == 1 else Intent.MIXED)


@cache
def _after(intent: Intent) -> Route:
    return Route(intent=intent, planes=ORDER[intent], bonus=dict(BONUS[intent]))


def _slot(query: str) -> str | None:
    if ":" not in query:
        return None
    kind, sign, topic = query.partition(":")
    kind, topic = kind.strip().casefold(), long_term.topic_key(topic)
    return f"{kind}:{topic}" if sign and topic and kind in _KINDS else None
