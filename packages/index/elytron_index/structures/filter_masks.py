"""Filters as boolean masks over the rows of a space, exact at any selectivity."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from elytron_core.contracts.conditions import Scalar
from elytron_core.policy.query import metadata_conditions
from elytron_core.ports.store import Ref
from elytron_index.query import METADATA, Filters
from elytron_index.structures.columns import Columns, Mask
from elytron_index.structures.interner import Codes, Interner
from elytron_index.structures.row_map import Refs

NAMED: Final = ("plane", "speaker", "role", "thread", "scope", "tags")
"""The columns that hold codes."""


class Names:
    """The interned words of a space: the values of the code columns."""

    def __init__(self) -> None:
        self.plane = Interner("")
        self.speaker = Interner("")
        self.role = Interner("")
        self.thread = Interner("")
        self.scope: Interner[tuple[tuple[str, str], ...]] = Interner(())
        self.tags: Interner[tuple[str, ...]] = Interner(())

    def copy(self) -> "Names":
        """Return the same words under the same codes."""
        names = Names()
        for name in NAMED:
            getattr(names, name).load(getattr(self, name).values)
        return names


def visible(filters: Filters, columns: Columns, names: Names, /) -> Mask:
    """Return which rows may be seen."""
    size = columns.size
    mask = columns.alive[:size].copy()
    if filters.planes:
        mask &= _holds(columns.plane[:size], names.plane.known(filters.planes), len(names.plane))
    for part, values in filters.scope:
        allowed = set(values)
        codes = [code for code, scope in enumerate(names.scope.values) if _part(scope, part) in allowed]
        mask &= _holds(columns.scope[:size], codes, len(names.scope))
    if filters.as_of is not None:
        valid_to = columns.valid_to[:size]
        mask &= (columns.valid_from[:size] <= filters.as_of) | (columns.valid_from[:size] == 0)
        mask &= (valid_to > filters.as_of) | (valid_to == 0)
    closed_at = columns.closed_at[:size]
    if filters.known_at is None:
        mask &= closed_at == 0
    else:
        mask &= (columns.recorded_at[:size] <= filters.known_at) | (columns.recorded_at[:size] == 0)
        mask &= (closed_at > filters.known_at) | (closed_at == 0)
    if filters.min_trust is not None:
        mask &= columns.trust[:size] >= filters.min_trust
    return mask


def asked(filters: Filters, seen: Mask, columns: Columns, names: Names, excluded: Sequence[int], /) -> Mask:
    """Return which of the rows `seen` are asked for: `seen` itself where all are."""
    if _asks_for_all(filters, excluded):
        return seen
    size = columns.size
    mask = seen.copy()
    if filters.speakers:
        mask &= _holds(columns.speaker[:size], names.speaker.known(filters.speakers), len(names.speaker))
    if filters.roles:
        mask &= _holds(columns.role[:size], names.role.known(filters.roles), len(names.role))
    if filters.threads:
        mask &= _holds(columns.thread[:size], names.thread.known(filters.threads), len(names.thread))
    if filters.since is not None:
        mask &= columns.at[:size] >= filters.since
    if filters.until is not None:
        mask &= columns.at[:size] < filters.until
    if filters.tags_any or filters.tags_all:
        some, every = set(filters.tags_any), set(filters.tags_all)
        codes = [
            code
            for code, tags in enumerate(names.tags.values)
            if every.issubset(tags) and (not some or not some.isdisjoint(tags))
        ]
        mask &= _holds(columns.tags[:size], codes, len(names.tags))
    if filters.where:
        codes = [
            code
            for code, scope in enumerate(names.scope.values)
            if metadata_conditions.hold(filters.where, _metadata(scope))
        ]
        mask &= _holds(columns.scope[:size], codes, len(names.scope))
    if excluded:
        mask[excluded] = False
    return mask


def excluded_rows(refs: Iterable[Ref], rows_of: Refs, /) -> list[int]:
    """Return the rows of `refs`."""
    found: list[int] = []
    for ref in refs:
        found += rows_of.get(ref)
    return found


def _asks_for_all(filters: Filters, excluded: Sequence[int]) -> bool:
    named = filters.speakers or filters.roles or filters.threads or filters.tags_any or filters.tags_all
    return not (named or filters.where or excluded) and filters.since is None and filters.until is None


def _metadata(scope: tuple[tuple[str, str], ...]) -> dict[str, Scalar]:
    return {name.removeprefix(METADATA): json.loads(value) for name, value in scope if name.startswith(METADATA)}


def _part(scope: tuple[tuple[str, str], ...], part: str) -> str:
    return next((value for name, value in scope if name == part), "")


def _holds(column: Codes, codes: list[int], known: int) -> Mask:
    if len(codes) == 1:
        return column == codes[0]
    allowed = np.zeros(known, np.bool_)
    allowed[codes] = True
    return allowed[column]
