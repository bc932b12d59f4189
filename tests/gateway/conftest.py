"""A gateway over an in-memory runtime, with two users and an optional upstream server."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.gateway.asking import AT
from tests.gateway.everos import EverOs, EverOsServer

import elytron
from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SeededIds
from elytron_gateway.service import MemoryGateway
from elytron_gateway.wire import UserRequest


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(Instant(AT))


@pytest.fixture(scope="session")
def everos() -> Iterator[EverOsServer]:
    with EverOsServer() as server:
        yield server


@pytest.fixture
def server(everos: EverOsServer) -> EverOs:
    """An EverOS server without memories."""
    return everos.begin()


@pytest.fixture
async def memory(clock: FrozenClock) -> AsyncIterator[elytron.MemoryRuntime]:
    async with elytron.open("memory:", space=None, clock=clock, ids=SeededIds()) as runtime:
        yield runtime


@pytest.fixture
def gateway(memory: elytron.MemoryRuntime) -> MemoryGateway:
    return MemoryGateway(memory)


@pytest.fixture
async def ada(gateway: MemoryGateway) -> dict[str, str]:
    """Ada's credentials, as in a body."""
    return (await gateway.create_user(UserRequest(user_id="ada"))).model_dump()


@pytest.fixture
async def bob(gateway: MemoryGateway) -> dict[str, str]:
    return (await gateway.create_user(UserRequest(user_id="bob"))).model_dump()
