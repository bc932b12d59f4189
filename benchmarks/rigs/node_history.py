"""Histories of single documents: what several clients asked of one record, and whether one record can have answered.

Each put names the version that it replaces, so versions order all puts. A history is linearizable if every version has
one value, which was put in place of the one before, and no call that began after another had ended saw or made an
earlier version.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise


class CallKind(StrEnum):
    """Kind of a call, and of what is known of it."""

    READ = "read"
    PUT = "put"
    REFUSED = "refused"
    """A put that was refused: its value was never there."""
    UNKNOWN = "unknown"
    """A put without an answer: its value may be there."""


@dataclass(frozen=True, slots=True)
class RecordCall:
    """One call, its times, and the version and value that it found or made."""

    kind: CallKind
    began: float
    ended: float
    version: int
    value: str


def find_anomalies(calls: Sequence[RecordCall], /) -> Iterator[str]:
    """Yield what in the calls of one record no single record can have answered."""
    yield from _odd_values(calls)
    known = [call for call in calls if call.kind in {CallKind.READ, CallKind.PUT}]
    by_end = sorted(known, key=lambda call: call.ended)
    ends = [call.ended for call in by_end]
    highest = [*accumulate((call.version for call in by_end), max)]
    for call in known:
        before = bisect_right(ends, call.began)
        if not before:
            continue
        # A put that ended made its version; another put behind it makes a later one.
        least = highest[before - 1] + (call.kind is CallKind.PUT)
        if call.version < least:
            yield f"{call.kind} of version {call.version} began after version {highest[before - 1]} was answered"


def _odd_values(calls: Sequence[RecordCall]) -> Iterator[str]:
    puts = [call for call in calls if call.kind is CallKind.PUT]
    for one, other in pairwise(sorted(puts, key=lambda call: call.version)):
        if one.version == other.version:
            yield f"version {one.version} was made twice: {one.value} and {other.value}"
    made = {call.version: call.value for call in puts}
    refused = {call.value for call in calls if call.kind is CallKind.REFUSED}
    tried = {call.value: call.version for call in calls if call.kind is not CallKind.READ}
    for read in (call for call in calls if call.kind is CallKind.READ and call.version):
        value = made.setdefault(read.version, read.value)
        if value != read.value:
            yield f"version {read.version} was {value} and {read.value}"
        if read.value in refused:
            yield f"{read.value} was refused and read"
        if tried.get(read.value) != read.version:
            yield f"{read.value} was read as version {read.version} and put as {tried.get(read.value)}"
