"""The schedule repository: its limits, and how it handles jobs in an unexpected state."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.agent.service.served import AT, served

import elytron
from elytron.jobs.queue import find_job, move_job
from elytron_agent.service.companion import KnownAgent, ServiceSettings, UserAgents
from elytron_agent.service.schedules.schedule_repository import (
    KIND,
    IntervalRule,
    OneOffRule,
    RunState,
    ScheduleRepository,
    ScheduleRequest,
    ScheduleRun,
    ScheduleState,
    job_name,
)
from elytron_agent.service.wire import InitRequest
from elytron_core import limits as core_limits
from elytron_core.clock import FrozenClock, Instant, format_instant
from elytron_core.errors import LimitExceeded, NotFound
from elytron_core.ids import SpaceId
from elytron_core.policy import job_states

pytestmark = pytest.mark.anyio
SPACE = SpaceId("ada")


@asynccontextmanager
async def repository_of_ada(clock: FrozenClock) -> AsyncGenerator[tuple[ScheduleRepository, KnownAgent, UserAgents]]:
    """Yield the repository of a user with an agent."""
    async with elytron.open("memory:", space=None, clock=clock) as memory:
        user = UserAgents(memory.context, SPACE, ServiceSettings(models=("chat:m",)), caller="test")
        known = await user.init(InitRequest())
        yield ScheduleRepository(user), known, user


def once(minutes: int) -> ScheduleRequest:
    """Return a request for something after the clock's first time."""
    return ScheduleRequest(task="Knit.", rule=OneOffRule(at=format_instant(Instant(AT + minutes * 60_000))))


async def test_active_schedules_are_limited_and_a_finished_one_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core_limits, "JOBS_ACTIVE_OF_KIND", 3)
    async with repository_of_ada(FrozenClock(AT)) as (repository, known, _):
        hourly = ScheduleRequest(task="Knit.", rule=IntervalRule(seconds=3_600))
        made = [await repository.create(hourly, known) for _ in range(core_limits.JOBS_ACTIVE_OF_KIND)]
        with pytest.raises(LimitExceeded) as refused:
            await repository.create(hourly, known)
        await repository.cancel(made[0].stored.id)
        await repository.create(hourly, known)
    assert refused.value.limit == core_limits.JOBS_ACTIVE_OF_KIND


async def test_the_oldest_finished_schedules_are_removed_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_agent.service.schedules.schedule_repository.SCHEDULES_OVER", 6)
    async with repository_of_ada(FrozenClock(AT)) as (repository, known, _):
        for at in range(7):
            made = (await repository.create(once(at + 1), known)).stored
            assert made.next_due is not None
            run = ScheduleRun(due_at=made.next_due, state=RunState.COMPLETED)
            assert (await repository.advance(made.id, run)).state is ScheduleState.OVER
        left = await repository.list()
        assert [each.stored.runs[-1].due_at for each in left] == [AT + minutes * 60_000 for minutes in (4, 5, 6, 7)]
        gone = await repository.cancel(left[0].stored.id)
        with pytest.raises(NotFound):
            await repository.read(gone.stored.id)


async def test_the_end_of_an_outdated_or_unknown_run_changes_nothing() -> None:
    async with repository_of_ada(FrozenClock(AT)) as (repository, known, _):
        made = (await repository.create(once(5), known)).stored
        await repository.advance(made.id, ScheduleRun(due_at=AT, state=RunState.COMPLETED))
        await repository.give_up(made, AT, is_done=True)
        assert (await repository.read(made.id)).stored == made
        with pytest.raises(NotFound):
            await repository.change("019e7044-8807-7000-970c-000000000000", lambda each: each)


async def test_a_schedule_whose_job_was_cancelled_has_failed_after_a_repair() -> None:
    async with repository_of_ada(FrozenClock(AT)) as (repository, known, user):
        made = (await repository.create(once(5), known)).stored
        over = (await repository.create(once(3), known)).stored
        await repository.advance(over.id, ScheduleRun(due_at=over.next_due or AT, state=RunState.COMPLETED))
        context = user.memory.context
        job = await find_job(context, SPACE, KIND, job_name(made.id, made.next_due or AT))
        assert job is not None
        await move_job(context, SPACE, job.id, lambda each: job_states.cancel_job(each, at=AT))
        (given_up,) = await repository.repair()
        await repository.give_up(given_up, made.next_due or AT, is_done=False)
        (failed, completed) = sorted((each.stored for each in await repository.list()), key=lambda each: each.completed)
        assert not await repository.repair()
    assert (failed.failed, failed.state, failed.runs[0].error) == (1, ScheduleState.OVER, job_states.NEVER_ENDED)
    assert (completed.completed, completed.failed) == (1, 0)


async def test_deleting_a_subagent_deletes_only_its_schedules() -> None:
    async with served(runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        chef = await ada.made("POST", "/subagents", {"name": "chef", "purpose": "Cook."})
        rule = {"type": "interval", "seconds": 3_600}
        own = await ada.made("POST", "/schedules", {"task": "Write.", "rule": rule})
        await ada.made("POST", "/schedules", {"task": "Cook.", "rule": rule, "agent_id": chef["id"]})
        await ada.made("DELETE", f"/subagents/{chef['id']}")
        left = (await ada.made("GET", "/schedules"))["data"]
        zone = await ada.made("PATCH", "/preferences", {"timezone": "Asia/Tokyo"})
        same = (await ada.made("GET", "/schedules"))["data"]
    assert ([each["id"] for each in left], zone["timezone"]) == ([own["id"]], "Asia/Tokyo")
    assert same == left  # an interval has no time zone to follow
