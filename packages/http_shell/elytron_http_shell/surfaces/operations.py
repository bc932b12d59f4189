"""One operation at a path: the request's JSON in, its report's JSON out."""

import re
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from elytron.memories.preconditions import ANY, CHANGES
from elytron.registry import WIRE_OPERATIONS, AnyOperation, Repeat, Role, by_name, family_of
from elytron_adapter import envelope
from elytron_adapter.dispatch import Entrance
from elytron_adapter.envelope import Accepted, Duplicated, Response, Transport
from elytron_adapter.flat_calls import FLAT_CALLS, FlatCall, own_scope
from elytron_adapter.http.requests import AUDIT_ID, IDEMPOTENCY_KEY, body, heads_of, idempotency_key, require_json
from elytron_adapter.http.responses import give, principal_of, request_id_of
from elytron_adapter.surface import Access, Surface, Told
from elytron_core import limits

IF_MATCH = "If-Match"


_STRONG = re.compile(r'"[!#-~]{1,200}"')


def path_of(operation: AnyOperation, /) -> str:
    """Return the path under which `operation` is posted."""
    return f"/v1/{operation.name}"


def operations(entrance: Entrance, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface for each operation; what is an operator's is so before its body is read."""
    return tuple(
        performed(entrance, operation, path_of(operation), body_bytes=body_bytes) for operation in WIRE_OPERATIONS
    )


def performed(
    entrance: Entrance,
    operation: AnyOperation,
    path: str,
    /,
    *,
    body_bytes: int,
    name: str | None = None,
    group: str | None = None,
) -> Surface:
    """Return the surface at `path` that performs `operation`."""
    return Surface(
        path,
        Performing(entrance, operation, body_bytes=body_bytes),
        access_of(operation),
        ("POST",),
        told=Told(
            name or operation.name,
            operation.summary,
            operation.request,
            operation.report,
            headers_of(operation),
            group=group or family_of(operation),
        ),
        is_repeatable=is_repeatable(operation),
    )


def headers_of(operation: AnyOperation, /) -> tuple[str, ...]:
    """Return the headers that `operation` looks at."""
    keyed = () if operation.repeat is Repeat.HARMLESS else (IDEMPOTENCY_KEY,)
    return (AUDIT_ID, *keyed, *((IF_MATCH,) if operation.request in CHANGES else ()))


def is_repeatable(operation: AnyOperation, /) -> bool:
    """Return whether the route of `operation` may be called with an idempotency key; the operation itself judges it."""
    return not operation.mutates or operation.repeat is not Repeat.HARMLESS


def access_of(operation: AnyOperation, /) -> Access:
    """Return who is let in to `operation`."""
    return Access.OPERATOR if operation.role is Role.OPERATOR else Access.MEMBER


class Performing:
    """Performs its operation for a caller that was let in, with a JSON body as the request."""

    def __init__(self, entrance: Entrance, operation: AnyOperation, /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._name = operation.name
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = heads_of(scope)
        require_json(headers)
        answer = await self._entrance.call(
            principal_of(scope),
            transport=Transport.HTTP,
            operation=self._name,
            request_id=request_id_of(scope),
            payload=await body(scope, receive, limit=self._body_bytes),
            idempotency_key=idempotency_key(headers),
            audit_id=headers.get(AUDIT_ID),
            versions=demanded(headers),
        )
        await give(answer, scope, receive, send)


def demanded(headers: Headers, /) -> tuple[str, ...]:
    """Return the versions in `If-Match`. Weak ones match nothing, and so do those beyond the bound."""
    told = headers.get("if-match")
    if told is None:
        return ()
    given = [part.strip() for part in told.split(",")]
    found = [part if part == ANY else part[1:-1] for part in given if part == ANY or _STRONG.fullmatch(part)]
    return tuple(found[: limits.TAGS]) or ("",)


_GROUP = "flat"


def flat_routes(entrance: Entrance, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface for each flat call."""
    return tuple(
        Surface(
            f"/v1/{call.name}",
            _Flat(entrance, call, body_bytes=body_bytes),
            Access.MEMBER,
            ("POST",),
            told=Told(call.name, call.summary, call.taken, call.given, _headers(call), group=_GROUP),
            is_repeatable=is_repeatable(by_name(call.operation)),
        )
        for call in FLAT_CALLS
    )


def _headers(call: FlatCall[Any, Any]) -> tuple[str, ...]:
    is_repeatable = by_name(call.operation).repeat is not Repeat.HARMLESS
    return (AUDIT_ID, IDEMPOTENCY_KEY) if is_repeatable else (AUDIT_ID,)


class _Flat:
    """Performs one flat call for its caller."""

    def __init__(self, entrance: Entrance, call: FlatCall[Any, Any], /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._call = call
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = heads_of(scope)
        require_json(headers)
        asked = envelope.decode_as(self._call.taken, await body(scope, receive, limit=self._body_bytes))
        principal = principal_of(scope)
        own = own_scope(principal.space, self._entrance.dispatcher.runtime.scope)
        answer = await self._entrance.call(
            principal,
            transport=Transport.HTTP,
            operation=self._call.operation,
            request_id=request_id_of(scope),
            payload=self._call.ask(asked, own),
            idempotency_key=idempotency_key(headers),
            audit_id=headers.get(AUDIT_ID),
        )
        await give(self._flat(answer), scope, receive, send)

    def _flat(self, answer: Response) -> Response:
        if isinstance(answer, Accepted | Duplicated):
            return answer.model_copy(update={"report": self._call.tell(answer.report)})
        return answer
