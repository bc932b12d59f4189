"""Conversion of the adapter's responses to HTTP responses."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import assert_never

from pydantic import Field
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import Message, Receive, Scope, Send

from elytron_adapter import envelope
from elytron_adapter.access_keys import Principal
from elytron_adapter.envelope import AcceptedAnswer, DuplicatedAnswer, QueuedAnswer, RejectedAnswer, failure_of
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.surface import AsgiApp, HandlerT, Route
from elytron_core.model import Value

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class ProblemDocument(Value):
    """Why a request was not answered. `code` is stable; `retryable` says whether a retry can help."""

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    instance: str
    code: str
    seed_key: str
    """The same in the terms of the protocol's first hosts."""
    request_id: str
    retryable: bool
    details: dict[str, str | int] = {}


def problem_document(rejection: RejectedAnswer, /) -> ProblemDocument:
    """Return the problem document of `rejection`."""
    row = failure_of(rejection.error_key)
    return ProblemDocument(
        type=f"urn:elytron:error:{rejection.error_key}",
        title=row.title,
        status=row.status,
        detail=rejection.reason,
        instance=f"urn:elytron:request:{rejection.request_id}",
        code=rejection.error_key,
        seed_key=rejection.seed_key,
        request_id=rejection.request_id,
        retryable=rejection.retryable,
        details=rejection.details,
    )


REPLAYED = "Idempotent-Replayed"
ERROR_KEY = "Elytron-Error"
"""Header with the stable key of the rejection, for those who do not read the body."""
SEQUENCE = "Elytron-Sequence"
"""Header with the current sequence of the space's journal; a later call, by any node, may require it
(`min_sequence`)."""
CLOSED_UNAUTHORIZED = 4401
CLOSED_REFUSED = 4403
_JSON = (b"content-type", b"application/json")
_HANDSHAKE_ANSWER = "websocket.http.response"


def render_answer(answer: Answer, /) -> Response:
    """Return the HTTP response for `answer`: the report as JSON, or a problem document."""
    match answer:
        case AcceptedAnswer():
            headers = {"ETag": f'"{answer.version}"'} if answer.version is not None else {}
            return _report_response(answer.report, headers)
        case DuplicatedAnswer():
            return _report_response(answer.report, {REPLAYED: "true"})
        case QueuedAnswer():
            return _report_response(answer.report, {}, status=202)
        case RejectedAnswer():
            return refused_response(answer)
        case _:
            assert_never(answer)


def sequence_of(report: Value, /) -> int:
    """Return the sequence of the space's journal in `report`, 0 if it has none."""
    sequence: object = getattr(report, "sequence", 0)
    return sequence if isinstance(sequence, int) else 0


def _report_response(report: Value, headers: dict[str, str], *, status: int = 200) -> Response:
    sequence = sequence_of(report)
    return value_response(report, status=status, headers=headers | ({SEQUENCE: str(sequence)} if sequence else {}))


async def give_answer(
    answer: Answer, scope: Scope, receive: Receive, send: Send, /, *, sequence: int | None = None
) -> None:
    """Answer a request with `answer`, as `render_answer` shows it; common answers take the shortest path.

    `sequence` is that of the space's journal, if the report does not say it.
    """
    if not isinstance(answer, AcceptedAnswer):
        await render_answer(answer)(scope, receive, send)
        return
    body = envelope.encode_value(answer.report)
    headers = [(b"content-length", str(len(body)).encode()), _JSON]
    if answer.version is not None:
        headers.append((b"etag", f'"{answer.version}"'.encode()))
    if sequence := sequence_of(answer.report) if sequence is None else sequence:
        headers.append((SEQUENCE.lower().encode(), b"%d" % sequence))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refused_response(rejection: RejectedAnswer, /, *, headers: dict[str, str] | None = None) -> Response:
    """Return the problem document for `rejection`, with a retry hint if that can help."""
    document = problem_document(rejection)
    all_headers = {**(headers or {}), ERROR_KEY: rejection.error_key}
    if (document.retryable and document.status in {429, 503}) or document.code == "still_running":
        all_headers["Retry-After"] = str(document.details.get("retry_after_s", RETRY_AFTER_S))
    if document.status == 401:
        all_headers["WWW-Authenticate"] = 'Bearer realm="elytron"'
    return Response(
        envelope.encode_value(document), status_code=document.status, media_type=MEDIA_TYPE, headers=all_headers
    )


async def turn_away(rejected: RejectedAnswer, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, or a WebSocket's handshake, with the problem document for `rejected`."""
    answer = refused_response(rejected)
    metadata = scope.get("state", {}).get("resource_metadata")
    if answer.status_code == 401 and metadata is not None:
        answer.headers["WWW-Authenticate"] += f', resource_metadata="{metadata}"'
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    if _HANDSHAKE_ANSWER not in scope.get("extensions", {}):
        code = CLOSED_UNAUTHORIZED if answer.status_code == 401 else CLOSED_REFUSED
        await send({"type": "websocket.close", "code": code, "reason": rejected.error_key})
        return

    async def as_handshake(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await answer({**scope, "type": "http"}, receive, as_handshake)


RequestHandler = Callable[[Request], Awaitable[Value | Response]]
"""The handler of a route that takes the request itself."""


def answered_by(
    answer: Callable[[Route[HandlerT], Request], Awaitable[Value | Response]], /
) -> Callable[[Route[HandlerT]], AsgiApp]:
    """Return the function that builds a route's application, for `build_surfaces`; a value is answered as JSON."""

    async def respond(route: Route[HandlerT], request: Request) -> Response:
        value = await answer(route, request)
        return value if isinstance(value, Response) else value_response(value, status=route.status)

    return lambda route: request_response(partial(respond, route))


def value_response(value: Value, /, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return the answer whose body is `value` as JSON."""
    body = envelope.encode_value(value)
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def cached_response(
    headers: Headers, body: bytes, /, *, media_type: str, more: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """Return `body` with its ETag, or 304 if the request's `headers` show that the caller has it."""
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    all_headers = {**more, "ETag": etag}
    if headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=all_headers)
    return Response(body, media_type=media_type, headers=all_headers)


async def _answer_request(route: Route[RequestHandler], request: Request) -> Value | Response:
    return await route.handler(request)


request_app = answered_by(_answer_request)
"""Builds the application of a route whose handler takes the request itself."""


def principal_of(scope: Scope, /) -> Principal:
    """Return the authenticated principal."""
    principal = scope["state"]["principal"]
    assert isinstance(principal, Principal)
    return principal


def request_id_of(scope: Scope, /) -> str:
    """Return the request's id, which is in the answer and in the log."""
    request_id = scope["state"]["request_id"]
    assert isinstance(request_id, str)
    return request_id
