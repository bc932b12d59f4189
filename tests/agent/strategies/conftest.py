"""A gateway in this process, its user `ada`, and the transport to it."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.agent.places import AT
from tests.agent.strategies.host import Road

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_gateway.service import MemoryGateway
from elytron_gateway.wire import UserRequest
from elytron_http_shell import create_app


@pytest.fixture
async def shared() -> AsyncIterator[elytron.MemoryRuntime]:
    """The memory behind the gateway."""
    async with elytron.open("memory:", space=None, clock=FrozenClock(AT), ids=SeededIds()) as runtime:
        yield runtime


@pytest.fixture
def gateway(shared: elytron.MemoryRuntime) -> MemoryGateway:
    return MemoryGateway(shared)


@pytest.fixture
async def road(shared: elytron.MemoryRuntime, gateway: MemoryGateway, monkeypatch: pytest.MonkeyPatch) -> Road:
    """The transport to the gateway, with the key of its user."""
    app = create_app(shared, authenticator=DevelopmentCallers(), further=(gateway_surfaces(gateway),))
    found = Road(httpx.ASGITransport(app), key=(await gateway.create_user(UserRequest(user_id="ada"))).user_key)

    class Within(httpx.AsyncClient):
        def __init__(self, **options: Any) -> None:
            super().__init__(transport=found, **options)

    monkeypatch.setattr(httpx, "AsyncClient", Within)
    return found
