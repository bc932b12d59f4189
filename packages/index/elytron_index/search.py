"""A search of one space: raw signals as arrays over the units that can matter, then the best by a weighted sum.

Every sum runs in an order fixed by the query and the thread, never by where a unit happens to be kept; so results do
not depend on how the units arrived.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_index import aims, masks, skipping, texts
from elytron_index.columns import Mask
from elytron_index.nearness import Nearness, nearness
from elytron_index.query import Candidate, Candidates, IndexQuery, Signals
from elytron_index.selection import best, best_three
from elytron_index.skipping import Skipping
from elytron_index.state import State
from elytron_index.texts import Floats, Rows, Terms, Texts

_POOL = 256
_POOL_TIMES = 4
"""Text, neighbourhood and vector each bring this many units, or this many times the limit, to be weighed in full."""

_TALK_MS = 8 * 3_600_000
"""What was said so much earlier or later lends nothing, even where it stands beside in its thread."""

_one: Callable[[Iterable[float]], Signals[float]] = Signals[float]._make


def search(state: State, query: IndexQuery, /) -> Candidates:
    """Return the best units for `query`.

    Raises InvalidInput, LimitExceeded for a limit, text or vector out of bounds.
    """
    if not 1 <= query.limit <= limits.RECALL_MAX:
        raise InvalidInput(field="limit", problem=f"is not 1 to {limits.RECALL_MAX}")
    if len(query.text) > limits.QUERY_CHARS:
        raise LimitExceeded(what="characters in a query", limit=limits.QUERY_CHARS, found=len(query.text))
    seen = masks.visible(query.filters, state.columns, state.names)
    excluded = masks.excluded_rows(query.filters.exclude, state.rows_of)
    asked = masks.asked(query.filters, seen, state.columns, state.names, excluded)
    terms = texts.terms_of(state, query.text)
    read = skipping.read(state, query, terms) if skipping.serves(state, query) else texts.read(state, query, terms)
    near = nearness(state, query, seen)
    pool = _pool(state, query, read, near, seen=seen, asked=asked)
    shares, named = _speakers(state, terms)
    signals = _signals(state, query, read, near, pool=pool, around=_around(state, pool, seen), shares=shares)
    score = _score(state, query, pool, signals)
    chosen = best(state, pool, score, query.limit)
    table = np.concatenate(signals).reshape(len(signals), len(pool))
    found = map(Candidate, state.views(pool[chosen]), map(_one, table[:, chosen].T.tolist()), score[chosen].tolist())
    highs, lows = (table.max(axis=1), table.min(axis=1)) if len(pool) else np.zeros((2, len(table)))
    return Candidates(
        found=tuple(found),
        terms=terms.every,
        name_terms=terms.names,
        named=named,
        highs=_one(highs.tolist()),
        lows=_one(lows.tolist()),
        pool=len(pool),
        searched=int(np.count_nonzero(asked)),
    )


def _pool(
    state: State, query: IndexQuery, read: Texts | Skipping, near: Nearness | None, /, *, seen: Mask, asked: Mask
) -> Rows:
    """Return the rows worth weighing in full: best by text, beside the best, nearest by vector."""
    if query.vector is None and not query.text.strip():
        return np.flatnonzero(asked)
    wanted = max(_POOL, _POOL_TIMES * query.limit)
    mark = np.zeros(state.columns.size, np.bool_)
    speaking = read.speaking(seen, wanted)
    before, after = state.columns.before, state.columns.after
    previous, following = before[speaking], after[speaking]
    for beside in (previous, following, before[previous], after[following]):
        mark[beside] = True
    is_one = read.is_body_alone and np.array_equal(asked, seen)
    mark[speaking if is_one else read.telling(asked, wanted)] = True
    if near is not None:
        mark[near.nearest(asked, wanted)] = True
    mark &= asked
    return np.flatnonzero(mark)


def _speakers(state: State, terms: Terms) -> tuple[Floats, tuple[str, ...]]:
    """Return the share of each speaker's name that the query holds, and the speakers named in full."""
    shares = np.zeros(len(state.names.speaker))
    named: list[str] = []
    for code in {code for term in terms.names for code in state.speakers_of[term] if state.speaker_units[code]}:
        name = state.name_terms[code]
        shares[code] = sum(term in terms.names for term in name) / len(name)
        if shares[code] == 1.0:
            named.append(state.names.speaker.values[code])
    return shares, tuple(sorted(named))


def _around(state: State, pool: Rows, seen: Mask) -> NDArray[np.int32]:
    """Return five lines of rows: the pool itself, one before, one after, two before, two after.

    0 stands for nobody, for those who may not be seen, and for those far off in time: they lend nothing.
    """
    before, after = state.columns.before, state.columns.after
    previous, following = before[pool], after[pool]
    lines = np.stack((pool.astype(np.int32), previous, following, before[previous], after[following]))
    lines *= seen[lines]
    at = state.columns.at[lines]
    # A talk that was taken up again much later is another talk.
    lines *= (np.abs(at - at[0]) <= _TALK_MS) | (at == 0) | (at[0] == 0)
    return lines


def _signals(
    state: State,
    query: IndexQuery,
    read: Texts | Skipping,
    nearness: Nearness | None,
    /,
    *,
    pool: Rows,
    around: NDArray[np.int32],
    shares: Floats,
) -> Signals[Floats]:
    columns, context = state.columns, query.context
    take = 1.0 / (1.0 + (columns.chars[pool] / context.chars) ** 2)
    reach = np.minimum(np.count_nonzero(around, axis=0), 3)
    threads = columns.thread[pool]
    local = read.local(around)
    body, near, session = _with_neighbours(query, local.body, take=take, threads=threads, reach=reach)
    vector, vector_near, vector_session = np.zeros((3, len(pool)))
    if nearness is not None:
        above = nearness.above(pool, around)
        vector, vector_near, vector_session = _with_neighbours(query, above, take=take, threads=threads, reach=reach)
        vector = vector + nearness.lowest
    at = columns.at[pool]
    recency = query.half_life_ms / (query.half_life_ms + np.maximum(query.now - at, 0))
    return Signals(
        body=body,
        title=local.title,
        label=local.label,
        name=local.name,
        near=near,
        window=local.spread.window,
        session=session,
        answer=aims.answers(columns, local.body, around),
        speaker=shares[columns.speaker[pool]],
        vector=vector,
        vector_near=vector_near,
        vector_session=vector_session,
        owner=aims.owners(state, query.owner, pool),
        date=aims.dates(query.spans, at),
        fits=aims.fitting(columns, query.fits, pool),
        told=columns.told[pool].astype(np.float64),
        later=aims.later(local.total(query.weights), at) if query.weights.later else np.zeros(len(pool)),
        recency=recency * ((at != 0) & (query.now != 0)),
        informative=columns.informative[pool].astype(np.float64),
        matched=local.spread.matched,
        coverage=local.spread.coverage,
        context=local.spread.context,
    )


def _with_neighbours(
    query: IndexQuery,
    values: Floats,
    /,
    *,
    take: Floats,
    threads: NDArray[np.int32],
    reach: NDArray[np.int64],
) -> tuple[Floats, Floats, Floats]:
    """Return the pool's own values, the shares of their neighbours' and the means of their threads' best three."""
    context = query.context
    own, previous, following, second_previous, second_following = values
    near = context.before * previous + context.after * following
    near = near + context.second_before * second_previous + context.second_after * second_following
    return own, near * take, best_three(own, threads, reach)


def _score(state: State, query: IndexQuery, pool: Rows, s: Signals[Floats]) -> Floats:
    weights = query.weights
    text = s.body + weights.title * s.title + weights.label * s.label + weights.name * s.name
    said = (text + weights.near * s.near + weights.answer * s.answer) / _scale(text)
    score = said + (weights.session / _scale(text)) * s.session
    score += (weights.window / _scale(s.window)) * s.window
    above = s.vector - s.vector.min(initial=1.0)
    meant = (above + weights.near * s.vector_near) / _scale(above)
    score += weights.vector * (meant + (weights.session / _scale(above)) * s.vector_session)
    # What a text is like says little for one that has little to do with the query.
    matters = np.sqrt(np.clip(np.maximum(said, meant if weights.vector else 0.0), 0.0, 1.0))
    score += matters * (weights.informative * s.informative + weights.told * s.told + weights.fits * s.fits)
    score += weights.speaker * s.speaker + weights.owner * s.owner + weights.date * s.date
    score += weights.later * s.later + weights.recency * s.recency
    if weights.roles:
        bonus = np.zeros(len(state.names.role))
        for role, weight in weights.roles:
            bonus[state.names.role.known((role,))] = weight
        score += bonus[state.columns.role[pool]]
    return aims.spread_out(state.columns, pool, score, weights.again) if weights.again else score


def _scale(values: Floats) -> float:
    return float(values.max(initial=0.0)) or 1.0
