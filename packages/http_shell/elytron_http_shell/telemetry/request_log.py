"""Telemetry of each request: its place in a trace, a line in the log, its count and time in the metrics."""

import logging
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_adapter.http.headers import heads_of
from elytron_adapter.http.responses import ERROR_KEY
from elytron_http_shell.telemetry.metrics import Metrics

logger = logging.getLogger("elytron.access")

UNROUTED = "none"
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})


Seen = Callable[[str, int], None]
"""Takes the route and the status that a request ended with."""


class Spans(Protocol):
    """Opens a span for each request."""

    def open(self, method: str, headers: Headers, /) -> AbstractContextManager[Seen]:
        """Keep a span open around a request, a child of the one that its headers name; say what was seen at its end."""
        ...


class Watch:
    """Counts, times and logs each request, and changes nothing of it. Logs name routes, never paths or bodies."""

    def __init__(self, app: ASGIApp, /, *, metrics: Metrics, spans: Spans | None = None) -> None:
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
            elif message["type"] == "websocket.close" and status == 500:
                status = 403
            await send(message)

        self._metrics.began()
        started = time.perf_counter()
        method = scope.get("method", "WEBSOCKET")
        headers = heads_of(scope)
        span = self._spans.open(method, headers) if self._spans is not None else nullcontext(_unseen)
        try:
            with span as seen:
                try:
                    await self._app(scope, receive, answer)
                finally:
                    seen(state.get("route", UNROUTED), status)
        finally:
            took = time.perf_counter() - started
            route = state.get("route", UNROUTED)
            self._metrics.ended(route, method, status, took)
            if error_key:
                self._metrics.refused(error_key)
            if logger.isEnabledFor(logging.INFO):
                logger.info("request", extra=_told(state, headers) | _seen(route, method, status, took))


def _unseen(_route: str, _status: int) -> None:
    return


def _seen(route: str, method: str, status: int, took: float) -> dict[str, str | int | float]:
    return {"method": method, "route": route, "status": status, "took_ms": round(took * 1000, 3)}


def _told(state: dict[str, Any], headers: Headers) -> dict[str, str]:
    told = {"request_id": str(state.get("request_id", ""))}
    principal = state.get("principal")
    if principal is not None:
        told["principal"] = principal.id
    if "audit_id" in state:
        told["audit_id"] = str(state["audit_id"])
    trace = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    if trace is not None and set(trace[1]) != {"0"}:
        told |= {"trace_id": trace[1], "parent_id": trace[2]}
    return told
