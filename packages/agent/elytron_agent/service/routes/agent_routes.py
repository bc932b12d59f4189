"""Routes for agents and subagents: their settings, turns and items, and the page `/agent`."""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.http.requests import IDEMPOTENCY_KEY
from elytron_adapter.http.responses import shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_agent.loop.run_input import check_input
from elytron_agent.loop.tools import SubagentCreator
from elytron_agent.runs.settings import AgentSettings, UserPreferences
from elytron_agent.service import wire
from elytron_agent.service.agent_service import (
    ROOT,
    AgentCall,
    AgentRoute,
    AgentService,
    AgentStream,
    Handler,
    item_page,
    route_surface,
    stream_surface,
)
from elytron_agent.service.chat_turn import TurnRequest
from elytron_agent.service.companion import KnownAgent
from elytron_agent.service.events import FeedEvent
from elytron_agent.service.schedules.schedule_repository import ScheduleRepository
from elytron_agent.service.wire import AgentEventKind, ItemReaction, ItemRole
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.model import Value

_SUB: Final = "/subagents/{agent_id}"
_PAGE: Final = ("limit", "after", "order")
_EVENTS: Final = "text/event-stream"


def agent_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the routes of the main agent and of its subagents."""
    for route in (*_OF_MAIN, *_OF_SUBAGENTS):
        yield route_surface(service, route)
    for path, name in ((ROOT, ""), (f"{ROOT}{_SUB}", "_subagent")):
        yield from _thread_surfaces(service, path, name)


async def init_agent(call: AgentCall) -> Value:
    """Make the user's agent, or return the one that there is."""
    agent = await call.user.init(await call.body(wire.InitRequest))
    await call.service.look(call.user, agent)
    return await call.user.answer_of(agent, health=call.service.health(agent))


async def get_agent(call: AgentCall) -> Value:
    """Return the main agent."""
    agent = await call.user.main()
    await call.service.look(call.user, agent)
    return await call.user.answer_of(agent, health=call.service.health(agent))


async def delete_main(call: AgentCall) -> Value:
    """Erase the main agent with all that it has."""
    return await _delete_agent(call, await call.user.main())


async def get_config(call: AgentCall) -> Value:
    """Return the settings."""
    return await call.user.config(await call.user.main())


async def put_config(call: AgentCall) -> Value:
    """Change settings."""
    return await call.user.change_config(await call.body(wire.ConfigChange))


async def get_preferences(call: AgentCall) -> Value:
    """Return the preferences."""
    await call.user.enabled()
    return await call.user.preferences()


async def change_preferences(call: AgentCall) -> Value:
    """Change preferences."""
    await call.user.enabled()
    before = await call.user.preferences()
    preferences = await call.user.change_preferences(await call.body(wire.PreferencesChange))
    # Schedules are due by the time of their user.
    if preferences.timezone != before.timezone:
        await call.service.change_zone(call.user)
    return preferences


async def list_subagents(call: AgentCall) -> Value:
    """Return the subagents, or those that one of user and agent made."""
    text = call.request.query_params.get("created_by")
    try:
        creator = SubagentCreator(text) if text is not None else None
    except ValueError:
        raise InvalidInput(field="created_by", problem="must be user or agent") from None
    subagents = await call.user.known_subagents(created_by=creator)
    return wire.SubagentList(data=tuple([await call.user.answer_of(each) for each in subagents]))


async def make_subagent(call: AgentCall) -> Value:
    """Create a subagent."""
    return await call.user.answer_of(await call.user.make_subagent(await call.body(wire.SubagentRequest)))


async def get_subagent(call: AgentCall) -> Value:
    """Return a subagent."""
    agent = await call.user.subagent(call.part("agent_id"))
    return await call.user.answer_of(agent, health=call.service.health(agent))


async def delete_subagent(call: AgentCall) -> Value:
    """Erase a subagent with its thread."""
    return await _delete_agent(call, await call.user.subagent(call.part("agent_id")))


_OF_MAIN: Final = (
    AgentRoute("POST", f"{ROOT}/init", init_agent,
               SurfaceDescription("init_agent", "Create the user's agent, or return an existing one.", wire.InitRequest,
                                  wire.AgentAnswer)),
    AgentRoute("GET", ROOT, get_agent, SurfaceDescription("get_agent", "Retrieve the agent.", None, wire.AgentAnswer)),
    AgentRoute("DELETE", ROOT, delete_main,
               SurfaceDescription("delete_agent", "Erase the agent and all of its data.", None, wire.DeletionAnswer,
                                  query=("dry_run",)), SurfaceAccess.OWNER),
    AgentRoute("GET", f"{ROOT}/config", get_config,
               SurfaceDescription("get_agent_config", "Retrieve the agent's settings.", None, wire.AgentConfig)),
    AgentRoute("PUT", f"{ROOT}/config", put_config,
               SurfaceDescription("put_agent_config", "Update the agent's settings.", wire.ConfigChange,
                                  wire.AgentConfig)),
    AgentRoute("GET", f"{ROOT}/preferences", get_preferences,
               SurfaceDescription("get_agent_preferences", "Retrieve the preferences.", None, UserPreferences)),
    AgentRoute("PATCH", f"{ROOT}/preferences", change_preferences,
               SurfaceDescription("change_agent_preferences", "Update the preferences.",
                                  wire.PreferencesChange, UserPreferences)),
)  # fmt: skip
_OF_SUBAGENTS: Final = (
    AgentRoute("GET", f"{ROOT}/subagents", list_subagents,
               SurfaceDescription("list_subagents", "List the subagents.", None, wire.SubagentList,
                                  query=("created_by",))),
    AgentRoute("POST", f"{ROOT}/subagents", make_subagent,
               SurfaceDescription("make_subagent", "Create a subagent.", wire.SubagentRequest, wire.AgentAnswer)),
    AgentRoute("GET", f"{ROOT}{_SUB}", get_subagent,
               SurfaceDescription("get_subagent", "Retrieve a subagent.", None, wire.AgentAnswer)),
    AgentRoute("DELETE", f"{ROOT}{_SUB}", delete_subagent,
               SurfaceDescription("delete_subagent", "Erase a subagent and its thread.", None, wire.DeletionAnswer,
                                  query=("dry_run",))),
)  # fmt: skip


def _thread_surfaces(service: AgentService, path: str, name: str) -> Iterable[Surface]:
    """Yield the routes of a thread: of the main agent, or of the subagent that the path names."""
    one = f"{path}/items/{{item_id}}"
    item = wire.ThreadItem
    rows: tuple[tuple[str, str, Handler, SurfaceDescription], ...] = (
        ("GET", f"{path}/items", list_items,
         SurfaceDescription(f"list{name}_items", "List the thread's messages.", None, wire.ItemList, query=_PAGE)),
        ("GET", one, get_item, SurfaceDescription(f"get{name}_item", "Retrieve a message.", None, item)),
        ("POST", f"{one}/delivered", deliver_item,
         SurfaceDescription(f"deliver{name}_item", "Mark a message as delivered to a device.", None, item)),
        ("POST", f"{one}/reaction", set_reaction,
         SurfaceDescription(f"react_to{name}_item", "React to a message.", wire.ReactionRequest, item)),
        ("DELETE", f"{one}/reaction", drop_reaction,
         SurfaceDescription(f"drop{name}_reaction", "Remove a reaction.", None, item)),
    )  # fmt: skip
    for method, where, handler, description in rows:
        yield route_surface(service, AgentRoute(method, where, handler, description))
    description = SurfaceDescription(
        f"chat{name}",
        "Send a message to the agent and stream its turn.",
        wire.ChatRequest,
        _EVENTS,
        (IDEMPOTENCY_KEY,),
        answer="Events `agent.typing`, `agent.message`, `agent.reaction`, and finally `agent.done` or `agent.error`.",
    )
    yield stream_surface(service, "POST", f"{path}/chat", chat_stream, description)


async def chat_stream(call: AgentCall) -> AgentStream:
    """Begin a turn and return its events. The turn goes on if the client leaves."""
    agent = await _agent_of(call)
    request = await call.body(wire.ChatRequest)
    # Refused here, as long as no stream has begun.
    check_input(AgentSettings(enabled=True), request.words, request.images)
    turn = TurnRequest(request.words, request.images, _run_of(agent, call.idempotency_key), request.store)
    feed = await call.service.turn_service.begin(call.user, agent, turn)
    items, clock = call.user.items(agent), call.service.context.clock

    async def written(event: FeedEvent) -> None:
        if event.kind is AgentEventKind.MESSAGE and event.data.message_id is not None and request.store:
            try:
                await items.deliver(event.data.message_id, at=clock.now())
            except ElytronError:
                return  # it was erased meanwhile, or the store does not answer: it counts as not delivered

    return AgentStream(feed.read(), written=written)


def _run_of(agent: KnownAgent, key: str | None) -> str | None:
    """Return the name of the run of an idempotency key, None for no key."""
    if key is None:
        return None
    return str(UUID(bytes=hashlib.sha256(f"{agent.id}/{key}".encode()).digest()[:16], version=5))


async def list_items(call: AgentCall) -> Value:
    """Return a page of items."""
    agent = await _agent_of(call)
    await call.service.look(call.user, agent)
    return await item_page(call, agent)


async def get_item(call: AgentCall) -> Value:
    """Return an item."""
    return await call.user.items(await _agent_of(call)).item(call.part("item_id"))


async def deliver_item(call: AgentCall) -> Value:
    """Note that a device has an item."""
    items = call.user.items(await _agent_of(call))
    return await items.deliver(call.part("item_id"), at=call.service.context.clock.now())


async def set_reaction(call: AgentCall) -> Value:
    """Note the user's reaction to an item."""
    request = await call.body(wire.ReactionRequest)
    return await _set_reaction(call, ItemReaction(emoji=request.emoji, by=ItemRole.USER))


async def drop_reaction(call: AgentCall) -> Value:
    """Take the reaction to an item off."""
    return await _set_reaction(call, None)


async def _set_reaction(call: AgentCall, reaction: ItemReaction | None) -> wire.ThreadItem:
    """Set the reaction to an item, and have the other devices hear of it."""
    agent = await _agent_of(call)
    item = await call.user.items(agent).react(call.part("item_id"), reaction)
    data = wire.AgentEventData(agent_id=agent.id, run_id=item.run_id, item_id=item.id)
    await call.service.publish(call.user, agent, FeedEvent(AgentEventKind.REACTION, data))
    return item


async def _agent_of(call: AgentCall) -> KnownAgent:
    """Return the agent that the path names, else the main one."""
    return await call.user.agent(call.request.path_params.get("agent_id"))


async def _delete_agent(call: AgentCall, agent: KnownAgent) -> wire.DeletionAnswer:
    dry_run = call.flag("dry_run")
    plan = await call.user.removal(agent)
    report = plan.report(dry_run=dry_run)
    if not dry_run:
        # Runs and schedules end first, for they would write to what is erased.
        agents = [agent] if agent.subagent is not None else [agent, *await call.user.known_subagents(main=agent)]
        for each in agents:
            await call.service.turn_service.cancel(call.user, each)
        await ScheduleRepository(call.user).cancel_all(thread=agent.name if agent.subagent is not None else None)
        # The ends of schedules erase some of the plan already.
        report = (await call.user.delete(agent)).report(earlier=plan)
    return wire.DeletionAnswer(
        deleted=not dry_run,
        dry_run=dry_run,
        agents=len(report.agents),
        records=report.records,
        memories=report.memories,
    )


_PATH: Final = "/agent"
_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)
_DESCRIPTION: Final = SurfaceDescription(
    "agent_page",
    "Serve the chat page of the agent.",
    None,
    "text/html",
    ("If-None-Match",),
    answer="The page.",
    group="pages",
)


def page_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the page. It is public, and what it shows is not."""
    is_open = isinstance(service.entrance.authenticator, DevelopmentCallers)
    body = service.settings.page if service.settings.page is not None else _usual_page(is_open=is_open)
    etag, policy = f'"{hashlib.sha256(body).hexdigest()[:32]}"', page_policy(body)

    async def page(request: Request) -> Response:
        service.settings.require_on()
        headers = {
            "ETag": etag,
            "Content-Security-Policy": policy,
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
        }
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)

    yield shown_surface(_PATH, page, access=SurfaceAccess.PUBLIC, methods=("GET",), description=_DESCRIPTION)


@cache
def _usual_page(*, is_open: bool) -> bytes:
    """Return the page; where the server asks for no key, it is marked so and shows no form for one."""
    body = (files("elytron_agent.service.routes") / "chat_page.html").read_bytes()
    return body.replace(b'<html lang="en">', b'<html lang="en" data-access="open">', 1) if is_open else body


def page_policy(body: bytes, /) -> str:
    """Return the policy that lets the page's own scripts and styles run, by their digests, and nothing else."""
    allowed = {"script": ["'none'"], "style": ["'none'"]}
    for kind, inner in _INLINE.findall(body):
        digest = base64.b64encode(hashlib.sha256(inner).digest()).decode()
        allowed[kind.decode()] = [*filter("'none'".__ne__, allowed[kind.decode()]), f"'sha256-{digest}'"]
    return (
        f"default-src 'none'; script-src {' '.join(allowed['script'])}; style-src {' '.join(allowed['style'])};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
