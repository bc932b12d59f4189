"""Clients of the application, in this process and without a socket."""

from collections.abc import AsyncIterator

import httpx
import pytest

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys, DevelopmentCallers
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.model import Value
from elytron_core.planes.space import PrincipalKind
from elytron_http_shell import create_app


class Keys(Value):
    """One key of each kind in the space "ada", and a user's in the space "bob"."""

    operator: str
    user: str
    device: str
    stranger: str


@pytest.fixture
async def runtime() -> AsyncIterator[MemoryRuntime]:
    async with elytron.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        yield memory


@pytest.fixture
async def client(runtime: MemoryRuntime) -> AsyncIterator[httpx.AsyncClient]:
    """Connect to a server in development mode."""
    transport = httpx.ASGITransport(create_app(runtime, authenticator=DevelopmentCallers()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as connected:
        yield connected


@pytest.fixture
async def keys(runtime: MemoryRuntime) -> Keys:
    kept = AccessKeys(runtime.context)

    async def made(kind: PrincipalKind, space: str | None) -> str:
        asked = AccessAddRequest.model_validate({"kind": kind, "space": space, "label": f"{kind} of {space}"})
        return (await kept.add(asked)).key

    return Keys(
        operator=await made(PrincipalKind.OPERATOR, None),
        user=await made(PrincipalKind.USER, "ada"),
        device=await made(PrincipalKind.DEVICE, "ada"),
        stranger=await made(PrincipalKind.USER, "bob"),
    )


@pytest.fixture
async def server(runtime: MemoryRuntime) -> AsyncIterator[httpx.AsyncClient]:
    """Connect to a server that asks for keys."""
    transport = httpx.ASGITransport(create_app(runtime))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as connected:
        yield connected


def bearer(key: str) -> dict[str, str]:
    """Return the header that presents `key`."""
    return {"Authorization": f"Bearer {key}"}
