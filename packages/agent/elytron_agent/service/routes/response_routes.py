"""Routes of responses: asked for, followed, shown, cancelled, deleted; and inputs that are summed up."""

import hashlib
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue
from starlette.responses import Response

from elytron_adapter.http.requests import IDEMPOTENCY_KEY
from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_agent.service import limits
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
from elytron_agent.service.responses.conversation_shelf import item_page
from elytron_agent.service.responses.response_desk import OpenResponse
from elytron_agent.service.responses.response_items import listed_items
from elytron_agent.service.responses.response_shelf import KnownResponse, ResponseShelf
from elytron_agent.service.responses.response_summary import sum_up
from elytron_agent.service.thread_items import ItemOrder
from elytron_core.errors import InvalidInput, NotFound, Overloaded
from elytron_core.model import Value

ROOT: Final = "/v1/responses"
_ONE: Final = f"{ROOT}/{{response_id}}"


def response_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the routes of responses."""
    yield stream_surface(
        service, "POST", ROOT, create_response,
        SurfaceDescription("create_response", "Have the agent answer, in a thread of its own.", wire.ResponseRequest,
                           wire.ResponseBody, (IDEMPOTENCY_KEY,),
                           answer="The response, or with `stream` its events."),
    )  # fmt: skip
    yield stream_surface(
        service, "GET", _ONE, get_response,
        SurfaceDescription("get_response", "Show a response, or with `stream` follow its events.", None,
                           wire.ResponseBody, query=("stream", "starting_after")),
    )  # fmt: skip
    for route in _ROUTES:
        yield route_surface(service, route)


def body_response(value: Value, /) -> Response:
    """Return a value as the answer, also its fields without a value."""
    return Response(value.model_dump_json(by_alias=True), media_type="application/json")


async def create_response(call: AgentCall) -> AgentStream | LaterAnswer:
    """Begin a response. Its turn goes on if the client leaves."""
    require_responses(call)
    asked = await call.body(wire.ResponseRequest)
    desk, shelf = call.service.responses, ResponseShelf(call.user)
    response = _response_of(call) or shelf.new_response()
    known = await _known_of(call, shelf, response)
    if known is None:
        opened = await desk.begin(await desk.plan(call.user, asked, response))
    elif known.document.form != asked.form:
        raise InvalidInput(field=IDEMPOTENCY_KEY, problem="was used for another request")
    else:
        opened = desk.opened(call.user, response)
    if asked.stream and opened is not None:
        return AgentStream(opened.feed.read())

    async def answer() -> Value | Response:
        if opened is not None and not asked.background:
            return body_response(await _whole_response(call, opened))
        return body_response((await shelf.read(response)).body)

    return LaterAnswer(answer)


async def get_response(call: AgentCall) -> AgentStream | LaterAnswer:
    """Return a response, or the events of one that this process runs or ran."""
    require_responses(call)
    await call.user.answering()
    desk, shelf = call.service.responses, ResponseShelf(call.user)
    known = await shelf.read(call.part("response_id"))
    await desk.look(call.user, known)
    if call.flag("stream"):
        opened = desk.opened(call.user, known.document.id)
        if opened is None:
            raise InvalidInput(field="stream", problem="is over: ask for the response without it")
        after = call.request.query_params.get("starting_after", "")
        if after and (not after.isascii() or not after.isdecimal() or len(after) > 9):
            raise InvalidInput(field="starting_after", problem="is no number of an event")
        return AgentStream(opened.feed.read(first=int(after) + 1 if after else 0))
    shown = body_response(known.body)

    async def answer() -> Response:
        return shown

    return LaterAnswer(answer)


async def delete_response(call: AgentCall) -> Value:
    """Erase a response with what was said in it."""
    known = await _named_response(call)
    await call.service.responses.cancel(call.user, known)
    shelf = ResponseShelf(call.user)
    await shelf.erase(await shelf.read(known.document.id))
    return wire.ResponseDeleted(id=known.document.id)


async def cancel_response(call: AgentCall) -> Response:
    """End a response in the background; one that is over stays as it is."""
    known = await _named_response(call)
    if not known.document.form.background:
        raise InvalidInput(field="response_id", problem="is not one in the background: end its request instead")
    await call.service.responses.cancel(call.user, known)
    return body_response((await ResponseShelf(call.user).read(known.document.id)).body)


async def list_input_items(call: AgentCall) -> Response:
    """Return a page of the items that a response answers."""
    known = await _named_response(call)
    items = listed_items(known.document.id, known.document.items)
    limit, after, order = item_query(call)
    shown: list[dict[str, JsonValue]] = items[::-1] if order is ItemOrder.DESCENDING else items
    names = [item["id"] for item in shown]
    if after is not None and after not in names:
        raise NotFound(what="item", name=after)
    return body_response(item_page(shown[names.index(after) + 1 :] if after is not None else shown, limit))


async def compact_input(call: AgentCall) -> Response:
    """Sum up an input behind what a response continues."""
    require_responses(call)
    asked = await call.body(wire.CompactRequest)
    return body_response(await sum_up(call.service.responses, call.user, asked))


def require_responses(call: AgentCall, /) -> None:
    """Raise AgentDisabled if the operator has responses off."""
    call.service.settings.require_on(AgentPart.RESPONSES)


def item_query(call: AgentCall, /) -> tuple[int, str | None, ItemOrder]:
    """Return what a query says of a page of items. Raises InvalidInput."""
    query = call.request.query_params
    try:
        order = ItemOrder(query.get("order", ItemOrder.DESCENDING))
    except ValueError:
        raise InvalidInput(field="order", problem="is neither asc nor desc") from None
    return call.number("limit", limits.ITEMS_PAGE, limits.ITEMS_PAGE_MAX), query.get("after"), order


async def _named_response(call: AgentCall) -> KnownResponse:
    require_responses(call)
    await call.user.answering()
    return await ResponseShelf(call.user).read(call.part("response_id"))


def _response_of(call: AgentCall) -> str | None:
    """Return the id of the response of an idempotency key, None for no key."""
    key = call.idempotency_key
    if key is None:
        return None
    return f"{wire.RESPONSE_PREFIX}{hashlib.sha256(f'{call.user.space}/{key}'.encode()).hexdigest()[:32]}"


async def _known_of(call: AgentCall, shelf: ResponseShelf, response: str) -> KnownResponse | None:
    if call.idempotency_key is None:
        return None
    try:
        return await shelf.find(response)
    except NotFound:
        return None


async def _whole_response(call: AgentCall, opened: OpenResponse) -> wire.ResponseBody:
    """Return a response when it is over. Raises Overloaded if its turn was ended with this server."""
    async for _ in opened.feed.read():
        pass
    if opened.stream.body is not None:
        return opened.stream.body
    try:
        return (await ResponseShelf(call.user).read(opened.stream.document.id)).body
    except NotFound:
        raise Overloaded from None


_ROUTES: Final = (
    AgentRoute("DELETE", _ONE, delete_response,
               SurfaceDescription("delete_response", "Erase a response and what was said in it.", None,
                                  wire.ResponseDeleted)),
    AgentRoute("POST", f"{_ONE}/cancel", cancel_response,
               SurfaceDescription("cancel_response", "End a response in the background.", None, wire.ResponseBody)),
    AgentRoute("GET", f"{_ONE}/input_items", list_input_items,
               SurfaceDescription("list_input_items", "List what a response answers.", None, wire.ItemPage,
                                  query=("limit", "after", "order", "include"))),
    AgentRoute("POST", f"{ROOT}/compact", compact_input,
               SurfaceDescription("compact_response", "Sum up an input, or what a response continues.",
                                  wire.CompactRequest, wire.CompactedBody)),
)  # fmt: skip
