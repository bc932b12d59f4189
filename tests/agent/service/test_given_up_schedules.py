"""Schedules whose job was leased too often end as their turn did, and no turn answers after its schedule."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.agent.service.served import AT, ServedAgents, ServedUser, echo, served
from tests.agent.service.test_schedules import POLL, at, made, states, texts, until_over

from elytron.jobs.queue import find_job, move_job
from elytron_agent.limits import LEASE_SECONDS
from elytron_agent.service.companion import ServiceSettings, UserAgents
from elytron_agent.service.schedules.schedule_repository import (
    KIND,
    RunState,
    ScheduleRepository,
    ScheduleRun,
    job_name,
)
from elytron_core import limits as core_limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import Job

pytestmark = pytest.mark.anyio
ADA = SpaceId("ada")


async def use_up(server: ServedAgents, schedule: dict[str, Any]) -> None:
    """Make the job of a schedule due, with the maximum number of attempts."""
    context = server.memory.context
    job = await find_job(context, ADA, KIND, job_name(schedule["id"], Instant(schedule["next_due_at"])))
    assert job is not None

    def used_up(job: Job) -> Job:
        return job.model_copy(update={"attempts": core_limits.JOB_ATTEMPTS, "due_at": Instant(AT)})

    await move_job(context, ADA, job.id, used_up)


async def begun(server: ServedAgents, clock: FrozenClock) -> tuple[ServedUser, dict[str, Any]]:
    """Return a user and a schedule whose turn waits for the model."""
    server.model.gate = asyncio.Event()
    ada = await server.user("ada")
    await ada.made("POST", "/init")
    schedule = await made(ada, at(1))
    clock.advance(60_000)
    while not server.model.asked:
        await asyncio.sleep(0.01)
    return ada, schedule


async def test_a_turn_on_another_server_is_awaited(tmp_path: Path) -> None:
    clock, store = FrozenClock(AT, step_ms=1), f"sqlite:///{tmp_path}/m.db"
    async with served(store=store, clock=clock, **POLL) as first:
        ada, schedule = await begun(first, clock)
        await use_up(first, schedule)
        async with served(store=store, clock=clock, **POLL) as second:
            while await states(second) != ["dead_letter"]:
                await asyncio.sleep(0.01)
            assert first.model.gate is not None
            first.model.gate.set()
            over = await until_over(ServedUser(second.client, ada.key), schedule)
        thread = await texts(ada)
    assert (over["completed"], over["failed"]) == (1, 0)
    assert [role for role, _ in thread] == ["schedule", "assistant"]


async def test_a_turn_that_another_server_took_over_completes_its_schedule(tmp_path: Path) -> None:
    clock, store = FrozenClock(AT, step_ms=1), f"sqlite:///{tmp_path}/m.db"
    async with (
        served(store=store, clock=clock, **POLL) as first,
        served(store=store, clock=clock, runs_schedules=False) as second,
    ):
        ada, schedule = await begun(first, clock)
        clock.advance(round(LEASE_SECONDS * 1000) + 1)
        again = ServedUser(second.client, ada.key)
        while len(thread := await texts(again)) < 2:
            await asyncio.sleep(0.01)
        assert first.model.gate is not None
        first.model.gate.set()
        over = await until_over(ada, schedule)
    assert (over["completed"], over["failed"], over["runs"][0].get("error")) == (1, 0, None)
    assert [role for role, _ in thread] == ["schedule", "assistant"]


async def test_an_interrupted_turn_is_cancelled_and_produces_no_later_answer(tmp_path: Path) -> None:
    clock, store = FrozenClock(AT, step_ms=1), f"sqlite:///{tmp_path}/m.db"
    async with served(store=store, clock=clock, **POLL) as first:
        ada, schedule = await begun(first, clock)
    async with served(store=store, clock=clock, runs_schedules=False) as between:
        await use_up(between, schedule)
    clock.advance(round(LEASE_SECONDS * 1000) + 1)
    async with served(store=store, clock=clock, **POLL) as second:
        again = ServedUser(second.client, ada.key)
        over = await until_over(again, schedule)
        await again.chat("Are you there?")
        thread = await texts(again)
        asked = len(second.model.asked)
    assert (over["completed"], over["failed"], over["runs"][0]["error"]) == (0, 1, "never_ended")
    assert [role for role, _ in thread] == ["schedule", "user", "assistant"]
    assert asked == 1


async def test_a_turn_that_ended_before_its_job_has_completed_it(tmp_path: Path) -> None:
    clock, store = FrozenClock(AT, step_ms=1), f"sqlite:///{tmp_path}/m.db"
    async with served(echo, store=store, clock=clock, runs_schedules=False) as first:
        ada = await first.user("ada")
        await ada.made("POST", "/init")
        schedule = await made(ada, at(1))
        run = (await ada.chat("Water the plants."))[-1].data["run_id"]
        user = UserAgents(first.memory.context, ADA, ServiceSettings(models=("chat:m",)), caller="test")
        due = Instant(schedule["next_due_at"])
        current = ScheduleRun(due_at=due, state=RunState.RUNNING, attempts=8, run_id=run)
        await ScheduleRepository(user).change(schedule["id"], lambda each: each.model_copy(update={"current": current}))
        await use_up(first, schedule)
    async with served(store=store, clock=clock, **POLL) as second:
        over = await until_over(ServedUser(second.client, ada.key), schedule)
    assert (over["completed"], over["failed"], second.model.asked) == (1, 0, [])
