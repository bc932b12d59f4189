"""Arrays of numbers in a safetensors file: a header in JSON that names each, then their bytes."""

import json
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_core.errors import UnreadableFile

WEIGHTS: Final = "model.safetensors"

Tensors = dict[str, NDArray[Any]]

_TYPES: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1"}
_HEAD: Final = 8
_HEADER_BYTES: Final = 1024 * 1024


def read_safetensors(data: bytes, /) -> Tensors:
    """Return the tensors in `data` by name, those of a kind that NumPy lacks left out. Raises UnreadableFile."""
    bad = UnreadableFile(name=WEIGHTS, problem="is no whole safetensors file")
    size = int.from_bytes(data[:_HEAD], "little")
    if len(data) < _HEAD or size > min(_HEADER_BYTES, len(data) - _HEAD):
        raise bad
    body = memoryview(data)[_HEAD + size :]
    found: Tensors = {}
    try:
        for name, told in json.loads(data[_HEAD : _HEAD + size]).items():
            if name != "__metadata__" and told["dtype"] in _TYPES:
                start, end = told["data_offsets"]
                shape = tuple(told["shape"])
                if not 0 <= start <= end <= len(body) or any(length < 0 for length in shape):
                    raise bad
                found[name] = np.frombuffer(body[start:end], _TYPES[told["dtype"]]).reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise bad from None
    return found
