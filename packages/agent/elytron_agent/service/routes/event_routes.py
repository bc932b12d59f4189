"""The channel of a user's events: one stream for all devices, which goes on where a reader stopped."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from typing import Final

from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_agent.service import limits
from elytron_agent.service.agent_service import ROOT, AgentCall, AgentService, AgentStream, stream_surface
from elytron_agent.service.companion import UserAgents
from elytron_agent.service.event_log import event_place
from elytron_agent.service.thread_items import ThreadItems
from elytron_agent.service.turn_events import FeedEvent
from elytron_agent.service.wire import AgentEventData, AgentEventKind
from elytron_core.errors import ElytronError

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
    """Yield the route of the channel."""
    yield stream_surface(service, "GET", f"{ROOT}/events", event_stream, _DESCRIPTION)


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
        recheck_s=limits.EVENTS_RECHECK_S,
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
            look_at = loop.time() + limits.EVENTS_RECHECK_S
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
