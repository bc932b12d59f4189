"""Keys that ended: erased, revoked and rotated ones open nothing again, whatever is made under the same name."""

import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.gateway.asking import add, texts

import elytron
from elytron import FileKeys
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_core.clock import FrozenClock
from elytron_core.errors import Unauthorized
from elytron_core.ids import SpaceId
from elytron_core.planes.space import PrincipalKind
from elytron_gateway.accounts import UserKeys
from elytron_gateway.service import MemoryGateway

pytestmark = pytest.mark.anyio

Opening = Callable[[], AbstractAsyncContextManager[elytron.MemoryRuntime]]


@pytest.fixture(params=["sqlite", "file", "sealed"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock) -> Opening:
    """Open one durable store anew at each call."""
    keys = FileKeys.create(tmp_path / "keys.json") if request.param == "sealed" else None
    place = str(tmp_path / "store") + ("/" if request.param == "file" else ".db")
    secret = None if keys is not None else "a secret that lies elsewhere, " * 2
    return lambda: elytron.open(place, space=None, clock=clock, keys=keys, credential_secret=secret)


async def refused(gateway: MemoryGateway, key: str) -> bool:
    """Tell whether a key opens nothing, neither with a user's id nor by itself."""
    try:
        await UserKeys(gateway.users).authenticate(f"Bearer {key}")
    except Unauthorized:
        with pytest.raises(Unauthorized):
            await gateway.users.authenticate("ada", key)
        return True
    return False


async def test_no_key_that_ended_opens_anything_again(opened: Opening) -> None:
    ended: list[str] = []
    for _ in range(2):
        async with opened() as memory:
            users = MemoryGateway(memory).users
            ended.append((await users.create("ada"))[1])
            ended.append(await users.rotate("ada"))
            await users.revoke("ada")
            ended.append((await users.create("ada"))[1])
        async with opened() as memory:
            await MemoryGateway(memory).erase_user("ada")
    async with opened() as memory:
        gateway = MemoryGateway(memory)
        (_, key) = await gateway.users.create("ada")
        await gateway.add(add({"user_id": "ada", "user_key": key}, "The boiler code is on the fridge."))
        assert [await refused(gateway, one) for one in (*ended, key)] == [True] * len(ended) + [False]
        assert len({*ended, key}) == len(ended) + 1
        assert await gateway.users.create("ada") == (await gateway.users.find("ada"), key)


async def test_behind_an_older_copy_no_key_is_made_that_ended_since(tmp_path: Path, clock: FrozenClock) -> None:
    place, older = tmp_path / "store.db", tmp_path / "older.db"
    async with elytron.open(str(place), space=None, clock=clock) as memory:
        await MemoryGateway(memory).users.create("ada")
    shutil.copy(place, older)
    async with elytron.open(str(place), space=None, clock=clock) as memory:
        ended = [await MemoryGateway(memory).users.rotate("ada") for _ in range(3)]
    async with elytron.open(str(older), space=None, clock=clock) as memory:
        made = [await MemoryGateway(memory).users.rotate("ada") for _ in range(3)]
    assert not {*ended} & {*made}


async def test_an_erasure_ends_access_keys_for_the_users_spaces_and_spares_others(
    gateway: MemoryGateway, memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    access = AccessKeys(memory.context)
    await gateway.users.create("ada")
    issued = {
        space: await access.add(AccessAddRequest(kind=PrincipalKind.DEVICE, space=SpaceId(space), label="phone"))
        for space in ("ada", "adam")
    }
    await gateway.erase_user("ada")
    clock.advance(60_000)
    assert (await access.authenticate(f"Bearer {issued['adam'].key}")).space == "adam"
    with pytest.raises(Unauthorized):
        await access.authenticate(f"Bearer {issued['ada'].key}")
    assert [key.space for key in (await access.list()).items] == ["adam"]


async def test_what_a_key_wrote_past_the_gateway_is_erased_with_its_user(
    gateway: MemoryGateway, memory: elytron.MemoryRuntime
) -> None:
    (_, key) = await gateway.users.create("ada")
    principal = await UserKeys(gateway.users).authenticate(f"Bearer {key}")
    await memory.add("The boiler code is on the fridge.", user_id=principal.space)
    signed = await gateway.erase_user("ada")
    assert set(signed.report.removed) == {"ada"}
    (_, key) = await gateway.users.create("ada")
    assert await texts(gateway, {"user_id": "ada", "user_key": key}, "boiler", scope=["all_user_memory"]) == []
