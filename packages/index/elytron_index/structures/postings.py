"""Postings, the counts of terms in units: immutable sorted segments and a small live list.

A posting is one 64-bit number: the term and its field (30 bits), the row (26), the count (8, stops at 255). Sorted
numbers are a segment. Rows only grow, so that two segments merge by putting one's postings behind the other's.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elytron_index.lexicon.terms import LearntTerms, TermVocabulary

MOST_BYTES: Final = 1 << 26
MOST_TABLES: Final = 64
_LEAST: Final = 1 << 12
_SHARE: Final = 32
"""A term in one of this many rows is frequent."""


class PostingRun(NamedTuple):
    """Postings of one term: rows ascending, and its count in each."""

    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]


class CountTable(NamedTuple):
    """Counts of a term in each row, up to the table's end."""

    counts: NDArray[np.uint8]
    most: int
    holders: int


class FrequentTerms:
    """Tables of terms, last used last; the first ones are dropped when there are too many."""

    def __init__(self) -> None:
        self._tables: OrderedDict[int, CountTable] = OrderedDict()

    def table(self, code: int, runs: Sequence[PostingRun], size: int, /) -> CountTable | None:
        """Return the table of the term `code` whose postings are `runs`, in a space of `size` rows.

        None where the term is not frequent. It may end before the last posting.
        """
        holder_count = sum(len(run.rows) for run in runs)
        if holder_count < max(_LEAST, size // _SHARE):
            return None
        table = self._tables.pop(code, None)
        # A table may lag by a quarter, because readers take what follows its end from the runs.
        if table is None or holder_count > table.holders + table.holders // 4:
            counts = np.zeros(int(runs[-1].rows[-1]) + 1, np.uint8)
            for run in runs:
                counts[run.rows] = run.counts
            table = CountTable(counts, int(counts.max()), holder_count)
        self._tables[code] = table
        # The table in use stays, even if it alone exceeds the limit.
        while len(self._tables) > MOST_TABLES or (self.size_bytes > MOST_BYTES and len(self._tables) > 1):
            self._tables.popitem(last=False)
        return table

    def clear(self) -> None:
        """Drop all tables: rows or terms were renumbered."""
        self._tables.clear()

    @property
    def size_bytes(self) -> int:
        return sum(len(table.counts) for table in self._tables.values())


Packed = NDArray[np.uint64]
Numbers = NDArray[np.int64]

ROWS_MAX = 1 << 26
COUNT_MAX = 255
_ROW_SHIFT = 8
_CODE_SHIFT = 34
_TERM_SHIFT = 35
_LIVE_MAX = 8_192
_MANY = 4_096
"""A text with more terms than this is added with arrays."""
_RATIO = 4
_FULL = 1 << 17
"""A segment of this many postings is not merged any more, which bounds the pause of a merge."""


class TextField(IntEnum):
    """The texts of a unit that are searched separately."""

    BODY = 0
    TITLE = 1


def code_of(term: int, field: TextField, /) -> int:
    """Return the number of `term` in `field`."""
    return term << 1 | field


class PostingSegment(NamedTuple):
    """Postings in order: `codes` ascending, those of `codes[i]` at `starts[i]` to `starts[i + 1]`, rows ascending."""

    codes: NDArray[np.int32]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]

    @property
    def size_bytes(self) -> int:
        return self.codes.nbytes + self.starts.nbytes + self.rows.nbytes + self.counts.nbytes

    def copy(self) -> "PostingSegment":
        """Return a copy in its own memory."""
        return PostingSegment(self.codes.copy(), self.starts.copy(), self.rows.copy(), self.counts.copy())

    def packed(self) -> Packed:
        """Return the postings as sorted numbers."""
        packed_postings = np.repeat(self.codes.astype(np.uint64) << np.uint64(_CODE_SHIFT), np.diff(self.starts))
        packed_postings |= self.rows.astype(np.uint64) << np.uint64(_ROW_SHIFT)
        packed_postings |= self.counts
        return packed_postings


def segment_of(packed: Packed, /) -> PostingSegment:
    """Return the segment of sorted postings."""
    all_codes = (packed >> np.uint64(_CODE_SHIFT)).astype(np.int32)
    code_starts = np.flatnonzero(all_codes[1:] != all_codes[:-1]) + 1
    starts = np.concatenate(([0], code_starts, [len(packed)])) if len(packed) else np.zeros(1, np.int64)
    rows = (packed >> np.uint64(_ROW_SHIFT)).astype(np.uint32) & np.uint32(ROWS_MAX - 1)
    return PostingSegment(
        all_codes[starts[:-1]], starts.astype(np.int64), rows.astype(np.int32), packed.astype(np.uint8)
    )


class FoundPostings(NamedTuple):
    """The postings of some terms, in the requested order: which term, which row, how often."""

    terms: Numbers
    rows: Numbers
    counts: NDArray[np.uint8]
    counts_of: list[int]
    """Number of them for each term."""


_NOTHING: Final = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))


class SpacePostings:
    """The terms of a space and their postings."""

    def __init__(self) -> None:
        self.vocabulary = TermVocabulary()
        self.frequent = FrequentTerms()
        self._live = array("Q")
        self._live_segment: PostingSegment | None = None
        self._segments: list[PostingSegment] = []

    def add(self, row: int, field: TextField, counts: Mapping[str, int], learnt: LearntTerms | None = None, /) -> int:
        """Add the counts of some terms, `learnt` or not, of `row` in `field`; return their total."""
        field_and_row = field << _CODE_SHIFT | row << _ROW_SHIFT
        self._live_segment = None
        if len(counts) > _MANY:
            return self._add_many(field_and_row, counts, learnt)
        total_count = sum(counts.values())
        if total_count > COUNT_MAX:
            counts = {term: min(count, COUNT_MAX) for term, count in counts.items()}
        numbers, append = self.vocabulary.numbers, self._live.append
        for term, count in counts.items():
            number = numbers.get(term)
            if number is None:
                number = self.vocabulary.number_of(term)
            append(number << _TERM_SHIFT | field_and_row | count)
        return total_count

    def _add_many(self, field_and_row: int, counts: Mapping[str, int], learnt: LearntTerms | None) -> int:
        """The same for many terms, for which arrays are faster."""
        # The index may have been compacted meanwhile, and then the numbers mean other terms.
        if learnt is None or learnt.vocabulary is not self.vocabulary:
            learnt = LearntTerms(self.vocabulary)
            learnt.add(counts)
        numbers = np.frombuffer(learnt.numbers, np.uint64)
        term_counts = np.fromiter(counts.values(), np.uint64, len(counts))
        packed = (
            numbers << np.uint64(_TERM_SHIFT) | np.uint64(field_and_row) | np.minimum(term_counts, np.uint64(COUNT_MAX))
        )
        self._live.frombytes(packed.tobytes())
        return int(term_counts.sum())

    def settle(self, alive: NDArray[np.bool_], /) -> None:
        """Turn a full live list into a segment; merge segments of similar size without dead rows."""
        if len(self._live) < _LIVE_MAX:
            return
        self._take(merge_segments([*self._segments, self._sealed()], alive))

    def own(self) -> None:
        """Copy what belongs to a checkpoint."""
        self._segments = [segment.copy() for segment in self._segments]

    def purge(self, alive: NDArray[np.bool_], /) -> None:
        """Remove all postings of removed rows, and terms without other rows."""
        self.frequent.clear()
        live_postings = np.frombuffer(self._live, np.uint64)
        is_living = alive[(live_postings >> np.uint64(_ROW_SHIFT)).astype(np.int64) & (ROWS_MAX - 1)]
        self._live, self._live_segment = array("Q", live_postings[is_living].tobytes()), None
        segments = [_living_rows(segment, alive) for segment in self._segments]
        self._segments = [segment for segment in segments if len(segment.rows)]
        is_used = np.zeros(len(self.vocabulary), np.bool_)
        for segment in self.segments:
            is_used[segment.codes >> 1] = True
        self.vocabulary = self.vocabulary.purged(is_used)

    def runs(self, codes: Sequence[int], /) -> list[list[PostingRun]]:
        """Return the postings of each of `codes` in place, including dead ones: one run per segment, rows ascending."""
        segments = self.segments
        runs: list[list[PostingRun]] = [[] for _ in codes]
        for code_index, segment_number, start, end in _code_places(segments, codes):
            segment = segments[segment_number]
            runs[code_index].append(PostingRun(segment.rows[start:end], segment.counts[start:end]))
        return runs

    def find(self, codes: Sequence[int], alive: NDArray[np.bool_] | None, /) -> FoundPostings:
        """Return the postings of `codes`; only those of living rows if `alive` is given."""
        segments = self.segments
        locations = _code_places(segments, codes)
        counts_of = [0] * len(codes)
        if not locations:
            return FoundPostings(*_NOTHING, counts_of)
        for code_index, _, start, end in locations:
            counts_of[code_index] += end - start
        terms = np.arange(len(codes)).repeat(counts_of)
        rows = np.concatenate(
            [segments[segment_number].rows[start:end] for _, segment_number, start, end in locations], dtype=np.int64
        )
        counts = np.concatenate(
            [segments[segment_number].counts[start:end] for _, segment_number, start, end in locations]
        )
        if alive is not None:
            is_living = alive.take(rows)
            terms, rows, counts = terms[is_living], rows[is_living], counts[is_living]
            counts_of = np.bincount(terms, minlength=len(codes)).tolist()
        return FoundPostings(terms, rows, counts, counts_of)

    def load(self, vocabulary: TermVocabulary, segments: Sequence[PostingSegment], /) -> None:
        """Load the vocabulary and the segments."""
        self.vocabulary = vocabulary
        self.frequent.clear()
        self._take(segments)

    @property
    def segments(self) -> list[PostingSegment]:
        """All postings, including the live ones."""
        if not self._live:
            return self._segments
        if self._live_segment is None:
            self._live_segment = self._sealed()
        return [*self._segments, self._live_segment]

    @property
    def size_bytes(self) -> int:
        segment_bytes = sum(segment.size_bytes for segment in self._segments)
        return segment_bytes + self.frequent.size_bytes + 8 * len(self._live) + self.vocabulary.size_bytes

    def _take(self, segments: Sequence[PostingSegment]) -> None:
        self._segments = [segment for segment in segments if len(segment.rows)]
        self._live = array("Q")
        self._live_segment = None

    def _sealed(self) -> PostingSegment:
        return segment_of(np.sort(np.frombuffer(self._live, np.uint64)))


def _code_places(segments: Sequence[PostingSegment], codes: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return the locations of the postings of `codes`: code, segment, start and end; in order."""
    codes_array = np.array(codes, np.int32)
    code_places: list[tuple[int, int, int, int]] = []
    for segment_number, segment in enumerate(segments):
        code_positions = segment.codes.searchsorted(codes_array)
        stored_indexes: Numbers = (segment.codes.take(code_positions, mode="clip") == codes_array).nonzero()[0]
        starts, ends = (
            segment.starts[code_positions[stored_indexes]],
            segment.starts[code_positions[stored_indexes] + 1],
        )
        code_places += zip(stored_indexes.tolist(), repeat(segment_number), starts.tolist(), ends.tolist())
    # By code, then by segment: rows of later segments are higher, so rows ascend within a code.
    code_places.sort()
    return code_places


def merge_segments(segments: Sequence[PostingSegment], alive: NDArray[np.bool_], /) -> list[PostingSegment]:
    """Return `segments` with those of similar size at the end merged, without dead rows."""
    merged_segments = list(segments)
    # Only segments of similar size are merged, so that a posting moves a logarithmic number of times.
    while len(merged_segments) > 1 and len(merged_segments[-2].rows) < min(
        _FULL, _RATIO * len(merged_segments[-1].rows)
    ):
        merged_segments[-2:] = [_merge_pair(*(_living_rows(segment, alive) for segment in merged_segments[-2:]))]
    return merged_segments


def renumber_rows(
    terms: Sequence[str], segments: Sequence[PostingSegment], new_numbers: NDArray[np.int32], /
) -> tuple[list[str], PostingSegment]:
    """Return one segment with each row renumbered by `new_numbers` (0: removed), and the terms still in use."""
    packed = np.concatenate([np.zeros(0, np.uint64), *(segment.packed() for segment in segments)])
    old_rows = (packed >> np.uint64(_ROW_SHIFT)).astype(np.int64) & (ROWS_MAX - 1)
    rows = new_numbers[old_rows]
    packed, rows = packed[rows > 0], rows[rows > 0]
    codes = (packed >> np.uint64(_CODE_SHIFT)).astype(np.int64)
    unique_terms, term_places = np.unique(codes >> 1, return_inverse=True)
    term_numbers: list[int] = unique_terms.tolist()
    codes = (term_places.astype(np.int64) << 1) | (codes & 1)
    renumbered_postings = (codes.astype(np.uint64) << np.uint64(_CODE_SHIFT)) | (
        rows.astype(np.uint64) << np.uint64(_ROW_SHIFT)
    )
    renumbered_postings |= packed & np.uint64(COUNT_MAX)
    return [terms[number] for number in term_numbers], segment_of(np.sort(renumbered_postings))


def _merge_pair(first: PostingSegment, second: PostingSegment) -> PostingSegment:
    """Return both as one. All rows of the first are before those of the second, so nothing is sorted."""
    codes = np.sort(np.concatenate((first.codes, second.codes)))
    codes = codes[np.concatenate((np.ones(min(1, len(codes)), np.bool_), codes[1:] != codes[:-1]))]
    sizes = np.zeros(len(codes), np.int64)
    first_positions, second_positions = codes.searchsorted(first.codes), codes.searchsorted(second.codes)
    sizes[first_positions] += np.diff(first.starts)
    first_sizes = sizes[second_positions]
    sizes[second_positions] += np.diff(second.starts)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    rows = np.empty(int(starts[-1]), np.int32)
    counts = np.empty(len(rows), np.uint8)
    for segment, new_starts in ((first, starts[first_positions]), (second, starts[second_positions] + first_sizes)):
        target_places = np.repeat(new_starts - segment.starts[:-1], np.diff(segment.starts))
        target_places += np.arange(len(target_places))
        rows[target_places] = segment.rows
        counts[target_places] = segment.counts
    return PostingSegment(codes, starts, rows, counts)


def _living_rows(segment: PostingSegment, alive: NDArray[np.bool_]) -> PostingSegment:
    """Return the postings of living rows."""
    is_living = alive[segment.rows]
    if is_living.all():
        return segment
    # Every code of a segment has postings, so `reduceat` never meets an empty slice.
    sizes = np.add.reduceat(is_living, segment.starts[:-1], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes[sizes > 0])))
    return PostingSegment(segment.codes[sizes > 0], starts, segment.rows[is_living], segment.counts[is_living])
