"""Routes for responses and conversations: create, follow, retrieve and cancel them, list items, and compact inputs."""

import hashlib
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue
from starlette.responses import JSONResponse, Response

from elytron_adapter.http.requests import IDEMPOTENCY_KEY
from elytron_adapter.surface import Route, SurfaceAccess
from elytron_agent.service.companion import AgentPart
from elytron_agent.service.responses import response_wire as wire
from elytron_agent.service.responses.response_repository import (
    ConversationRepository,
    KnownResponse,
    ResponseRepository,
    conversation_page,
    input_page,
    item_page,
)
from elytron_agent.service.responses.response_service import OpenResponse, sum_up
from elytron_agent.service.routes.agent_calls import AgentCall, AgentRoute, AgentStream, LaterAnswer, StreamHandler
from elytron_core.errors import InvalidInput, NotFound, Overloaded
from elytron_core.model import Value

CONVERSATIONS_PAGE: Final = 20
CONVERSATIONS_PAGE_MAX: Final = 100


_RESPONSES: Final = "/v1/responses"
_RESPONSE: Final = f"{_RESPONSES}/{{response_id}}"


def body_response(value: Value, /) -> Response:
    """Return a value as a response, including fields without a value."""
    return Response(value.model_dump_json(by_alias=True), media_type="application/json")


async def _create_response(call: AgentCall) -> AgentStream | LaterAnswer:
    """Start a response. Its turn continues if the client leaves."""
    require_responses(call)
    request = await call.body(wire.ResponseRequest)
    responses, repository = call.service.responses, ResponseRepository(call.user)
    response = _response_of(call) or repository.new_response()
    stored_response = await _known_of(call, repository, response)
    if stored_response is None:
        open_response = await responses.begin(await responses.plan(call.user, request, response))
    elif stored_response.document.form != request.form or stored_response.document.asked not in {"", request.digest}:
        raise InvalidInput(field=IDEMPOTENCY_KEY, problem="was used for another request")
    else:
        open_response = responses.opened(call.user, response)
    if request.stream and open_response is not None:
        return AgentStream(open_response.feed.read())

    async def answer() -> Value | Response:
        if open_response is not None and not request.background:
            return body_response(await _whole_response(call, open_response))
        return body_response((await repository.read(response)).body)

    return LaterAnswer(answer)


async def _get_response(call: AgentCall) -> AgentStream | Response:
    """Return a response, or its events if it runs or ran in this process."""
    require_responses(call)
    await call.user.answering()
    responses, repository = call.service.responses, ResponseRepository(call.user)
    response = await repository.read(call.part("response_id"))
    await responses.look(call.user, response)
    if call.flag("stream"):
        open_response = responses.opened(call.user, response.document.id)
        if open_response is None:
            raise InvalidInput(field="stream", problem="has ended or belongs to another node: call without it")
        after_text = call.request.query_params.get("starting_after", "")
        if after_text and (not after_text.isascii() or not after_text.isdecimal() or len(after_text) > 9):
            raise InvalidInput(field="starting_after", problem="must be the number of an event")
        return AgentStream(open_response.feed.read(first=int(after_text) + 1 if after_text else 0))
    return body_response(response.body)


async def _delete_response(call: AgentCall) -> Value:
    response = await _named_response(call)
    # Cancel its turn first, because an active one would write to what is being erased.
    await call.service.responses.cancel(call.user, response)
    repository = ResponseRepository(call.user)
    # Read it again, because ending it has changed it.
    await repository.erase(await repository.read(response.document.id))
    return wire.ResponseDeleted(id=response.document.id)


async def _cancel_response(call: AgentCall) -> Response:
    """Cancel a background response. A finished one stays as it is."""
    response = await _named_response(call)
    if not response.document.form.background:
        raise InvalidInput(field="response_id", problem="is not a background response: close its request instead")
    await call.service.responses.cancel(call.user, response)
    return body_response((await ResponseRepository(call.user).read(response.document.id)).body)


async def _list_input_items(call: AgentCall) -> Response:
    response = await _named_response(call)
    return body_response(input_page(response, **call.page()._asdict()))


async def _compact_input(call: AgentCall) -> Response:
    require_responses(call)
    request = await call.body(wire.CompactRequest)
    return body_response(await sum_up(call.service.responses, call.user, request))


def require_responses(call: AgentCall, /) -> None:
    """Raise AgentDisabled if the operator switched off responses."""
    call.service.settings.require_on(AgentPart.RESPONSES)


async def _named_response(call: AgentCall) -> KnownResponse:
    require_responses(call)
    await call.user.answering()
    return await ResponseRepository(call.user).read(call.part("response_id"))


def _response_of(call: AgentCall) -> str | None:
    """Return the response id for an idempotency key, or None without a key."""
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
    """Wait for a response and return it. Raises Overloaded if its turn was interrupted by a shutdown."""
    async for _ in opened.feed.read():
        pass
    if opened.stream.body is not None:
        return opened.stream.body
    try:
        return (await ResponseRepository(call.user).read(opened.stream.document.id)).body
    except NotFound:
        raise Overloaded from None


_CONVERSATIONS: Final = "/v1/conversations"
_CONVERSATION: Final = f"{_CONVERSATIONS}/{{conversation_id}}"
_ITEMS: Final = f"{_CONVERSATION}/items"
_ITEM: Final = f"{_ITEMS}/{{item_id}}"


async def _create_conversation(call: AgentCall) -> Response:
    """Create a conversation, optionally with items."""
    repository = await _conversation_repository(call)
    request = await call.body(wire.ConversationRequest)
    conversation = await repository.create(request.metadata or {})
    if request.items:
        await call.service.responses.add_items(call.user, conversation.id, request.items)
    return body_response(conversation)


async def _list_conversations(call: AgentCall) -> Response:
    """Return a page of conversations, the latest first."""
    repository = await _conversation_repository(call)
    conversations = await repository.list()
    limit = call.number("limit", CONVERSATIONS_PAGE, CONVERSATIONS_PAGE_MAX)
    return body_response(conversation_page(conversations, limit=limit, after=call.request.query_params.get("after")))


async def _get_conversation(call: AgentCall) -> Response:
    return body_response(await (await _conversation_repository(call)).read(call.part("conversation_id")))


async def _change_conversation(call: AgentCall) -> Response:
    repository = await _conversation_repository(call)
    request = await call.body(wire.MetadataChange)
    return body_response(await repository.change(call.part("conversation_id"), request.metadata or {}))


async def _delete_conversation(call: AgentCall) -> Value:
    conversation = call.part("conversation_id")
    await (await _conversation_repository(call)).delete(conversation)
    return wire.ConversationDeleted(id=conversation)


async def _delete_conversations(call: AgentCall) -> Value:
    """Erase all conversations. The threads of agents remain."""
    repository = await _conversation_repository(call)
    outcomes = await repository.delete_each([conversation.id for conversation in await repository.list()])
    return wire.ConversationsDeleted(count=len(outcomes))


async def _delete_several(call: AgentCall) -> Value:
    """Erase several conversations, and report for each whether it existed."""
    repository = await _conversation_repository(call)
    request = await call.body(wire.BatchDeletion)
    return wire.BatchDeleted(data=await repository.delete_each(request.ids))


async def _add_items(call: AgentCall) -> Response:
    """Add items to a conversation, without an answer."""
    repository = await _conversation_repository(call)
    conversation = (await repository.read(call.part("conversation_id"))).id
    request = await call.body(wire.ItemsRequest)
    responses = call.service.responses
    added_items: Sequence[dict[str, JsonValue]] = await responses.add_items(call.user, conversation, request.items)
    return body_response(item_page(added_items, len(added_items)))


async def _list_items(call: AgentCall) -> Response:
    repository = await _conversation_repository(call)
    limit, after, order = call.page()
    return body_response(await repository.page(call.part("conversation_id"), limit=limit, after=after, order=order))


async def _get_item(call: AgentCall) -> Response:
    return JSONResponse(
        await (await _conversation_repository(call)).item(call.part("conversation_id"), call.part("item_id"))
    )


async def _delete_item(call: AgentCall) -> Response:
    """Erase the turn of an item and return the conversation."""
    repository = await _conversation_repository(call)
    return body_response(await repository.delete_item(call.part("conversation_id"), call.part("item_id")))


async def _conversation_repository(call: AgentCall) -> ConversationRepository:
    require_responses(call)
    await call.user.answering()
    return ConversationRepository(call.user, call.service.lines)


_QUERY: Final = ("limit", "after", "order", "include")
RESPONSE_ROUTES: Final[tuple[AgentRoute, ...]] = (
    Route("POST", _RESPONSES, StreamHandler(_create_response), "create_response",
          "Create a response in its own thread.", wire.ResponseRequest, wire.ResponseBody,
          headers=(IDEMPOTENCY_KEY,), outcome="The response, or its events if `stream` is set."),
    Route("GET", _RESPONSE, StreamHandler(_get_response), "get_response", "Retrieve a response, or stream its events.",
          None, wire.ResponseBody, query=("stream", "starting_after")),
    Route("DELETE", _RESPONSE, _delete_response, "delete_response", "Erase a response and its messages.", None,
          wire.ResponseDeleted),
    Route("POST", f"{_RESPONSE}/cancel", _cancel_response, "cancel_response", "Cancel a background response.", None,
          wire.ResponseBody),
    Route("GET", f"{_RESPONSE}/input_items", _list_input_items, "list_input_items",
          "List the input items of a response.", None, wire.ItemPage, query=("limit", "after", "order", "include")),
    Route("POST", f"{_RESPONSES}/compact", _compact_input, "compact_response",
          "Compact an input or the history of a response.", wire.CompactRequest, wire.CompactedBody),
    Route("POST", _CONVERSATIONS, _create_conversation, "create_conversation", "Create a conversation.",
          wire.ConversationRequest, wire.ConversationBody),
    Route("GET", _CONVERSATIONS, _list_conversations, "list_conversations", "List the conversations.", None,
          wire.ConversationList, query=("limit", "after")),
    Route("DELETE", _CONVERSATIONS, _delete_conversations, "delete_conversations", "Erase all conversations.", None,
          wire.ConversationsDeleted, SurfaceAccess.OWNER),
    Route("POST", f"{_CONVERSATIONS}/batch-delete", _delete_several, "delete_several_conversations",
          "Erase several conversations.", wire.BatchDeletion, wire.BatchDeleted),
    Route("GET", _CONVERSATION, _get_conversation, "get_conversation", "Retrieve a conversation.", None,
          wire.ConversationBody),
    Route("POST", _CONVERSATION, _change_conversation, "change_conversation", "Update a conversation's metadata.",
          wire.MetadataChange, wire.ConversationBody),
    Route("DELETE", _CONVERSATION, _delete_conversation, "delete_conversation", "Erase a conversation.", None,
          wire.ConversationDeleted),
    Route("POST", _ITEMS, _add_items, "add_conversation_items", "Add items without a response.", wire.ItemsRequest,
          wire.ItemPage, query=("include",)),
    Route("GET", _ITEMS, _list_items, "list_conversation_items", "List a conversation's items.", None, wire.ItemPage,
          query=_QUERY),
    Route("GET", _ITEM, _get_item, "get_conversation_item", "Retrieve an item.", None, "application/json",
          query=("include",)),
    Route("DELETE", _ITEM, _delete_item, "delete_conversation_item", "Erase an item and the rest of its turn.", None,
          wire.ConversationBody),
)  # fmt: skip
