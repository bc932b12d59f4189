"""Spans of OpenTelemetry, if they are asked for; the exporter reads the usual `OTEL_...` variables."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import Headers

from elytron_core.errors import MissingExtra
from elytron_http_shell.telemetry.request_log import Seen


class OtelSpans:
    """Opens a span for each request and sends it over OTLP."""

    def __init__(self, provider: Any, /) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("elytron")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def open(self, method: str, headers: Headers, /) -> Generator[Seen]:
        """Keep a span open around a request, a child of the one that its `traceparent` names."""
        from opentelemetry.trace import SpanKind

        context = self._propagator.extract(dict(headers))
        with self._tracer.start_as_current_span(method, context=context, kind=SpanKind.SERVER) as span:

            def seen(route: str, status: int) -> None:
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)

            yield seen

    def close(self) -> None:
        """Send what was not yet sent."""
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
