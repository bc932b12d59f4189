"""A bounded device that is full, or erases what it reads, can still revoke, erase, and export."""

from pathlib import Path

import pytest

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeyRequest, AccessKeys
from elytron_core.clock import FrozenClock
from elytron_core.errors import StoreBudgetExceeded
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_gateway.service import MemoryGateway

pytestmark = pytest.mark.anyio

ESP = "esp-embedded-sdk"


async def fill(memory: elytron.MemoryRuntime) -> int:
    """Write until there is no room; return the number of texts."""
    for number in range(1_000):
        try:
            await memory.add(f"text {number}", user_id="ada")
        except StoreBudgetExceeded:
            return number
    raise AssertionError("there is always room")


@pytest.mark.parametrize("url", ["embedded:", "embedded://{}/store"])
async def test_a_full_store_still_forgets_erases_ends_keys_and_exports(url: str, tmp_path: Path) -> None:
    clock = FrozenClock(step_ms=1)
    async with elytron.open(url.format(tmp_path), space="ada", clock=clock, profile=ESP) as memory:
        gateway = MemoryGateway(memory)
        for user in ("bob", "carol"):
            await gateway.users.create(user)
        keys = AccessKeys(memory.context)
        asked = AccessAddRequest(kind=PrincipalKind.DEVICE, space=SpaceId("ada"), label="phone")
        issued = await keys.add(asked)
        first, second = (await memory.add(["one", "two"])).ids
        await fill(memory)
        assert (await memory.forget(elytron.MemoryForgetRequest(ids=(first,)))).changed
        assert (await keys.revoke(AccessKeyRequest(id=issued.access.id))).revoked_at is not None
        await gateway.users.revoke("bob")
        await gateway.erase_user("carol")
        await memory.export(tmp_path / "all.elytron", include_private=True)
        assert (await memory.erase([first, second])).changed
        assert {"one", "two"}.isdisjoint(item.text for item in (await memory.list(limit=1_000)).items)


async def test_a_device_that_erases_what_it_reads_keeps_running() -> None:
    clock = FrozenClock(step_ms=1)
    async with elytron.open("embedded:", space="ada", clock=clock, profile=ESP) as memory:
        for number in range(400):
            (read,) = (await memory.add(f"reading {number}")).ids
            await memory.erase(read)
        assert (await memory.inspect()).sequence > 1_000
        assert await fill(memory) > 200
