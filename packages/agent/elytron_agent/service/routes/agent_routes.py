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
from elytron_adapter.http.responses import cached_response, request_app
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_agent.loop.run_input import check_input
from elytron_agent.loop.tools import SubagentCreator
from elytron_agent.runs.settings import AgentSettings, UserPreferences
from elytron_agent.service import wire
from elytron_agent.service.agent_service import ROOT, AgentService
from elytron_agent.service.chat_turn import TurnRequest
from elytron_agent.service.companion import KnownAgent
from elytron_agent.service.events import FeedEvent
from elytron_agent.service.routes.agent_calls import AgentCall, AgentRoute, AgentStream, StreamHandler
from elytron_agent.service.schedules.schedule_repository import ScheduleRepository
from elytron_agent.service.wire import AgentEventKind, ItemReaction, ItemRole
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.model import Value

_SUB: Final = "/subagents/{agent_id}"
_PAGE: Final = ("limit", "after", "order")
_CHAT_EVENTS: Final = (
    "Events `agent.typing`, `agent.message`, `agent.reaction`, and finally `agent.done` or `agent.error`."
)


async def _init_agent(call: AgentCall) -> Value:
    """Create the user's agent, or return the existing one."""
    agent = await call.user.init(await call.body(wire.InitRequest))
    await call.service.look(call.user, agent)
    return await call.user.answer_of(agent, health=call.service.health(agent))


async def _get_agent(call: AgentCall) -> Value:
    agent = await call.user.main()
    await call.service.look(call.user, agent)
    return await call.user.answer_of(agent, health=call.service.health(agent))


async def _delete_main(call: AgentCall) -> Value:
    return await _delete_agent(call, await call.user.main())


async def _get_config(call: AgentCall) -> Value:
    return await call.user.config(await call.user.main())


async def _put_config(call: AgentCall) -> Value:
    return await call.user.change_config(await call.body(wire.ConfigChange))


async def _get_preferences(call: AgentCall) -> Value:
    await call.user.enabled()
    return await call.user.preferences()


async def _change_preferences(call: AgentCall) -> Value:
    await call.user.enabled()
    preferences_before = await call.user.preferences()
    preferences = await call.user.change_preferences(await call.body(wire.PreferencesChange))
    # The due times of schedules depend on the user's time zone.
    if preferences.timezone != preferences_before.timezone:
        await call.service.change_zone(call.user)
    return preferences


async def _list_subagents(call: AgentCall) -> Value:
    """Return the subagents, optionally only those created by the user or by the agent."""
    text = call.request.query_params.get("created_by")
    try:
        creator = SubagentCreator(text) if text is not None else None
    except ValueError:
        raise InvalidInput(field="created_by", problem="must be user or agent") from None
    subagents = await call.user.known_subagents(created_by=creator)
    return wire.SubagentList(data=tuple([await call.user.answer_of(subagent) for subagent in subagents]))


async def _make_subagent(call: AgentCall) -> Value:
    return await call.user.answer_of(await call.user.make_subagent(await call.body(wire.SubagentRequest)))


async def _get_subagent(call: AgentCall) -> Value:
    agent = await call.user.subagent(call.part("agent_id"))
    return await call.user.answer_of(agent, health=call.service.health(agent))


async def _delete_subagent(call: AgentCall) -> Value:
    return await _delete_agent(call, await call.user.subagent(call.part("agent_id")))


async def _chat_stream(call: AgentCall) -> AgentStream:
    """Start a turn and return its events. The turn continues if the client leaves."""
    agent = await _agent_of(call)
    request = await call.body(wire.ChatRequest)
    # Validate now, while the response can still be an error instead of a stream.
    check_input(AgentSettings(enabled=True), request.words, request.images)
    turn = TurnRequest(request.words, request.images, _run_of(agent, call.idempotency_key), request.store)
    feed = await call.service.turn_service.begin(call.user, agent, turn)
    items, clock = call.user.items(agent), call.service.context.clock

    async def written(event: FeedEvent) -> None:
        if event.kind is AgentEventKind.MESSAGE and event.data.message_id is not None and request.store:
            try:
                await items.deliver(event.data.message_id, at=clock.now())
            except ElytronError:
                return  # it was erased meanwhile, or the store is unavailable: it counts as not delivered

    return AgentStream(feed.read(), write_callback=written)


def _run_of(agent: KnownAgent, key: str | None) -> str | None:
    """Return the run id for an idempotency key, or None without a key."""
    if key is None:
        return None
    return str(UUID(bytes=hashlib.sha256(f"{agent.id}/{key}".encode()).digest()[:16], version=5))


async def _list_items(call: AgentCall) -> Value:
    agent = await _agent_of(call)
    await call.service.look(call.user, agent)
    return await call.items_page(agent)


async def _get_item(call: AgentCall) -> Value:
    return await call.user.items(await _agent_of(call)).item(call.part("item_id"))


async def _deliver_item(call: AgentCall) -> Value:
    items = call.user.items(await _agent_of(call))
    return await items.deliver(call.part("item_id"), at=call.service.context.clock.now())


async def _set_reaction(call: AgentCall) -> Value:
    request = await call.body(wire.ReactionRequest)
    return await _change_reaction(call, ItemReaction(emoji=request.emoji, by=ItemRole.USER))


async def _drop_reaction(call: AgentCall) -> Value:
    return await _change_reaction(call, None)


async def _change_reaction(call: AgentCall, reaction: ItemReaction | None) -> wire.ThreadItem:
    """Set the reaction to an item and notify the user's other devices."""
    agent = await _agent_of(call)
    item = await call.user.items(agent).react(call.part("item_id"), reaction)
    data = wire.AgentEventData(agent_id=agent.id, run_id=item.run_id, item_id=item.id)
    await call.service.publish(call.user, agent, FeedEvent(AgentEventKind.REACTION, data))
    return item


async def _agent_of(call: AgentCall) -> KnownAgent:
    """Return the agent that the path names, or the main one."""
    return await call.user.agent(call.request.path_params.get("agent_id"))


async def _delete_agent(call: AgentCall, agent: KnownAgent) -> wire.DeletionAnswer:
    dry_run = call.flag("dry_run")
    plan = await call.user.removal(agent)
    report = plan.report(dry_run=dry_run)
    if not dry_run:
        # Runs and schedules end first, because they would write to what is being erased.
        agents = [agent] if agent.subagent is not None else [agent, *await call.user.known_subagents(main=agent)]
        for deleted_agent in agents:
            await call.service.turn_service.cancel(call.user, deleted_agent)
        await ScheduleRepository(call.user).cancel_all(thread=agent.name if agent.subagent is not None else None)
        # Ending the schedules has already erased some of the plan.
        report = (await call.user.delete(agent)).report(earlier=plan)
    return wire.DeletionAnswer(
        deleted=not dry_run,
        dry_run=dry_run,
        agents=len(report.agents),
        records=report.records,
        memories=report.memories,
    )


def _thread_routes(path: str, name: str) -> Iterable[AgentRoute]:
    """Yield the routes of a thread: the main agent's, or that of the subagent in the path."""
    item_path = f"{path}/items/{{item_id}}"
    item_type = wire.ThreadItem
    return (
        Route("GET", f"{path}/items", _list_items, f"list{name}_items", "List the thread's messages.", None,
              wire.ItemList, query=_PAGE),
        Route("GET", item_path, _get_item, f"get{name}_item", "Retrieve a message.", None, item_type),
        Route("POST", f"{item_path}/delivered", _deliver_item, f"deliver{name}_item",
              "Mark a message as delivered to a device.", None, item_type),
        Route("POST", f"{item_path}/reaction", _set_reaction, f"react_to{name}_item", "React to a message.",
              wire.ReactionRequest, item_type),
        Route("DELETE", f"{item_path}/reaction", _drop_reaction, f"drop{name}_reaction", "Remove a reaction.", None,
              item_type),
        Route("POST", f"{path}/chat", StreamHandler(_chat_stream), f"chat{name}",
              "Send a message to the agent and stream its turn.", wire.ChatRequest, "text/event-stream",
              headers=(IDEMPOTENCY_KEY,), outcome=_CHAT_EVENTS),
    )  # fmt: skip


AGENT_ROUTES: Final[tuple[AgentRoute, ...]] = (
    Route("POST", f"{ROOT}/init", _init_agent, "init_agent", "Create the user's agent, or return an existing one.",
          wire.InitRequest, wire.AgentAnswer),
    Route("GET", ROOT, _get_agent, "get_agent", "Retrieve the agent.", None, wire.AgentAnswer),
    Route("DELETE", ROOT, _delete_main, "delete_agent", "Erase the agent and all of its data.", None,
          wire.DeletionAnswer, SurfaceAccess.OWNER, query=("dry_run",)),
    Route("GET", f"{ROOT}/config", _get_config, "get_agent_config", "Retrieve the agent's settings.", None,
          wire.AgentConfig),
    Route("PUT", f"{ROOT}/config", _put_config, "put_agent_config", "Update the agent's settings.", wire.ConfigChange,
          wire.AgentConfig),
    Route("GET", f"{ROOT}/preferences", _get_preferences, "get_agent_preferences", "Retrieve the preferences.", None,
          UserPreferences),
    Route("PATCH", f"{ROOT}/preferences", _change_preferences, "change_agent_preferences", "Update the preferences.",
          wire.PreferencesChange, UserPreferences),
    Route("GET", f"{ROOT}/subagents", _list_subagents, "list_subagents", "List the subagents.", None, wire.SubagentList,
          query=("created_by",)),
    Route("POST", f"{ROOT}/subagents", _make_subagent, "make_subagent", "Create a subagent.", wire.SubagentRequest,
          wire.AgentAnswer),
    Route("GET", f"{ROOT}{_SUB}", _get_subagent, "get_subagent", "Retrieve a subagent.", None, wire.AgentAnswer),
    Route("DELETE", f"{ROOT}{_SUB}", _delete_subagent, "delete_subagent", "Erase a subagent and its thread.", None,
          wire.DeletionAnswer, query=("dry_run",)),
    *_thread_routes(ROOT, ""),
    *_thread_routes(f"{ROOT}{_SUB}", "_subagent"),
)  # fmt: skip


_PATH: Final = "/agent"
_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


def page_surfaces(service: AgentService, /) -> tuple[Surface, ...]:
    """Return the surface of the page. The page itself is public; the data it shows is not."""
    is_open = isinstance(service.admission.authenticator, DevelopmentCallers)
    body = service.settings.page if service.settings.page is not None else _usual_page(is_open=is_open)
    headers = {
        "Content-Security-Policy": page_policy(body),
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
    }

    async def page(request: Request) -> Response:
        service.settings.require_on()
        return cached_response(request.headers, body, media_type="text/html; charset=utf-8", more=headers)

    route = Route(
        "GET", _PATH, page, "agent_page", "Serve the chat page of the agent.", None, "text/html",
        SurfaceAccess.PUBLIC, headers=("If-None-Match",), outcome="The page.",
    )  # fmt: skip
    return build_surfaces((route,), request_app, group="pages")


@cache
def _usual_page(*, is_open: bool) -> bytes:
    """Return the default page. If the server requires no key, the page is marked and shows no form for one."""
    body = (files("elytron_agent.service.routes") / "chat_page.html").read_bytes()
    return body.replace(b'<html lang="en">', b'<html lang="en" data-access="open">', 1) if is_open else body


def page_policy(body: bytes, /) -> str:
    """Return a content security policy that allows only the page's own scripts and styles, by their digests."""
    allowed_sources = {"script": ["'none'"], "style": ["'none'"]}
    for code_kind, inline_code in _INLINE.findall(body):
        digest = base64.b64encode(hashlib.sha256(inline_code).digest()).decode()
        allowed_sources[code_kind.decode()] = [
            *filter("'none'".__ne__, allowed_sources[code_kind.decode()]),
            f"'sha256-{digest}'",
        ]
    return (
        f"default-src 'none'; script-src {' '.join(allowed_sources['script'])};"
        f" style-src {' '.join(allowed_sources['style'])};"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
