"""The last units with a trait, about any subject."""

import numpy as np

from elytron_core.policy.query.question import Owner
from elytron_core.text.features import Trait
from elytron_index.query import Filters, UnitView
from elytron_index.search import query_signals
from elytron_index.structures import filter_masks
from elytron_index.structures.state import State


def latest(
    state: State, filters: Filters, traits: Trait, /, *, limit: int, least_trust: int = 0
) -> tuple[UnitView, ...]:
    """Return up to `limit` units with one of `traits`, latest first, those of assistants left out.

    Units below `least_trust` are left out, in any number: an untrusted one never pushes a trusted one out.

    Nothing if several speak and none of them is an assistant.
    """
    seen = state.sights.of(filters).mask
    excluded = filter_masks.excluded_rows(filters.exclude, state.rows_of)
    rows = filter_masks.asked(filters, seen, state.columns, state.names, excluded).nonzero()[0]
    rows = rows[query_signals.fitting(state.columns, traits, rows)]
    rows = rows[state.columns.trust[rows] >= least_trust]
    owned = query_signals.owned(state, Owner.USER, rows)
    if owned is not None:
        rows = rows[owned]
    elif sum(map(bool, state.speaker_units)) > 1:
        return ()
    at = state.columns.at[rows]
    if len(rows) > limit:
        rows = rows[at >= np.partition(at, -limit)[-limit]]
    views = state.views(rows)
    return tuple(sorted(views, key=lambda view: (view.at, view.order, view.ref, view.part), reverse=True)[:limit])
