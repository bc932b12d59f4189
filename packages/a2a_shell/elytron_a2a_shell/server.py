"""The ASGI applications of A2A. Loaded when they are asked for: here the SDK and starlette are imported."""

import asyncio
import re
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any

from a2a.compat.v0_3.conversions import to_core_send_message_request
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0
from a2a.utils.errors import InvalidParamsError, InvalidRequestError
from google.protobuf.json_format import ParseDict, ParseError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_a2a_shell.bridge import PeerBridge
from elytron_a2a_shell.messages import JSON, SUMMARIES, TEXT, PeerMessage
from elytron_a2a_shell.requests import PeerRequestHandler, PrincipalContext
from elytron_adapter import envelope
from elytron_adapter.envelope import RejectedAnswer
from elytron_adapter.idempotency import key_in
from elytron_adapter.identity.access_keys import Principal
from elytron_core import limits, strict_json
from elytron_core.errors import InvalidInput, PayloadTooLarge
from elytron_core.errors.tree import error_of
from elytron_core.ids import IdSource

_ADDRESSES_KEPT = 16
_METHODS: dict[str, Any] = JsonRpcDispatcher.METHOD_TO_MODEL
_FIELDS = frozenset({"jsonrpc", "id", "method", "params"})
_ID = re.compile(rf"[ -~]{{0,{limits.NAME_CHARS}}}")
"""Pattern of an id, which the SDK logs."""
_JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
_OLDER_MESSAGES = frozenset({"message/send", "message/stream"})


def card_app(*, address: str | None, rpc_path: str, card_path: str) -> ASGIApp:
    """Return the application that shows the agent card, naming the host that it was asked at."""

    @lru_cache(maxsize=_ADDRESSES_KEPT)
    def shown(base: str) -> ASGIApp:
        return create_agent_card_routes(agent_card(base + rpc_path), card_url=card_path)[0].app

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        base = address or f"{scope['scheme']}://{Headers(scope=scope).get('host', '')}"
        await shown(base.rstrip("/"))(scope, receive, send)

    return app


def rpc_app(bridge: PeerBridge, /, *, ids: IdSource, body_bytes: int, rpc_path: str) -> ASGIApp:
    """Return the application that answers JSON-RPC, of 1.0 and of 0.3 by its methods' names.

    What is no strict JSON never reaches the SDK.
    """
    routes = create_jsonrpc_routes(
        PeerRequestHandler(bridge, ids=ids), rpc_path, context_builder=PrincipalContext(), enable_v0_3_compat=True
    )
    answering = routes[0].app

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        _require_json(scope)
        data = await _read_body(receive, limit=body_bytes)
        refusal = _unreadable_answer(strict_json.parse_json(data, limit=body_bytes))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await answering(scope, _repeat_body(data, receive), send)

    return app


def message_app(bridge: PeerBridge, /, *, ids: IdSource, body_bytes: int) -> ASGIApp:
    """Return the application that answers one message in plain JSON; a refused one raises what refused it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        _require_json(scope)
        message = envelope.decode_as(PeerMessage, await _read_body(receive, limit=body_bytes), limit=body_bytes)
        principal = scope["state"]["principal"]
        assert isinstance(principal, Principal)
        answer = await bridge.answer(
            principal,
            message,
            request_id=scope["state"].get("request_id") or ids.new(),
            idempotency_key=key_in(Headers(scope=scope).get("idempotency-key")),
        )
        if isinstance(answer.payload, RejectedAnswer):
            raise error_of(answer.payload.error_key, answer.payload.reason, answer.payload.details)
        await Response(envelope.encode_value(answer), media_type="application/json")(scope, receive, send)

    return app


def _require_json(scope: Scope) -> None:
    """Raise HTTPException unless the body is said to be JSON: other types a web page may send to any address."""
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _JSON_TYPES:
        raise HTTPException(415, headers={"Accept": "application/json"})


def _unreadable_answer(body: strict_json.Json) -> Response | None:
    """Return the answer to what the SDK could not read and would repeat, or log; None if it can."""
    if not isinstance(body, dict):
        return JSONResponse(build_error_response(None, InvalidRequestError()))
    given = body.get("id")
    request_id = given if type(given) is int or (isinstance(given, str) and _ID.fullmatch(given)) else None
    if request_id != given or not _is_request(body):
        return JSONResponse(build_error_response(request_id, InvalidRequestError()))
    try:
        _read_call(str(body.get("method")), body)
    except (ParseError, AttributeError, KeyError, TypeError, ValueError):
        return JSONResponse(build_error_response(request_id, InvalidParamsError()))
    return None


def _is_request(body: dict[str, strict_json.Json]) -> bool:
    """Return whether `body` is a JSON-RPC request, with any id."""
    return (
        body.keys() <= _FIELDS
        and body.get("jsonrpc") == "2.0"
        and bool(body.get("method"))
        and isinstance(body.get("method"), str)
        and isinstance(body.get("params", {}), dict)
    )


def _read_call(method: str, body: Any) -> None:
    """Read `body` as the SDK will. Raises one of several errors where it cannot."""
    if (older := _older_methods().get(method)) is not None:
        asked = older.model_validate(body)
        if method in _OLDER_MESSAGES:
            to_core_send_message_request(asked)
    elif (model := _METHODS.get(method)) is not None:
        ParseDict(body.get("params", {}), model(), ignore_unknown_fields=True)


@cache
def _older_methods() -> dict[str, Any]:
    # The SDK's modules import each other: this one only behind its routes.
    from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter

    return JSONRPC03Adapter.METHOD_TO_MODEL


async def _read_body(receive: Receive, *, limit: int) -> bytes:
    """Return the body. Raises PayloadTooLarge at its bound, InvalidInput for one that takes too long."""
    whole = bytearray()
    try:
        async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                whole += message.get("body", b"")
                if len(whole) > limit:
                    raise PayloadTooLarge(limit=limit, what="the body")
                if not message.get("more_body", False):
                    return bytes(whole)
    except TimeoutError:
        raise InvalidInput(field="body", problem="took too long to arrive") from None


def _repeat_body(data: bytes, receive: Receive) -> Receive:
    """Return a receiver that gives the body that was read already, and then each later message."""
    unread = [data]

    async def given() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return given


def agent_card(rpc_url: str, /) -> AgentCard:
    """Return the card of a memory that answers JSON-RPC at `rpc_url`: a skill for each message.

    Clients of 0.3 look for what they know at the places of their version, which the SDK adds for its interface.
    """
    skills = [
        AgentSkill(id=name, name=name.replace("_", " "), description=summary, tags=["memory"], input_modes=[JSON])
        for name, summary in SUMMARIES.items()
    ]
    bearer = HTTPAuthSecurityScheme(scheme="bearer", description="An access key: ely_<kind>_<id>_<secret>.")
    return AgentCard(
        name="Elytron memory",
        description=(
            "A governed memory for agents: recalls and projects what was said, and judges what is proposed."
            " Send one data part {name, payload, hops}; a text part alone is a recall."
        ),
        version=version("elytron"),
        supported_interfaces=[
            AgentInterface(url=rpc_url, protocol_binding="JSONRPC", protocol_version=spoken)
            for spoken in (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
        ],
        capabilities=AgentCapabilities(streaming=False, push_notifications=False),
        security_schemes={"bearer": SecurityScheme(http_auth_security_scheme=bearer)},
        security_requirements=[SecurityRequirement(schemes={"bearer": StringList()})],
        default_input_modes=[JSON, TEXT],
        default_output_modes=[JSON],
        skills=skills,
    )
