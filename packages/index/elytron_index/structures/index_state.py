"""Everything that a space's index holds, and how units are added and removed."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.ids import is_role_name
from elytron_core.ports.store import DocumentRef
from elytron_core.text.analyser import TextAnalyser
from elytron_core.text.traits import read_traits
from elytron_index.lexicon.terms import TermVocabulary, pack_terms
from elytron_index.lexicon.text_vectors import text_codes, vector_length
from elytron_index.query import DocumentChange, EmbeddedDocument, SearchUnit, UnitPlace, UnitView
from elytron_index.structures.columns import Mask, RowRefs, Rows, UnitColumns, whole_numbers
from elytron_index.structures.embeddings import CodedVector, MeasuredQuery, ModelVectors, ScannedQuery, SpaceVectors
from elytron_index.structures.postings import (
    ROWS_MAX,
    PostingSegment,
    SpacePostings,
    TextField,
    merge_segments,
    renumber_rows,
)
from elytron_index.structures.visibility import CODED_COLUMNS, InternedNames, ThreadRows, VisibleRowsCache


@dataclass(frozen=True, slots=True)
class FrozenState:
    """A snapshot of an index's parts."""

    columns: UnitColumns
    names: InternedNames
    refs: RowRefs
    threaded: Rows
    """The living rows of the threads, thread by thread, each in order."""
    vocabulary: TermVocabulary
    segments: list[PostingSegment]
    models: dict[str, ModelVectors]
    compared: str
    is_english: bool
    """That model reads only English."""
    called: dict[str, tuple[str, ...]]
    places: "JournalPlaces"

    def compacted(self) -> "FrozenState":
        """Return the same without removed content, including terms and names, and with each thread's units adjacent."""
        old_columns = self.columns
        if not old_columns.dead:
            return self
        threadless_rows = np.flatnonzero(
            old_columns.alive[: old_columns.size] & (old_columns.thread[: old_columns.size] == 0)
        ).astype(np.int32)
        rows = np.concatenate((threadless_rows, self.threaded))
        new_numbers = np.zeros(old_columns.size, np.int32)
        new_numbers[rows] = np.arange(1, len(rows) + 1, dtype=np.int32)
        columns, names = old_columns.take(rows), self.names.copy()
        for name in CODED_COLUMNS:
            column = getattr(columns, name)
            column[:] = getattr(names, name).shrink(column)
        terms, segment = renumber_rows(self.vocabulary.terms(), self.segments, new_numbers)
        renumbered_models = {model: vectors.renumbered(new_numbers) for model, vectors in self.models.items()}
        models = {model: vectors for model, vectors in renumbered_models.items() if vectors.count}
        refs = self.refs.select_rows(rows)
        vocabulary = TermVocabulary(pack_terms(terms))
        threaded_rows = new_numbers[self.threaded]
        return FrozenState(
            columns, names, refs, threaded_rows, vocabulary, [segment], models, self.compared, self.is_english,
            self.called, self.places,
        )  # fmt: skip

    def settled(self) -> "FrozenState":
        """Return the same with small segments of postings joined."""
        return replace(self, segments=merge_segments(self.segments, self.columns.alive))


Moved = tuple[DocumentRef, int]
_FULL_CHARS = 250
Code = NDArray[np.int8]

_COMPACT_DEAD = 1_024
_HIDDEN_MOST = 4_096
_OVERGROWN = 3
_new: Callable[..., Any] = tuple[Any, ...].__new__
_view: Callable[[tuple[Any, ...]], UnitView] = partial(_new, UnitView)
_place: Callable[[tuple[Any, ...]], UnitPlace] = partial(_new, UnitPlace)
_READ_BYTES = 40
"""Approximate memory of what is cached of a unit between the searches of one recall."""
_ASSISTANTS = frozenset(("assistant", "model", "ai", "agent"))


class JournalPlaces:
    """Journal positions that rows do not contain."""

    def __init__(
        self,
        hidden_sequences: dict[DocumentRef, int] | None = None,
        moved_sequences: dict[DocumentRef, Moved] | None = None,
        /,
    ) -> None:
        self.hidden = hidden_sequences or {}
        """Those of documents without units, the latest of them, for when they are shown again."""
        self.moved = moved_sequences or {}
        """The documents with the position of one that they correct: that one, and the position that would be their
        own."""

    def copy(self) -> "JournalPlaces":
        return JournalPlaces(self.hidden.copy(), self.moved.copy())

    def take(
        self,
        latest_by_ref: Mapping[DocumentRef, DocumentChange],
        first_sequences: Mapping[DocumentRef, int],
        sequence_of: Callable[[DocumentRef], int],
        /,
    ) -> dict[DocumentRef, int]:
        """Return the position of each document; `first_sequences` says where each is first mentioned."""
        sequences: dict[DocumentRef, int] = {}
        for ref, change in latest_by_ref.items():
            sequence = 0 if change.is_renewed else sequence_of(ref)
            if not sequence and change.origin is not None:
                sequence = sequences.get(change.origin) or sequence_of(change.origin)
                if sequence:
                    self.moved[ref] = change.origin, first_sequences[ref]
            sequences[ref] = sequence or (change.sequence if change.is_renewed else first_sequences[ref])
        for ref, change in latest_by_ref.items():
            self.hidden.pop(ref, None)
            if not change.units and change.sequence and not change.is_renewed:
                self.hidden[ref] = sequences[ref]
        while len(self.hidden) > _HIDDEN_MOST:
            del self.hidden[next(iter(self.hidden))]
        return sequences

    def give_back(
        self, removed_refs: Collection[DocumentRef], sequence_of: Callable[[DocumentRef], int], /
    ) -> Iterator[tuple[DocumentRef, int]]:
        """Yield the positions of visible documents that correct one of `removed_refs`, and of those that correct
        them."""
        returned_refs: set[DocumentRef] = set()
        # A document is moved after the one that it corrects, so positions are handed on in this order.
        for ref, (origin, own_sequence) in tuple(self.moved.items()):
            if ref in removed_refs or origin in removed_refs:
                del self.moved[ref]
            if origin in removed_refs or origin in returned_refs:
                sequence = own_sequence if origin in removed_refs else sequence_of(origin)
                returned_refs.add(ref)
                if ref in self.hidden:
                    self.hidden[ref] = sequence
                else:
                    yield ref, sequence


class IndexState:
    """The parts of one space's index, kept consistent."""

    def __init__(self, analyser: TextAnalyser, /) -> None:
        self.analyser = analyser
        self.columns = UnitColumns()
        self.names = InternedNames()
        self.postings = SpacePostings()
        self.vectors = SpaceVectors()
        self.compared = ""
        self.is_english = False
        self.called: dict[str, tuple[str, ...]] = {}
        """The equivalent names, by the key of the document that declares them."""
        self.kept_places = JournalPlaces()
        self.embeddable = 0
        self.refs = RowRefs()
        self.threads = ThreadRows(self.columns, self.refs)
        self.field_terms = dict.fromkeys(TextField, 0)
        self.field_units = dict.fromkeys(TextField, 0)
        self.speaker_units = [0]
        self.speakers_of: dict[str, list[int]] = {}
        self.name_terms: list[tuple[str, ...]] = [()]
        self._sums = np.zeros(0)
        self._assistants: tuple[Mask, Mask, bool] = np.zeros(0, np.bool_), np.zeros(0, np.bool_), False
        self._is_borrowed = False
        """Parts may belong to a checkpoint."""
        self._renew()

    def apply(self, changes: Iterable[DocumentChange], embedded_documents: Iterable[EmbeddedDocument], /) -> None:
        """Replace the units of each change's document, then the vectors; the last change of a document counts.

        A unit whose text stays keeps its vectors. Raises InvalidInput for a vector that cannot be compared and for a
        unit of another document, LimitExceeded for more units than an index can hold; then nothing is changed.
        """
        self._renew()
        changes = list(changes)
        latest_by_ref = {change.ref: change for change in changes}
        units = [unit for change in latest_by_ref.values() for unit in change.units]
        if self.columns.size + len(units) > ROWS_MAX:
            raise LimitExceeded(what="units in a space's index", limit=ROWS_MAX)
        if any(unit.ref != change.ref for change in latest_by_ref.values() for unit in change.units):
            raise InvalidInput(field="unit", problem="belongs to a document other than its change")
        # Everything that can be rejected is parsed before the first change, so a rejected batch leaves no trace.
        sizes: dict[str, int] = {}
        vectors = [
            None if unit.vector is None else self.vectors.parse(unit.vector, sizes, field="vector") for unit in units
        ]
        embedded_vectors = {
            (item.ref, item.model): {
                check: self.vectors.parse((item.model, data), sizes, field="vector")
                for check, data in item.vectors.items()
            }
            for item in embedded_documents
        }
        for ref, change in latest_by_ref.items():
            self.called.pop(ref.key, None)
            if change.called:
                self.called[ref.key] = change.called
        # Read before the rows are removed. A unit with unchanged text has the same check and finds its vectors again.
        checks, rows = self.columns.check, self.rows
        old_vectors = {ref: by_check for ref in latest_by_ref if (by_check := self.vectors.by_check(rows(ref), checks))}
        first_sequences = {change.ref: change.sequence for change in reversed(changes)}
        sequences = self.kept_places.take(latest_by_ref, first_sequences, self.sequence_of)
        for ref in latest_by_ref:
            self._remove(ref)
        if units:
            self._add(units, vectors, sequences)
        for ref, by_check in old_vectors.items():
            for (model, digest), vector in by_check.items():
                self.vectors.put_checked(rows(ref), self.columns.check, model, {digest: vector})
        for (ref, model), new_vectors in embedded_vectors.items():
            self.vectors.remove(rows(ref), model)
            self.vectors.put_checked(rows(ref), self.columns.check, model, new_vectors)
        removed_refs = {ref for ref, change in latest_by_ref.items() if not change.units and not change.sequence}
        for ref, sequence in self.kept_places.give_back(removed_refs, self.sequence_of) if removed_refs else ():
            columns = self.columns
            columns.own()
            columns.sequence[list(self.rows(ref))] = sequence
        self.postings.settle(self.columns.alive)

    @property
    def is_sparse(self) -> bool:
        """More is dead than alive: compacting would speed up searches and save memory."""
        return self.columns.dead > self.columns.count + _COMPACT_DEAD

    @property
    def is_overgrown(self) -> bool:
        """So much is dead that compacting must not wait."""
        return self.columns.dead > _OVERGROWN * (self.columns.count + _COMPACT_DEAD)

    def freeze(self) -> FrozenState:
        """Return a snapshot of the whole state, for another thread to work on."""
        models = {model: vectors.frozen() for model, vectors in self.vectors.models.items()}
        vocabulary, segments = self.postings.vocabulary.frozen(), list(self.postings.segments)
        return FrozenState(
            self.columns.frozen(), self.names.copy(), self.refs.frozen(), self.threads.all_rows(),
            vocabulary, segments, models, self.compared, self.is_english, self.called.copy(),
            self.kept_places.copy(),
        )  # fmt: skip

    def own_parts(self) -> Iterator[None]:
        """Copy what belongs to a checkpoint, part by part: one that still reads it would keep all of its words."""
        yield from self.columns.own_parts()
        parts = (self.refs, self.threads, self.postings, *self.vectors.models.values())
        yield from (part.own() for part in parts if self._is_borrowed)
        self._is_borrowed = False

    def purge(self) -> None:
        """Remove everything dead except rows of zeros, whose numbers stay reserved until the index is compacted."""
        list(self.own_parts())
        columns, size = self.columns, self.columns.size
        columns.purge()
        self.postings.purge(columns.alive)
        self.analyser.forget()
        for name in CODED_COLUMNS:
            codes = getattr(self.names, name).purge(getattr(columns, name)[:size][columns.alive[:size]])
            if name == "speaker":
                _forget_names(self, codes)
        self._assistants = np.zeros(0, np.bool_), np.zeros(0, np.bool_), False
        self._renew()

    @classmethod
    def of(cls, frozen: FrozenState, analyser: TextAnalyser, /) -> "IndexState":
        """Return a state with the contents of `frozen`, without dead rows, taking over its memory."""
        state = cls(analyser)
        columns = state.columns = frozen.columns
        state.names, state.refs = frozen.names, frozen.refs
        state.compared, state.is_english = frozen.compared, frozen.is_english
        state.called = frozen.called.copy()
        state.kept_places = frozen.places.copy()
        state._is_borrowed = True
        state.postings.load(frozen.vocabulary, frozen.segments)
        state.vectors.models = frozen.models
        state.threads = ThreadRows(columns, state.refs)
        state.threads.load(frozen.threaded)
        for field in TextField:
            lengths = columns.lengths(field)[1 : columns.size]
            state.field_terms[field] = int(lengths.sum(dtype=np.int64))
            state.field_units[field] = int(np.count_nonzero(lengths))
        state.embeddable = int(np.count_nonzero(columns.check[1 : columns.size]))
        counts = np.bincount(columns.speaker[1 : columns.size], minlength=len(state.names.speaker))
        state.speaker_units = whole_numbers(counts)
        for code, speaker in enumerate(state.names.speaker.values[1:], 1):
            state._learn_name(code, speaker)
        state._renew()
        return state

    def views(self, rows: NDArray[np.integer[Any]], /) -> list[UnitView]:
        """Return the views of the units at `rows`, in that order."""

        def of(name: str) -> Iterable[Any]:
            values = getattr(self.columns, name).take(rows).tolist()
            return map(getattr(self.names, name).values.__getitem__, values) if name in CODED_COLUMNS else values

        _, *fields = UnitView._fields
        return list(map(_view, zip(self.refs.of(rows), *map(of, fields), strict=True)))

    def places(self, rows: NDArray[np.integer[Any]], /) -> list[UnitPlace]:
        """Return the places of the units at `rows`, in that order."""
        columns = self.columns
        column_groups = (columns.part, columns.order), (columns.sequence, columns.chars, columns.trust)
        heads, tails = ([column.take(rows).tolist() for column in group] for group in column_groups)
        return list(map(_place, zip(self.refs.of(rows), *heads, columns.times(rows).tolist(), *tails, strict=True)))

    def assistants(self) -> tuple[Mask, Mask] | None:
        """Return the codes of the roles and speakers that are an assistant's; None if there are none."""
        names, (is_assistant_role, is_assistant_speaker, has_assistant) = self.names, self._assistants
        # Names are only added, so equal lengths mean equal names.
        if (len(is_assistant_role), len(is_assistant_speaker)) != (len(names.role.values), len(names.speaker.values)):
            is_assistant_role = np.array([role in _ASSISTANTS for role in names.role.values])
            is_assistant_speaker = np.array([speaker.casefold() in _ASSISTANTS for speaker in names.speaker.values])
            has_assistant = bool(is_assistant_role.any() or is_assistant_speaker.any())
            self._assistants = is_assistant_role, is_assistant_speaker, has_assistant
        return (is_assistant_role, is_assistant_speaker) if has_assistant else None

    def sums(self) -> NDArray[np.float64]:
        """Return an array of zeros, at least one per row; its caller restores the zeros after writing to it."""
        if len(self._sums) < self.columns.size:
            # As long as the columns' capacity, so that it is replaced only when they grow.
            self._sums = np.zeros(len(self.columns.plane))
        return self._sums

    def rows(self, ref: DocumentRef, /) -> tuple[int, ...]:
        """Return the rows of the document `ref`."""
        return self.refs.get(ref)

    def row_of(self, ref: DocumentRef, part: int, /) -> int:
        """Return the row of a unit, 0 if there is none."""
        return next((row for row in self.rows(ref) if self.columns.part[row] == part), 0)

    def moment_of(self, ref: DocumentRef, part: int, /) -> tuple[int, int] | None:
        """Return the time and the journal position that order a unit; None for an unknown one."""
        row = self.row_of(ref, part)
        return (self.columns.time(row), int(self.columns.sequence[row])) if row else None

    def sequence_of(self, ref: DocumentRef, /) -> int:
        """Return the journal position of a document's units; 0 if it has none."""
        rows = self.rows(ref)
        return int(self.columns.sequence[rows[0]]) if rows else self.kept_places.hidden.get(ref, 0)

    def unembedded(self, model: str, /) -> NDArray[np.int64]:
        """Return the rows of the units that lack a vector of `model`."""
        size = self.columns.size
        is_embeddable = self.columns.alive[:size] & (self.columns.check[:size] != 0)
        vectors = self.vectors.models.get(model)
        return np.flatnonzero(is_embeddable if vectors is None else is_embeddable & ~vectors.has(size))

    def stale(self, model: str, /) -> int:
        """Return how many of these units have a vector of another model."""
        size = self.columns.size
        has_other_vector = np.zeros(size, np.bool_)
        for name, vectors in self.vectors.models.items():
            if name != model:
                has_other_vector |= vectors.has(size)
        return int(np.count_nonzero(has_other_vector[self.unembedded(model)]))

    @property
    def size_bytes(self) -> int:
        """Approximate memory."""
        name_bytes = 200 * sum(len(getattr(self.names, name)) for name in CODED_COLUMNS)
        parts = (self.columns, self.postings, self.threads, self.vectors, self.refs, self.sights)
        cached_bytes = _READ_BYTES * self.columns.size
        return 4_096 + name_bytes + cached_bytes + self._sums.nbytes + sum(part.size_bytes for part in parts)

    def _renew(self) -> None:
        """Clear cached lookups of the previous units."""
        self.sights = VisibleRowsCache(self.columns, self.names)
        self.scanned: ScannedQuery | MeasuredQuery | None = None

    def _remove(self, ref: DocumentRef) -> None:
        rows = self.refs.forget(ref)
        columns = self.columns
        for model in tuple(self.vectors.models):
            self.vectors.remove(rows, model)
        for row in rows:
            self.threads.remove(row)
            columns.remove_row(row)
            self._count(slice(row, row + 1), -1)

    def _add(
        self,
        units: Sequence[SearchUnit],
        vectors: Sequence[CodedVector | None],
        sequences: Mapping[DocumentRef, int],
    ) -> None:
        terms_of, postings = self.analyser.terms, self.postings
        records: list[tuple[Any, ...]] = []
        all_counts = [_term_counts(terms_of(unit.text)) if unit.counts is None else unit.counts for unit in units]
        texts = [f"{unit.title}. {unit.text}" if unit.title else unit.text for unit in units]
        all_codes = zip(*text_codes(texts), strict=True)
        # Postings contain row numbers, so these are assigned before the columns grow.
        for row, (unit, counts, codes) in enumerate(zip(units, all_counts, all_codes, strict=True), self.columns.size):
            body_terms = postings.add(row, TextField.BODY, counts, unit.learnt)
            title_terms = postings.add(row, TextField.TITLE, _term_counts(terms_of(unit.title))) if unit.title else 0
            records.append(self._record(unit, sequences[unit.ref], body_terms, title_terms, codes))
        self.refs.extend([unit.ref for unit in units])
        first_row = self.columns.append(records)
        rows = range(first_row, self.columns.size)
        self._count(slice(first_row, self.columns.size), 1)
        for row, unit, vector in zip(rows, units, vectors, strict=True):
            self.threads.insert(row)
            if unit.vector is not None and vector is not None:
                self.vectors.put(row, unit.vector[0], vector)

    def _record(
        self, unit: SearchUnit, sequence: int, body: int, title: int, codes: tuple[NDArray[np.int8], NDArray[np.int8]]
    ) -> tuple[Any, ...]:
        names = self.names
        speaker_code, text_traits = names.speaker.code(unit.speaker), read_traits(unit.text)
        if speaker_code == len(self.speaker_units):
            self.speaker_units.append(0)
            self._learn_name(speaker_code, unit.speaker)
        return (
            names.plane.code(unit.plane), speaker_code, names.role.code(unit.role), names.thread.code(unit.thread),
            names.scope.code(unit.scope), names.tags.code(unit.tags), unit.part, unit.order, unit.at, sequence,
            unit.trust, unit.valid_from, unit.valid_to, unit.recorded_at, unit.closed_at,
            len(unit.text), _text_informativeness(unit.text), body, title, unit.check,
            *(vector_part for code in codes for vector_part in (code.tobytes(), vector_length(code))),
            text_traits.traits | unit.traits, text_traits.factuality,
        )  # fmt: skip

    def _count(self, rows: slice, sign: int) -> None:
        """Add or subtract the units at `rows` in the counts."""
        # Rows come and go a few at a time: Python counts them faster than arrays do.
        columns = self.columns
        checks = whole_numbers(columns.check[rows])
        self.embeddable += sign * (len(checks) - checks.count(0))
        for speaker in whole_numbers(columns.speaker[rows]):
            self.speaker_units[speaker] += sign
        for field in self.field_terms:
            lengths = whole_numbers(columns.lengths(field)[rows])
            self.field_terms[field] += sign * sum(lengths)
            self.field_units[field] += sign * (len(lengths) - lengths.count(0))

    def _learn_name(self, code: int, speaker: str) -> None:
        terms = () if is_role_name(speaker) else tuple(dict.fromkeys(self.analyser.terms(speaker)))
        self.name_terms.append(terms)
        for term in terms:
            self.speakers_of.setdefault(term, []).append(code)


def _forget_names(state: IndexState, codes: Iterable[int]) -> None:
    """Drop the names of speakers without units."""
    for code in codes:
        for term in state.name_terms[code]:
            state.speakers_of[term].remove(code)
            if not state.speakers_of[term]:
                del state.speakers_of[term]
        state.name_terms[code] = ()


def _text_informativeness(text: str) -> float:
    informativeness = 0.5 * min(math.log1p(len(text)) / math.log1p(_FULL_CHARS), 1.0)
    return informativeness - 0.1 if text.rstrip().endswith(("?", "？")) else informativeness


def _term_counts(terms: Sequence[str]) -> dict[str, int]:
    """Return the count of each of `terms`."""
    # A loop: for as few terms as most texts have, a Counter is slower.
    counts: dict[str, int] = {}
    for term in terms:
        counts[term] = counts.get(term, 0) + 1
    return counts
