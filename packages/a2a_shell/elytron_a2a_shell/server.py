"""The ASGI applications of A2A, and its requests, each answered at once. Here the SDK and starlette are imported."""

# ruff: noqa: ARG002 - the signatures are the SDK's

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, cast

from a2a.compat.v0_3.conversions import to_core_send_message_request
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers import RequestHandler
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.server.routes import DefaultServerCallContextBuilder, create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    SendMessageRequest,
    StringList,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    InvalidRequestError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from elytron_a2a_shell.peers import JSON, SUMMARIES, TEXT, MessageName, PeerBridge, PeerMessage
from elytron_adapter import envelope
from elytron_adapter.access_keys import Principal
from elytron_adapter.envelope import RejectedAnswer
from elytron_adapter.http.requests import repeat_body, whole_body
from elytron_adapter.idempotency import key_in
from elytron_core import limits, strict_json
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.errors.tree import error_of
from elytron_core.ids import IdSource

_PRINCIPAL = "principal"


class PrincipalContext(DefaultServerCallContextBuilder):
    """Passes on the authenticated principal."""

    def build(self, request: Request) -> ServerCallContext:
        """Return the context of a request, with its principal."""
        context = super().build(request)
        context.state[_PRINCIPAL] = request.scope["state"][_PRINCIPAL]
        return context


class PeerRequestHandler(RequestHandler):
    """Answers messages from a bridge. There are no tasks, and nothing is pushed."""

    def __init__(self, bridge: PeerBridge, /, *, ids: IdSource) -> None:
        self._bridge = bridge
        self._ids = ids

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Answer a message with a message. Unreadable messages are invalid params."""
        validate_proto_required_fields(params)
        try:
            message = peer_message(params.message)
        except ElytronError as error:
            raise InvalidParamsError(message=error.message) from None
        principal = context.state[_PRINCIPAL]
        assert isinstance(principal, Principal)
        answer = await self._bridge.answer(
            principal, message, request_id=self._ids.new(), idempotency_key=params.message.message_id
        )
        data = json.loads(envelope.encode_value(answer))
        part = ParseDict({"data": data, "mediaType": JSON}, Part())
        return Message(
            message_id=self._ids.new(), context_id=params.message.context_id, role=Role.ROLE_AGENT, parts=[part]
        )

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Yield the answer, which is one message."""
        yield await self.on_message_send(params, context)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return none: messages are answered at once."""
        return ListTasksResponse()

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        raise TaskNotFoundError

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        raise TaskNotFoundError

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        # The yield that is never reached makes this a generator, as the SDK expects.
        raise TaskNotFoundError
        yield

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        raise PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        raise PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        raise PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        raise PushNotificationNotSupportedError

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        raise ExtendedAgentCardNotConfiguredError


def peer_message(message: Message, /) -> PeerMessage:
    """Return the peer's message in an A2A message: its one data part, or its text as a recall. Raises InvalidInput."""
    parts = list(message.parts)
    if len(parts) != 1:
        raise InvalidInput(field="parts", problem="must contain exactly one part: data {name, payload, hops}, or text")
    (part,) = parts
    match part.WhichOneof("content"):
        case "data":
            return envelope.decode_as(PeerMessage, json.dumps(_whole_numbers(MessageToDict(part.data))).encode())
        case "text":
            return PeerMessage(name=MessageName.RECALL_REQUEST, payload={"query": part.text})
        case _:
            raise InvalidInput(field="parts", problem="contain neither data nor text: send the content of files")


def _whole_numbers(value: Any) -> Any:
    """Return `value` with whole numbers as integers, because protobuf's values only have floats."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _whole_numbers(field_value) for name, field_value in cast("dict[str, Any]", value).items()}
        case list():
            return [_whole_numbers(field_value) for field_value in cast("list[Any]", value)]
        case _:
            return value


_ADDRESSES_KEPT = 16
_METHODS: dict[str, Any] = JsonRpcDispatcher.METHOD_TO_MODEL
_FIELDS = frozenset({"jsonrpc", "id", "method", "params"})
_ID = re.compile(rf"[ -~]{{0,{limits.NAME_CHARS}}}")
"""Pattern of an id, which the SDK logs."""
_JSON_TYPES = frozenset({"application/json", "application/a2a+json"})
_OLDER_MESSAGES = frozenset({"message/send", "message/stream"})


def card_app(*, address: str | None, rpc_path: str, card_path: str) -> ASGIApp:
    """Return the application that serves the agent card, naming the host of the request."""

    # Bounded, because the host comes from the request.
    @lru_cache(maxsize=_ADDRESSES_KEPT)
    def shown(base: str) -> ASGIApp:
        return create_agent_card_routes(agent_card(base + rpc_path), card_url=card_path)[0].app

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        base_address = address or f"{scope['scheme']}://{Headers(scope=scope).get('host', '')}"
        await shown(base_address.rstrip("/"))(scope, receive, send)

    return app


def rpc_app(bridge: PeerBridge, /, *, ids: IdSource, body_bytes: int, rpc_path: str) -> ASGIApp:
    """Return the application that answers JSON-RPC 1.0 and 0.3, by its methods' names.

    What is no strict JSON never reaches the SDK.
    """
    routes = create_jsonrpc_routes(
        PeerRequestHandler(bridge, ids=ids), rpc_path, context_builder=PrincipalContext(), enable_v0_3_compat=True
    )
    json_rpc_app = routes[0].app

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        _require_json(scope)
        data = await _read_body(receive, limit=body_bytes)
        refusal = _unreadable_answer(strict_json.parse_json(data, limit=body_bytes))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await json_rpc_app(scope, repeat_body(data, receive), send)

    return app


def message_app(bridge: PeerBridge, /, *, ids: IdSource, body_bytes: int) -> ASGIApp:
    """Return the application that answers one message in plain JSON; a rejected one raises its error."""

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
    """Raise HTTPException unless the body is declared as JSON: a web page may send other types to any address."""
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _JSON_TYPES:
        raise HTTPException(415, headers={"Accept": "application/json"})


def _unreadable_answer(body: strict_json.Json) -> Response | None:
    """Return the answer to what the SDK could not read and would repeat, or log; None if it can."""
    if not isinstance(body, dict):
        return JSONResponse(build_error_response(None, InvalidRequestError()))
    # In Python True is an int, but it is not an id of JSON-RPC.
    raw_id = body.get("id")
    request_id = raw_id if type(raw_id) is int or (isinstance(raw_id, str) and _ID.fullmatch(raw_id)) else None
    if request_id != raw_id or not _is_request(body):
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
    """Parse `body` as the SDK will. Raises one of several errors if it cannot."""
    if (older_request_type := _older_methods().get(method)) is not None:
        older_request = older_request_type.model_validate(body)
        if method in _OLDER_MESSAGES:
            to_core_send_message_request(older_request)
    elif (model := _METHODS.get(method)) is not None:
        ParseDict(body.get("params", {}), model(), ignore_unknown_fields=True)


@cache
def _older_methods() -> dict[str, Any]:
    # The SDK's modules import each other: this one must follow its routes.
    from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter

    return JSONRPC03Adapter.METHOD_TO_MODEL


async def _read_body(receive: Receive, *, limit: int) -> bytes:
    """Return the body. Raises PayloadTooLarge at its limit, InvalidInput for one that takes too long."""
    try:
        async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
            return await whole_body(receive, limit=limit)
    except TimeoutError:
        raise InvalidInput(field="body", problem="took too long to arrive") from None


def agent_card(rpc_url: str, /) -> AgentCard:
    """Return the card of a memory that answers JSON-RPC at `rpc_url`: a skill per message.

    Clients of 0.3 look for what they know at the places of their version, which the SDK adds for its interface.
    """
    skills = [
        AgentSkill(id=name, name=name.replace("_", " "), description=summary, tags=["memory"], input_modes=[JSON])
        for name, summary in SUMMARIES.items()
    ]
    bearer_scheme = HTTPAuthSecurityScheme(scheme="bearer", description="An access key: ely_<kind>_<id>_<secret>.")
    return AgentCard(
        name="Elytron memory",
        description=(
            "Governed memory for agents: recalls and projects stored conversations and judges proposals."
            " Send one data part {name, payload, hops}; a single text part is a recall."
        ),
        version=version("elytron"),
        supported_interfaces=[
            AgentInterface(url=rpc_url, protocol_binding="JSONRPC", protocol_version=protocol)
            for protocol in (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
        ],
        capabilities=AgentCapabilities(streaming=False, push_notifications=False),
        security_schemes={"bearer": SecurityScheme(http_auth_security_scheme=bearer_scheme)},
        security_requirements=[SecurityRequirement(schemes={"bearer": StringList()})],
        default_input_modes=[JSON, TEXT],
        default_output_modes=[JSON],
        skills=skills,
    )
