"""Routes of push subscriptions: where a user's devices are reached while they have no stream open."""

import base64
from collections.abc import Iterable
from typing import Final, Literal
from urllib.parse import urlsplit

from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_agent.service.agent_service import ROOT, AgentCall, AgentRoute, AgentService, route_surface
from elytron_agent.service.companion import AgentPart
from elytron_agent.service.push.push_shelf import PushRequest, PushShelf, StoredPush
from elytron_core.clock import Instant
from elytron_core.model import Value

_PUSH: Final = f"{ROOT}/push"


class PushAnswer(Value):
    """A subscription. A new webhook's `key` opens its previews, and `secret` proves who sent them."""

    id: str
    object: Literal["agent.push"] = "agent.push"
    type: Literal["web_push", "webhook"]
    host: str
    created_at: Instant
    key: str | None = None
    secret: str | None = None


class PushList(Value):
    """The subscriptions, oldest first."""

    object: Literal["list"] = "list"
    data: tuple[PushAnswer, ...]


class PushKeyAnswer(Value):
    """The key that a browser subscribes with, its `applicationServerKey`."""

    object: Literal["agent.push.key"] = "agent.push.key"
    key: str


class PushDeleted(Value):
    """A subscription that is gone."""

    id: str
    object: Literal["agent.push.deleted"] = "agent.push.deleted"
    deleted: bool = True


def push_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the routes of push subscriptions."""
    for route in _ROUTES:
        yield route_surface(service, route)


async def list_pushes(call: AgentCall) -> Value:
    """Return the subscriptions."""
    shelf = await _push_shelf(call)
    return PushList(data=tuple(map(_push_answer, await shelf.list())))


async def make_push(call: AgentCall) -> Value:
    """Subscribe a device."""
    shelf = await _push_shelf(call)
    made = await shelf.add(await call.body(PushRequest))
    if made.type == "web_push":
        return _push_answer(made)
    keys = {
        name: (await shelf.secret(made.id, purpose)).hex() for name, purpose in (("key", "seal"), ("secret", "sign"))
    }
    return _push_answer(made).model_copy(update=keys)


async def get_push_key(call: AgentCall) -> Value:
    """Return the key that a browser subscribes with."""
    shelf = await _push_shelf(call)
    return PushKeyAnswer(key=base64.urlsafe_b64encode(await shelf.vapid_point()).rstrip(b"=").decode())


async def delete_push(call: AgentCall) -> Value:
    """End a subscription."""
    push_id = call.part("push_id")
    await (await _push_shelf(call)).remove(push_id)
    return PushDeleted(id=push_id)


async def _push_shelf(call: AgentCall) -> PushShelf:
    call.service.settings.require_on(AgentPart.PUSH)
    await call.user.enabled()
    return PushShelf(call.user)


def _push_answer(push: StoredPush) -> PushAnswer:
    return PushAnswer(id=push.id, type=push.type, host=urlsplit(push.url).hostname or "", created_at=push.created_at)


_ROUTES: Final = (
    AgentRoute("GET", _PUSH, list_pushes,
               SurfaceDescription("list_agent_pushes", "List the push subscriptions.", None, PushList)),
    AgentRoute("POST", _PUSH, make_push,
               SurfaceDescription("make_agent_push", "Have previews sent to a device.", PushRequest, PushAnswer)),
    AgentRoute("GET", f"{_PUSH}/key", get_push_key,
               SurfaceDescription("get_agent_push_key", "Show the key that a browser subscribes with.", None,
                                  PushKeyAnswer)),
    AgentRoute("DELETE", f"{_PUSH}/{{push_id}}", delete_push,
               SurfaceDescription("delete_agent_push", "End a push subscription.", None, PushDeleted)),
)  # fmt: skip
