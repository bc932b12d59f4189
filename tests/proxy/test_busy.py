"""A busy memory: storing an answer waits for it, but not forever."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

import elytron
from elytron_adapter.access_keys import DEVELOPER, DevelopmentCallers, Principal
from elytron_adapter.admission_control import NoShedding
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.errors import Overloaded
from elytron_core.ids import SpaceId
from elytron_proxy import MemoryUse
from elytron_proxy.caller import ProxyCaller
from elytron_proxy.memory import COMMIT_ATTEMPTS, NAMESPACE, MemoryDown, ProxyMemory

pytestmark = pytest.mark.anyio
ADA = ProxyCaller(principal=DEVELOPER, space=SpaceId("ada"), request_id="r", use=MemoryUse.ON)
SHELF = (NAMESPACE, "shelf")


class Busy(NoShedding):
    """Has no room for that many calls."""

    def __init__(self, calls: int, /) -> None:
        self.calls = calls

    def place(self, principal: Principal, /) -> AbstractAsyncContextManager[None]:
        self.calls -= 1
        return _none() if self.calls >= 0 else super().place(principal)


@asynccontextmanager
async def _none() -> AsyncGenerator[None]:
    raise Overloaded
    yield


class Pauses(list[float]):
    """Waits that take no time."""

    async def __call__(self, seconds: float, /) -> None:
        self.append(seconds)


async def put(busy: Busy) -> tuple[bool, Pauses]:
    pauses = Pauses()
    async with elytron.open("memory:", space=None) as runtime:
        memory = ProxyMemory(
            CallerAdmission(OperationDispatcher(runtime), authenticator=DevelopmentCallers(), shedding=busy),
            pause=pauses,
        )
        await memory.put(ADA, SHELF, "key", {"a": 1}, ttl_s=60)
        return await memory.has(ADA, SHELF, "key"), pauses


async def test_storing_an_answer_waits_for_a_busy_memory() -> None:
    is_there, pauses = await put(Busy(3))
    assert is_there
    assert len(pauses) == 3
    assert pauses[0] < pauses[1] < pauses[2]


async def test_waiting_for_a_busy_memory_is_bounded() -> None:
    with pytest.raises(MemoryDown, match="overloaded"):
        await put(Busy(COMMIT_ATTEMPTS))


async def test_permanent_errors_are_not_awaited() -> None:
    async with elytron.open("memory:", space=None) as runtime:
        pauses = Pauses()
        memory = ProxyMemory(
            CallerAdmission(OperationDispatcher(runtime), authenticator=DevelopmentCallers()), pause=pauses
        )
        with pytest.raises(MemoryDown, match="invalid_input"):
            await memory.put(ADA, SHELF, "key", {"a": "x" * 300_000}, ttl_s=None)
        assert not await memory.has(ADA, SHELF, "key")
        assert pauses == []


async def test_finished_commits_are_forgotten() -> None:
    async with elytron.open("memory:", space=None) as memory:
        proxied = ProxyMemory(CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers()))
        with proxied.committing(ADA):
            pass
        for _ in range(2):
            with proxied.committing(ADA), proxied.committing(ADA):
                pass
        assert vars(proxied)["_pending"] == {}
