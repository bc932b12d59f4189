"""A gateway over a runtime in memory, with two users."""

from collections.abc import AsyncIterator

import pytest

import elytron
from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SeededIds
from elytron_gateway.service import Gateway
from elytron_gateway.wire import UserRequest


@pytest.fixture
async def memory() -> AsyncIterator[elytron.MemoryRuntime]:
    clock = FrozenClock(Instant(1_781_172_177_000))
    async with elytron.open("memory:", space=None, clock=clock, ids=SeededIds()) as runtime:
        yield runtime


@pytest.fixture
def gateway(memory: elytron.MemoryRuntime) -> Gateway:
    return Gateway(memory)


@pytest.fixture
async def ada(gateway: Gateway) -> dict[str, str]:
    """Ada's credentials, as they stand in a body."""
    return (await gateway.create_user(UserRequest(user_id="ada"))).model_dump()


@pytest.fixture
async def bob(gateway: Gateway) -> dict[str, str]:
    return (await gateway.create_user(UserRequest(user_id="bob"))).model_dump()
