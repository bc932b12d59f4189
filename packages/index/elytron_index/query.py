"""Query and answer of an index: units with their raw signals, which core ranks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from elytron_core.contracts.recall import Where
from elytron_core.policy.ranking.question import AnswerOwner
from elytron_core.policy.ranking.time_ranges import TimeSpan
from elytron_core.policy.ranking.weights import STANDARD, SignalWeights
from elytron_core.ports.store import DocumentRef
from elytron_core.text.traits import TextTrait

if TYPE_CHECKING:
    from elytron_index.lexicon.terms import LearntTerms


Number = TypeVar("Number")

METADATA = "metadata."
"""Prefix of the scope parts that contain a turn's metadata as JSON."""


@dataclass(frozen=True, slots=True)
class UnitFilters:
    """Conditions on a searched unit; an empty field sets no condition.

    The first group decides visibility: a hidden unit contributes nothing to its neighbours either. The second selects
    units: one that is not selected still counts for its neighbouring turns. Within a field any value matches; all
    fields must match.
    """

    planes: tuple[str, ...] = ()
    scope: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """A scope part and its allowed values; the value "" admits units without that part."""
    as_of: int | None = None
    """Only what was valid in the world at this moment."""
    known_at: int | None = None
    """Only what the runtime believed at this moment; by default, what it believes now (never closed)."""
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
    """Conditions on the scope parts with the prefix `METADATA`, whose values are JSON."""
    exclude: frozenset[DocumentRef] = frozenset()


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """The parameters of BM25: how fast repeats saturate, and how much length counts.

    A text is long compared with the average, or with `typical` terms if the average is longer: long answers raise the
    average, but a word in one of them is not better evidence for it.
    """

    k1: float = 0.9
    b: float = 0.4
    typical: float = 20.0

    def length(self, terms: int, units: int, /) -> float:
        """Return the length from which a text counts as long, for `units` with this many terms in total."""
        return min(terms / units, self.typical) if terms else self.typical


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A search. `vector` is a model's id and the query's embedding, compared only with units of that model.

    `spans` give the date signal; `fits` are the traits that an answer probably has, `heeds` those that count for any
    subject, except wishes for one occasion, which count if the query is about it. `owner` is the person whose words
    count more in talk with assistants. Without text and vector every unit that passes the filters is a candidate.
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
    """The vector is from a model that reads only English."""


class UnitView(NamedTuple):
    """A unit as stored in the index; its text is read from the store."""

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
        """Return the time that orders it, never later than its recording."""
        return min(self.at, self.recorded_at) if self.recorded_at else self.at


def latest_first(views: Iterable[UnitView], /) -> tuple[UnitView, ...]:
    """Return the units by time; at the same time, the later in the journal and in its thread first."""
    return tuple(
        sorted(views, key=lambda view: (view.ordered_at, view.sequence, view.order, view.ref, view.part), reverse=True)
    )


class UnitSignals(NamedTuple, Generic[Number]):
    """Raw signals of one unit. (Inside the index the same names are arrays for many units.)"""

    body: Number
    """BM25 of the text for the query's words and, discounted, related words; without names of this space's speakers."""
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
    """Body of the previous unit, if that one asks and this one does not end in a question."""
    speaker: Number
    """Share of the speaker's name in the query."""
    vector: Number
    """Cosine; the lowest of the search if the unit has no vector of the model."""
    vector_near: Number
    """Shares of the neighbours' cosines above the lowest."""
    vector_session: Number
    """Mean cosine, above the lowest, of the thread's three best units."""
    text_vectors: Number
    """Similarity of the text to the query by the shipped text vectors: a cosine, 0 if either has no known word."""
    owner: Number
    """1 if the role is the one whose words the query asks for, in spaces where both speak."""
    standing: Number
    """1 if the text, by the person the query asks about, states something lasting, and the query heeds that; half if it
    heeds wishes for one occasion, and is about that."""
    date: Number
    """1 within a time mentioned in the query, less for two weeks after it and three days before."""
    fits: Number
    """1 if the text has a trait that the answer probably has."""
    told: Number
    """Degree to which the text, or a long one's nearest sentence, states facts (`elytron_core.text.traits`)."""
    sentence: Number
    """Difference of a long text's nearest sentence to the whole text, as evidence.

    0 inside the index, which has no texts.
    """
    later: Number
    """The chronological position, 0 to 1, among the units whose text supports them at least half as much as the
    best's."""
    informative: Number
    """Longer texts more, up to 0.5; questions 0.1 less."""
    matched: Number
    """Number of the query's terms in the text."""
    coverage: Number
    """The same as a share, each term weighted by rarity; related words in part."""
    context: Number
    """The share of the query's words, except names, in the unit and two neighbours on each side."""


class UnitPlace(NamedTuple):
    """Row of a result, and the time that orders it; the index returns its other fields on request."""

    ref: DocumentRef
    part: int
    order: int
    at: int
    sequence: int
    chars: int
    trust: int


class UnitCandidate(NamedTuple):
    """A selected unit, with its signals and their sum."""

    unit: UnitPlace
    signals: UnitSignals[float]
    score: float


@dataclass(frozen=True, slots=True)
class FoundCandidates:
    """The results, best first: by score, then newer, later in the journal, later in the thread, by ref and part.

    `highs` and `lows` are each signal's extremes over all `pool` units that were weighed; `searched` counts the units
    that passed the filters. `name_terms` are the terms that are part of a speaker's name, `speakers` those whose whole
    name is in the query; `long` are the positions of long texts. `most` is the sum of a unit that were best in every
    signal, `alike` the share of the query that the text vectors know, `few` how far the units are few statements, which
    similarity orders.
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
    """The query or the best unit is not in English."""
    pool: int
    searched: int
    long: tuple[int, ...]
    is_english: bool
    """The vector of the query was from a model that reads only English."""


class SearchUnit(NamedTuple):
    """One recallable piece of a document. Times are milliseconds, 0 if unknown or open.

    `ref` and `part` name it. `title` is a topic or keywords, weighted separately from `text`. `thread` is the
    conversation's tag and `order` the position in it; units without a thread have no neighbours. `valid_from` and
    `valid_to` say when it holds in the world, `recorded_at` and `closed_at` when the runtime believed it. `check` is a
    digest of the embedded text (0: none), so that a later vector is known to be of this very text; `vector` is a
    model's id and its embedding as little-endian float32, if it comes at once. `counts` is how often `text` has each of
    its terms, if counted before, `learnt` their numbers, if an index was given them. `traits` are a classifier's labels
    of `text`, in addition to those of its words.
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
    """All current units of the document `ref`; none if it is gone. `called` are names that it declares equivalent.

    `sequence` is the document's position in the journal, 0 if it is gone. It orders the units among others of the same
    time. Units that are replaced, or were hidden, keep the position of those before them, unless the document
    `is_renewed`; a document that corrects another takes the position of that one, its `origin`.
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
    """All current vectors of `model` for units of the document `ref`, by the units' `check`; none: remove all.

    Each is little-endian float32. A vector of no unit's `check` is left out.
    """

    ref: DocumentRef
    model: str
    vectors: Mapping[int, bytes]
