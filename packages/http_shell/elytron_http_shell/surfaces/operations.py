"""One operation at a path: the request's JSON in, its report's JSON out."""

import re
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from elytron.memories.lookup import ANY, CHANGES
from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole, RepeatGuard, by_name, family_of
from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import AcceptedAnswer, CallTransport, DuplicatedAnswer, Response
from elytron_adapter.flat_calls import FLAT_CALLS, FlatCall, own_scope
from elytron_adapter.http.requests import AUDIT_ID, IDEMPOTENCY_KEY, heads_of, idempotency_key, read_body, require_json
from elytron_adapter.http.responses import give_answer, principal_of, request_id_of, sequence_of
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core import limits

IF_MATCH = "If-Match"


_STRONG = re.compile(r'"[!#-~]{1,200}"')


def path_of(operation: AnyOperation, /) -> str:
    """Return the path under which `operation` is posted."""
    return f"/v1/{operation.name}"


def operation_surfaces(entrance: CallerEntrance, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface for each operation; what is an operator's is so before its body is read."""
    return tuple(
        operation_surface(entrance, operation, path_of(operation), body_bytes=body_bytes)
        for operation in WIRE_OPERATIONS
    )


def operation_surface(
    entrance: CallerEntrance,
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
        PerformedOperation(entrance, operation, body_bytes=body_bytes),
        access_of(operation),
        ("POST",),
        told=SurfaceDescription(
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
    keyed = () if operation.repeat is RepeatGuard.HARMLESS else (IDEMPOTENCY_KEY,)
    return (AUDIT_ID, *keyed, *((IF_MATCH,) if operation.request in CHANGES else ()))


def is_repeatable(operation: AnyOperation, /) -> bool:
    """Return whether the route of `operation` may be called with an idempotency key; the operation itself judges it."""
    return not operation.mutates or operation.repeat is not RepeatGuard.HARMLESS


def access_of(operation: AnyOperation, /) -> SurfaceAccess:
    """Return who is let in to `operation`."""
    return SurfaceAccess.OPERATOR if operation.role is CallerRole.OPERATOR else SurfaceAccess.MEMBER


class PerformedOperation:
    """Performs its operation for a caller that was let in, with a JSON body as the request."""

    def __init__(self, entrance: CallerEntrance, operation: AnyOperation, /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._name = operation.name
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = heads_of(scope)
        require_json(headers)
        answer = await self._entrance.call(
            principal_of(scope),
            transport=CallTransport.HTTP,
            operation=self._name,
            request_id=request_id_of(scope),
            payload=await read_body(scope, receive, limit=self._body_bytes),
            idempotency_key=idempotency_key(headers),
            audit_id=headers.get(AUDIT_ID),
            versions=demanded_versions(headers),
        )
        await give_answer(answer, scope, receive, send)


def demanded_versions(headers: Headers, /) -> tuple[str, ...]:
    """Return the versions in `If-Match`. Weak ones match nothing, and so do those beyond the bound."""
    told = headers.get("if-match")
    if told is None:
        return ()
    given = [part.strip() for part in told.split(",")]
    found = [part if part == ANY else part[1:-1] for part in given if part == ANY or _STRONG.fullmatch(part)]
    return tuple(found[: limits.TAGS]) or ("",)


_GROUP = "flat"


def flat_routes(entrance: CallerEntrance, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface for each flat call."""
    return tuple(
        Surface(
            f"/v1/{call.name}",
            _FlatRoute(entrance, call, body_bytes=body_bytes),
            SurfaceAccess.MEMBER,
            ("POST",),
            told=SurfaceDescription(
                call.name, call.summary, call.taken, call.given, _answer_headers(call), group=_GROUP
            ),
            is_repeatable=is_repeatable(by_name(call.operation)),
        )
        for call in FLAT_CALLS
    )


def _answer_headers(call: FlatCall[Any, Any]) -> tuple[str, ...]:
    is_repeatable = by_name(call.operation).repeat is not RepeatGuard.HARMLESS
    return (AUDIT_ID, IDEMPOTENCY_KEY) if is_repeatable else (AUDIT_ID,)


class _FlatRoute:
    """Performs one flat call for its caller."""

    def __init__(self, entrance: CallerEntrance, call: FlatCall[Any, Any], /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._call = call
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = heads_of(scope)
        require_json(headers)
        asked = envelope.decode_as(self._call.taken, await read_body(scope, receive, limit=self._body_bytes))
        principal = principal_of(scope)
        own = own_scope(principal.space, self._entrance.dispatcher.runtime.scope)
        answer = await self._entrance.call(
            principal,
            transport=CallTransport.HTTP,
            operation=self._call.operation,
            request_id=request_id_of(scope),
            payload=self._call.ask(asked, own),
            idempotency_key=idempotency_key(headers),
            audit_id=headers.get(AUDIT_ID),
        )
        sequence = sequence_of(answer.report) if isinstance(answer, AcceptedAnswer) else None
        await give_answer(self._flat(answer), scope, receive, send, sequence=sequence)

    def _flat(self, answer: Response) -> Response:
        if isinstance(answer, AcceptedAnswer | DuplicatedAnswer):
            return answer.model_copy(update={"report": self._call.tell(answer.report)})
        return answer
