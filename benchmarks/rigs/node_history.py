"""Histories of single documents: what several clients requested of one record, and whether a single record fits.

Each put names the version that it replaces, so versions order all puts. A history is linearizable if every version has
one value, which replaced the previous one, and no call that began after another had ended saw or created an earlier
version.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise


class CallKind(StrEnum):
    """Kind of a call, and what is known about it."""

    READ = "read"
    PUT = "put"
    REFUSED = "refused"
    """A put that was refused: its value never existed."""
    UNKNOWN = "unknown"
    """A put without a response: its value may exist."""


@dataclass(frozen=True, slots=True)
class RecordCall:
    """One call, its times, and the version and value that it found or created."""

    kind: CallKind
    began: float
    ended: float
    version: int
    value: str


def find_anomalies(calls: Sequence[RecordCall], /) -> Iterator[str]:
    """Yield what no single record can have answered to these calls."""
    yield from _odd_values(calls)
    known = [call for call in calls if call.kind in {CallKind.READ, CallKind.PUT}]
    by_end = sorted(known, key=lambda call: call.ended)
    ends = [call.ended for call in by_end]
    highest = [*accumulate((call.version for call in by_end), max)]
    for call in known:
        before = bisect_right(ends, call.began)
        if not before:
            continue
        # A finished put created its version, so a later put creates a later version.
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
