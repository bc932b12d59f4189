"""The channel of a user's events: one stream for all devices, which goes on where a reader stopped; and its usage."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from typing import Final

from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_agent.service import limits
from elytron_agent.service.agent_service import (
    ROOT,
    AgentCall,
    AgentRoute,
    AgentService,
    AgentStream,
    route_surface,
    stream_surface,
)
from elytron_agent.service.companion import UserAgents
from elytron_agent.service.event_log import event_place
from elytron_agent.service.thread_items import ThreadItems
from elytron_agent.service.turn_events import FeedEvent
from elytron_agent.service.wire import AgentEventData, AgentEventKind, AgentUsage
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError
from elytron_core.model import Value

_DESCRIPTION: Final = SurfaceDescription(
    "agent_events",
    "Follow what happens with the user's agents.",
    None,
    "text/event-stream",
    ("Last-Event-ID",),
    ("after",),
    answer="The events of chats, on every device, and `agent.gap`.",
)


def event_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the route of the channel, and that of the usage by the ends of turns in it."""
    yield stream_surface(service, "GET", f"{ROOT}/events", event_stream, _DESCRIPTION)
    told = SurfaceDescription("agent_usage", "Count the turns and tokens of the last day.", None, AgentUsage)
    yield route_surface(service, AgentRoute("GET", f"{ROOT}/usage", agent_usage, told))


async def agent_usage(call: AgentCall) -> Value:
    """Return the usage of the last day, by the turns whose ends are in the log."""
    await call.user.enabled()
    since = Instant(call.service.context.clock.now() - limits.EVENTS_KEPT_S * 1000)
    _, entries = await call.service.log(call.user).after(0)
    failed = sum(entry.kind is AgentEventKind.ERROR for entry in entries)
    ends = [entry for entry in entries if entry.kind is AgentEventKind.DONE]
    used = [entry.usage for entry in ends if entry.usage is not None]
    return AgentUsage(
        since=since,
        turns=len(ends) + failed,
        failed=failed,
        steps=sum(usage.steps for usage in used),
        calls=sum(usage.calls for usage in used),
        input_tokens=sum(usage.input_tokens for usage in used),
        output_tokens=sum(usage.output_tokens for usage in used),
    )


async def event_stream(call: AgentCall) -> AgentStream:
    """Return the events behind `Last-Event-ID`, else those from now on."""
    headers, query = call.request.headers, call.request.query_params
    asked = event_place(headers.get("last-event-id") or query.get("after"))
    await call.user.enabled()
    place = asked if asked is not None else await call.service.log(call.user).last()
    threads: dict[str, str] = {}

    async def written(event: FeedEvent) -> None:
        thread = threads.pop(event.id, None)
        if thread is not None and event.data.message_id is not None:
            user, at = call.user, call.service.context.clock.now()
            with suppress(ElytronError):  # it was erased meanwhile, or the store does not answer
                items = ThreadItems(user.memory, user.records, user.scope, agent=thread)
                await items.deliver(event.data.message_id, at=at)

    opening = b"retry: %d\nid: %d\n\n" % (limits.EVENTS_RETRY_MS, place)
    return AgentStream(
        _user_events(call.service, call.user, place, threads),
        opening=opening,
        written=written,
        silence_s=call.service.settings.heartbeat_s,
    )


async def _user_events(
    service: AgentService, user: UserAgents, place: int, threads: dict[str, str]
) -> AsyncGenerator[FeedEvent]:
    """Yield events as they come, with the threads of messages by their ids in `threads`.

    This process wakes at its own; those of others are looked for.
    """
    log, loop = service.log(user), asyncio.get_running_loop()
    look_at = loop.time()
    while True:
        changed = service.context.commits.next(user.space)
        if loop.time() >= look_at:
            await service.look_at_all(user)
            look_at = loop.time() + limits.EVENTS_LOOK_S
        gap, entries = await log.after(place)
        if gap is not None:
            data = AgentEventData(first=gap.first, last=gap.last, reason=gap.reason)
            yield FeedEvent(AgentEventKind.GAP, data, str(gap.last))
            place = gap.last if gap.reason == "expired" else 0
        for entry in entries:
            place = entry.sequence
            shown = await log.shown(entry)
            if entry.kind is AgentEventKind.MESSAGE and not shown.data.is_erased:
                threads[shown.id] = entry.thread
            yield shown
        if gap is None and not entries:
            try:
                async with asyncio.timeout(limits.EVENTS_POLL_S):
                    await changed.wait()
            except TimeoutError:
                continue
