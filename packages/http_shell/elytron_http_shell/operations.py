"""Routes of the operations: a JSON request in, a JSON report out; also at the alternative paths that hosts use."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any, cast

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elytron.memories.lookup import ANY, CHANGES, READS
from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole, RepeatGuard, by_name, family_of
from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallTransport,
    DuplicatedAnswer,
    Json,
    RejectedAnswer,
    asked_of,
)
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.flat_calls import FLAT_CALLS, FlatCall, own_scope
from elytron_adapter.http.requests import AUDIT_ID, IDEMPOTENCY_KEY, heads_of, idempotency_key, read_body, require_json
from elytron_adapter.http.responses import give_answer, principal_of, render_answer, request_id_of, sequence_of
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core import limits, strict_json
from elytron_core.contracts.tools import AgentToolRegistryUpsertReport
from elytron_core.errors import InvalidInput
from elytron_core.model import Value

IF_MATCH = "If-Match"


_STRONG = re.compile(r'"[!#-~]{1,200}"')


def path_of(operation: AnyOperation, /) -> str:
    """Return the path under which `operation` is posted."""
    return f"/v1/{operation.name}"


def operation_surfaces(entrance: CallerAdmission, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface for each operation; what is an operator's is so before its body is read."""
    return tuple(
        operation_surface(entrance, operation, path_of(operation), body_bytes=body_bytes)
        for operation in WIRE_OPERATIONS
    )


def operation_surface(
    entrance: CallerAdmission,
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

    def __init__(self, entrance: CallerAdmission, operation: AnyOperation, /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._name = operation.name
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_json(heads_of(scope))
        body = await read_body(scope, receive, limit=self._body_bytes)
        await give_answer(await _answer_of(self._entrance, scope, self._name, body), scope, receive, send)


async def _answer_of(entrance: CallerAdmission, scope: Scope, operation: str, payload: bytes | Value, /) -> Answer:
    """Return the answer to a call of `operation`, with what the request's headers say of it."""
    headers = heads_of(scope)
    return await entrance.call(
        principal_of(scope),
        transport=CallTransport.HTTP,
        operation=operation,
        request_id=request_id_of(scope),
        payload=payload,
        idempotency_key=idempotency_key(headers),
        audit_id=headers.get(AUDIT_ID),
        versions=demanded_versions(headers),
    )


def demanded_versions(headers: Headers, /) -> tuple[str, ...]:
    """Return the versions in `If-Match`. Weak ones match nothing, and so do those beyond the bound."""
    header = headers.get("if-match")
    if header is None:
        return ()
    parts = [part.strip() for part in header.split(",")]
    versions = [part if part == ANY else part[1:-1] for part in parts if part == ANY or _STRONG.fullmatch(part)]
    # A header without a usable version must match nothing, which is not the same as no header.
    return tuple(versions[: limits.TAGS]) or ("",)


_FLAT_GROUP = "flat"


def flat_routes(entrance: CallerAdmission, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface for each flat call."""
    return tuple(
        Surface(
            f"/v1/{call.name}",
            _FlatRoute(entrance, call, body_bytes=body_bytes),
            SurfaceAccess.MEMBER,
            ("POST",),
            told=SurfaceDescription(
                call.name, call.summary, call.request_type, call.answer_type, _answer_headers(call), group=_FLAT_GROUP
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

    def __init__(self, entrance: CallerAdmission, call: FlatCall[Any, Any], /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._call = call
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_json(heads_of(scope))
        flat_request = envelope.decode_as(
            self._call.request_type, await read_body(scope, receive, limit=self._body_bytes)
        )
        own = own_scope(principal_of(scope).space, self._entrance.dispatcher.runtime.scope)
        answer = await _answer_of(self._entrance, scope, self._call.operation, self._call.ask(flat_request, own))
        # The flat report has no sequence, so it is taken from that of the operation.
        sequence = sequence_of(answer.report) if isinstance(answer, AcceptedAnswer) else None
        await give_answer(self._flat(answer), scope, receive, send, sequence=sequence)

    def _flat(self, answer: Answer) -> Answer:
        if isinstance(answer, AcceptedAnswer | DuplicatedAnswer):
            return answer.model_copy(update={"report": self._call.tell(answer.report)})
        return answer


IF_NONE_MATCH = "If-None-Match"
_KNOWN_GROUP = "paths that hosts know"
_FORMS = frozenset({"write", "export", "import"})
_POSTED = ("write", "recall", "project", "maintain", "inspect", "recover", "replay", "export", "import")


@dataclass(frozen=True, slots=True)
class NamedRoute:
    """A method and path of an operation.

    The path's names go into the request; a body becomes the request's field `wraps`.
    """

    method: str
    path: str
    operation: str
    wraps: str | None = None


NAMED = (
    NamedRoute("GET", "/memory/profile/capabilities", "capabilities"),
    NamedRoute("GET", "/agent-tool-registries", "list_agent_tool_registries"),
    NamedRoute("PUT", "/agent-tool-registries/{registry_id}", "upsert_agent_tool_registry", wraps="snapshot"),
    NamedRoute("GET", "/agent-tool-registries/{registry_id}", "get_agent_tool_registry"),
    NamedRoute("DELETE", "/agent-tool-registries/{registry_id}", "delete_agent_tool_registry"),
)


def seed_routes(entrance: CallerAdmission, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface for each of the paths whose operation there is."""
    operations = {operation.name: operation for operation in WIRE_OPERATIONS}
    posted = [_posted_surface(entrance, operations[name], body_bytes) for name in _POSTED if name in operations]
    named_surfaces = [
        _named_surface(entrance, operations[route.operation], route, body_bytes)
        for route in NAMED
        if route.operation in operations
    ]
    return (*posted, *named_surfaces)


def _posted_surface(entrance: CallerAdmission, operation: AnyOperation, body_bytes: int) -> Surface:
    path = f"/memory/{operation.name}"
    surface = operation_surface(
        entrance, operation, path, body_bytes=body_bytes, name=f"memory_{operation.name}", group=_KNOWN_GROUP
    )
    if operation.name not in _FORMS:
        return surface
    # By a chat, each caller exports its own; files of the machine are for operators, which the policy checks.
    return replace(
        surface, app=_FormedCall(entrance, operation.name, body_bytes=body_bytes), access=SurfaceAccess.MEMBER
    )


class _FormedCall:
    """Performs what is asked for in the typed form or in that of the protocol's first hosts."""

    def __init__(self, entrance: CallerAdmission, operation: str, /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._operation = operation
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_json(heads_of(scope))
        body = strict_json.parse_json(await read_body(scope, receive, limit=self._body_bytes), limit=self._body_bytes)
        if not isinstance(body, dict):
            raise InvalidInput(field="body", problem="is not a JSON object")
        own = own_scope(principal_of(scope).space, self._entrance.dispatcher.runtime.scope)
        form = asked_of(self._operation, cast("Json", body), space=own.space if own is not None else None)
        payload = json.dumps(form.request).encode()
        answer = await _answer_of(self._entrance, scope, form.operation, payload)
        await give_answer(answer, scope, receive, send)


def _named_surface(entrance: CallerAdmission, operation: AnyOperation, route: NamedRoute, body_bytes: int) -> Surface:
    wrapped_type = operation.request.model_fields[route.wraps].annotation if route.wraps is not None else None
    description = SurfaceDescription(
        f"named_{operation.name}",
        operation.summary,
        wrapped_type,
        operation.report,
        headers_of(operation) if route.method != "GET" or operation.request not in READS else (AUDIT_ID, IF_NONE_MATCH),
        ("space",),
        group=_KNOWN_GROUP,
    )
    app = _NamedCall(entrance, route, body_bytes=body_bytes)
    repeatable = is_repeatable(operation)
    return Surface(route.path, app, access_of(operation), (route.method,), told=description, is_repeatable=repeatable)


class _NamedCall:
    """Performs an operation whose request is in the path, the query's `space`, and a body if any."""

    def __init__(self, entrance: CallerAdmission, route: NamedRoute, /, *, body_bytes: int) -> None:
        self._entrance = entrance
        self._named = route
        self._body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = heads_of(scope)
        fields: dict[str, Any] = {}
        space = QueryParams(scope["query_string"]).get("space")
        if space is not None:
            fields["scope"] = {"space": space}
        if self._named.wraps is None:
            fields |= scope["path_params"]
        else:
            fields[self._named.wraps] = await self._wrapped(scope, receive, headers)
        answer = await _answer_of(self._entrance, scope, self._named.operation, json.dumps(fields).encode())
        response = render_answer(_unless_refused(answer))
        if (
            scope["method"] == "GET"
            and "etag" in response.headers
            and headers.get(IF_NONE_MATCH) == response.headers["etag"]
        ):
            response = Response(status_code=304, headers={"ETag": response.headers["etag"]})
        await response(scope, receive, send)

    async def _wrapped(self, scope: Scope, receive: Receive, headers: Headers) -> object:
        """Return the body, which must name what the path names."""
        require_json(headers)
        body = strict_json.parse_json(await read_body(scope, receive, limit=self._body_bytes), limit=self._body_bytes)
        for name, value in scope["path_params"].items():
            if not isinstance(body, dict) or body.get(name) != value:
                raise InvalidInput(field=name, problem="in the body differs from the one in the path")
        return body


def _unless_refused(answer: Answer) -> Answer:
    """Return `answer`, of a registry that was refused as a rejection: hosts look at the status alone."""
    if not isinstance(answer, AcceptedAnswer) or not isinstance(answer.report, AgentToolRegistryUpsertReport):
        return answer
    report = answer.report
    if report.accepted:
        return answer
    error = InvalidInput(field="body", problem=report.reason or "is not a valid registry")
    refusal = {"refused": report.refused.value} if report.refused is not None else {}
    return RejectedAnswer(
        request_id=answer.request_id, error_key=error.key, reason=error.message, details={**error.details(), **refusal}
    )
