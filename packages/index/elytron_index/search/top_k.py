"""Choosing from arrays: the highest values, the best of a pool in one total order, the best three of each thread."""

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elytron_index.structures.columns import Mask, whole_numbers
from elytron_index.structures.state import IndexState
from elytron_index.structures.visibility import Lines

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_MANY: Final = 1 << 15
_SAMPLED: Final = 4_096
_BITS: Final = np.uint64(32)
_BACK: Final = np.arange(3)[:, None]


def best_rows(state: IndexState, pool: Rows, score: Floats, limit: int, /) -> Rows:
    """Return the places in `pool` of the `limit` best rows, best first.

    Order: score, newer, later in the thread, then ref and part. It is total, so that equal scores never depend on
    where a unit is kept.
    """
    chosen = np.arange(len(pool)) if len(pool) <= limit else (score >= edge_value(score, limit)).nonzero()[0]
    values = score.take(chosen)
    places = values.argsort()[::-1]
    ordered = values.take(places)
    if len(chosen) <= limit and (ordered[1:] < ordered[:-1]).all():
        return chosen.take(places)
    return _best_of_equals(state, pool, score, limit)


def _best_of_equals(state: IndexState, pool: Rows, score: Floats, limit: int) -> Rows:
    columns = state.columns
    chosen = np.arange(len(pool))
    sure: list[Rows] = []
    for key in (score, columns.at[pool], columns.order[pool]):
        wanted = limit - sum(map(len, sure))
        if len(chosen) <= wanted:
            break
        values = key[chosen]
        least = np.partition(values, len(values) - wanted)[len(values) - wanted]
        sure.append(chosen[values > least])
        chosen = chosen[values == least]
    chosen = np.concatenate((*sure, chosen))
    rows = pool[chosen]
    keys = (-score[chosen], -columns.at[rows], -columns.order[rows], np.arange(len(rows)))
    ordered: list[tuple[float, int, int, int]] = sorted(zip(*(key.tolist() for key in keys), strict=True))
    if any(former[:3] == latter[:3] for former, latter in pairwise(ordered)):
        # Only equal ones are ordered by their ref.
        refs, parts = state.refs.of(rows), whole_numbers(columns.part[rows])
        ordered.sort(key=lambda key: (*key[:3], refs[key[3]], parts[key[3]]))
    return chosen[[key[3] for key in ordered[:limit]]]


def best_three(values: Floats, threads: Lines, sizes: Lines, /) -> Floats:
    """Return for each line of `values`, one a unit, the mean of its thread's three best, none below 0.

    `sizes` is how many units its thread has, at most 3. A unit without a thread is alone.
    """
    if not values.shape[1]:
        return values
    # One sort does it: a float32 that is not negative sorts as its bits do, behind its thread's number.
    keys = (threads.astype(np.uint64) << _BITS) | values.astype(np.float32).view(np.uint32)
    keys.sort(axis=1)
    owners = keys[0] >> _BITS
    is_last = np.ones(len(owners), np.bool_)
    np.not_equal(owners[1:], owners[:-1], out=is_last[:-1])
    ends = is_last.nonzero()[0]
    places, held = ends - _BACK, owners.take(ends)
    best = keys.take(places, axis=1, mode="wrap").astype(np.uint32).view(np.float32).astype(np.float64)
    best *= places > np.concatenate(((-1,), ends[:-1]))
    of_thread = np.zeros((len(values), int(held[-1]) + 1))
    of_thread[:, held.astype(np.int64)] = np.add.reduce(best, axis=1)
    found = of_thread.take(threads, axis=1) / sizes
    if not held[0]:
        np.copyto(found, values, where=threads == 0)
    return found


def edge_value(values: Floats, wanted: int, /) -> float:
    """Return the `wanted`-th highest of `values`, of which there are more."""
    if len(values) >= _MANY:
        # A sample estimates the upper end; if it is wrong, all are read.
        sample = np.sort(values[:: len(values) // _SAMPLED])
        likely = values[values >= sample[-max(1, len(sample) * 4 * wanted // len(values))]]
        if len(likely) >= wanted:
            values = likely
    return float(np.partition(values, len(values) - wanted)[len(values) - wanted])


def highest_values(values: Floats, wanted: int, /) -> Mask | slice:
    """Return where the `wanted` highest values stand, with all that equal the lowest of them."""
    return slice(None) if len(values) <= wanted else values >= edge_value(values, wanted)


def likely_edge(values: NDArray[np.floating[Any]], eligible: Mask, wanted: int, /) -> float | None:
    """Return a value that some more than `wanted` of the `eligible` ones are likely to reach; None where all may."""
    step = len(values) // _SAMPLED
    if len(values) < _MANY:
        return None
    sample = values[::step][eligible[::step]]
    rank = 1 + 4 * wanted // step
    return float(np.partition(sample, len(sample) - rank)[len(sample) - rank]) if len(sample) > rank else None
