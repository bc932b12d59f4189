"""An index as bytes: a header, checksums, one JSON object for words and shapes, then the arrays as they stand.

"ELYX" | format u16 | analyser u16 | text vectors u32 | labels of units u32 | sum of the JSON 8 | sums of the arrays 16
| size of both u64 u64 | JSON | arrays

Arrays are little-endian and begin at multiples of 64 bytes, so that an index can be read without copying them: what was
loaded is written over only in copies. Their sums find damage and are cheap; forgery is the store's business.
"""

import json
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from mmap import MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, mmap
from threading import Thread
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from elytron_core.strict_json import frame_checksum
from elytron_core.text import analyser as analysis
from elytron_core.text.analyser import TextAnalyser
from elytron_index.lexicon.terms import KEPT_DTYPES, KeptTerms, TermVocabulary
from elytron_index.lexicon.text_vectors import table_version
from elytron_index.structures.columns import DTYPES, RowRefs, StoredRefs, UnitColumns
from elytron_index.structures.postings import PostingSegment
from elytron_index.structures.state import FrozenState, IndexState
from elytron_index.structures.vectors import ModelVectors
from elytron_index.structures.visibility import InternedNames

Bytes = bytes | bytearray | mmap

FORMAT = 16
"""Grows with every change of what the bytes mean."""

_MAGIC: Final = b"ELYX"
_HEADER = struct.Struct("<4sHHII8s16sQQ")
HEAD_BYTES: Final = _HEADER.size
"""Number of bytes of a checkpoint's length field."""
_ALIGNED = 64
_PIECE = 1 << 20
_SEGMENT: Final = (("codes", "<i4"), ("starts", "<i8"), ("rows", "<i4"), ("counts", "|u1"))


def dump_checkpoint(frozen: FrozenState, watermark: int, labels: str, /) -> Iterator[bytes]:
    """Yield the checkpoint of an index in which nothing is dead, piece by piece; `labels` is as `SpaceIndex` has it."""
    columns, names = frozen.columns, frozen.names
    refs = frozen.refs.kept()
    kept = ((getattr(columns, name), dtype) for name, dtype in DTYPES.items())
    arrays = [_CheckpointArray.of(values[: columns.size], dtype) for values, dtype in kept]
    arrays += [_CheckpointArray.of(values, "<i4") for values in (refs.kinds, refs.order)]
    arrays += [_CheckpointArray.of(refs.keys, refs.keys.dtype.str), _CheckpointArray.of(frozen.threaded, "<i4")]
    arrays += [
        _CheckpointArray.of(values, dtype) for values, dtype in zip(frozen.vocabulary.kept(), KEPT_DTYPES, strict=True)
    ]
    for segment in frozen.segments:
        arrays += [_CheckpointArray.of(getattr(segment, name), dtype) for name, dtype in _SEGMENT]
    models = sorted(frozen.models.items())
    for _, vectors in models:
        coarse, fine = zip(*vectors.parts(columns.size), strict=True)
        arrays += [_CheckpointArray("|i1", coarse), _CheckpointArray("|i1", fine)]
        arrays.append(_CheckpointArray.of(vectors.peaks[: arrays[-1].shape[0]], "<f4"))
    told: dict[str, Any] = {
        "watermark": watermark,
        "arrays": [(array.dtype, array.shape) for array in arrays],
        "compared": frozen.compared,
        "english": frozen.is_english,
        "called": frozen.called,
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
    words = _pad_pieces(json.dumps(told, separators=(",", ":")).encode("ascii"), b" ", before=HEAD_BYTES)
    sums = _checksum_pair(piece for array in arrays for piece in array.pieces())
    size = sum(array.size_bytes for array in arrays)
    yield _HEADER.pack(*_header_versions(labels), frame_checksum(words), sums, len(words), size) + words
    for array in arrays:
        yield from array.pieces()


def size_of(head: Bytes, labels: str, /) -> int:
    """Return how long the checkpoint is that begins with `head`, of `HEAD_BYTES` at least; 0 for other versions'."""
    *versions, _, _, words_size, size = _HEADER.unpack_from(head)
    return HEAD_BYTES + words_size + size if tuple(versions) == _header_versions(labels) else 0


def load_checkpoint(data: Bytes, analyser: TextAnalyser, labels: str, /) -> tuple[IndexState, int] | None:
    """Return the state and watermark of a checkpoint; None if it is damaged or of other versions.

    The state reads `data` in place: it must not change.
    """
    if len(data) < HEAD_BYTES or len(data) != size_of(data, labels):
        return None
    *_, expected, sums, words_size, size = _HEADER.unpack_from(data)
    start = HEAD_BYTES + words_size
    words = bytes(memoryview(data)[HEAD_BYTES:start])
    if frame_checksum(words) != expected or size % _ALIGNED:
        return None
    rest = memoryview(data)[start:]
    if _checksum_pair(rest[at : at + _PIECE] for at in range(0, size, _PIECE)) != sums:
        return None
    told = json.loads(words)
    arrays = _ArrayReader(data, start, told["arrays"])
    names = InternedNames()
    names.plane.load(told["planes"])
    names.speaker.load(told["speakers"])
    names.role.load(told["roles"])
    names.thread.load(told["threads"])
    names.scope.load([tuple(map(tuple, scope)) for scope in told["scopes"]])
    names.tags.load([tuple(tags) for tags in told["tags"]])
    columns = UnitColumns.of({name: arrays.next() for name in DTYPES})
    kinds, order, keys = arrays.next(), arrays.next(), arrays.next()
    refs = RowRefs(StoredRefs(told["collections"], kinds, keys, order), told["documents"])
    threaded = arrays.next()
    vocabulary = TermVocabulary(KeptTerms(*(arrays.next() for _ in KEPT_DTYPES)))
    segments = [PostingSegment(*(arrays.next() for _ in _SEGMENT)) for _ in range(told["segments"])]
    models: dict[str, ModelVectors] = {}
    for model, dimension in told["models"]:
        vectors = models[model] = ModelVectors(dimension)
        coarse, fine = arrays.next(), arrays.next()
        vectors.load(coarse, fine, arrays.next())
    called = {key: tuple(each) for key, each in told["called"].items()}
    compared, is_english = told["compared"], told.get("english", False)
    frozen = FrozenState(columns, names, refs, threaded, vocabulary, segments, models, compared, is_english, called)
    return IndexState.of(frozen, analyser), told["watermark"]


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
        """Yield its bytes in pieces whose sizes are multiples of the alignment, filled up behind the last."""
        rest = b""
        for part in self.parts:
            data = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            for start in range(0, len(data), _PIECE):
                piece = rest + data[start : start + _PIECE].tobytes()
                whole = len(piece) - len(piece) % _ALIGNED
                rest = piece[whole:]
                if whole:
                    yield piece[:whole]
        if rest:
            yield _pad_pieces(rest, b"\0")


class _ArrayReader:
    """The arrays of a checkpoint, one after the other, in place."""

    def __init__(self, data: Bytes, at: int, shapes: Sequence[tuple[str, Sequence[int]]]) -> None:
        self._data = memoryview(data).toreadonly()
        self._at = at
        self._shapes = iter(shapes)

    def next(self) -> NDArray[Any]:
        dtype, shape = next(self._shapes)
        found = np.ndarray(tuple(shape), dtype, self._data, self._at)
        self._at += -(-found.nbytes // _ALIGNED) * _ALIGNED
        return found


def _header_versions(labels: str) -> tuple[bytes, int, int, int, int]:
    """Return what a header begins with: the versions of all that an index is made by."""
    return _MAGIC, FORMAT, analysis.VERSION, crc32(table_version().encode()), crc32(labels.encode())


def _pad_pieces(data: bytes, filler: bytes, *, before: int = 0) -> bytes:
    return data + filler * (-(before + len(data)) % _ALIGNED)


def _checksum_pair(pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return the sum and the exclusive or of the numbers in `pieces`, which a changed or missing byte changes."""
    total, mixed = 0, 0
    for piece in pieces:
        # Small enough to be read from memory once for both.
        numbers = np.frombuffer(piece, np.uint64)
        total += int(np.add.reduce(numbers, dtype=np.uint64))
        mixed ^= int(np.bitwise_xor.reduce(numbers))
    return struct.pack("<QQ", total % (1 << 64), mixed)


MAPPED = 128 * 1024
"""Size from which on bytes are in a separate map, not in memory that the allocator keeps for later."""
FETCHED = 16 * 1024 * 1024
"""From this size on a thread fetches half of the memory while the first pieces are laid in the other."""


class ArrivingCheckpoint:
    """A checkpoint that is taken piece by piece into memory of its whole size, which its first bytes tell."""

    def __init__(self, most: int, /, *, labels: str = "") -> None:
        """Take no checkpoint that says to be longer than `most`, nor one with other `labels` (see `SpaceIndex`)."""
        self._most = most
        self._labels = labels
        self._head = b""
        self._data: bytearray | mmap | None = None
        self._filled = 0
        self._fetching: Thread | None = None

    def take(self, piece: bytes, /) -> None:
        """Take the next bytes."""
        if self._data is None:
            self._head += piece
            if len(self._head) < HEAD_BYTES:
                return
            size = size_of(self._head, self._labels)
            self._data = allocate_memory(size if size <= self._most else 0)
            if len(self._data) >= FETCHED:
                rest = np.frombuffer(self._data, np.uint8)[len(self._data) // 2 :]
                self._fetching = Thread(target=_touch_pages, args=(rest,))
                self._fetching.start()
            piece, self._head = self._head, b""
        end = self._filled + len(piece)
        if end <= len(self._data):
            if self._fetching is not None and end > len(self._data) // 2:
                self._fetching.join()
                self._fetching = None
            # NumPy lets other threads run meanwhile, who read the next pieces.
            np.frombuffer(self._data, np.uint8)[self._filled : end] = np.frombuffer(piece, np.uint8)
        self._filled = end

    @property
    def data(self) -> Bytes:
        """The checkpoint; nothing where what came is none of this version, or not the whole of one."""
        return self._data if self._data is not None and self._filled == len(self._data) else b""


def allocate_memory(size: int, /) -> bytearray | mmap:
    """Return memory for `size` bytes, all zero; a large one goes back to the system when its last reader is gone."""
    if size < MAPPED:
        return bytearray(size)
    if sys.platform == "win32":
        return mmap(-1, size)
    found = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    if sys.platform == "linux":
        # All of it will be written: pages of 2 MiB, if it has room for them, take a ninth of the time to get.
        with suppress(OSError):
            found.madvise(MADV_HUGEPAGE)
    return found


def _touch_pages(memory: NDArray[np.uint8]) -> None:
    """Have the system give what is behind `memory`: a virtual machine that has used none for a while waits for it."""
    memory[::PAGESIZE] = 0
