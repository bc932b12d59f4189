"""Excess load is refused early, and nobody waits behind another caller's thousand calls."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from elytron_adapter.access_keys import Principal
from elytron_adapter.admission_control import FairPlaces, LoadBounds, NoShedding
from elytron_core.errors import Overloaded, RateLimited
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio

ADA = Principal(id="ada", kind=PrincipalKind.USER)
BOB = Principal(id="bob", kind=PrincipalKind.USER)
OPERATOR = Principal(id="ops", kind=PrincipalKind.OPERATOR)


def places(**bounds: float) -> FairPlaces:
    return FairPlaces(LoadBounds(**({"calls_per_minute": 0, "wait_s": 30} | bounds)))  # pyright: ignore[reportArgumentType]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_single_users_machine_has_slots_for_all_calls() -> None:
    async with NoShedding().place(ADA), NoShedding().place(ADA):
        pass


async def test_a_caller_over_the_rate_is_told_when_to_retry() -> None:
    full = places(calls_per_minute=2)
    for _ in range(2):
        async with full.place(ADA):
            pass
    with pytest.raises(RateLimited) as refused:
        async with full.place(ADA):
            pass
    assert refused.value.details()["retry_after_s"]
    async with full.place(BOB):
        pass
    for _ in range(5):
        async with full.place(OPERATOR):
            pass


async def test_calls_of_a_minute_ago_count_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 60.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    few = places(calls_per_minute=4)

    async def answered() -> int:
        for number in range(9):
            try:
                async with few.place(ADA):
                    pass
            except RateLimited:
                return number
        return 9

    assert await answered() == 4
    now = 119.0
    assert await answered() == 0
    now = 150.0
    assert await answered() == 2, "half of the minute before still counts"
    now = 400.0
    assert await answered() == 4, "two minutes later nothing does"


@pytest.mark.parametrize("most", [1, 5, 100])
async def test_a_caller_who_retries_after_the_stated_time_is_admitted(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 61.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    few = places(calls_per_minute=most)
    waits: list[int] = []
    for _ in range(most + 20):
        try:
            async with few.place(ADA):
                pass
        except RateLimited as refused:
            waits.append(refused.retry_after_s)
            now += refused.retry_after_s
            await asyncio.sleep(0)
            async with few.place(ADA):
                pass
    assert 0 < min(waits) <= max(waits) <= 90


async def test_a_waiting_caller_is_admitted_when_a_slot_is_free() -> None:
    one = places(running=1)
    order: list[str] = []

    async def call(who: Principal) -> None:
        async with one.place(who):
            order.append(who.id)
            await settle()

    async with asyncio.TaskGroup() as group:
        for who in (ADA, ADA, ADA, BOB):
            group.create_task(call(who))
    assert order == ["ada", "ada", "bob", "ada"], "principals take turns"
    assert (one.running, one.waiting) == (0, 0)


async def test_a_principal_has_a_limited_number_of_slots() -> None:
    fair = places(running=4, running_each=2)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(fair.place(ADA))
        waiting = asyncio.create_task(fair.take(ADA))
        await settle()
        assert (fair.running, fair.waiting) == (2, 1)
        await stack.enter_async_context(fair.place(BOB))
        assert fair.running == 3
        waiting.cancel()
        await asyncio.wait([waiting])
        assert fair.waiting == 0


@pytest.mark.parametrize("bounds", [{"waiting": 1}, {"waiting_each": 1}])
async def test_calls_beyond_the_queue_limit_are_shed_immediately(bounds: dict[str, float]) -> None:
    full = places(running=1, **bounds)
    async with full.place(ADA):
        waiting = asyncio.create_task(full.take(ADA))
        await settle()
        with pytest.raises(Overloaded):
            await full.take(ADA)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_caller_who_waited_too_long_is_told_to_retry() -> None:
    full = places(running=1, wait_s=0.001)
    async with full.place(ADA):
        with pytest.raises(Overloaded):
            await full.take(BOB)
    assert (full.running, full.waiting) == (0, 0)


async def test_a_slot_granted_to_a_cancelled_caller_goes_to_the_next() -> None:
    full = places(running=1)
    await full.take(ADA)
    gone, next_one = asyncio.create_task(full.take(BOB)), asyncio.create_task(full.take(ADA))
    await settle()
    full.leave(ADA)  # BOB is about to be admitted
    gone.cancel()  # but he is cancelled before he learns of it
    await asyncio.wait([gone, next_one])
    assert gone.cancelled()
    assert next_one.done()
    assert full.running == 1


async def test_calls_that_never_wait_are_shed_when_the_event_loop_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    busy = places(running=2, lag_s=1)
    shed = 0

    async def call() -> None:
        nonlocal now, shed
        try:
            async with busy.place(ADA):
                now += 0.6
        except Overloaded:
            shed += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(call())
    assert shed == 8
    await call()
    assert shed == 8


async def test_paused_calls_queue_and_then_start_in_order() -> None:
    free = places(running=2, waiting_each=2)
    order: list[str] = []

    async def call(who: Principal) -> None:
        async with free.place(who):
            order.append(who.id)

    with free.hold_calls():
        calls = [asyncio.create_task(call(who)) for who in (ADA, BOB, ADA)]
        await settle()
        assert (order, free.waiting) == ([], 3)
        with pytest.raises(Overloaded):
            await free.take(ADA)
    await asyncio.gather(*calls)
    assert (order, free.running, free.waiting) == (["ada", "bob", "ada"], 0, 0)
