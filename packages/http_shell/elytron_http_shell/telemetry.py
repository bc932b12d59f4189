"""Telemetry of a server: Prometheus figures, one log line per event on stderr, and spans. It contains no secrets."""

import logging
import re
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import EventDict

from elytron.context import OperationContext
from elytron.jobs.background import apart_from_others
from elytron.jobs.queue import work_of
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.requests import heads_of
from elytron_adapter.http.responses import ERROR_KEY
from elytron_adapter.surface import Figures, SurfaceFigure
from elytron_core import limits
from elytron_core.errors import ElytronError, MissingExtra
from elytron_core.ids import is_id
from elytron_core.planes.jobs import JobState
from elytron_core.policy.redaction import is_suspect, scrub_secrets
from elytron_core.ports.store import queued_spaces

LOG_TEXTS_KNOWN: Final = 1_024
"""Texts in which nothing was found to black out, so that they are not searched again."""
LOG_LINES_ALIKE: Final = 60
"""Lines a minute that strangers can cause and that say the same; further ones are counted."""


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
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(route, method, str(status))
        counter.inc()
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = self._seconds.labels(route)
        times.observe(seconds)

    def refused(self, key: str, /) -> None:
        """Count a rejected request under its error key."""
        self._errors.labels(key).inc()

    async def render_all(self) -> Response:
        """Return all current metrics."""
        context = self._admission.dispatcher.runtime.context
        index_count, size = context.folds.memory_use
        figures = {
            "calls_running": self._admission.shedding.running,
            "calls_waiting": self._admission.shedding.waiting,
            "index_spaces": index_count,
            "index_bytes": size,
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
        counted = dict.fromkeys((state.value for state in JobState), 0)
        number = 0
        async for space in queued_spaces(context.store):
            with apart_from_others(lambda: None):
                _, counts = await work_of(context, space)
                for state, count in counts.items():
                    counted[state] += count
            number += 1
            if number == _SPACES_READ:
                break
        for state, count in counted.items():
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


_SERVER = "uvicorn.error"
_DISCREET = ("a2a", "mcp", "sse_starlette", "httpx", "httpcore", _SERVER)
"""Libraries that log received data, or each call: no log shows a body or a query, so they only log from warnings on."""
_TOLD_ALREADY = "ASGI callable returned without completing handshake."
"""The server library's line for every rejected handshake, which is a request like others."""
_WRONG_TEXT = "Invalid UTF-8 sequence received from client."
"""Its line, with a traceback, for a frame that is not text: the socket ends with the code for that."""
_MINUTE_S = 60.0
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""Fields of every record; the others were added to the message. uvicorn repeats some of them."""


class LogStyle(StrEnum):
    """Format of lines."""

    JSON = "json"
    CONSOLE = "console"


def configure_logs(style: LogStyle, /, *, level: str) -> None:
    """Send this process's logs to standard error; the process is a server and nothing else."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if style is LogStyle.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines(renderer))
    handler.addFilter(RepeatFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _DISCREET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


class RepeatFilter(logging.Filter):
    """Passes a limited number of equal lines per minute, so that callers without a key cannot fill the disk.

    That goes for the lines of libraries. The first line of a later minute says in `left_out` how many there were
    beyond. Lines are equal by what they say before their arguments, of which a library has a few.
    """

    def __init__(self, *, most: int = LOG_LINES_ALIKE, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most = most
        self._now = now
        self._last_times: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line passes; those of loggers other than the libraries' always do."""
        if not record.name.startswith(_DISCREET):
            return True
        if record.msg == _TOLD_ALREADY:
            return False
        if record.msg == _WRONG_TEXT:
            record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
        now = self._now()
        began, count = self._last_times.get(record.msg, (now, 0))
        if now - began >= _MINUTE_S:
            if count > self._most:
                record.left_out = count - self._most
            began, count = now, 0
        self._last_times[record.msg] = (began, count + 1)
        return count < self._most


class LogLines(logging.Formatter):
    """Formats a record: known fields, the time, secrets redacted, and then the renderer's output."""

    def __init__(self, renderer: Any, /) -> None:
        super().__init__()
        self._renderer = renderer
        self._clean: set[str] = set()
        """Short texts without secrets, which are in every line: routes, methods and principals."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        level = record.levelname.lower()
        event: EventDict = {"event": record.getMessage(), "level": level, "logger": record.name}
        event |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            event["stack_info"] = record.stack_info
        self._black_out(event)
        # After everything that a caller could have named so.
        event["timestamp"] = _utc_text(record.created)
        line: str = self._renderer(None, level, event)
        return line

    def _black_out(self, event: EventDict) -> None:
        """Redact what resembles a credential in every text of `event`."""
        for name, value in event.items():
            # The ids that are created here are in every line, and contain none.
            if not isinstance(value, str) or value in self._clean or is_id(value):
                continue
            # The first check is cheap, and most texts have no hint of a secret.
            if is_suspect(value) and (text := scrub_secrets(value).text) != value:
                event[name] = text
            elif len(value) <= limits.NAME_CHARS:
                if len(self._clean) >= LOG_TEXTS_KNOWN:
                    self._clean.clear()
                self._clean.add(value)


def _utc_text(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat(timespec='microseconds')[:-6]}Z"


logger = logging.getLogger("elytron.access")

UNROUTED = "none"
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})


EndCallback = Callable[[str, int], None]
"""Receives the route and the status with which a request ended."""


class RequestSpans(Protocol):
    """Opens a span for each request."""

    def open(self, method: str, headers: Headers, /) -> AbstractContextManager[EndCallback]:
        """Keep a span open around a request, a child of the one in its headers; record the result at its end."""
        ...


class RequestWatch:
    """Counts, times and logs each request without changing it. Logs name routes, never paths or bodies."""

    def __init__(self, app: ASGIApp, /, *, metrics: ServerMetrics, spans: RequestSpans | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        status, error_key = 500, ""

        async def answer(message: Message) -> None:
            nonlocal status, error_key
            if message["type"] in _STARTS:
                status = message["status"]
                if status >= HTTPStatus.BAD_REQUEST:
                    error_key = Headers(raw=message["headers"]).get(ERROR_KEY, "")
            elif message["type"] == "websocket.accept":
                status = 101
            # Closed before it was accepted: the server answers such a handshake with 403.
            elif message["type"] == "websocket.close" and status == 500:
                status = 403
            await send(message)

        self._metrics.began()
        started = time.perf_counter()
        method = scope.get("method", "WEBSOCKET")
        headers = heads_of(scope)
        span = self._spans.open(method, headers) if self._spans is not None else nullcontext(_watch_nothing)
        try:
            with span as record:
                try:
                    await self._app(scope, receive, answer)
                finally:
                    record(state.get("route", UNROUTED), status)
        finally:
            took = time.perf_counter() - started
            route = state.get("route", UNROUTED)
            self._metrics.ended(route, method, status, took)
            if error_key:
                self._metrics.refused(error_key)
            if logger.isEnabledFor(logging.INFO):
                logger.info(
                    "request", extra=_log_fields(state, headers) | _request_figures(route, method, status, took)
                )


def _watch_nothing(_route: str, _status: int) -> None:
    return


def _request_figures(route: str, method: str, status: int, took: float) -> dict[str, str | int | float]:
    return {"method": method, "route": route, "status": status, "took_ms": round(took * 1000, 3)}


def _log_fields(state: dict[str, Any], headers: Headers) -> dict[str, str]:
    fields = {"request_id": str(state.get("request_id", ""))}
    principal = state.get("principal")
    if principal is not None:
        fields["principal"] = principal.id
    if "audit_id" in state:
        fields["audit_id"] = str(state["audit_id"])
    trace = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    # The trace format declares an id of zeros invalid.
    if trace is not None and set(trace[1]) != {"0"}:
        fields |= {"trace_id": trace[1], "parent_id": trace[2]}
    return fields


class OtelSpans:
    """Opens a span for each request and sends it over OTLP."""

    def __init__(self, provider: Any, /) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("elytron")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def open(self, method: str, headers: Headers, /) -> Generator[EndCallback]:
        """Keep a span open around a request, a child of the one in its `traceparent`."""
        from opentelemetry.trace import SpanKind

        context = self._propagator.extract(dict(headers))
        with self._tracer.start_as_current_span(method, context=context, kind=SpanKind.SERVER) as span:

            def seen(route: str, status: int) -> None:
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)

            yield seen

    def close(self) -> None:
        """Send what has not been sent."""
        self._provider.shutdown()


def otlp_spans() -> OtelSpans:
    """Return spans that go where `OTEL_EXPORTER_OTLP_ENDPOINT` says. Raises MissingExtra."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingExtra(extra="otel", purpose="sending spans") from error
    provider = TracerProvider(resource=Resource.create({"service.name": "elytron"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelSpans(provider)
