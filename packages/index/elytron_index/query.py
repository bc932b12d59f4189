"""Query and answer of an index: units with their raw signals, which core ranks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from elytron_core.contracts.recall import Where
from elytron_core.policy.ranking.query import AnswerOwner
from elytron_core.policy.ranking.weights import STANDARD, SignalWeights
from elytron_core.policy.time_ranges import TimeSpan
from elytron_core.ports.store import DocumentRef
from elytron_core.text.traits import TextTrait

if TYPE_CHECKING:
    from elytron_index.lexicon.terms import LearntTerms


Number = TypeVar("Number")

METADATA = "metadata."
"""Scope parts whose names begin so hold a turn's metadata, as JSON."""


@dataclass(frozen=True, slots=True)
class UnitFilters:
    """Conditions on a searched unit; an empty field has no condition.

    The first group decides visibility: a hidden unit lends nothing to its neighbours either. The second selects units:
    one that is left out still counts for the turns beside it. Within a field any value will do, the fields
    must hold together.
    """

    planes: tuple[str, ...] = ()
    scope: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """A scope part and the values it may have; the value "" lets units without that part pass."""
    as_of: int | None = None
    """Only what was valid in the world at this moment."""
    known_at: int | None = None
    """Only what the runtime held at this moment; without it, what it holds now (never closed)."""
    min_trust: int | None = None

    speakers: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    since: int | None = None
    """From this `at` on. Units of unknown time have `at` 0."""
    until: int | None = None
    """Before this `at`."""
    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    where: Where = ()
    """Conditions on the scope parts that `METADATA` begins, whose values are JSON."""
    exclude: frozenset[DocumentRef] = frozenset()


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """The parameters of BM25: how fast repeats stop to count, and how much length does.

    A text is long beside the average, or beside `typical` terms where the average is longer: long answers raise the
    average, and a word in one of them does not tell more for it.
    """

    k1: float = 0.9
    b: float = 0.4
    typical: float = 20.0

    def length(self, terms: int, units: int, /) -> float:
        """Return the length from which on a text is long, for `units` with this many terms together."""
        return min(terms / units, self.typical) if terms else self.typical


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A search. `vector` is a model's id and the query's embedding, compared with units of that model alone.

    `spans` give the date signal; `fits` are the traits that an answer is
    likely to have, `heeds` those that count for any subject, except wishes for one occasion: that
    counts if the query is about it. `owner` is the person whose words count more in talks with assistants. Without
    text and vector every unit that passes the filters is a candidate.
    """

    text: str
    limit: int
    vector: tuple[str, bytes] | None = None
    filters: UnitFilters = field(default_factory=UnitFilters)
    weights: SignalWeights = STANDARD
    bm25: Bm25Parameters = Bm25Parameters()
    spans: tuple[TimeSpan, ...] = ()
    fits: TextTrait = TextTrait.NOTHING
    heeds: TextTrait = TextTrait.NOTHING
    owner: AnswerOwner = AnswerOwner.USER
    is_english: bool = False
    """The vector is of a model that reads English alone."""


class UnitView(NamedTuple):
    """A unit as the index knows it; its text is read from the store."""

    ref: DocumentRef
    part: int
    plane: str
    speaker: str
    role: str
    thread: str
    order: int
    at: int
    scope: tuple[tuple[str, str], ...]
    tags: tuple[str, ...]
    valid_from: int
    valid_to: int
    recorded_at: int
    closed_at: int
    trust: int
    chars: int
    sequence: int

    @property
    def ordered_at(self) -> int:
        """Return the time by which it is ordered, never later than its recording."""
        return min(self.at, self.recorded_at) if self.recorded_at else self.at


def latest_first(views: Iterable[UnitView], /) -> tuple[UnitView, ...]:
    """Return the units by time; of the same time, the later in the journal and in its thread first."""
    return tuple(
        sorted(views, key=lambda view: (view.ordered_at, view.sequence, view.order, view.ref, view.part), reverse=True)
    )


class UnitSignals(NamedTuple, Generic[Number]):
    """Signals of one unit, raw. (Inside the index the same names hold one array for many units.)"""

    body: Number
    """BM25 of the text for the query's words and, at a discount, their kin; names of this space's speakers apart."""
    title: Number
    name: Number
    """BM25 of the text for those names."""
    near: Number
    """Shares of the neighbours' body."""
    window: Number
    """BM25 of the unit and two neighbours on each side, read as one text."""
    session: Number
    """Mean body of the thread's three best units."""
    answer: Number
    """Body of the unit before, where that one asks and this one does not end in a question."""
    speaker: Number
    """Share of the speaker's name that the query holds."""
    vector: Number
    """Cosine; the lowest of the search where the unit has no vector of the model."""
    vector_near: Number
    """Shares of the neighbours' cosines above the lowest."""
    vector_session: Number
    """Mean cosine, above the lowest, of the thread's three best units."""
    text_vectors: Number
    """Likeness of the text to the query by the text vectors that ship: a cosine, 0 if either has no known word."""
    owner: Number
    """1 where the role is the one whose words the query is after, in spaces where both speak."""
    standing: Number
    """1 where the text, by whom the query is after, says what is to hold from now on, and the query heeds that; half
    where it heeds what is wished for one occasion, and is about that."""
    date: Number
    """1 within a time that the query speaks of, less for two weeks after it and three days before."""
    fits: Number
    """1 where the text has a trait that the answer is likely to have."""
    told: Number
    """Degree to which the text, or a long one's nearest sentence, states facts (`elytron_core.text.traits`)."""
    sentence: Number
    """Difference of a long text's nearest sentence to the whole text, as evidence for it.

    0 inside the index, which has no texts.
    """
    later: Number
    """The place in time, 0 to 1, among the units whose text speaks at least half as much for them as the best's."""
    informative: Number
    """Longer texts more, up to 0.5; questions 0.1 less."""
    matched: Number
    """Number of the query's terms in the text."""
    coverage: Number
    """The same as a share, each term counted by its rarity; kin in part."""
    context: Number
    """The share of the query's words, names aside, that the unit and two neighbours on each side hold."""


class UnitPlace(NamedTuple):
    """Row of a found unit, and the time by which it is ordered; the index gives its other fields on request."""

    ref: DocumentRef
    part: int
    order: int
    at: int
    sequence: int
    chars: int
    trust: int


class UnitCandidate(NamedTuple):
    """A unit that left the index, with its signals and the sum that chose it."""

    unit: UnitPlace
    signals: UnitSignals[float]
    score: float


@dataclass(frozen=True, slots=True)
class FoundCandidates:
    """The units found, best first: by score, then newer, later in the journal, later in the thread, by ref and part.

    `highs` and `lows` are each signal's extremes over all `pool` units that were weighed; `searched` counts the units
    that passed the filters. `name_terms` are the terms that are part of a speaker's name, `speakers` those whose
    whole name the query holds; `long` are the places of long texts. `most` is the sum of a unit that were
    the best in all that was found, `alike` the share of the query that the text vectors know, `few` how far the
    units are few statements, in whose order likeness decides.
    """

    candidates: tuple[UnitCandidate, ...]
    terms: tuple[str, ...]
    name_terms: tuple[str, ...]
    speakers: tuple[str, ...]
    highs: UnitSignals[float]
    lows: UnitSignals[float]
    most: float
    alike: float
    few: float
    is_foreign: bool
    """The query or the best unit is in another language than English."""
    pool: int
    searched: int
    long: tuple[int, ...]
    is_english: bool
    """The vector of the query was of a model that reads English alone."""


class SearchUnit(NamedTuple):
    """One recallable piece of a document. Times are milliseconds, 0 if unknown or open.

    `ref` and `part` name it. `title` is a topic or keywords, weighted apart from `text`. `thread` is the conversation's
    tag and `order` the place in it; units without a thread have no neighbours. `valid_from` and `valid_to` say when it
    holds in the world, `recorded_at` and `closed_at` when the runtime held it. `check` is a digest of the text that is
    embedded (0: none is), so that a vector which comes later is known to be of this very text; `vector` is a model's id
    and its embedding as little-endian float32, if it comes at once. `counts` is how often `text` has each of its
    terms, if counted before, `learnt` the numbers of these, if an index was given them. `traits`
    are a classifier's labels of `text`, beside those of its words.
    """

    ref: DocumentRef
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
    learnt: "LearntTerms | None" = None
    traits: TextTrait = TextTrait.NOTHING


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """All units that the document `ref` now has; none if it is gone. `called` are names that it says mean one.

    `sequence` is the place in the journal at which the document is mentioned, 0 if it is gone. It orders the units
    among others of the same time. Units that are replaced, or were hidden, keep the place of those before them, unless
    the document `is_renewed`; a document that corrects another takes the place of that one, its `origin`.
    """

    ref: DocumentRef
    units: tuple[SearchUnit, ...] = ()
    called: tuple[str, ...] = ()
    sequence: int = 0
    origin: DocumentRef | None = None
    is_renewed: bool = False
    """Whether its time is that of its last change."""


@dataclass(frozen=True, slots=True)
class EmbeddedDocument:
    """All vectors of `model` that the units of the document `ref` now have, by the units' `check`; none: all go.

    Each is little-endian float32. A vector of no unit's `check` is left out.
    """

    ref: DocumentRef
    model: str
    vectors: Mapping[int, bytes]
