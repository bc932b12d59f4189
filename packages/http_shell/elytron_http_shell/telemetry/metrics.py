"""Prometheus figures of a server."""

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
from elytron.jobs.background import apart_from_others
from elytron.jobs.queue import work_of
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.surface import Figures, SurfaceFigure
from elytron_core.errors import ElytronError
from elytron_core.planes.jobs import JobState
from elytron_core.ports.store import queued_spaces

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


_LOSSES = ("_lost_total", "_unstorable_upstreams")


_SPACES_COUNTED = 2_000


_SPACES_READ = 200
"""Maximum spaces with unfinished jobs that are counted, because each is read."""


class ServerMetrics:
    """The metrics of one application, in a separate registry."""

    def __init__(self, admission: CallerAdmission, /, *, figures: Sequence[Figures] = ()) -> None:
        self._admission = admission
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "elytron_requests", "Requests answered.", ("route", "method", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "elytron_request_seconds", "Seconds until the end of the response.", ("route",), buckets=_BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        self._errors = Counter("elytron_errors", "Requests refused, by error key.", ("key",), registry=self._registry)
        self._jobs = Gauge(
            "elytron_jobs",
            f"Jobs by state, in the first {_SPACES_READ} spaces with unfinished ones.",
            ("state",),
            registry=self._registry,
        )
        self._in_flight = Gauge("elytron_requests_in_flight", "Requests in progress.", registry=self._registry)
        self._gauges = {
            name: Gauge(f"elytron_{name}", text, registry=self._registry)
            for name, text in {
                "calls_running": "Operations that are running.",
                "calls_waiting": "Operations that are queued.",
                "index_spaces": "Indexes in memory.",
                "index_bytes": "Bytes of the indexes in memory.",
                "store_losses": "Spaces with a loss that no operator has acknowledged.",
                "store_ready": "1 if the store answers, else 0.",
                "store_spaces": f"Spaces in the store, counted up to {_SPACES_COUNTED}.",
            }.items()
        }
        ProcessCollector(registry=self._registry)
        self._sources: list[Figures] = []
        for source in figures:
            self.bring(source)
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}
        self._running = 0

    def losses(self) -> dict[str, int]:
        """Return, by name, what other packages count as lost, or as not storable."""
        all_figures = (figure for source in self._sources for figure in source())
        return {figure.name: int(figure.value) for figure in all_figures if figure.name.endswith(_LOSSES)}

    def bring(self, figures: Figures, /) -> None:
        """Add `figures` to the others."""
        self._sources.append(figures)
        self._registry.register(_BroughtFigures(figures))

    def began(self) -> None:
        """Count a received request."""
        self._running += 1

    def ended(self, route: str, method: str, status: int, seconds: float, /) -> None:
        """Count an answered request."""
        self._running -= 1
        key = (route, method, status)
        request_counter = self._counters.get(key)
        if request_counter is None:
            request_counter = self._counters[key] = self._requests.labels(route, method, str(status))
        request_counter.inc()
        duration_histogram = self._times.get(route)
        if duration_histogram is None:
            duration_histogram = self._times[route] = self._seconds.labels(route)
        duration_histogram.observe(seconds)

    def refused(self, key: str, /) -> None:
        """Count a rejected request under its error key."""
        self._errors.labels(key).inc()

    async def render_all(self) -> Response:
        """Return all current metrics."""
        context = self._admission.dispatcher.runtime.context
        index_count, index_bytes = context.folds.memory_use
        figures = {
            "calls_running": self._admission.shedding.running,
            "calls_waiting": self._admission.shedding.waiting,
            "index_spaces": index_count,
            "index_bytes": index_bytes,
        }
        try:
            spaces = await context.store.spaces(limit=_SPACES_COUNTED)
            losses = await context.losses.read()
            figures |= {"store_spaces": len(spaces), "store_ready": 1, "store_losses": len(losses)}
            await self._count_jobs(context)
        except ElytronError:
            figures["store_ready"] = 0
        self._in_flight.set(self._running)
        for name, figure in figures.items():
            self._gauges[name].set(figure)
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def _count_jobs(self, context: OperationContext) -> None:
        jobs_by_state = dict.fromkeys((state.value for state in JobState), 0)
        space_count = 0
        async for space in queued_spaces(context.store):
            with apart_from_others(lambda: None):
                _, counts = await work_of(context, space)
                for state, count in counts.items():
                    jobs_by_state[state] += count
            space_count += 1
            if space_count == _SPACES_READ:
                break
        for state, count in jobs_by_state.items():
            self._jobs.labels(state).set(count)


class _BroughtFigures(Collector):
    """The metrics of another package, as the registry takes them."""

    def __init__(self, figures: Figures, /) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        return map(_figure_family, self._figures())


def _figure_family(figure: SurfaceFigure) -> Metric:
    if figure.buckets:
        return HistogramMetricFamily(figure.name, figure.text, buckets=figure.buckets, sum_value=figure.value)
    kind = CounterMetricFamily if figure.name.endswith("_total") else GaugeMetricFamily
    return kind(figure.name, figure.text, value=figure.value)
