"""Routes of schedules: made, listed, shown with their runs, ended."""

from collections.abc import Iterable
from typing import Final, Literal

from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_agent.service.agent_service import ROOT, AgentCall, AgentRoute, AgentService, route_surface
from elytron_agent.service.companion import AgentPart
from elytron_agent.service.schedules.schedule_shelf import (
    KnownSchedule,
    ScheduleRequest,
    ScheduleRun,
    ScheduleShelf,
    ScheduleState,
)
from elytron_agent.service.schedules.schedule_times import ScheduleRule
from elytron_core.clock import Instant
from elytron_core.model import Value

_SCHEDULES: Final = f"{ROOT}/schedules"
_SCHEDULE: Final = f"{_SCHEDULES}/{{schedule_id}}"


class ScheduleAnswer(Value):
    """A schedule, with its latest runs and how many of them ended in which way."""

    id: str
    object: Literal["agent.schedule"] = "agent.schedule"
    agent_id: str
    name: str
    task: str
    rule: ScheduleRule
    timezone: str | None = None
    """Zone of its own; without one, it follows the user's."""
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
    """The schedules, those that are due next first."""

    object: Literal["list"] = "list"
    data: tuple[ScheduleAnswer, ...]


class ScheduleDeleted(Value):
    """A schedule that is gone."""

    id: str
    object: Literal["agent.schedule.deleted"] = "agent.schedule.deleted"
    deleted: bool = True


def schedule_routes(service: AgentService, /) -> Iterable[Surface]:
    """Yield the routes of schedules."""
    for route in _ROUTES:
        yield route_surface(service, route)


async def list_schedules(call: AgentCall) -> Value:
    """Return the schedules."""
    shelf = await _shelf_of(call)
    return ScheduleList(data=tuple(map(_schedule_answer, await shelf.list())))


async def make_schedule(call: AgentCall) -> Value:
    """Make a schedule."""
    shelf = await _shelf_of(call)
    asked = await call.body(ScheduleRequest)
    known = await call.user.agent(asked.agent_id)
    return _schedule_answer(await shelf.create(asked, known))


async def get_schedule(call: AgentCall) -> Value:
    """Return a schedule."""
    return _schedule_answer(await (await _shelf_of(call)).read(call.part("schedule_id")))


async def delete_schedule(call: AgentCall) -> Value:
    """End a schedule."""
    gone = await (await _shelf_of(call)).cancel(call.part("schedule_id"))
    return ScheduleDeleted(id=gone.stored.id)


async def _shelf_of(call: AgentCall) -> ScheduleShelf:
    call.service.settings.require_on(AgentPart.SCHEDULES)
    await call.user.enabled()
    return ScheduleShelf(call.user)


def _schedule_answer(known: KnownSchedule) -> ScheduleAnswer:
    stored = known.stored
    return ScheduleAnswer(
        id=stored.id,
        agent_id=stored.agent_id,
        name=known.words.name,
        task=known.words.task,
        rule=stored.rule,
        timezone=stored.timezone,
        created_by=stored.created_by,
        created_at=stored.made_at,
        state=stored.state,
        next_due_at=stored.next_due,
        current=stored.current,
        runs=stored.runs,
        completed=stored.completed,
        failed=stored.failed,
        expired=stored.expired,
    )


_ROUTES: Final = (
    AgentRoute("GET", _SCHEDULES, list_schedules,
               SurfaceDescription("list_agent_schedules", "List the schedules.", None, ScheduleList)),
    AgentRoute("POST", _SCHEDULES, make_schedule,
               SurfaceDescription("make_agent_schedule", "Have the agent do something later, or again and again.",
                                  ScheduleRequest, ScheduleAnswer)),
    AgentRoute("GET", _SCHEDULE, get_schedule,
               SurfaceDescription("get_agent_schedule", "Show a schedule with its runs.", None, ScheduleAnswer)),
    AgentRoute("DELETE", _SCHEDULE, delete_schedule,
               SurfaceDescription("delete_agent_schedule", "End a schedule.", None, ScheduleDeleted)),
)  # fmt: skip
