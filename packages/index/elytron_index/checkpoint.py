"""An index as bytes: a header, checksums, one JSON object for words and shapes, then the arrays as they stand.

"ELYX" | format u16 | analyser u16 | sum of the JSON 8 | sums of the arrays 16 | JSON size u64 | JSON | arrays

Arrays are little-endian and begin at multiples of 64 bytes, so that an index can be read without copying them: what was
loaded is written over only in copies. Their sums find damage and are cheap; forgery is the store's business.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_core.canonical import checksum
from elytron_core.text import analyser as analysis
from elytron_core.text.analyser import Analyser
from elytron_index.columns import DTYPES, Columns
from elytron_index.postings import Segment
from elytron_index.refs import Kept, Refs
from elytron_index.state import State
from elytron_index.vectors import ModelVectors

FORMAT = 4
"""Grows with every change of what the bytes mean."""

_MAGIC: Final = b"ELYX"
_HEADER = struct.Struct("<4sHH8s16sQ")
_ALIGNED = 64
_SEGMENT: Final = (("codes", "<i4"), ("starts", "<i8"), ("rows", "<i4"), ("counts", "|u1"))


def dump(state: State, watermark: int, /) -> bytes:
    """Return the checkpoint of a `state` in which nothing is dead."""
    columns, names = state.columns, state.names
    refs = state.refs.kept()
    kept = ((getattr(columns, name), dtype) for name, dtype in DTYPES.items())
    arrays: list[NDArray[Any]] = [values[: columns.size].astype(dtype) for values, dtype in kept]
    arrays += [refs.kinds.astype("<i4"), refs.order.astype("<i4"), refs.keys, state.threads.all_rows().astype("<i4")]
    for segment in state.postings.segments:
        arrays += [getattr(segment, name).astype(dtype) for name, dtype in _SEGMENT]
    models = sorted(state.vectors.models.items())
    for _, vectors in models:
        coarse, fine = zip(*vectors.parts(columns.size), strict=True)
        arrays += [np.concatenate(coarse), np.concatenate(fine)]
        arrays.append(vectors.peaks[: len(arrays[-1])].astype("<f4"))
    told: dict[str, Any] = {
        "watermark": watermark,
        "arrays": [(array.dtype.str, array.shape) for array in arrays],
        "compared": state.compared,
        "segments": len(state.postings.segments),
        "models": [(model, vectors.dimension) for model, vectors in models],
        "collections": list(refs.collections),
        "documents": state.refs.documents,
        "terms": list(state.postings.vocabulary),
        "planes": names.plane.values,
        "speakers": names.speaker.values,
        "roles": names.role.values,
        "threads": names.thread.values,
        "scopes": names.scope.values,
        "tags": names.tags.values,
    }
    words = _padded(json.dumps(told, separators=(",", ":")).encode("ascii"), b" ", before=_HEADER.size)
    body = b"".join(_padded(array.tobytes(), b"\0") for array in arrays)
    header = _HEADER.pack(
        _MAGIC, FORMAT, analysis.VERSION, _sum(words), _sums(np.frombuffer(body, np.uint64)), len(words)
    )
    return header + words + body


def load(data: bytes | bytearray, analyser: Analyser, /) -> tuple[State, int] | None:
    """Return the state and watermark of a checkpoint; None where it is damaged or of another version.

    The state reads `data` in place: nobody may change it.
    """
    if len(data) < _HEADER.size:
        return None
    magic, version, analysed, expected, sums, words_size = _HEADER.unpack_from(data)
    start = _HEADER.size + words_size
    if (magic, version, analysed) != (_MAGIC, FORMAT, analysis.VERSION) or start > len(data):
        return None
    words = bytes(memoryview(data)[_HEADER.size : start])
    if _sum(words) != expected or (len(data) - start) % _ALIGNED:
        return None
    if _sums(np.frombuffer(data, np.uint64, offset=start)) != sums:
        return None
    told = json.loads(words)
    arrays = _Arrays(data, start, told["arrays"])
    state = State(analyser)
    state.compared = told["compared"]
    names = state.names
    names.plane.load(told["planes"])
    names.speaker.load(told["speakers"])
    names.role.load(told["roles"])
    names.thread.load(told["threads"])
    names.scope.load([tuple((part, value) for part, value in scope) for scope in told["scopes"]])
    names.tags.load([tuple(tags) for tags in told["tags"]])
    columns = Columns.of({name: arrays.next() for name in DTYPES})
    kinds, order, keys = arrays.next(), arrays.next(), arrays.next()
    refs = Refs(Kept(told["collections"], kinds, keys, order), told["documents"])
    state.load(columns, refs, arrays.next())
    segments = [Segment(*(arrays.next() for _ in _SEGMENT)) for _ in range(told["segments"])]
    state.postings.load(told["terms"], segments)
    for model, dimension in told["models"]:
        vectors = state.vectors.models[model] = ModelVectors(dimension)
        coarse, fine = arrays.next(), arrays.next()
        vectors.load(coarse, fine, arrays.next())
    return state, told["watermark"]


class _Arrays:
    """The arrays of a checkpoint, one after the other, in place."""

    def __init__(self, data: bytes | bytearray, at: int, shapes: Sequence[tuple[str, Sequence[int]]]) -> None:
        self._data = memoryview(data).toreadonly()
        self._at = at
        self._shapes = iter(shapes)

    def next(self) -> NDArray[Any]:
        dtype, shape = next(self._shapes)
        found = np.ndarray(tuple(shape), dtype, self._data, self._at)
        self._at += -(-found.nbytes // _ALIGNED) * _ALIGNED
        return found


def _padded(data: bytes, filler: bytes, *, before: int = 0) -> bytes:
    return data + filler * (-(before + len(data)) % _ALIGNED)


def _sum(words: bytes) -> bytes:
    return checksum(words)


def _sums(numbers: NDArray[np.uint64]) -> bytes:
    """Return the sum and the exclusive or of `numbers`, which a changed or missing byte changes."""
    total = np.add.reduce(numbers, dtype=np.uint64) if len(numbers) else np.uint64(0)
    mixed = np.bitwise_xor.reduce(numbers) if len(numbers) else np.uint64(0)
    return struct.pack("<QQ", int(total), int(mixed))
