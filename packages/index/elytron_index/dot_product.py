"""Dot products of int8 rows: exact whole numbers, by a SIMD library if there is one, else by NumPy; equal."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int8]
Dots = NDArray[np.floating[Any]]
Products = NDArray[np.float64]
Kernel = Callable[[Codes, Codes], Products]
Scan = Callable[[Codes, Codes, Dots], None]

_ROWS = 4_096
_EXACT_IN_FLOAT32 = 1_024
"""Number of products of two int8 numbers whose sum is below 2^24, up to which a float32 holds every whole number."""


def dots(queries: Codes, rows: Codes, /) -> Products:
    """Return the dot product of each of `queries` with each of `rows`."""
    return _best()(queries, rows)


def dots_type(dimension: int, /) -> type[np.float32] | type[np.float64]:
    """Return the smallest type that holds every dot product of `dimension` int8 numbers exactly."""
    return np.float32 if dimension <= _EXACT_IN_FLOAT32 else np.float64


def scan(query: Codes, rows: Codes, found: Dots, /) -> None:
    """Put the dot product of `query` with each of `rows` into `found`, which is of `dots_type`."""
    _best_scan()(query, rows, found)


def plain_scan(query: Codes, rows: Codes, found: Dots, /) -> None:
    """Do the same by NumPy alone."""
    found[:] = plain_dots(query[None], rows)[0]


def plain_dots(queries: Codes, rows: Codes, /) -> Products:
    """Return the same by NumPy alone, through exact float32 products of BLAS."""
    found = np.zeros((len(queries), len(rows)))
    for start in range(0, queries.shape[1], _EXACT_IN_FLOAT32):
        end = start + _EXACT_IN_FLOAT32
        asked = queries[:, start:end].astype(np.float32)
        for first in range(0, len(rows), _ROWS):
            part = rows[first : first + _ROWS, start:end].astype(np.float32)
            found[:, first : first + _ROWS] += asked @ part.T
    return found


@cache
def _best() -> Kernel:
    try:
        from numkong import dots_pack, dots_packed
    except ImportError:
        return plain_dots

    def simd_dots(queries: Codes, rows: Codes, /) -> Products:
        if not len(rows):
            return np.zeros((len(queries), 0))
        return np.ascontiguousarray(np.asarray(dots_packed(rows, dots_pack(queries))).T, np.float64)

    return simd_dots


@cache
def _best_scan() -> Scan:
    try:
        import numkong
    except ImportError:
        return plain_scan

    def simd_scan(query: Codes, rows: Codes, found: Dots, /) -> None:
        if len(rows):
            numkong.cdist(query[None], rows, "dot", out=found[None])

    return simd_scan
