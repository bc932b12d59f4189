"""An index as bytes: a header, a checksum, one JSON object for words and shapes, then the arrays as they stand.

"ELYX" | format u16 | analyser u16 | checksum 8 | JSON size u64 | JSON | arrays, little-endian, one after the other
"""

import json
import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_core.canonical import checksum
from elytron_core.ports.store import Ref
from elytron_core.text import analyser as analysis
from elytron_core.text.analyser import Analyser
from elytron_index.columns import DTYPES, Columns
from elytron_index.interning import Interner
from elytron_index.postings import Segment
from elytron_index.state import State
from elytron_index.vectors import ModelVectors

FORMAT = 4
"""Grows with every change of what the bytes mean."""

_MAGIC: Final = b"ELYX"
_HEADER = struct.Struct("<4sHH8sQ")
_SEGMENT: Final = (("codes", "<i4"), ("starts", "<i8"), ("rows", "<i4"), ("counts", "|u1"))


def dump(state: State, watermark: int, /) -> bytes:
    """Return the checkpoint of a `state` in which nothing is dead."""
    columns, names = state.columns, state.names
    collections = Interner("")
    kinds = np.array([collections.code(ref.collection) for ref in state.refs[1:]], np.int32)
    arrays = [getattr(columns, name)[1 : columns.size].astype(dtype) for name, dtype in DTYPES.items()]
    arrays += [kinds.astype("<i4"), state.threads.all_rows().astype("<i4")]
    for segment in state.postings.segments:
        arrays += [getattr(segment, name).astype(dtype) for name, dtype in _SEGMENT]
    models = sorted(state.vectors.models.items())
    for _, vectors in models:
        coarse, fine = zip(*vectors.parts(columns.size), strict=True)
        arrays += [np.concatenate(coarse), np.concatenate(fine)]
        arrays.append(vectors.peaks[: len(arrays[-1])].astype("<f4"))
    told: dict[str, Any] = {
        "watermark": watermark,
        "sizes": [len(array) for array in arrays],
        "compared": state.compared,
        "segments": len(state.postings.segments),
        "models": [(model, vectors.dimension) for model, vectors in models],
        "collections": collections.values,
        "keys": [ref.key for ref in state.refs[1:]],
        "terms": list(state.postings.vocabulary),
        "planes": names.plane.values,
        "speakers": names.speaker.values,
        "roles": names.role.values,
        "threads": names.thread.values,
        "scopes": names.scope.values,
        "tags": names.tags.values,
    }
    words = json.dumps(told, separators=(",", ":")).encode("ascii")
    body = b"".join((words, *(array.tobytes() for array in arrays)))
    return _HEADER.pack(_MAGIC, FORMAT, analysis.VERSION, _sum(len(words), body), len(words)) + body


def load(data: bytes | bytearray, analyser: Analyser, /) -> tuple[State, int] | None:
    """Return the state and watermark of a checkpoint; None where it is damaged or of another version."""
    if len(data) < _HEADER.size:
        return None
    magic, version, analysed, expected, words_size = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    if (magic, version, analysed) != (_MAGIC, FORMAT, analysis.VERSION) or _sum(words_size, body) != expected:
        return None
    told = json.loads(bytes(body[:words_size]))
    reader = _Reader(body, words_size, told["sizes"])
    state = State(analyser)
    state.compared = told["compared"]
    names = state.names
    names.plane.load(told["planes"])
    names.speaker.load(told["speakers"])
    names.role.load(told["roles"])
    names.thread.load(told["threads"])
    names.scope.load([tuple((part, value) for part, value in scope) for scope in told["scopes"]])
    names.tags.load([tuple(tags) for tags in told["tags"]])
    columns = Columns(len(told["keys"]) + 1)
    columns.size = len(told["keys"]) + 1
    columns.alive[1:] = True
    for name, dtype in DTYPES.items():
        getattr(columns, name)[1:] = reader.next(dtype)
    collections = [told["collections"][kind] for kind in reader.next("<i4").tolist()]
    state.load(columns, list(map(Ref, collections, told["keys"])), reader.next("<i4"))
    segments = [Segment(*(reader.next(dtype) for _, dtype in _SEGMENT)) for _ in range(told["segments"])]
    state.postings.load(told["terms"], segments)
    for model, dimension in told["models"]:
        vectors = state.vectors.models[model] = ModelVectors(dimension)
        coarse, fine = (reader.next("|i1", dimension).reshape(-1, dimension) for _ in range(2))
        vectors.load(coarse, fine, reader.next("<f4"))
    return state, told["watermark"]


class _Reader:
    """Takes one array after the other out of a checkpoint's body."""

    def __init__(self, body: memoryview, at: int, sizes: list[int]) -> None:
        self._body = body
        self._at = at
        self._sizes = iter(sizes)

    def next(self, dtype: str, width: int = 1) -> NDArray[Any]:
        found = np.frombuffer(self._body, dtype, next(self._sizes) * width, self._at).copy()
        self._at += found.nbytes
        return found


def _sum(words_size: int, body: bytes | memoryview) -> bytes:
    return checksum(words_size.to_bytes(8, "little"), body)
