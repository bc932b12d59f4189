"""The index of one memory space, a fold over its journal that answers searches; and its checkpoint.

As bytes it is a header, checksums, one JSON object for words and shapes, then the arrays as they stand:

"ELYX" | format u16 | analyser u16 | text vectors u32 | labels of units u32 | sum of the JSON 8 | sums of the arrays 16
| size of both u64 u64 | JSON | arrays

Arrays are little-endian and begin at multiples of 64 bytes, so that an index can be read without copying them: what was
loaded is written over only in copies. Their sums find damage and are cheap; forgery is the store's business.
"""

import json
import struct
import sys
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, mmap
from threading import Thread
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from elytron_core import limits
from elytron_core.policy.ranking.excerpts import ScoredSentence, SoughtWords, sentences_of
from elytron_core.ports.store import DocumentRef
from elytron_core.strict_json import frame_checksum
from elytron_core.text import analyser as analysis
from elytron_core.text.analyser import TextAnalyser, other_names
from elytron_core.text.traits import TextTrait
from elytron_index.lexicon.terms import KEPT_DTYPES, LearntTerms, StoredTerms, TermVocabulary
from elytron_index.lexicon.text_vectors import LanguageVectors, table_version
from elytron_index.query import (
    DocumentChange,
    EmbeddedDocument,
    FoundCandidates,
    IndexQuery,
    UnitFilters,
    UnitView,
    latest_first,
)
from elytron_index.search.space_search import ReadingCache, latest_rows, search_space
from elytron_index.structures.columns import DTYPES, RowRefs, StoredRefs, UnitColumns
from elytron_index.structures.embeddings import ModelVectors
from elytron_index.structures.index_state import FrozenState, IndexState, JournalPlaces
from elytron_index.structures.postings import PostingSegment
from elytron_index.structures.visibility import InternedNames

Bytes = bytes | bytearray | mmap

FORMAT = 19
"""Increases with every change in the meaning of the bytes."""

_MAGIC: Final = b"ELYX"
_HEADER = struct.Struct("<4sHHII8s16sQQ")
HEAD_BYTES: Final = _HEADER.size
"""Number of bytes of a checkpoint's length field."""
_ALIGNED = 64
_PIECE = 1 << 20
_SEGMENT: Final = (("codes", "<i4"), ("starts", "<i8"), ("rows", "<i4"), ("counts", "|u1"))


def dump_checkpoint(frozen: FrozenState, watermark: int, labels: str, owner: str, /) -> Iterator[bytes]:
    """Yield the checkpoint of an index without dead rows; `labels` and `owner` are as in `SpaceIndex`."""
    columns, names = frozen.columns, frozen.names
    refs = frozen.refs.to_stored()
    column_values = ((getattr(columns, name), dtype) for name, dtype in DTYPES.items())
    arrays = [_CheckpointArray.of(values[: columns.size], dtype) for values, dtype in column_values]
    arrays += [_CheckpointArray.of(values, "<i4") for values in (refs.kinds, refs.order)]
    arrays += [_CheckpointArray.of(refs.keys, refs.keys.dtype.str), _CheckpointArray.of(frozen.threaded, "<i4")]
    arrays += map(_CheckpointArray.of, frozen.vocabulary.to_stored(), KEPT_DTYPES)
    for segment in frozen.segments:
        arrays += [_CheckpointArray.of(getattr(segment, name), dtype) for name, dtype in _SEGMENT]
    models = sorted(frozen.models.items())
    for _, vectors in models:
        coarse, fine = zip(*vectors.parts(columns.size), strict=True)
        arrays += [_CheckpointArray("|i1", coarse), _CheckpointArray("|i1", fine)]
        arrays.append(_CheckpointArray.of(vectors.peaks[: arrays[-1].shape[0]], "<f4"))
    header: dict[str, Any] = {
        "watermark": watermark,
        "owner": owner,
        "arrays": [(array.dtype, array.shape) for array in arrays],
        "compared": frozen.compared,
        "english": frozen.is_english,
        "called": frozen.called,
        "hidden": [(*ref, sequence) for ref, sequence in frozen.places.hidden.items()],
        "moved": [(*ref, *origin, own_sequence) for ref, (origin, own_sequence) in frozen.places.moved.items()],
        "segments": len(frozen.segments),
        "models": [(model, vectors.dimension) for model, vectors in models],
        "collections": list(refs.collections),
        "documents": frozen.refs.documents,
        "planes": names.plane.values,
        "speakers": names.speaker.values,
        "roles": names.role.values,
        "threads": names.thread.values,
        "scopes": names.scope.values,
        "tags": names.tags.values,
    }
    # JSON ignores trailing spaces, so they align the arrays that follow.
    metadata = _pad_pieces(json.dumps(header, separators=(",", ":")).encode("ascii"), b" ", before=HEAD_BYTES)
    # The header precedes the arrays, so these are read twice: once for their sums, once for the output.
    sums = _checksum_pair(piece for array in arrays for piece in array.pieces())
    size = sum(array.size_bytes for array in arrays)
    yield (_HEADER.pack(*_header_versions(labels), frame_checksum(metadata), sums, len(metadata), size) + metadata)
    for array in arrays:
        yield from array.pieces()


def size_of(head: Bytes, labels: str, /) -> int:
    """Return the length of the checkpoint that begins with `head`, of at least `HEAD_BYTES`; 0 for other versions'."""
    *versions, _, _, header_size, body_size = _HEADER.unpack_from(head)
    return HEAD_BYTES + header_size + body_size if tuple(versions) == _header_versions(labels) else 0


def load_checkpoint(data: Bytes, analyser: TextAnalyser, labels: str, /) -> tuple[IndexState, int, str] | None:
    """Return the state, watermark and owner of a checkpoint; None if it is damaged or of another version.

    The state reads `data` in place: it must not change.
    """
    if len(data) < HEAD_BYTES or len(data) != size_of(data, labels):
        return None
    *_, header_checksum, sums, header_size, body_size = _HEADER.unpack_from(data)
    body_start = HEAD_BYTES + header_size
    metadata = bytes(memoryview(data)[HEAD_BYTES:body_start])
    # Sums are of 64-bit numbers: a size that is no multiple of the alignment cannot be summed.
    if frame_checksum(metadata) != header_checksum or body_size % _ALIGNED:
        return None
    body = memoryview(data)[body_start:]
    if _checksum_pair(body[start : start + _PIECE] for start in range(0, body_size, _PIECE)) != sums:
        return None
    header = json.loads(metadata)
    arrays = _ArrayReader(data, body_start, header["arrays"])
    names = InternedNames()
    names.plane.load(header["planes"])
    names.speaker.load(header["speakers"])
    names.role.load(header["roles"])
    names.thread.load(header["threads"])
    names.scope.load([tuple(map(tuple, scope)) for scope in header["scopes"]])
    names.tags.load([tuple(tags) for tags in header["tags"]])
    columns = UnitColumns.of({name: arrays.next() for name in DTYPES})
    collection_numbers, order, keys = arrays.next(), arrays.next(), arrays.next()
    refs = RowRefs(StoredRefs(header["collections"], collection_numbers, keys, order), header["documents"])
    threaded_rows = arrays.next()
    vocabulary = TermVocabulary(StoredTerms(*(arrays.next() for _ in KEPT_DTYPES)))
    segments = [PostingSegment(*(arrays.next() for _ in _SEGMENT)) for _ in range(header["segments"])]
    models: dict[str, ModelVectors] = {}
    for model, dimension in header["models"]:
        vectors = models[model] = ModelVectors(dimension)
        coarse, fine = arrays.next(), arrays.next()
        vectors.load(coarse, fine, arrays.next())
    other_names = {key: tuple(person_names) for key, person_names in header["called"].items()}
    compared_model, is_english = header["compared"], header.get("english", False)
    hidden_sequences = {DocumentRef(collection, key): sequence for collection, key, sequence in header["hidden"]}
    moved_sequences = {
        DocumentRef(collection, key): (DocumentRef(*origin), own) for collection, key, *origin, own in header["moved"]
    }
    frozen = FrozenState(
        columns, names, refs, threaded_rows, vocabulary, segments, models, compared_model, is_english, other_names,
        JournalPlaces(hidden_sequences, moved_sequences),
    )  # fmt: skip
    return IndexState.of(frozen, analyser), header["watermark"], header["owner"]


class _CheckpointArray(NamedTuple):
    """An array in one or several parts, as it is stored."""

    dtype: str
    parts: Sequence[NDArray[Any]]

    @classmethod
    def of(cls, values: NDArray[Any], dtype: str, /) -> "_CheckpointArray":
        return cls(dtype, (values.astype(dtype, copy=False),))

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(len(part) for part in self.parts), *self.parts[0].shape[1:])

    @property
    def size_bytes(self) -> int:
        """Length of its pieces together."""
        return -(-sum(part.nbytes for part in self.parts) // _ALIGNED) * _ALIGNED

    def pieces(self) -> Iterator[bytes]:
        """Yield its bytes in pieces whose sizes are multiples of the alignment, padded after the last."""
        unaligned_bytes = b""
        for part in self.parts:
            data = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            for start in range(0, len(data), _PIECE):
                piece = unaligned_bytes + data[start : start + _PIECE].tobytes()
                aligned_size = len(piece) - len(piece) % _ALIGNED
                unaligned_bytes = piece[aligned_size:]
                if aligned_size:
                    yield piece[:aligned_size]
        if unaligned_bytes:
            yield _pad_pieces(unaligned_bytes, b"\0")


class _ArrayReader:
    """Reads the arrays of a checkpoint in order, in place."""

    def __init__(self, data: Bytes, at: int, shapes: Sequence[tuple[str, Sequence[int]]]) -> None:
        # Read-only, so that a write to a borrowed array raises instead of changing the checkpoint.
        self._data = memoryview(data).toreadonly()
        self._at = at
        self._shapes = iter(shapes)

    def next(self) -> NDArray[Any]:
        dtype, shape = next(self._shapes)
        array = np.ndarray(tuple(shape), dtype, self._data, self._at)
        self._at += -(-array.nbytes // _ALIGNED) * _ALIGNED
        return array


def _header_versions(labels: str) -> tuple[bytes, int, int, int, int]:
    """Return the beginning of a header: the versions of everything that an index depends on."""
    return _MAGIC, FORMAT, analysis.VERSION, crc32(table_version().encode()), crc32(labels.encode())


def _pad_pieces(data: bytes, filler: bytes, *, before: int = 0) -> bytes:
    return data + filler * (-(before + len(data)) % _ALIGNED)


def _checksum_pair(pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return the sum and the exclusive or of the numbers in `pieces`, which reveal a changed or missing byte."""
    number_sum, exclusive_or = 0, 0
    for piece in pieces:
        # Small enough to be read from memory once for both.
        numbers = np.frombuffer(piece, np.uint64)
        number_sum += int(np.add.reduce(numbers, dtype=np.uint64))
        exclusive_or ^= int(np.bitwise_xor.reduce(numbers))
    return struct.pack("<QQ", number_sum % (1 << 64), exclusive_or)


MAPPED = 128 * 1024
"""Size from which bytes get a separate memory map instead of memory that the allocator retains."""
FETCHED = 16 * 1024 * 1024
"""From this size on a thread prepares half of the memory while the first pieces are written to the other."""


class ArrivingCheckpoint:
    """A checkpoint received piece by piece into memory of its final size, which its first bytes state."""

    def __init__(self, max_bytes: int, /, *, labels: str = "") -> None:
        """Reject a checkpoint that claims to be longer than `max_bytes`, or has other `labels` (see `SpaceIndex`)."""
        self._most = max_bytes
        self._labels = labels
        self._head = b""
        self._data: bytearray | mmap | None = None
        self._filled = 0
        self._fetching: Thread | None = None

    def take(self, piece: bytes, /) -> None:
        """Add the next bytes."""
        if self._data is None:
            self._head += piece
            if len(self._head) < HEAD_BYTES:
                return
            size = size_of(self._head, self._labels)
            # The size is not yet verified. One above the limit gets no memory, and `data` is empty then.
            self._data = allocate_memory(size if size <= self._most else 0)
            if len(self._data) >= FETCHED:
                second_half = np.frombuffer(self._data, np.uint8)[len(self._data) // 2 :]
                self._fetching = Thread(target=_touch_pages, args=(second_half,))
                self._fetching.start()
            piece, self._head = self._head, b""
        end = self._filled + len(piece)
        if end <= len(self._data):
            # The thread writes zeros into the second half, so it must have ended before data arrives there.
            if self._fetching is not None and end > len(self._data) // 2:
                self._fetching.join()
                self._fetching = None
            # NumPy releases the interpreter meanwhile, so that other threads read the next pieces.
            np.frombuffer(self._data, np.uint8)[self._filled : end] = np.frombuffer(piece, np.uint8)
        self._filled = end

    @property
    def data(self) -> Bytes:
        """The checkpoint; empty if it is incomplete or of another version."""
        return self._data if self._data is not None and self._filled == len(self._data) else b""


def allocate_memory(size: int, /) -> bytearray | mmap:
    """Return `size` bytes of zeroed memory; a large one is returned to the system when its last reader is gone."""
    if size < MAPPED:
        return bytearray(size)
    if sys.platform == "win32":
        return mmap(-1, size)
    memory = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    if sys.platform == "linux":
        # All of it will be written, and huge pages of 2 MiB, if available, take a ninth of the time to allocate.
        with suppress(OSError):
            memory.madvise(MADV_HUGEPAGE)
    return memory


def _touch_pages(memory: NDArray[np.uint8]) -> None:
    """Make the system provide the pages of `memory` now: an idle virtual machine can be slow to do so."""
    memory[::PAGESIZE] = 0


_VERSIONS: Final = count(1)


class SpaceIndex:
    """Units of one space, searchable. Independent of stores and planes; not thread-safe.

    The results of a search depend only on the units, not on the order, the batches or the checkpoints they came in.
    """

    def __init__(self, analyser: TextAnalyser, /, *, labels: str = "") -> None:
        """Create an empty index. `labels` is the version of the classifier that labels units."""
        self._state = IndexState(analyser)
        self._serial = next(_VERSIONS)
        self._labels = labels
        self._watermark = 0
        self._versions: defaultdict[str, int] = defaultdict(_VERSIONS.__next__)
        self._reading = ReadingCache()
        self._planes: dict[str, int] | None = None
        self._since: list[tuple[Sequence[DocumentChange], Sequence[EmbeddedDocument]]] | None = None
        self._is_purged_since = False
        self.owner = ""
        """Identity of the owner in the checkpoint it was loaded from."""

    @property
    def watermark(self) -> int:
        """The journal sequence up to which changes were applied."""
        return self._watermark

    def version_of(self, collection: str, /) -> int:
        """Return a unique number that changes whenever a document of `collection` does."""
        return self._versions[collection]

    def renew_versions(self) -> None:
        """Mark every collection as changed, because an erasure does not name everything that it removes."""
        self._versions.clear()

    def apply(
        self,
        changes: Sequence[DocumentChange],
        /,
        *,
        embedded: Sequence[EmbeddedDocument] = (),
        watermark: int,
        touched: Collection[str] = (),
    ) -> None:
        """Replace the units of each named document, then the vectors, atomically, and move the watermark.

        `touched` are further collections with changed documents that have no units. Raises InvalidInput for an invalid
        vector, or one of another dimension than its model's, and for a unit that names another document than its
        change; LimitExceeded for more units than an index can contain.
        """
        self._planes = None
        self._reading.forget()
        self._state.apply(changes, embedded)
        for collection in {change.ref.collection for change in changes} | set(touched):
            self._versions.pop(collection, None)
        self._watermark = watermark
        # A compaction works on an earlier state and needs these changes again.
        if self._since is not None:
            self._since.append((changes, embedded))
        elif self._state.is_overgrown:
            # The caller did not compact in time, so memory is bounded here, at the price of a pause.
            self._since, self._is_purged_since = [], False
            self.finish_compacting(self._state.freeze().compacted())

    def own_parts(self) -> Iterator[None]:
        """Copy in parts what `purge` would otherwise copy at once; the index can be used in between."""
        return self._state.own_parts()

    def purge(self) -> None:
        """Remove the words, names and vectors of removed units. Earlier snapshots are their holders' responsibility."""
        self._planes = None
        self._reading.forget()
        self._state.purge()
        self._is_purged_since = self._since is not None

    def learnt(self) -> LearntTerms:
        """Return a counter that learns the terms of a long text in batches, before the text is applied with it.

        If the index has renumbered them by then, it looks them up itself, at once.
        """
        return LearntTerms(self._state.postings.vocabulary)

    def compare(self, model: str, /, *, is_english: bool = False) -> None:
        """Compare the vectors of `model` from now on; `is_english`: it reads only English."""
        self._state.compared, self._state.is_english = model, is_english

    @property
    def compared(self) -> str:
        """The model whose vectors are to be compared; empty if none was named."""
        return self._state.compared

    @property
    def is_english(self) -> bool:
        """True if that model reads only English."""
        return self._state.is_english

    def reads_language(self, text: str, /) -> bool:
        """Return whether that model reads the language of `text`; one word of plain letters may be a name in any."""
        is_name = text.isascii() and len(text.split()) == 1
        return not self.is_english or is_name or LanguageVectors.load().is_english(text)

    def search(self, query: IndexQuery, /) -> FoundCandidates:
        """Return the best units for `query`, with their signals; a speaker may be named by another name.

        Raises InvalidInput, LimitExceeded for a limit, text or vector out of bounds.
        """
        return search_space(self._state, self._with_aliases(query), self._reading)

    def sought(self, query: IndexQuery, /) -> SoughtWords:
        """Return the words of `query` prepared for single sentences."""
        return self._reading.of(self._state, self._with_aliases(query)).sought()

    def _with_aliases(self, query: IndexQuery) -> IndexQuery:
        """Return `query` with the names that the named people speak under, if there is room."""
        if not self._state.called:
            return query
        speakers = frozenset(self.speakers())
        added_names = [name for name in other_names(query.text, self._state.called.values()) if name in speakers]
        text = " ".join((query.text, *added_names))
        return replace(query, text=text) if added_names and len(text) <= limits.QUERY_CHARS else query

    def sentences_of(self, text: str, /) -> tuple[ScoredSentence, ...]:
        """Return the sentences of `text` in the form for comparison."""
        return sentences_of(text, self._state.analyser.terms)

    def latest(
        self, filters: UnitFilters, traits: TextTrait, /, *, limit: int, least_trust: int = 0
    ) -> tuple[UnitView, ...]:
        """Return the latest matching units with one of `traits`, latest first, except those of assistants.

        Nothing where several speak and none of them is an assistant: people tell each other what is not meant for it.
        """
        rows = latest_rows(self._state, filters, traits, limit=limit, least_trust=least_trust)
        return latest_first(self._state.views(rows))[:limit]

    def latest_version(
        self, filters: UnitFilters, traits: TextTrait, /, *, limit: int, least_trust: int = 0
    ) -> tuple[int, bytes]:
        """Return a value that changes when `latest` has other units, or other texts of them."""
        # A changed document has other rows.
        return self._serial, latest_rows(self._state, filters, traits, limit=limit, least_trust=least_trust).tobytes()

    def units_near(self, unit: UnitView, /, *, before: int, after: int) -> tuple[UnitView, ...]:
        """Return up to `before` units before `unit` in its thread and `after` after it, in order, without itself."""
        row = self._state.row_of(unit.ref, unit.part)
        if not row:
            return ()
        rows_before, rows_after = self._state.threads.around(row, before, after)
        return tuple(self._state.views(np.array((*rows_before, *rows_after), np.int32)))

    def units_of(self, ref: DocumentRef, /) -> tuple[UnitView, ...]:
        """Return the units of the document `ref`, by part; none if it is unknown."""
        views = self._state.views(np.array(self._state.rows(ref), np.int32))
        return tuple(sorted(views, key=lambda view: view.part))

    def moment_of(self, ref: DocumentRef, part: int, /) -> tuple[int, int] | None:
        """Return the time and the journal position that order a unit; None for an unknown one."""
        return self._state.moment_of(ref, part)

    def sequence_of(self, ref: DocumentRef, /) -> int:
        """Return a document's journal position, which orders it among others of the same time; 0: unknown."""
        return self._state.sequence_of(ref)

    def check_of(self, ref: DocumentRef, part: int, /) -> int:
        """Return the check of a unit's embedded text; 0 if it is unknown or nothing is embedded."""
        return int(self._state.columns.check[self._state.row_of(ref, part)])

    def speakers(self, text: str | None = None, /) -> tuple[str, ...]:
        """Return everyone who speaks here, by name; with `text` only those whose names, or other names, it contains."""
        state = self._state
        units_by_name = zip(state.names.speaker.values, state.speaker_units, strict=True)
        names = {name for name, units in units_by_name if name and units}
        if text is not None:
            names |= {name for aliases in state.called.values() if names.intersection(aliases) for name in aliases}
        return tuple(sorted([name for name in names if text is None or name in text]))

    def planes(self) -> dict[str, int]:
        """Return how many units each plane has."""
        if self._planes is None:
            columns, planes = self._state.columns, self._state.names.plane.values
            living_planes = columns.plane[: columns.size][columns.alive[: columns.size]]
            units_by_plane = zip(planes, np.bincount(living_planes, minlength=len(planes)).tolist(), strict=True)
            self._planes = {plane: units for plane, units in sorted(units_by_plane) if units}
        return self._planes.copy()

    def models(self) -> dict[str, int]:
        """Return how many units have a vector, by model."""
        return {model: vectors.count for model, vectors in sorted(self._state.vectors.models.items())}

    def dimensions_of(self, model: str, /) -> int | None:
        """Return how many numbers a vector of `model` has here; None if there is none."""
        vectors = self._state.vectors.models.get(model)
        return vectors.dimension if vectors is not None else None

    def unembedded(self, model: str, /) -> int:
        """Return how many units lack a vector of `model`."""
        vectors = self._state.vectors.models.get(model)
        return self._state.embeddable - (vectors.count if vectors is not None else 0)

    def stale(self, model: str, /) -> int:
        """Return how many units lack a vector of `model` but have one of another model."""
        return self._state.stale(model)

    def unembedded_refs(
        self, model: str, /, *, limit: int, skip: Container[DocumentRef] = ()
    ) -> tuple[DocumentRef, ...]:
        """Return up to `limit` documents with such units, in order of arrival, except those in `skip`."""
        refs = self._state.refs
        refs_found: dict[DocumentRef, None] = {}
        for row in self._state.unembedded(model):
            if refs[row] not in skip:
                refs_found[refs[row]] = None
            if len(refs_found) == limit:
                break
        return tuple(refs_found)

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
        """Approximate memory."""
        return self._state.size_bytes

    def freeze(self) -> "FrozenIndex":
        """Return a snapshot of the index, to be stored by another thread while this one stays in use."""
        return FrozenIndex(self._state.freeze(), self._watermark, self._labels)

    def to_bytes(self) -> bytes:
        """Return a checkpoint with only current content, nothing of what was removed."""
        return b"".join(self.freeze().pieces())

    @property
    def is_sparse(self) -> bool:
        """More is dead than alive, and it is not being compacted yet."""
        return self._since is None and self._state.is_sparse

    def begin_compacting(self) -> FrozenState | None:
        """Return the input for compacting in another thread; None while that is running, because only one runs at a
        time.

        Until `finish_compacting` what is applied is noted.
        """
        if self._since is not None:
            return None
        self._since, self._is_purged_since = [], False
        return self._state.freeze()

    def abandon_compacting(self) -> None:
        """Continue as before `begin_compacting`."""
        self._since = None

    def finish_compacting(self, compacted_parts: FrozenState, /) -> None:
        """Continue with `compacted_parts`, and what was applied meanwhile; without a beginning nothing happens."""
        if self._since is None:
            return
        compacted_state = IndexState.of(compacted_parts, self._state.analyser)
        for changes, embedded_documents in self._since:
            compacted_state.apply(changes, embedded_documents)
        if self._is_purged_since:
            compacted_state.purge()
        # The model may have been named after the copy was made.
        compacted_state.compared, compacted_state.is_english = self._state.compared, self._state.is_english
        self._state, self._since, self._serial = compacted_state, None, next(_VERSIONS)
        self._reading.forget()

    @classmethod
    def from_bytes(cls, data: Bytes, analyser: TextAnalyser, /, *, labels: str = "") -> "SpaceIndex | None":
        """Return the index from the checkpoint `data`; None if it is damaged or of another version."""
        loaded_state = load_checkpoint(data, analyser, labels)
        if loaded_state is None:
            return None
        index = cls(analyser, labels=labels)
        index._state, index._watermark, index.owner = loaded_state
        return index


class FrozenIndex:
    """A snapshot of an index."""

    def __init__(self, frozen: FrozenState, watermark: int, labels: str, /) -> None:
        self._frozen = frozen
        self._labels = labels
        self.watermark = watermark

    def pieces(self, owner: str = "", /) -> Iterator[bytes]:
        """Yield its checkpoint for `owner` in pieces, with only current content, nothing of what was removed."""
        return dump_checkpoint(self._frozen.compacted().settled(), self.watermark, self._labels, owner)
