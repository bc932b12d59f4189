"""Input of an index: the recallable pieces of documents, the document that they replace, and their vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from elytron_core.ports.store import Ref
from elytron_core.text.features import Trait

if TYPE_CHECKING:
    from elytron_index.lexicon.terms import Learnt


class Unit(NamedTuple):
    """One recallable piece of a document. Times are milliseconds, 0 if unknown or open.

    `ref` and `part` name it. `title` is a topic or keywords, weighted apart from `text`. `thread` is the conversation's
    tag and `order` the place in it; units without a thread have no neighbours. `valid_from` and `valid_to` say when it
    holds in the world, `recorded_at` and `closed_at` when the runtime held it. `check` is a digest of the text that is
    embedded (0: none is), so that a vector which comes later is known to be of this very text; `vector` is a model's id
    and its embedding as little-endian float32, if it comes at once. `counts` is how often `text` has each of its
    terms, if counted before, `learnt` the numbers of these, if an index was given them. `traits`
    are a classifier's labels of `text`, beside those of its words.
    """

    ref: Ref
    part: int
    plane: str
    text: str
    title: str = ""
    speaker: str = ""
    role: str = ""
    thread: str = ""
    order: int = 0
    at: int = 0
    scope: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    valid_from: int = 0
    valid_to: int = 0
    recorded_at: int = 0
    closed_at: int = 0
    trust: int = 0
    check: int = 0
    vector: tuple[str, bytes] | None = None
    counts: Mapping[str, int] | None = None
    learnt: "Learnt | None" = None
    traits: Trait = Trait.NOTHING


@dataclass(frozen=True, slots=True)
class Change:
    """All units that the document `ref` now has; none if it is gone. `called` are names that it says mean one."""

    ref: Ref
    units: tuple[Unit, ...] = ()
    called: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Embedded:
    """All vectors of `model` that the units of the document `ref` now have, by the units' `check`; none: all go.

    Each is little-endian float32. A vector of no unit's `check` is left out.
    """

    ref: Ref
    model: str
    vectors: Mapping[int, bytes]
