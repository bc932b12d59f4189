"""Routes of the operations: a JSON request in, a JSON report out; also at the alternative paths that hosts use."""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elytron.api.flat_calls import FLAT_CALLS, FlatCall, own_scope
from elytron.memories.lookup import ANY, CHANGES, READS
from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole, RepeatGuard, by_name, family_of
from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallHeaders,
    CallOrigin,
    CallTransport,
    DuplicatedAnswer,
    Json,
    RejectedAnswer,
    asked_of,
)
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.http.requests import AUDIT_ID, IDEMPOTENCY_KEY, heads_of, idempotency_key, read_body, require_json
from elytron_adapter.http.responses import give_answer, principal_of, render_answer, request_id_of, sequence_of
from elytron_adapter.surface import AsgiApp, Route, Surface, SurfaceAccess, build_surfaces, own_app
from elytron_core import limits, strict_json
from elytron_core.contracts.tools import AgentToolRegistryUpsertReport
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_core.scope import Scope as MemoryScope

IF_MATCH = "If-Match"
_STRONG = re.compile(r'"[!#-~]{1,200}"')


def path_of(operation: AnyOperation, /) -> str:
    """Return the path to which `operation` is posted."""
    return f"/v1/{operation.name}"


def operation_surfaces(admission: CallerAdmission, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface per operation; operators' are restricted before their body is read."""
    calls = _OperationCalls(admission, body_bytes)
    return build_surfaces(
        [_operation_route(operation, calls.typed, path_of(operation)) for operation in WIRE_OPERATIONS], own_app
    )


def flat_surfaces(admission: CallerAdmission, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface per flat call."""
    calls = _OperationCalls(admission, body_bytes)
    return build_surfaces([calls.flat_route(call) for call in FLAT_CALLS], own_app, group="flat")


def seed_surfaces(admission: CallerAdmission, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return a surface per path of an operation that the protocol's first hosts know."""
    calls = _OperationCalls(admission, body_bytes)
    routes = [*map(calls.seed_route, _POSTED), *map(calls.named_route, NAMED_CALLS)]
    return build_surfaces(routes, own_app, group="paths that hosts know")


def _operation_route(
    operation: AnyOperation, call: Callable[[str, Scope, Receive, Send], Awaitable[None]], path: str
) -> Route[AsgiApp]:
    return Route(
        "POST", path, partial(call, operation.name), operation.name, operation.summary, operation.request,
        operation.report, access_of(operation), headers=headers_of(operation), group=family_of(operation),
        is_repeatable=is_repeatable(operation),
    )  # fmt: skip


def headers_of(operation: AnyOperation, /) -> tuple[str, ...]:
    """Return the headers that `operation` uses."""
    key_headers = () if operation.repeat is RepeatGuard.HARMLESS else (IDEMPOTENCY_KEY,)
    return (AUDIT_ID, *key_headers, *((IF_MATCH,) if operation.request in CHANGES else ()))


def is_repeatable(operation: AnyOperation, /) -> bool:
    """Return whether the route of `operation` accepts an idempotency key; the operation itself judges it."""
    return not operation.mutates or operation.repeat is not RepeatGuard.HARMLESS


def access_of(operation: AnyOperation, /) -> SurfaceAccess:
    """Return who may call `operation`."""
    return SurfaceAccess.OPERATOR if operation.role is CallerRole.OPERATOR else SurfaceAccess.MEMBER


def demanded_versions(headers: Headers, /) -> tuple[str, ...]:
    """Return the versions in `If-Match`. Weak ones match nothing, and so do those beyond the limit."""
    header = headers.get("if-match")
    if header is None:
        return ()
    parts = [part.strip() for part in header.split(",")]
    versions = [part if part == ANY else part[1:-1] for part in parts if part == ANY or _STRONG.fullmatch(part)]
    # A header without a usable version must match nothing, which differs from no header.
    return tuple(versions[: limits.TAGS]) or ("",)


IF_NONE_MATCH = "If-None-Match"
_FORMS = frozenset({"write", "export", "import"})
_POSTED = ("write", "recall", "project", "maintain", "inspect", "recover", "replay", "export", "import")


class NamedCall(NamedTuple):
    """An operation whose request is in the path, the query's `space`, and a body that becomes its field `wraps`."""

    operation: str
    path: str
    method: str = "GET"
    wraps: str | None = None


_REGISTRY = "/agent-tool-registries/{registry_id}"
NAMED_CALLS = (
    NamedCall("capabilities", "/memory/profile/capabilities"),
    NamedCall("list_agent_tool_registries", "/agent-tool-registries"),
    NamedCall("upsert_agent_tool_registry", _REGISTRY, "PUT", wraps="snapshot"),
    NamedCall("get_agent_tool_registry", _REGISTRY),
    NamedCall("delete_agent_tool_registry", _REGISTRY, "DELETE"),
)


class _OperationCalls:
    """Performs operations for authenticated callers, using the request's headers."""

    def __init__(self, admission: CallerAdmission, body_bytes: int, /) -> None:
        self._admission = admission
        self._body_bytes = body_bytes

    async def typed(self, operation: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Perform `operation` with a JSON body as the request."""
        await give_answer(await self._answer(scope, operation, await self._body(scope, receive)), scope, receive, send)

    async def flat(self, call: FlatCall[Any, Any], scope: Scope, receive: Receive, send: Send) -> None:
        """Perform one flat call."""
        flat_request = envelope.decode_as(call.request, await self._body(scope, receive))
        answer = await self._answer(scope, call.operation, call.ask(flat_request, self._own_scope(scope)))
        # The flat report has no sequence, so it is taken from that of the operation.
        sequence = sequence_of(answer.report) if isinstance(answer, AcceptedAnswer) else None
        if isinstance(answer, AcceptedAnswer | DuplicatedAnswer):
            answer = answer.model_copy(update={"report": call.tell(answer.report)})
        await give_answer(answer, scope, receive, send, sequence=sequence)

    async def formed(self, operation: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Perform a request in the typed form or in that of the protocol's first hosts."""
        body = strict_json.parse_json(await self._body(scope, receive), limit=self._body_bytes)
        if not isinstance(body, dict):
            raise InvalidInput(field="body", problem="is not a JSON object")
        own_scope = self._own_scope(scope)
        typed_request = asked_of(
            operation, cast("Json", body), space=own_scope.space if own_scope is not None else None
        )
        answer = await self._answer(scope, typed_request.operation, json.dumps(typed_request.request).encode())
        await give_answer(answer, scope, receive, send)

    async def answer_named(self, call: NamedCall, scope: Scope, receive: Receive, send: Send) -> None:
        """Perform an operation whose request is in the address, and in a body if it has one."""
        fields: dict[str, Any] = {}
        space = QueryParams(scope["query_string"]).get("space")
        if space is not None:
            fields["scope"] = {"space": space}
        if call.wraps is None:
            fields |= scope["path_params"]
        else:
            fields[call.wraps] = await self._wrapped(scope, receive)
        response = render_answer(
            _unless_refused(await self._answer(scope, call.operation, json.dumps(fields).encode()))
        )
        etag = response.headers.get("etag")
        if scope["method"] == "GET" and etag is not None and heads_of(scope).get(IF_NONE_MATCH) == etag:
            response = Response(status_code=304, headers={"ETag": etag})
        await response(scope, receive, send)

    def flat_route(self, call: FlatCall[Any, Any]) -> Route[AsgiApp]:
        """Return the route of a flat call, with the headers of its operation."""
        route = _operation_route(by_name(call.operation), self.typed, f"/v1/{call.name}")
        return replace(
            route, handler=partial(self.flat, call), name=call.name, summary=call.summary, request=call.request,
            answer=call.answer,
        )  # fmt: skip

    def seed_route(self, name: str) -> Route[AsgiApp]:
        """Return the route to which the protocol's first hosts post an operation."""
        has_seed_form = name in _FORMS
        route = _operation_route(by_name(name), self.formed if has_seed_form else self.typed, f"/memory/{name}")
        # With a chat, each caller exports its own; files of the machine are for operators, which the policy checks.
        access = SurfaceAccess.MEMBER if has_seed_form else route.access
        return replace(route, name=f"memory_{name}", access=access)

    def named_route(self, call: NamedCall) -> Route[AsgiApp]:
        """Return the route of a call by its address."""
        operation = by_name(call.operation)
        is_read_call = call.method == "GET" and operation.request in READS
        return Route(
            call.method, call.path, partial(self.answer_named, call), f"named_{call.operation}", operation.summary,
            operation.request.model_fields[call.wraps].annotation if call.wraps is not None else None,
            operation.report, access_of(operation),
            headers=(AUDIT_ID, IF_NONE_MATCH) if is_read_call else headers_of(operation), query=("space",),
            is_repeatable=is_repeatable(operation),
        )  # fmt: skip

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        require_json(heads_of(scope))
        return await read_body(scope, receive, limit=self._body_bytes)

    def _own_scope(self, scope: Scope) -> MemoryScope | None:
        return own_scope(principal_of(scope).space, self._admission.dispatcher.runtime.scope)

    async def _answer(self, scope: Scope, operation: str, payload: bytes | Value) -> Answer:
        headers = heads_of(scope)
        return await self._admission.call(
            principal_of(scope),
            origin=CallOrigin(CallTransport.HTTP),
            operation=operation,
            request_id=request_id_of(scope),
            payload=payload,
            headers=CallHeaders(
                idempotency_key=idempotency_key(headers),
                audit_id=headers.get(AUDIT_ID),
                versions=demanded_versions(headers),
            ),
        )

    async def _wrapped(self, scope: Scope, receive: Receive) -> object:
        """Return the body, which must name the same as the path."""
        body = strict_json.parse_json(await self._body(scope, receive), limit=self._body_bytes)
        for name, value in scope["path_params"].items():
            if not isinstance(body, dict) or body.get(name) != value:
                raise InvalidInput(field=name, problem="in the body differs from the one in the path")
        return body


def _unless_refused(answer: Answer) -> Answer:
    """Return `answer`, with a refused registry as a rejection, because hosts only check the status."""
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
