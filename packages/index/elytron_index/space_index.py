"""The index of one memory space: a fold over its journal that answers searches."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np

from elytron_core import limits
from elytron_core.ids import other_names
from elytron_core.policy.ranking.excerpts import ScoredSentence, SoughtWords, sentences_of
from elytron_core.ports.store import DocumentRef
from elytron_core.text.analyser import TextAnalyser
from elytron_core.text.traits import TextTrait
from elytron_index import checkpoint
from elytron_index.checkpoint import Bytes
from elytron_index.lexicon.terms import LearntTerms
from elytron_index.lexicon.text_vectors import LanguageVectors
from elytron_index.query import DocumentChange, EmbeddedDocument, FoundCandidates, IndexQuery, UnitFilters, UnitView
from elytron_index.search.space_search import ReadingCache, latest_units, search_space
from elytron_index.structures.state import FrozenState, IndexState


class SpaceIndex:
    """Units of one space, searchable. Knows no store and no plane; not for several threads at once.

    What a search returns depends on the units alone, not on the order, the batches or the checkpoints they came by.
    """

    def __init__(self, analyser: TextAnalyser, /, *, labels: str = "") -> None:
        """Make an index of no units. `labels` is the version of the classifier that says what traits units have."""
        self._state = IndexState(analyser)
        self._labels = labels
        self._watermark = 0
        self._reading = ReadingCache()
        self._planes: dict[str, int] | None = None
        self._since: list[tuple[Sequence[DocumentChange], Sequence[EmbeddedDocument]]] | None = None

    @property
    def watermark(self) -> int:
        """The journal sequence up to which changes were applied."""
        return self._watermark

    def apply(
        self, changes: Sequence[DocumentChange], /, *, embedded: Sequence[EmbeddedDocument] = (), watermark: int
    ) -> None:
        """Replace the units of each document named, then the vectors, whole or not at all, and move the watermark.

        Raises InvalidInput for a vector that is no vector or has another dimension than its model's, and for a unit
        that names another document than its change; LimitExceeded for more units than an index can hold.
        """
        self._planes = None
        self._reading.forget()
        self._state.apply(changes, embedded)
        self._watermark = watermark
        if self._since is not None:
            self._since.append((changes, embedded))
        elif self._state.is_overgrown:
            self.finish_compacting(self.begin_compacting().compacted())

    def learnt(self) -> LearntTerms:
        """Return a counter for the terms of a long text, some at a time, before the text is applied with it.

        If the index has other numbers for them by then, it finds them by itself, at once.
        """
        return LearntTerms(self._state.postings.vocabulary)

    def compare(self, model: str, /, *, is_english: bool = False) -> None:
        """Compare the vectors of `model` from now on; `is_english`: it reads English alone."""
        self._state.compared, self._state.is_english = model, is_english

    @property
    def compared(self) -> str:
        """The model whose vectors are to be compared; empty while none was named."""
        return self._state.compared

    @property
    def is_english(self) -> bool:
        """True if that model reads English alone."""
        return self._state.is_english

    def reads_language(self, text: str, /) -> bool:
        """Return whether that model reads the language of `text`; one word of plain letters may be a name in any."""
        is_name = text.isascii() and len(text.split()) == 1
        return not self.is_english or is_name or LanguageVectors.load().is_english(text)

    def search(self, query: IndexQuery, /) -> FoundCandidates:
        """Return the best units for `query`, with what speaks for each; a speaker may be named by another name.

        Raises InvalidInput, LimitExceeded for a limit, text or vector out of bounds.
        """
        return search_space(self._state, self._named(query), self._reading)

    def sought(self, query: IndexQuery, /) -> SoughtWords:
        """Return what the words of `query` are in single sentences."""
        return self._reading.of(self._state, self._named(query)).sought()

    def _named(self, query: IndexQuery) -> IndexQuery:
        """Return `query` with the names under which those speak whom it names otherwise, if there is room."""
        if not self._state.called:
            return query
        spoken = frozenset(self.speakers())
        added = [name for name in other_names(query.text, self._state.called.values()) if name in spoken]
        text = " ".join((query.text, *added))
        return replace(query, text=text) if added and len(text) <= limits.QUERY_CHARS else query

    def sentences_of(self, text: str, /) -> tuple[ScoredSentence, ...]:
        """Return the sentences of `text` as they are compared with what is sought."""
        return sentences_of(text, self._state.analyser.terms)

    def latest(
        self, filters: UnitFilters, traits: TextTrait, /, *, limit: int, least_trust: int = 0
    ) -> tuple[UnitView, ...]:
        """Return the last units that pass and have one of `traits`, latest first, those of assistants left out.

        Nothing where several speak and none of them is an assistant: people tell each other what is not meant for it.
        """
        return latest_units(self._state, filters, traits, limit=limit, least_trust=least_trust)

    def units_near(self, unit: UnitView, /, *, before: int, after: int) -> tuple[UnitView, ...]:
        """Return up to `before` units ahead of `unit` in its thread and `after` behind it, in order, without itself."""
        row = self._state.row_of(unit.ref, unit.part)
        if not row:
            return ()
        ahead, behind = self._state.threads.around(row, before, after)
        return tuple(self._state.views(np.array((*ahead, *behind), np.int32)))

    def units_of(self, ref: DocumentRef, /) -> tuple[UnitView, ...]:
        """Return the units of the document `ref`, by part; none if it is unknown."""
        views = self._state.views(np.array(self._state.rows(ref), np.int32))
        return tuple(sorted(views, key=lambda view: view.part))

    def check_of(self, ref: DocumentRef, part: int, /) -> int:
        """Return the check of a unit's embedded text; 0 if it is unknown or nothing is embedded."""
        return int(self._state.columns.check[self._state.row_of(ref, part)])

    def speakers(self, text: str | None = None, /) -> tuple[str, ...]:
        """Return everyone who speaks here, by name; with `text` those alone whose names, or other names, it holds."""
        state = self._state
        spoken = zip(state.names.speaker.values, state.speaker_units, strict=True)
        names = {name for name, units in spoken if name and units}
        if text is not None:
            names |= {name for called in state.called.values() if names.intersection(called) for name in called}
        return tuple(sorted([name for name in names if text is None or name in text]))

    def planes(self) -> dict[str, int]:
        """Return how many units each plane has."""
        if self._planes is None:
            columns, planes = self._state.columns, self._state.names.plane.values
            living = columns.plane[: columns.size][columns.alive[: columns.size]]
            counted = zip(planes, np.bincount(living, minlength=len(planes)).tolist(), strict=True)
            self._planes = {plane: units for plane, units in sorted(counted) if units}
        return self._planes.copy()

    def models(self) -> dict[str, int]:
        """Return how many units have a vector, by model."""
        return {model: kept.count for model, kept in sorted(self._state.vectors.models.items())}

    def dimensions_of(self, model: str, /) -> int | None:
        """Return how many numbers a vector of `model` has here; None if there is none."""
        kept = self._state.vectors.models.get(model)
        return kept.dimension if kept is not None else None

    def unembedded(self, model: str, /) -> int:
        """Return how many units are to have a vector of `model` and have none."""
        kept = self._state.vectors.models.get(model)
        return self._state.embeddable - (kept.count if kept is not None else 0)

    def stale(self, model: str, /) -> int:
        """Return how many units are to have a vector of `model` and have one of another model instead."""
        return self._state.stale(model)

    def unembedded_refs(
        self, model: str, /, *, limit: int, skip: Container[DocumentRef] = ()
    ) -> tuple[DocumentRef, ...]:
        """Return up to `limit` documents with such units, in the order in which they came, those in `skip` left out."""
        refs = self._state.refs
        found: dict[DocumentRef, None] = {}
        for row in self._state.unembedded(model):
            if refs[row] not in skip:
                found[refs[row]] = None
            if len(found) == limit:
                break
        return tuple(found)

    @property
    def units(self) -> int:
        """Number of its units."""
        return self._state.columns.count

    @property
    def documents(self) -> int:
        """Number of documents with units in it."""
        return self._state.refs.documents

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        return self._state.size_bytes

    def freeze(self) -> "FrozenIndex":
        """Return the index in its current state, to be stored by another thread while this one goes on."""
        return FrozenIndex(self._state.freeze(), self._watermark, self._labels)

    def to_bytes(self) -> bytes:
        """Return a checkpoint: only what is there now, nothing of what was removed."""
        return b"".join(self.freeze().pieces())

    @property
    def is_sparse(self) -> bool:
        """More is gone than is there, and it is not being compacted yet."""
        return self._since is None and self._state.is_sparse

    def begin_compacting(self) -> FrozenState:
        """Return what another thread is to compact; until `finish_compacting` what is applied is noted."""
        self._since = []
        return self._state.freeze()

    def abandon_compacting(self) -> None:
        """Go on as before `begin_compacting`."""
        self._since = None

    def finish_compacting(self, compacted: FrozenState, /) -> None:
        """Go on with `compacted`, and what was applied meanwhile."""
        state = IndexState.of(compacted, self._state.analyser)
        for changes, embedded in self._since or ():
            state.apply(changes, embedded)
        state.compared, state.is_english = self._state.compared, self._state.is_english
        self._state, self._since = state, None
        self._reading.forget()

    @classmethod
    def from_bytes(cls, data: Bytes, analyser: TextAnalyser, /, *, labels: str = "") -> "SpaceIndex | None":
        """Return the index that `data` is a checkpoint of; None if it is damaged or of other versions."""
        loaded = checkpoint.load_checkpoint(data, analyser, labels)
        if loaded is None:
            return None
        index = cls(analyser, labels=labels)
        index._state, index._watermark = loaded
        return index


class FrozenIndex:
    """An index at one moment."""

    def __init__(self, frozen: FrozenState, watermark: int, labels: str, /) -> None:
        self._frozen = frozen
        self._labels = labels
        self.watermark = watermark

    def pieces(self) -> Iterator[bytes]:
        """Yield its checkpoint piece by piece: only what is there, nothing of what was removed."""
        return checkpoint.dump_checkpoint(self._frozen.compacted().settled(), self.watermark, self._labels)
