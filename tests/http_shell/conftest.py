"""Clients of the application, in this process and without a socket."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import pytest
from tests.transports.nodes import AlternatingApp, opened_nodes

from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys, DevelopmentCallers
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell import create_app


class Keys(Value):
    """One key of each kind in the space "ada", and a user's key in the space "bob"."""

    operator: str
    user: str
    device: str
    stranger: str


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Sequence[MemoryRuntime]]:
    """Open the memory of one server, or of two nodes if the environment requests them."""
    async with opened_nodes(tmp_path, space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memories:
        yield memories


@pytest.fixture
def runtime(nodes: Sequence[MemoryRuntime]) -> MemoryRuntime:
    return nodes[0]


@pytest.fixture
async def client(nodes: Sequence[MemoryRuntime]) -> AsyncIterator[httpx.AsyncClient]:
    """Connect to a server in development mode."""
    apps = [create_app(memory, authenticator=DevelopmentCallers()) for memory in nodes]
    transport = httpx.ASGITransport(AlternatingApp(apps))
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
async def server(nodes: Sequence[MemoryRuntime]) -> AsyncIterator[httpx.AsyncClient]:
    """Connect to a server that requires keys."""
    transport = httpx.ASGITransport(AlternatingApp([create_app(memory) for memory in nodes]))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as connected:
        yield connected


def bearer(key: str) -> dict[str, str]:
    """Return the header that presents `key`."""
    return {"Authorization": f"Bearer {key}"}
