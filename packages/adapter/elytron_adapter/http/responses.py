"""From the adapter's responses to HTTP's."""

from typing import assert_never

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from elytron_adapter import codec
from elytron_adapter.envelope import Accepted, Duplicated, Queued, Rejected
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.http.problems import MEDIA_TYPE, RETRY_AFTER_S, problem

REPLAYED = "Idempotent-Replayed"
ERROR_KEY = "Elytron-Error"
"""Header with the stable key of what was refused, for those who do not read the body."""
CLOSED_UNAUTHORIZED = 4401
CLOSED_REFUSED = 4403
_JSON = (b"content-type", b"application/json")
_HANDSHAKE_ANSWER = "websocket.http.response"


def rendered(answer: Answer, /) -> Response:
    """Return the HTTP response for `answer`: the report as JSON, or a problem document."""
    match answer:
        case Accepted():
            told = {"ETag": f'"{answer.version}"'} if answer.version is not None else None
            return Response(codec.encode(answer.report), media_type="application/json", headers=told)
        case Duplicated():
            return Response(codec.encode(answer.report), media_type="application/json", headers={REPLAYED: "true"})
        case Queued():
            return Response(codec.encode(answer.report), status_code=202, media_type="application/json")
        case Rejected():
            return refused(answer)
        case _:
            assert_never(answer)


async def give(answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with `answer`, as `rendered` shows it; what most are answered by takes the shortest way."""
    if not isinstance(answer, Accepted):
        await rendered(answer)(scope, receive, send)
        return
    body = codec.encode(answer.report)
    headers = [(b"content-length", str(len(body)).encode()), _JSON]
    if answer.version is not None:
        headers.append((b"etag", f'"{answer.version}"'.encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refused(rejected: Rejected, /, *, headers: dict[str, str] | None = None) -> Response:
    """Return the problem document for `rejected`, with a hint when to come again where that can help."""
    document = problem(rejected)
    told = {**(headers or {}), ERROR_KEY: rejected.error_key}
    if (document.retryable and document.status in {429, 503}) or document.code == "still_running":
        told["Retry-After"] = str(document.details.get("retry_after_s", RETRY_AFTER_S))
    if document.status == 401:
        told["WWW-Authenticate"] = 'Bearer realm="elytron"'
    return Response(codec.encode(document), status_code=document.status, media_type=MEDIA_TYPE, headers=told)


async def turn_away(rejected: Rejected, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request, or a WebSocket's handshake, with the problem document for `rejected`."""
    answer = refused(rejected)
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
