"""Routes for responses and conversations: create, follow, retrieve and end them, list items, and compact inputs."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue
from starlette.responses import JSONResponse, Response

from elytron_adapter.http.requests import IDEMPOTENCY_KEY
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_agent import limits
from elytron_agent.service.agent_service import (
    AgentCall,
    AgentRoute,
    AgentService,
    AgentStream,
    LaterAnswer,
    route_surface,
    stream_surface,
)
from elytron_agent.service.companion import AgentPart
from elytron_agent.service.responses import response_wire as wire
from elytron_agent.service.responses.response_items import listed_items
from elytron_agent.service.responses.response_repository import (
    ConversationRepository,
    KnownResponse,
    ResponseRepository,
    item_page,
)
from elytron_agent.service.responses.response_service import OpenResponse, sum_up
from elytron_agent.service.thread_items import ItemOrder
from elytron_core.errors import InvalidInput, NotFound, Overloaded
from elytron_core.model import Value

_RESPONSES: Final = "/v1/responses"
_RESPONSE: Final = f"{_RESPONSES}/{{response_id}}"


def response_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the routes of responses."""
    yield stream_surface(
        service, "POST", _RESPONSES, create_response,
        SurfaceDescription("create_response", "Create a response in its own thread.", wire.ResponseRequest,
                           wire.ResponseBody, (IDEMPOTENCY_KEY,),
                           answer="The response, or its events if `stream` is set."),
    )  # fmt: skip
    yield stream_surface(
        service, "GET", _RESPONSE, get_response,
        SurfaceDescription("get_response", "Retrieve a response, or stream its events.", None,
                           wire.ResponseBody, query=("stream", "starting_after")),
    )  # fmt: skip
    for route in _RESPONSE_ROUTES:
        yield route_surface(service, route)


def body_response(value: Value, /) -> Response:
    """Return a value as the answer, also its fields without a value."""
    return Response(value.model_dump_json(by_alias=True), media_type="application/json")


async def create_response(call: AgentCall) -> AgentStream | LaterAnswer:
    """Begin a response. Its turn goes on if the client leaves."""
    require_responses(call)
    request = await call.body(wire.ResponseRequest)
    responses, repository = call.service.responses, ResponseRepository(call.user)
    response = _response_of(call) or repository.new_response()
    stored_response = await _known_of(call, repository, response)
    if stored_response is None:
        opened = await responses.begin(await responses.plan(call.user, request, response))
    elif stored_response.document.form != request.form or stored_response.document.asked not in {"", request.digest}:
        raise InvalidInput(field=IDEMPOTENCY_KEY, problem="was used for another request")
    else:
        opened = responses.opened(call.user, response)
    if request.stream and opened is not None:
        return AgentStream(opened.feed.read())

    async def answer() -> Value | Response:
        if opened is not None and not request.background:
            return body_response(await _whole_response(call, opened))
        return body_response((await repository.read(response)).body)

    return LaterAnswer(answer)


async def get_response(call: AgentCall) -> AgentStream | LaterAnswer:
    """Return a response, or the events of one that this process runs or ran."""
    require_responses(call)
    await call.user.answering()
    responses, repository = call.service.responses, ResponseRepository(call.user)
    response = await repository.read(call.part("response_id"))
    await responses.look(call.user, response)
    if call.flag("stream"):
        opened = responses.opened(call.user, response.document.id)
        if opened is None:
            raise InvalidInput(field="stream", problem="has ended or belongs to another node: call without it")
        after = call.request.query_params.get("starting_after", "")
        if after and (not after.isascii() or not after.isdecimal() or len(after) > 9):
            raise InvalidInput(field="starting_after", problem="must be the number of an event")
        return AgentStream(opened.feed.read(first=int(after) + 1 if after else 0))
    body = body_response(response.body)

    async def answer() -> Response:
        return body

    return LaterAnswer(answer)


async def delete_response(call: AgentCall) -> Value:
    """Erase a response with what was said in it."""
    response = await _named_response(call)
    # Ended first, for a turn under way would write to what is erased.
    await call.service.responses.cancel(call.user, response)
    repository = ResponseRepository(call.user)
    # Read again, since its end has changed it.
    await repository.erase(await repository.read(response.document.id))
    return wire.ResponseDeleted(id=response.document.id)


async def cancel_response(call: AgentCall) -> Response:
    """End a response in the background; one that is over stays as it is."""
    response = await _named_response(call)
    if not response.document.form.background:
        raise InvalidInput(field="response_id", problem="is not a background response: close its request instead")
    await call.service.responses.cancel(call.user, response)
    return body_response((await ResponseRepository(call.user).read(response.document.id)).body)


async def list_input_items(call: AgentCall) -> Response:
    """Return a page of the items that a response answers."""
    response = await _named_response(call)
    items = listed_items(response.document.id, response.document.items)
    limit, after, order = item_query(call)
    page: list[dict[str, JsonValue]] = items[::-1] if order is ItemOrder.DESCENDING else items
    names = [item["id"] for item in page]
    if after is not None and after not in names:
        raise NotFound(what="item", name=after)
    return body_response(item_page(page[names.index(after) + 1 :] if after is not None else page, limit))


async def compact_input(call: AgentCall) -> Response:
    """Sum up an input behind what a response continues."""
    require_responses(call)
    request = await call.body(wire.CompactRequest)
    return body_response(await sum_up(call.service.responses, call.user, request))


def require_responses(call: AgentCall, /) -> None:
    """Raise AgentDisabled if the operator has responses off."""
    call.service.settings.require_on(AgentPart.RESPONSES)


def item_query(call: AgentCall, /) -> tuple[int, str | None, ItemOrder]:
    """Return what a query says of a page of items. Raises InvalidInput."""
    query = call.request.query_params
    try:
        order = ItemOrder(query.get("order", ItemOrder.DESCENDING))
    except ValueError:
        raise InvalidInput(field="order", problem="must be asc or desc") from None
    return call.number("limit", limits.ITEMS_PAGE, limits.ITEMS_PAGE_MAX), query.get("after"), order


async def _named_response(call: AgentCall) -> KnownResponse:
    require_responses(call)
    await call.user.answering()
    return await ResponseRepository(call.user).read(call.part("response_id"))


def _response_of(call: AgentCall) -> str | None:
    """Return the id of the response of an idempotency key, None for no key."""
    key = call.idempotency_key
    if key is None:
        return None
    return f"{wire.RESPONSE_PREFIX}{hashlib.sha256(f'{call.user.space}/{key}'.encode()).hexdigest()[:32]}"


async def _known_of(call: AgentCall, repository: ResponseRepository, response: str) -> KnownResponse | None:
    if call.idempotency_key is None:
        return None
    try:
        return await repository.find(response)
    except NotFound:
        return None


async def _whole_response(call: AgentCall, opened: OpenResponse) -> wire.ResponseBody:
    """Return a response when it is over. Raises Overloaded if its turn was ended with this server."""
    async for _ in opened.feed.read():
        pass
    if opened.stream.body is not None:
        return opened.stream.body
    try:
        return (await ResponseRepository(call.user).read(opened.stream.document.id)).body
    except NotFound:
        raise Overloaded from None


_RESPONSE_ROUTES: Final = (
    AgentRoute("DELETE", _RESPONSE, delete_response,
               SurfaceDescription("delete_response", "Erase a response and its messages.", None,
                                  wire.ResponseDeleted)),
    AgentRoute("POST", f"{_RESPONSE}/cancel", cancel_response,
               SurfaceDescription("cancel_response", "Cancel a background response.", None, wire.ResponseBody)),
    AgentRoute("GET", f"{_RESPONSE}/input_items", list_input_items,
               SurfaceDescription("list_input_items", "List the input items of a response.", None, wire.ItemPage,
                                  query=("limit", "after", "order", "include"))),
    AgentRoute("POST", f"{_RESPONSES}/compact", compact_input,
               SurfaceDescription("compact_response", "Compact an input or the history of a response.",
                                  wire.CompactRequest, wire.CompactedBody)),
)  # fmt: skip


_CONVERSATIONS: Final = "/v1/conversations"
_CONVERSATION: Final = f"{_CONVERSATIONS}/{{conversation_id}}"
_ITEMS: Final = f"{_CONVERSATION}/items"
_ITEM: Final = f"{_ITEMS}/{{item_id}}"


def conversation_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the routes of conversations."""
    for route in _CONVERSATION_ROUTES:
        yield route_surface(service, route)


async def create_conversation(call: AgentCall) -> Response:
    """Begin a conversation, perhaps with items."""
    repository = await _conversation_repository(call)
    request = await call.body(wire.ConversationRequest)
    conversation = await repository.create(request.metadata or {})
    if request.items:
        await call.service.responses.add_items(call.user, conversation.id, request.items)
    return body_response(conversation)


async def list_conversations(call: AgentCall) -> Response:
    """Return a page of conversations, the latest first."""
    repository = await _conversation_repository(call)
    conversations = await repository.list()
    limit = call.number("limit", limits.CONVERSATIONS_PAGE, limits.CONVERSATIONS_PAGE_MAX)
    after = call.request.query_params.get("after")
    names = [each.id for each in conversations]
    if after is not None and after not in names:
        raise NotFound(what="conversation", name=after)
    conversations = conversations[names.index(after) + 1 :] if after is not None else conversations
    page = conversations[:limit]
    return body_response(
        wire.ConversationList(
            data=tuple(page),
            first_id=page[0].id if page else None,
            last_id=page[-1].id if page else None,
            has_more=len(conversations) > limit,
        )
    )


async def get_conversation(call: AgentCall) -> Response:
    """Return a conversation."""
    return body_response(await (await _conversation_repository(call)).read(call.part("conversation_id")))


async def change_conversation(call: AgentCall) -> Response:
    """Update a conversation's metadata."""
    repository = await _conversation_repository(call)
    request = await call.body(wire.MetadataChange)
    return body_response(await repository.change(call.part("conversation_id"), request.metadata or {}))


async def delete_conversation(call: AgentCall) -> Value:
    """Erase a conversation with all that was said in it."""
    conversation = call.part("conversation_id")
    await _delete_thread(call, await _conversation_repository(call), conversation)
    return wire.ConversationDeleted(id=conversation)


async def delete_conversations(call: AgentCall) -> Value:
    """Erase all conversations; threads of agents stay."""
    repository = await _conversation_repository(call)
    conversations = await repository.list()
    for each in conversations:
        await _delete_thread(call, repository, each.id)
    return wire.ConversationsDeleted(count=len(conversations))


async def delete_several(call: AgentCall) -> Value:
    """Erase several conversations, and say of each whether it was there."""
    repository = await _conversation_repository(call)
    request = await call.body(wire.BatchDeletion)
    outcomes: list[wire.BatchOutcome] = []
    for conversation in request.ids:
        try:
            await _delete_thread(call, repository, conversation)
            outcomes.append(wire.BatchOutcome(id=conversation, deleted=True))
        except NotFound:
            outcomes.append(wire.BatchOutcome(id=conversation, deleted=False, error="not_found"))
    return wire.BatchDeleted(data=tuple(outcomes))


async def add_items(call: AgentCall) -> Response:
    """Add items to a conversation, without an answer."""
    repository = await _conversation_repository(call)
    conversation = (await repository.read(call.part("conversation_id"))).id
    request = await call.body(wire.ItemsRequest)
    responses = call.service.responses
    added: Sequence[dict[str, JsonValue]] = await responses.add_items(call.user, conversation, request.items)
    return body_response(item_page(added, len(added)))


async def list_items(call: AgentCall) -> Response:
    """Return a page of a conversation's items."""
    repository = await _conversation_repository(call)
    limit, after, order = item_query(call)
    return body_response(await repository.page(call.part("conversation_id"), limit=limit, after=after, order=order))


async def get_item(call: AgentCall) -> Response:
    """Return an item."""
    return JSONResponse(
        await (await _conversation_repository(call)).item(call.part("conversation_id"), call.part("item_id"))
    )


async def delete_item(call: AgentCall) -> Response:
    """Erase the turn of an item, and return the conversation."""
    repository = await _conversation_repository(call)
    conversation, item = call.part("conversation_id"), call.part("item_id")
    # Refuses what is no item of this conversation.
    await repository.item(conversation, item)
    await ResponseRepository(call.user).erase(await repository.turn_of_item(conversation, item))
    return body_response(await repository.read(conversation))


async def _conversation_repository(call: AgentCall) -> ConversationRepository:
    require_responses(call)
    await call.user.answering()
    return ConversationRepository(call.user)


async def _delete_thread(call: AgentCall, repository: ConversationRepository, conversation: str) -> None:
    thread = (await repository.read(conversation)).id
    # Ended first, for a turn under way would write to what is erased.
    await call.service.lines.cancel((call.user.space, thread))
    await repository.delete(thread)


_QUERY: Final = ("limit", "after", "order", "include")
_CONVERSATION_ROUTES: Final = (
    AgentRoute("POST", _CONVERSATIONS, create_conversation,
               SurfaceDescription("create_conversation", "Create a conversation.", wire.ConversationRequest,
                                  wire.ConversationBody)),
    AgentRoute("GET", _CONVERSATIONS, list_conversations,
               SurfaceDescription("list_conversations", "List the conversations.", None, wire.ConversationList,
                                  query=("limit", "after"))),
    AgentRoute("DELETE", _CONVERSATIONS, delete_conversations,
               SurfaceDescription("delete_conversations", "Erase all conversations.", None,
                                  wire.ConversationsDeleted), SurfaceAccess.OWNER),
    AgentRoute("POST", f"{_CONVERSATIONS}/batch-delete", delete_several,
               SurfaceDescription("delete_several_conversations", "Erase several conversations.", wire.BatchDeletion,
                                  wire.BatchDeleted)),
    AgentRoute("GET", _CONVERSATION, get_conversation,
               SurfaceDescription("get_conversation", "Retrieve a conversation.", None, wire.ConversationBody)),
    AgentRoute("POST", _CONVERSATION, change_conversation,
               SurfaceDescription("change_conversation", "Update a conversation's metadata.", wire.MetadataChange,
                                  wire.ConversationBody)),
    AgentRoute("DELETE", _CONVERSATION, delete_conversation,
               SurfaceDescription("delete_conversation", "Erase a conversation.", None, wire.ConversationDeleted)),
    AgentRoute("POST", _ITEMS, add_items,
               SurfaceDescription("add_conversation_items", "Add items without a response.", wire.ItemsRequest,
                                  wire.ItemPage, query=("include",))),
    AgentRoute("GET", _ITEMS, list_items,
               SurfaceDescription("list_conversation_items", "List a conversation's items.", None, wire.ItemPage,
                                  query=_QUERY)),
    AgentRoute("GET", _ITEM, get_item,
               SurfaceDescription("get_conversation_item", "Retrieve an item.", None, "application/json",
                                  query=("include",))),
    AgentRoute("DELETE", _ITEM, delete_item,
               SurfaceDescription("delete_conversation_item", "Erase an item and the rest of its turn.", None,
                                  wire.ConversationBody)),
)  # fmt: skip
