"""A2A's own requests, answered at once: a message by a message, so that no task is kept. Here the SDK is imported."""

# ruff: noqa: ARG002 - the signatures are the SDK's

import json
from collections.abc import AsyncGenerator
from typing import Any, cast

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers import RequestHandler
from a2a.server.routes import DefaultServerCallContextBuilder
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.requests import Request

from elytron_a2a_shell.bridge import PeerBridge
from elytron_a2a_shell.messages import JSON, MessageName, PeerMessage
from elytron_adapter import envelope
from elytron_adapter.identity.access_keys import Principal
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.ids import IdSource

_PRINCIPAL = "principal"


class PrincipalContext(DefaultServerCallContextBuilder):
    """Hands on who was let in."""

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
        """Answer a message by a message. What cannot be read as one of ours is invalid params."""
        validate_proto_required_fields(params)
        try:
            asked = peer_message(params.message)
        except ElytronError as error:
            raise InvalidParamsError(message=error.message) from None
        principal = context.state[_PRINCIPAL]
        assert isinstance(principal, Principal)
        answer = await self._bridge.answer(
            principal, asked, request_id=self._ids.new(), idempotency_key=params.message.message_id
        )
        told = json.loads(envelope.encode_value(answer))
        part = ParseDict({"data": told, "mediaType": JSON}, Part())
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
        raise InvalidInput(field="parts", problem="are not one: send one data part {name, payload, hops}, or one text")
    (part,) = parts
    match part.WhichOneof("content"):
        case "data":
            return envelope.decode_as(PeerMessage, json.dumps(_whole_numbers(MessageToDict(part.data))).encode())
        case "text":
            return PeerMessage(name=MessageName.RECALL_REQUEST, payload={"query": part.text})
        case _:
            raise InvalidInput(field="parts", problem="hold neither data nor text: fetch files yourself")


def _whole_numbers(value: Any) -> Any:
    """Return `value` with whole numbers as such: protobuf's values know floats alone."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _whole_numbers(inner) for name, inner in cast("dict[str, Any]", value).items()}
        case list():
            return [_whole_numbers(inner) for inner in cast("list[Any]", value)]
        case _:
            return value
