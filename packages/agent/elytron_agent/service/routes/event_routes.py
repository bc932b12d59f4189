"""Routes for what reaches a user unprompted: the event stream, push subscriptions and schedules."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import urlsplit

from elytron_adapter.surface import Route
from elytron_agent import limits
from elytron_agent.service.agent_service import ROOT, AgentService
from elytron_agent.service.companion import AgentPart, UserAgents
from elytron_agent.service.events import FeedEvent, event_place
from elytron_agent.service.push import PushRepository, PushRequest, StoredPush
from elytron_agent.service.routes.agent_calls import AgentCall, AgentRoute, AgentStream, StreamHandler
from elytron_agent.service.schedules.schedule_repository import (
    KnownSchedule,
    ScheduleRepository,
    ScheduleRequest,
    ScheduleRule,
    ScheduleRun,
    ScheduleState,
)
from elytron_agent.service.thread_items import ThreadItems
from elytron_agent.service.wire import AgentEventData, AgentEventKind, AgentUsage
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError
from elytron_core.model import Value

EVENTS_POLL_S: Final = 1.0
"""How often the stream looks for events of other processes."""
EVENTS_LOOK_S: Final = 5.0
"""How often the stream checks for interrupted turns."""
EVENTS_RETRY_MS: Final = 2_000


async def _agent_usage(call: AgentCall) -> Value:
    """Return the usage of the last day, from the turns whose ends are in the log."""
    await call.user.enabled()
    oldest_instant = Instant(call.service.context.clock.now() - limits.EVENTS_KEPT_S * 1000)
    _, entries = await call.service.log(call.user).after(0)
    failed_count = sum(entry.kind is AgentEventKind.ERROR for entry in entries)
    end_entries = [entry for entry in entries if entry.kind is AgentEventKind.DONE]
    usages = [entry.usage for entry in end_entries if entry.usage is not None]
    return AgentUsage(
        since=oldest_instant,
        turns=len(end_entries) + failed_count,
        failed=failed_count,
        steps=sum(usage.steps for usage in usages),
        calls=sum(usage.calls for usage in usages),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
    )


async def _event_stream(call: AgentCall) -> AgentStream:
    """Return the events after `Last-Event-ID`, or those from now on."""
    headers, query = call.request.headers, call.request.query_params
    client_sequence = event_place(headers.get("last-event-id") or query.get("after"))
    await call.user.enabled()
    start_sequence = client_sequence if client_sequence is not None else await call.service.log(call.user).last()
    threads: dict[str, str] = {}

    async def written(event: FeedEvent) -> None:
        thread = threads.pop(event.id, None)
        if thread is not None and event.data.message_id is not None:
            user, at = call.user, call.service.context.clock.now()
            with suppress(ElytronError):  # it was erased meanwhile, or the store is unavailable
                items = ThreadItems(user.memory, user.records, user.scope, agent=thread)
                await items.deliver(event.data.message_id, at=at)

    opening = b"retry: %d\nid: %d\n\n" % (EVENTS_RETRY_MS, start_sequence)
    return AgentStream(
        _user_events(call.service, call.user, start_sequence, threads),
        opening=opening,
        write_callback=written,
        silence_s=call.service.settings.heartbeat_s,
    )


async def _user_events(
    service: AgentService, user: UserAgents, place: int, threads: dict[str, str]
) -> AsyncGenerator[FeedEvent]:
    """Yield events as they occur, and record the threads of messages by their ids in `threads`.

    Events of this process arrive immediately; those of others are polled.
    """
    log, loop = service.log(user), asyncio.get_running_loop()
    next_look_s = loop.time()
    while True:
        # Read this before checking, so that no commit in between is missed.
        commit_event = service.context.commits.next(user.space)
        if loop.time() >= next_look_s:
            await service.look_at_all(user)
            next_look_s = loop.time() + EVENTS_LOOK_S
        log_gap, entries = await log.after(place)
        if log_gap is not None:
            data = AgentEventData(first=log_gap.first, last=log_gap.last, reason=log_gap.reason)
            yield FeedEvent(AgentEventKind.GAP, data, str(log_gap.last))
            place = log_gap.last if log_gap.reason == "expired" else 0
        for entry in entries:
            place = entry.sequence
            event = await log.client_event(entry)
            if entry.kind is AgentEventKind.MESSAGE and not event.data.is_erased:
                threads[event.id] = entry.thread
            yield event
        if log_gap is None and not entries:
            try:
                async with asyncio.timeout(EVENTS_POLL_S):
                    await commit_event.wait()
            except TimeoutError:
                continue


_PUSH: Final = f"{ROOT}/push"


class PushAnswer(Value):
    """A subscription. A new webhook's `key` decrypts its previews, and `secret` verifies who sent them."""

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
    """A deleted subscription."""

    id: str
    object: Literal["agent.push.deleted"] = "agent.push.deleted"
    deleted: bool = True


async def _list_pushes(call: AgentCall) -> Value:
    repository = await _push_repository(call)
    return PushList(data=tuple(map(_push_answer, await repository.list())))


async def _make_push(call: AgentCall) -> Value:
    repository = await _push_repository(call)
    push = await repository.add(await call.body(PushRequest))
    if push.type == "web_push":
        return _push_answer(push)
    push_keys = {
        name: (await repository.secret(push, purpose)).hex() for name, purpose in (("key", "seal"), ("secret", "sign"))
    }
    return _push_answer(push).model_copy(update=push_keys)


async def _get_push_key(call: AgentCall) -> Value:
    repository = await _push_repository(call)
    return PushKeyAnswer(key=base64.urlsafe_b64encode(await repository.vapid_point()).rstrip(b"=").decode())


async def _delete_push(call: AgentCall) -> Value:
    push_id = call.part("push_id")
    await (await _push_repository(call)).remove(push_id)
    return PushDeleted(id=push_id)


async def _push_repository(call: AgentCall) -> PushRepository:
    call.service.settings.require_on(AgentPart.PUSH)
    await call.user.enabled()
    return PushRepository(call.user)


def _push_answer(push: StoredPush) -> PushAnswer:
    return PushAnswer(id=push.id, type=push.type, host=urlsplit(push.url).hostname or "", created_at=push.created_at)


_SCHEDULES: Final = f"{ROOT}/schedules"
_SCHEDULE: Final = f"{_SCHEDULES}/{{schedule_id}}"


class ScheduleAnswer(Value):
    """A schedule with its latest runs and the number of runs by outcome."""

    id: str
    object: Literal["agent.schedule"] = "agent.schedule"
    agent_id: str
    name: str
    task: str
    rule: ScheduleRule
    timezone: str | None = None
    """The schedule's own time zone; without one, it follows the user's."""
    created_by: str
    created_at: Instant
    state: ScheduleState
    next_due_at: Instant | None = None
    current: ScheduleRun | None = None
    runs: tuple[ScheduleRun, ...] = ()
    completed: int
    failed: int
    expired: int


class ScheduleList(Value):
    """The schedules, the next due first."""

    object: Literal["list"] = "list"
    data: tuple[ScheduleAnswer, ...]


class ScheduleDeleted(Value):
    """A deleted schedule."""

    id: str
    object: Literal["agent.schedule.deleted"] = "agent.schedule.deleted"
    deleted: bool = True


async def _list_schedules(call: AgentCall) -> Value:
    repository = await _schedule_repository(call)
    return ScheduleList(data=tuple(map(_schedule_answer, await repository.list())))


async def _make_schedule(call: AgentCall) -> Value:
    repository = await _schedule_repository(call)
    request = await call.body(ScheduleRequest)
    agent = await call.user.agent(request.agent_id)
    return _schedule_answer(await repository.create(request, agent))


async def _get_schedule(call: AgentCall) -> Value:
    return _schedule_answer(await (await _schedule_repository(call)).read(call.part("schedule_id")))


async def _delete_schedule(call: AgentCall) -> Value:
    schedule = await (await _schedule_repository(call)).cancel(call.part("schedule_id"))
    return ScheduleDeleted(id=schedule.stored.id)


async def _schedule_repository(call: AgentCall) -> ScheduleRepository:
    call.service.settings.require_on(AgentPart.SCHEDULES)
    await call.user.enabled()
    return ScheduleRepository(call.user)


def _schedule_answer(schedule: KnownSchedule) -> ScheduleAnswer:
    stored_schedule = schedule.stored
    return ScheduleAnswer(
        id=stored_schedule.id,
        agent_id=stored_schedule.agent_id,
        name=schedule.words.name,
        task=schedule.words.task,
        rule=stored_schedule.rule,
        timezone=stored_schedule.timezone,
        created_by=stored_schedule.created_by,
        created_at=stored_schedule.made_at,
        state=stored_schedule.state,
        next_due_at=stored_schedule.next_due,
        current=stored_schedule.current,
        runs=stored_schedule.runs,
        completed=stored_schedule.completed,
        failed=stored_schedule.failed,
        expired=stored_schedule.expired,
    )


EVENT_ROUTES: Final[tuple[AgentRoute, ...]] = (
    Route("GET", f"{ROOT}/events", StreamHandler(_event_stream), "agent_events",
          "Stream the events of the user's agents.", None, "text/event-stream", headers=("Last-Event-ID",),
          query=("after",), outcome="Chat events from every device, and `agent.gap`."),
    Route("GET", f"{ROOT}/usage", _agent_usage, "agent_usage", "Report the turns and tokens of the last day.", None,
          AgentUsage),
    Route("GET", _SCHEDULES, _list_schedules, "list_agent_schedules", "List the schedules.", None, ScheduleList),
    Route("POST", _SCHEDULES, _make_schedule, "make_agent_schedule",
          "Schedule a task for the agent, once or repeatedly.", ScheduleRequest, ScheduleAnswer),
    Route("GET", _SCHEDULE, _get_schedule, "get_agent_schedule", "Retrieve a schedule and its runs.", None,
          ScheduleAnswer),
    Route("DELETE", _SCHEDULE, _delete_schedule, "delete_agent_schedule", "Cancel a schedule.", None, ScheduleDeleted),
    Route("GET", _PUSH, _list_pushes, "list_agent_pushes", "List the push subscriptions.", None, PushList),
    Route("POST", _PUSH, _make_push, "make_agent_push", "Create a push subscription.", PushRequest, PushAnswer),
    Route("GET", f"{_PUSH}/key", _get_push_key, "get_agent_push_key",
          "Retrieve the public key for browser subscriptions.", None, PushKeyAnswer),
    Route("DELETE", f"{_PUSH}/{{push_id}}", _delete_push, "delete_agent_push", "Delete a push subscription.", None,
          PushDeleted),
)  # fmt: skip
