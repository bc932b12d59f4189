"""One operation at a path: the request's JSON in, its report's JSON out."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from elytron.registry import AnyOperation
from elytron_adapter.entry import Entrance
from elytron_adapter.envelope import Transport
from elytron_http_shell.bodies import body
from elytron_http_shell.doors import principal_of, request_id_of
from elytron_http_shell.responses import rendered

AUDIT_ID = "X-Audit-ID"


class Performing:
    """Performs its operation for whoever was let in, with a JSON body as the request."""

    def __init__(self, entrance: Entrance, operation: AnyOperation, /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._name = operation.name
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        require_json(headers)
        answer = await self._entrance.call(
            principal_of(scope),
            transport=Transport.HTTP,
            operation=self._name,
            request_id=request_id_of(scope),
            payload=await body(scope, receive, limit=self._body_bytes),
            idempotency_key=idempotency_key(headers),
            audit_id=headers.get(AUDIT_ID),
        )
        await rendered(answer)(scope, receive, send)


def require_json(headers: Headers, /) -> None:
    """Raise HTTPException unless the body is said to be JSON."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415)


def idempotency_key(headers: Headers, /) -> str | None:
    """Return the key in the header, which the standard's draft writes in quotes and others do not."""
    given = headers.get("idempotency-key")
    if given is not None and len(given) >= 2 and given[0] == given[-1] == '"':
        return given[1:-1]
    return given
