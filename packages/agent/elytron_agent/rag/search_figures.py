"""Figures of the embedding service, each with the alert threshold of its value."""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from elytron_adapter.surface import SurfaceFigure, ValueHistogram
from elytron_agent.rag.table_cache import TableCache
from elytron_agent.rag.usage import UsageLedger

ALERT_CACHED_SEARCH_S: Final = 0.010
"""Threshold for a search in cached vectors; searching 40,000 vectors takes less."""
ALERT_LOAD_S: Final = 10.0
ALERT_CACHE_SHARE: Final = 0.9
SEARCH_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class RagAlerts:
    """Alert thresholds that are shown next to the figures."""

    cached_search_s: float = ALERT_CACHED_SEARCH_S
    load_s: float = ALERT_LOAD_S
    cache_share: float = ALERT_CACHE_SHARE


class SearchFigures:
    """Durations of searches in cached vectors and in the store."""

    def __init__(self, alerts: RagAlerts, /) -> None:
        self._alerts = alerts
        self._cached, self._read = ValueHistogram(SEARCH_BUCKETS_S), ValueHistogram(SEARCH_BUCKETS_S)

    @contextmanager
    def search(self, *, is_cached: bool) -> Generator[None]:
        """Measure the search inside the context."""
        start_s = time.perf_counter()
        yield
        (self._cached if is_cached else self._read).add(time.perf_counter() - start_s)

    def all(self, cache: TableCache, ledger: UsageLedger, /) -> Iterable[SurfaceFigure]:
        """Yield the current figures."""
        counts, bounds = cache.counts, cache.bounds
        yield self._cached.figure("elytron_rag_cached_search_seconds", "Searches over cached vectors.")
        yield self._read.figure("elytron_rag_read_search_seconds", "Searches that read their vectors.")
        rows: tuple[tuple[str, str, float], ...] = (
            ("cached_search_seconds_alert", "Alert threshold in seconds.", self._alerts.cached_search_s),
            ("load_seconds", "Seconds taken by the last load of a user's vectors.", counts.last_load_s),
            ("load_seconds_alert", "Alert threshold in seconds.", self._alerts.load_s),
            ("cache_bytes", "Bytes of cached vectors.", cache.size_bytes),
            ("cache_bytes_limit", "Maximum size of the cache.", bounds.size_bytes),
            ("cache_bytes_alert", "Alert threshold in bytes.", self._alerts.cache_share * bounds.size_bytes),
            ("cache_user_bytes_limit", "Maximum size of one user's vectors in the cache.", bounds.user_bytes),
            ("cache_users", "Users whose vectors are cached.", cache.users),
            ("cache_users_limit", "Maximum number of users whose vectors are cached.", bounds.users),
            ("cache_hits_total", "Searches whose vectors were cached.", counts.hits),
            ("cache_misses_total", "Searches that had to read vectors from the store.", counts.misses),
            ("cache_updates_total", "Updates of cached vectors after changes.", counts.updates),
            ("cache_expired_total", "Users whose cached vectors expired.", counts.expired),
            ("cache_evicted_total", "Users whose cached vectors were evicted.", counts.evicted),
            ("cache_too_large_total", "Loads of users whose vectors exceed the cache.", counts.too_large),
            ("cache_waits_over_total", "Searches that gave up waiting for a load.", counts.waits_over),
            ("quota_refused_total", "Texts rejected by a quota.", ledger.refused),
        )  # fmt: skip
        for name, description, value in rows:
            yield SurfaceFigure(f"elytron_rag_{name}", description, value)
