"""Choosing from arrays: the best of a pool in one total order, and the best three of each thread."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from elytron_index.columns import whole_numbers
from elytron_index.state import State

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


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
