"""The flat calls over HTTP: a small JSON object in, a small one out."""

from typing import Any

from starlette.types import Receive, Scope, Send

from elytron.registry import Repeat, by_name
from elytron_adapter import codec
from elytron_adapter.entry import Entrance
from elytron_adapter.envelope import Accepted, Duplicated, Response, Transport
from elytron_adapter.flat_calls import FLAT_CALLS, FlatCall, own_scope
from elytron_adapter.http.bodies import body, require_json
from elytron_adapter.http.handlers import principal_of, request_id_of
from elytron_adapter.http.headers import AUDIT_ID, IDEMPOTENCY_KEY, heads_of, idempotency_key
from elytron_adapter.http.responses import give
from elytron_adapter.surface import Access, Surface, Told
from elytron_http_shell.surfaces.operations import is_repeatable

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
        asked = codec.decode_as(self._call.taken, await body(scope, receive, limit=self._body_bytes))
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
