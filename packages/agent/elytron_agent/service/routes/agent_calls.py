"""Calls of the agent's routes: what a handler receives, and how its value or stream is sent."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as HttpScope

from elytron_adapter.http.open_streams import take_guard
from elytron_adapter.http.requests import RouteCall, read_body
from elytron_adapter.http.responses import answered_by, principal_of, value_response
from elytron_adapter.surface import AsgiApp, Route
from elytron_agent import limits
from elytron_agent.service.agent_service import AgentService
from elytron_agent.service.companion import KnownAgent, UserAgents
from elytron_agent.service.events import EventWriter, FeedEvent
from elytron_agent.service.thread_items import ItemOrder
from elytron_agent.service.wire import ItemList
from elytron_core.errors import InvalidInput
from elytron_core.model import Value

ITEMS_PAGE_MAX: Final = 100
CHAT_BODY_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a chat request with its images."""
BODY_BYTES: Final = 1024 * 1024
"""Maximum size of any other request."""


class PageQuery(NamedTuple):
    """The page of items that a query selects."""

    limit: int
    after: str | None
    order: ItemOrder


@dataclass(frozen=True, slots=True)
class AgentCall(RouteCall):
    """One call of a route by an authorised user."""

    service: AgentService
    user: UserAgents

    def page(self) -> PageQuery:
        """Return the page of items that the query selects. Raises InvalidInput."""
        query = self.request.query_params
        try:
            order = ItemOrder(query.get("order", ItemOrder.DESCENDING))
        except ValueError:
            raise InvalidInput(field="order", problem="must be asc or desc") from None
        return PageQuery(self.number("limit", limits.ITEMS_PAGE, ITEMS_PAGE_MAX), query.get("after"), order)

    async def items_page(self, agent: KnownAgent, /) -> ItemList:
        """Return the selected page of an agent's items."""
        return await self.user.items(agent).page(**self.page()._asdict())


class AgentStream(NamedTuple):
    """The events of a streaming route, or their frames. `write_callback` runs after each event."""

    events: AsyncGenerator[FeedEvent | bytes]
    opening: bytes = b""
    write_callback: Callable[[FeedEvent], Awaitable[None]] | None = None
    silence_s: float | None = None
    """Idle time after which a comment is sent; None for that of a chat."""


class LaterAnswer(NamedTuple):
    """A response that is awaited without occupying a slot for short calls."""

    answer: Callable[[], Awaitable[Value | Response]]


class StreamHandler(NamedTuple):
    """A handler that may respond with a stream or later. Its errors become problem responses."""

    handle: Callable[[AgentCall], Awaitable[AgentStream | LaterAnswer | Response]]


AgentHandler = Callable[[AgentCall], Awaitable[Value | Response]]
AgentRoute = Route[AgentHandler | StreamHandler]


def agent_app(service: AgentService, /) -> Callable[[AgentRoute], AsgiApp]:
    """Return a function that builds the application of an agent's route, for `build_surfaces`."""

    async def answer(route: Route[AgentHandler], request: Request) -> Value | Response:
        service.settings.require_on()
        principal = principal_of(request.scope)
        user = service.user(principal)
        body = await read_body(request.scope, request.receive, limit=BODY_BYTES) if route.request else b""
        async with service.admission.admitted(principal, body=body, space=user.space):
            return await route.handler(AgentCall(request, body, service, user))

    value_app = answered_by(answer)

    def app_of(route: AgentRoute) -> AsgiApp:
        if isinstance(route.handler, StreamHandler):
            return partial(_answer_stream, service, cast("Route[StreamHandler]", route))
        return value_app(cast("Route[AgentHandler]", route))

    return app_of


async def _answer_stream(
    service: AgentService, route: Route[StreamHandler], scope: HttpScope, receive: Receive, send: Send
) -> None:
    service.settings.require_on()
    principal = principal_of(scope)
    user = service.user(principal)
    with service.streams.place(principal):
        body = await read_body(scope, receive, limit=CHAT_BODY_BYTES) if route.request else b""
        async with service.admission.admitted(principal, body=body, space=user.space):
            stream = await route.handler.handle(AgentCall(Request(scope, receive), body, service, user))
        if not isinstance(stream, AgentStream):
            answer = await stream.answer() if isinstance(stream, LaterAnswer) else stream
            response = answer if isinstance(answer, Response) else value_response(answer)
            await response(scope, receive, send)
            return
        guard = take_guard(scope)
        guard.space = user.space
        silence_s = service.settings.keep_alive_s if stream.silence_s is None else stream.silence_s
        writer = EventWriter(guard, receive, send, silence_s=silence_s)
        await writer.write(stream.events, opening=stream.opening, delivery_callback=stream.write_callback)
