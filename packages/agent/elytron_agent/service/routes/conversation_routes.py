"""Routes of conversations: made, listed, changed, deleted, and their items."""

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue
from starlette.responses import JSONResponse, Response

from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_agent.service import limits
from elytron_agent.service.agent_service import AgentCall, AgentRoute, AgentService, route_surface
from elytron_agent.service.responses import response_wire as wire
from elytron_agent.service.responses.conversation_shelf import ConversationShelf, item_page
from elytron_agent.service.responses.response_shelf import ResponseShelf
from elytron_agent.service.routes.response_routes import body_response, item_query, require_responses
from elytron_core.errors import NotFound
from elytron_core.model import Value

ROOT: Final = "/v1/conversations"
_ONE: Final = f"{ROOT}/{{conversation_id}}"
_ITEMS: Final = f"{_ONE}/items"
_ITEM: Final = f"{_ITEMS}/{{item_id}}"


def conversation_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the routes of conversations."""
    for route in _ROUTES:
        yield route_surface(service, route)


async def create_conversation(call: AgentCall) -> Response:
    """Begin a conversation, perhaps with items."""
    shelf = await _conversation_shelf(call)
    asked = await call.body(wire.ConversationRequest)
    made = await shelf.create(asked.metadata or {})
    if asked.items:
        await call.service.responses.add_items(call.user, made.id, asked.items)
    return body_response(made)


async def list_conversations(call: AgentCall) -> Response:
    """Return a page of conversations, the latest first."""
    shelf = await _conversation_shelf(call)
    found = await shelf.list()
    limit = call.number("limit", limits.CONVERSATIONS_PAGE, limits.CONVERSATIONS_PAGE_MAX)
    after = call.request.query_params.get("after")
    names = [each.id for each in found]
    if after is not None and after not in names:
        raise NotFound(what="conversation", name=after)
    found = found[names.index(after) + 1 :] if after is not None else found
    shown = found[:limit]
    return body_response(
        wire.ConversationList(
            data=tuple(shown),
            first_id=shown[0].id if shown else None,
            last_id=shown[-1].id if shown else None,
            has_more=len(found) > limit,
        )
    )


async def get_conversation(call: AgentCall) -> Response:
    """Return a conversation."""
    return body_response(await (await _conversation_shelf(call)).read(call.part("conversation_id")))


async def change_conversation(call: AgentCall) -> Response:
    """Set a conversation's metadata."""
    shelf = await _conversation_shelf(call)
    asked = await call.body(wire.MetadataChange)
    return body_response(await shelf.change(call.part("conversation_id"), asked.metadata or {}))


async def delete_conversation(call: AgentCall) -> Value:
    """Erase a conversation with all that was said in it."""
    conversation = call.part("conversation_id")
    await _delete_thread(call, await _conversation_shelf(call), conversation)
    return wire.ConversationDeleted(id=conversation)


async def delete_conversations(call: AgentCall) -> Value:
    """Erase all conversations; threads of agents stay."""
    shelf = await _conversation_shelf(call)
    found = await shelf.list()
    for each in found:
        await _delete_thread(call, shelf, each.id)
    return wire.ConversationsDeleted(count=len(found))


async def delete_several(call: AgentCall) -> Value:
    """Erase several conversations, and say of each whether it was there."""
    shelf = await _conversation_shelf(call)
    asked = await call.body(wire.BatchDeletion)
    outcomes: list[wire.BatchOutcome] = []
    for conversation in asked.ids:
        try:
            await _delete_thread(call, shelf, conversation)
            outcomes.append(wire.BatchOutcome(id=conversation, deleted=True))
        except NotFound:
            outcomes.append(wire.BatchOutcome(id=conversation, deleted=False, error="not_found"))
    return wire.BatchDeleted(data=tuple(outcomes))


async def add_items(call: AgentCall) -> Response:
    """Add items to a conversation, without an answer."""
    shelf = await _conversation_shelf(call)
    conversation = (await shelf.read(call.part("conversation_id"))).id
    asked = await call.body(wire.ItemsRequest)
    added: Sequence[dict[str, JsonValue]] = await call.service.responses.add_items(call.user, conversation, asked.items)
    return body_response(item_page(added, len(added)))


async def list_items(call: AgentCall) -> Response:
    """Return a page of a conversation's items."""
    shelf = await _conversation_shelf(call)
    limit, after, order = item_query(call)
    return body_response(await shelf.page(call.part("conversation_id"), limit=limit, after=after, order=order))


async def get_item(call: AgentCall) -> Response:
    """Return an item."""
    return JSONResponse(
        await (await _conversation_shelf(call)).item(call.part("conversation_id"), call.part("item_id"))
    )


async def delete_item(call: AgentCall) -> Response:
    """Erase the turn of an item, and return the conversation."""
    shelf = await _conversation_shelf(call)
    conversation, item = call.part("conversation_id"), call.part("item_id")
    await shelf.item(conversation, item)
    await ResponseShelf(call.user).erase(await shelf.turn_of_item(conversation, item))
    return body_response(await shelf.read(conversation))


async def _conversation_shelf(call: AgentCall) -> ConversationShelf:
    require_responses(call)
    await call.user.answering()
    return ConversationShelf(call.user)


async def _delete_thread(call: AgentCall, shelf: ConversationShelf, conversation: str) -> None:
    thread = (await shelf.read(conversation)).id
    await call.service.lines.cancel((call.user.space, thread))
    await shelf.delete(thread)


_QUERY: Final = ("limit", "after", "order", "include")
_ROUTES: Final = (
    AgentRoute("POST", ROOT, create_conversation,
               SurfaceDescription("create_conversation", "Begin a conversation.", wire.ConversationRequest,
                                  wire.ConversationBody)),
    AgentRoute("GET", ROOT, list_conversations,
               SurfaceDescription("list_conversations", "List the conversations.", None, wire.ConversationList,
                                  query=("limit", "after"))),
    AgentRoute("DELETE", ROOT, delete_conversations,
               SurfaceDescription("delete_conversations", "Erase all conversations.", None,
                                  wire.ConversationsDeleted), SurfaceAccess.OWNER),
    AgentRoute("POST", f"{ROOT}/batch-delete", delete_several,
               SurfaceDescription("delete_several_conversations", "Erase several conversations.", wire.BatchDeletion,
                                  wire.BatchDeleted)),
    AgentRoute("GET", _ONE, get_conversation,
               SurfaceDescription("get_conversation", "Show a conversation.", None, wire.ConversationBody)),
    AgentRoute("POST", _ONE, change_conversation,
               SurfaceDescription("change_conversation", "Set a conversation's metadata.", wire.MetadataChange,
                                  wire.ConversationBody)),
    AgentRoute("DELETE", _ONE, delete_conversation,
               SurfaceDescription("delete_conversation", "Erase a conversation.", None, wire.ConversationDeleted)),
    AgentRoute("POST", _ITEMS, add_items,
               SurfaceDescription("add_conversation_items", "Add items without an answer.", wire.ItemsRequest,
                                  wire.ItemPage, query=("include",))),
    AgentRoute("GET", _ITEMS, list_items,
               SurfaceDescription("list_conversation_items", "List a conversation's items.", None, wire.ItemPage,
                                  query=_QUERY)),
    AgentRoute("GET", _ITEM, get_item,
               SurfaceDescription("get_conversation_item", "Show an item.", None, "application/json",
                                  query=("include",))),
    AgentRoute("DELETE", _ITEM, delete_item,
               SurfaceDescription("delete_conversation_item", "Erase the turn of an item.", None,
                                  wire.ConversationBody)),
)  # fmt: skip
