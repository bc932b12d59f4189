"""Figures of turn hooks, under the names that GPTChat exports, and their latencies in its buckets."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from elytron_core.model import Value

BUCKETS: Final = (("0-9", 10), ("10-49", 50), ("50-99", 100), ("100-299", 300), ("300-999", 1000), ("1000+", None))
"""Each bucket's name and the milliseconds that are no longer in it."""


class Latency(Value):
    """Duration of a hook, in milliseconds."""

    buckets: dict[str, int] = {name: 0 for name, _ in BUCKETS}
    sum_ms: int = 0
    last_ms: int = 0
    count: int = 0

    def observed(self, ms: int, /) -> "Latency":
        """Return the latency with one more call."""
        name = next(name for name, end in BUCKETS if end is None or ms < end)
        buckets = self.buckets | {name: self.buckets[name] + 1}
        return Latency(buckets=buckets, sum_ms=self.sum_ms + ms, last_ms=ms, count=self.count + 1)


class HookMetrics(Value):
    """Counts of hooks since they were made."""

    memory_before_turn_total: int = 0
    memory_before_turn_fail_total: int = 0
    memory_after_turn_total: int = 0
    memory_after_turn_fail_total: int = 0
    memory_recall_fact_count: int = 0
    memory_before_latency_ms: Latency = Latency()
    memory_after_latency_ms: Latency = Latency()
    memory_maintenance_recovery_total: int = 0
    """Turns that were too large, were tried once more after maintenance, and then kept."""
    memory_maintenance_recovery_fail_total: int = 0
    """Those that were too large after it too."""


class Counting:
    """The figures of one set of hooks as they grow."""

    def __init__(self) -> None:
        self._metrics = HookMetrics()

    @property
    def metrics(self) -> HookMetrics:
        return self._metrics

    def add(self, name: str, count: int = 1, /) -> None:
        """Add to one of the counters."""
        self._metrics = self._metrics.model_copy(update={name: getattr(self._metrics, name) + count})

    def took(self, name: str, ms: int, /) -> None:
        """Count how long a hook took."""
        latency: Latency = getattr(self._metrics, name)
        self._metrics = self._metrics.model_copy(update={name: latency.observed(max(ms, 0))})


class Figure(NamedTuple):
    """One figure as a server shows it. A histogram has cumulative `buckets` by upper bound, and its sum as `value`."""

    name: str
    text: str
    value: float
    buckets: tuple[tuple[str, float], ...] = ()


TEXTS: Final = {
    "memory_before_turn_total": "Turns that memory was asked for.",
    "memory_before_turn_fail_total": "Turns that went on without memory because it failed.",
    "memory_after_turn_total": "Turns that memory received.",
    "memory_after_turn_fail_total": "Turns that were not kept because memory failed.",
    "memory_recall_fact_count": "Facts that turns were reminded of.",
    "memory_before_latency_ms": "Milliseconds before a turn.",
    "memory_after_latency_ms": "Milliseconds after a turn.",
    "memory_maintenance_recovery_total": "Turns that were too large and kept after maintenance.",
    "memory_maintenance_recovery_fail_total": "Turns that were too large after maintenance too.",
}


def figures_of(metrics: HookMetrics, /) -> Iterator[Figure]:
    """Yield the figures one by one; buckets are cumulative, as Prometheus reads them."""
    for name, value in metrics:
        if not isinstance(value, Latency):
            yield Figure(name, TEXTS[name], value)
            continue
        total, buckets = 0, list[tuple[str, float]]()
        for bucket, end in BUCKETS:
            total += value.buckets[bucket]
            # A bound of Prometheus is in its bucket, and these are whole milliseconds.
            buckets.append((f"{end - 1}" if end is not None else "+Inf", total))
        yield Figure(name, TEXTS[name], value.sum_ms, tuple(buckets))
