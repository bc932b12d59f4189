"""Choosing from arrays: the best of a pool in one total order, and the best three of each thread."""

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_index.columns import Mask, whole_numbers
from elytron_index.state import State

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_MANY: Final = 1 << 15
_SAMPLED: Final = 4_096


def best(state: State, pool: Rows, score: Floats, limit: int, /) -> Rows:
    """Return the places in `pool` of the `limit` best rows, best first.

    Order: score, newer, later in the thread, then ref and part. It is total, so that equal scores never depend on
    where a unit is kept.
    """
    columns = state.columns
    chosen = np.arange(len(pool))
    sure: list[Rows] = []
    for key in (score, columns.at[pool], columns.order[pool]):
        wanted = limit - sum(map(len, sure))
        if len(chosen) <= wanted:
            break
        values = key[chosen]
        edge = np.partition(values, len(values) - wanted)[len(values) - wanted]
        sure.append(chosen[values > edge])
        chosen = chosen[values == edge]
    chosen = np.concatenate((*sure, chosen))
    rows = pool[chosen]
    keys = (-score[chosen], -columns.at[rows], -columns.order[rows], np.arange(len(rows)))
    ordered: list[tuple[float, int, int, int]] = sorted(zip(*(key.tolist() for key in keys), strict=True))
    if any(former[:3] == latter[:3] for former, latter in pairwise(ordered)):
        # Only what is equal so far is told apart by its ref.
        refs, parts = state.refs.of(rows), whole_numbers(columns.part[rows])
        ordered.sort(key=lambda key: (*key[:3], refs[key[3]], parts[key[3]]))
    return chosen[[key[3] for key in ordered[:limit]]]


def best_three(values: Floats, threads: NDArray[np.int32], sizes: NDArray[np.int64], /) -> Floats:
    """Return for each unit the mean of its thread's three best values, none below 0.

    `sizes` is how many units its thread has, at most 3. A unit without a thread stands for itself.
    """
    if not len(values):
        return values
    # One sort does it: a float32 that is not negative sorts as its bits do, behind its thread's number.
    bits = values.astype(np.float32).view(np.uint32)
    keys = np.sort((threads.astype(np.uint64) << np.uint64(32)) | bits)
    owners = (keys >> np.uint64(32)).astype(np.int64)
    ordered = keys.astype(np.uint32).view(np.float32).astype(np.float64)
    ends = np.append(np.flatnonzero(owners[1:] != owners[:-1]), len(owners) - 1)
    starts = np.append(0, ends[:-1] + 1)
    total = np.zeros(len(ends))
    for back in range(3):
        place = ends - back
        total += np.where(place >= starts, ordered[np.maximum(place, 0)], 0.0)
    of_thread = np.zeros(int(owners[-1]) + 1)
    of_thread[owners[ends]] = total
    return np.where(threads == 0, values, of_thread[threads] / sizes)


def edge(values: Floats, wanted: int, /) -> float:
    """Return the `wanted`-th highest of `values`, of which there are more."""
    if len(values) >= _MANY:
        # What a sample takes for the upper end is where they stand, or else all are looked at.
        sample = np.sort(values[:: len(values) // _SAMPLED])
        likely = values[values >= sample[-max(1, len(sample) * 4 * wanted // len(values))]]
        if len(likely) >= wanted:
            values = likely
    return float(np.partition(values, len(values) - wanted)[len(values) - wanted])


def highest(values: Floats, wanted: int, /) -> Mask | slice:
    """Return where the `wanted` highest values stand, with all that equal the lowest of them."""
    return slice(None) if len(values) <= wanted else values >= edge(values, wanted)


def likely_edge(values: NDArray[np.floating[Any]], eligible: Mask, wanted: int, /) -> float | None:
    """Return a value that some more than `wanted` of the `eligible` ones are likely to reach; None where all may."""
    step = len(values) // _SAMPLED
    if len(values) < _MANY:
        return None
    sample = values[::step][eligible[::step]]
    rank = 1 + 4 * wanted // step
    return float(np.partition(sample, len(sample) - rank)[len(sample) - rank]) if len(sample) > rank else None
