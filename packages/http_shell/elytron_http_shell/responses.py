"""From the adapter's responses to HTTP's."""

from typing import assert_never

from starlette.responses import Response

from elytron_adapter import codec
from elytron_adapter.envelope import Accepted, Duplicated, Queued, Rejected
from elytron_adapter.envelope import Response as Answer
from elytron_http_shell.problems import MEDIA_TYPE, RETRY_AFTER_S, problem

REPLAYED = "Idempotent-Replayed"


def rendered(answer: Answer, /) -> Response:
    """Return the HTTP response for `answer`: the report as JSON, or a problem document."""
    match answer:
        case Accepted():
            return Response(codec.encode(answer.report), media_type="application/json")
        case Duplicated():
            return Response(codec.encode(answer.report), media_type="application/json", headers={REPLAYED: "true"})
        case Queued():
            return Response(codec.encode(answer), status_code=202, media_type="application/json")
        case Rejected():
            return refused(answer)
        case _:
            assert_never(answer)


def refused(rejected: Rejected, /, *, headers: dict[str, str] | None = None) -> Response:
    """Return the problem document for `rejected`, with a hint when to come again where that can help."""
    document = problem(rejected)
    told = dict(headers or {})
    if document.status == 503 and document.retryable:
        told["Retry-After"] = str(RETRY_AFTER_S)
    return Response(codec.encode(document), status_code=document.status, media_type=MEDIA_TYPE, headers=told)
