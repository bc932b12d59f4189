"""Figures in the format of Prometheus: requests by route and status, their times, and what the server holds."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.responses import Response

from elytron.context import OperationContext
from elytron.jobs.queue import work_of
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.surface import Figures, SurfaceFigure
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import JobState

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SPACES_COUNTED = 2_000
_SPACES_READ = 200
"""Spaces whose jobs are counted: each is read."""


class ServerMetrics:
    """The figures of one application, in a registry of their own."""

    def __init__(self, entrance: CallerEntrance, /, *, figures: Sequence[Figures] = ()) -> None:
        self._entrance = entrance
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "elytron_requests", "Requests answered.", ("route", "method", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "elytron_request_seconds", "Time to the end of the answer.", ("route",), buckets=_BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        self._errors = Counter("elytron_errors", "Requests refused, by error key.", ("key",), registry=self._registry)
        self._jobs = Gauge(
            "elytron_jobs", f"Jobs by state, of the first {_SPACES_READ} spaces.", ("state",), registry=self._registry
        )
        self._in_flight = Gauge("elytron_requests_in_flight", "Requests being answered.", registry=self._registry)
        self._gauges = {
            name: Gauge(f"elytron_{name}", text, registry=self._registry)
            for name, text in {
                "calls_running": "Operations that run now.",
                "calls_waiting": "Operations that wait for their place.",
                "index_spaces": "Indexes held in memory.",
                "index_bytes": "Bytes of the indexes held in memory.",
                "store_ready": "1 where the store answers.",
                "store_spaces": f"Spaces in the store, counted up to {_SPACES_COUNTED}.",
            }.items()
        }
        ProcessCollector(registry=self._registry)
        self._brought: list[Figures] = []
        for brought in figures:
            self.bring(brought)
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}
        self._running = 0

    def losses(self) -> dict[str, int]:
        """Return, by name, what other packages count as lost."""
        found = (figure for brought in self._brought for figure in brought())
        return {figure.name: int(figure.value) for figure in found if figure.name.endswith("_lost_total")}

    def bring(self, figures: Figures, /) -> None:
        """Show `figures` beside the others."""
        self._brought.append(figures)
        self._registry.register(_BroughtFigures(figures))

    def began(self) -> None:
        """Count a request that came."""
        self._running += 1

    def ended(self, route: str, method: str, status: int, seconds: float, /) -> None:
        """Count a request that was answered."""
        self._running -= 1
        key = (route, method, status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(route, method, str(status))
        counter.inc()
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = self._seconds.labels(route)
        times.observe(seconds)

    def refused(self, key: str, /) -> None:
        """Count a request that was refused under an error key."""
        self._errors.labels(key).inc()

    async def shown(self) -> Response:
        """Return all figures as they are now."""
        context = self._entrance.dispatcher.runtime.context
        held, size = context.folds.held
        figures = {
            "calls_running": self._entrance.shedding.running,
            "calls_waiting": self._entrance.shedding.waiting,
            "index_spaces": held,
            "index_bytes": size,
        }
        try:
            spaces = await context.store.spaces(limit=_SPACES_COUNTED)
            figures |= {"store_spaces": len(spaces), "store_ready": 1}
            await self._count_jobs(context, spaces[:_SPACES_READ])
        except ElytronError:
            figures["store_ready"] = 0
        self._in_flight.set(self._running)
        for name, figure in figures.items():
            self._gauges[name].set(figure)
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def _count_jobs(self, context: OperationContext, spaces: Sequence[SpaceId]) -> None:
        counted = dict.fromkeys((state.value for state in JobState), 0)
        for space in spaces:
            _, counts = await work_of(context, space)
            for state, count in counts.items():
                counted[state] += count
        for state, count in counted.items():
            self._jobs.labels(state).set(count)


class _BroughtFigures(Collector):
    """The figures of another package, as the registry takes them."""

    def __init__(self, figures: Figures, /) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield the figures as they are now."""
        return map(_figure_family, self._figures())


def _figure_family(figure: SurfaceFigure) -> Metric:
    if figure.buckets:
        return HistogramMetricFamily(figure.name, figure.text, buckets=figure.buckets, sum_value=figure.value)
    kind = CounterMetricFamily if figure.name.endswith("_total") else GaugeMetricFamily
    return kind(figure.name, figure.text, value=figure.value)
