"""Spans and the watch of requests: each request is counted, logged and traced."""

import logging
import re
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from http import HTTPStatus
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_adapter.http.requests import heads_of
from elytron_adapter.http.responses import ERROR_KEY
from elytron_core.errors import MissingExtra
from elytron_http_shell.telemetry.metrics import ServerMetrics

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
        started_s = time.perf_counter()
        method = scope.get("method", "WEBSOCKET")
        headers = heads_of(scope)
        request_span = self._spans.open(method, headers) if self._spans is not None else nullcontext(_watch_nothing)
        try:
            with request_span as record:
                try:
                    await self._app(scope, receive, answer)
                finally:
                    record(state.get("route", UNROUTED), status)
        finally:
            duration_s = time.perf_counter() - started_s
            route = state.get("route", UNROUTED)
            self._metrics.ended(route, method, status, duration_s)
            if error_key:
                self._metrics.refused(error_key)
            if logger.isEnabledFor(logging.INFO):
                logger.info(
                    "request", extra=_log_fields(state, headers) | _request_figures(route, method, status, duration_s)
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
    traceparent_match = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    # The trace format declares an id of zeros invalid.
    if traceparent_match is not None and set(traceparent_match[1]) != {"0"}:
        fields |= {"trace_id": traceparent_match[1], "parent_id": traceparent_match[2]}
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
