"""Ended keys: erased, revoked, and rotated ones never work again, whatever is created under the same name."""

import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.gateway.asking import add, texts

import elytron
from elytron import FileKeys
from elytron.transfer.migration import copy_store
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_core.clock import FrozenClock
from elytron_core.errors import AlreadyExists, Unauthorized
from elytron_core.ids import SYSTEM_SPACE, SeededIds, SpaceId
from elytron_core.planes.servers.gateway import KEYS, USERS, GatewayUser, KeyName
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_gateway.collection import CollectionRepository, commit_changes, record_of
from elytron_gateway.service import MemoryGateway
from elytron_gateway.users import UserKeys, derived_user_key

pytestmark = pytest.mark.anyio

Opening = Callable[[], AbstractAsyncContextManager[elytron.MemoryRuntime]]


@pytest.fixture(params=["sqlite", "file", "sealed"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock) -> Opening:
    """Reopen one durable store at each call."""
    keys = FileKeys.create(tmp_path / "keys.json") if request.param == "sealed" else None
    place = str(tmp_path / "store") + ("/" if request.param == "file" else ".db")
    secret = None if keys is not None else "a secret that lies elsewhere, " * 2
    return lambda: elytron.open(place, space=None, clock=clock, keys=keys, credential_secret=secret)


async def refused(gateway: MemoryGateway, key: str) -> bool:
    """Return whether a key opens nothing, neither with a user's id nor by itself."""
    try:
        await UserKeys(gateway.users).authenticate(f"Bearer {key}")
    except Unauthorized:
        with pytest.raises(Unauthorized):
            await gateway.users.authenticate("ada", key)
        return True
    return False


async def test_an_ended_key_never_works_again(opened: Opening) -> None:
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


async def test_an_older_copy_issues_no_key_that_ended_since(tmp_path: Path, clock: FrozenClock) -> None:
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


async def test_data_written_outside_the_gateway_is_erased_with_its_user(
    gateway: MemoryGateway, memory: elytron.MemoryRuntime
) -> None:
    (_, key) = await gateway.users.create("ada")
    principal = await UserKeys(gateway.users).authenticate(f"Bearer {key}")
    await memory.add("The boiler code is on the fridge.", user_id=principal.space)
    signed = await gateway.erase_user("ada")
    assert set(signed.report.removed) == {"ada"}
    (_, key) = await gateway.users.create("ada")
    assert await texts(gateway, {"user_id": "ada", "user_key": key}, "boiler", scope=["all_user_memory"]) == []


async def earlier_user(memory: elytron.MemoryRuntime, user_id: str) -> tuple[str, str]:
    """Store a user as earlier builds did, with a key derived from the store's secret; return the key and the salt."""
    record = await record_of(memory.context, SYSTEM_SPACE)
    salt = memory.context.ids.secret(32).hex()
    user = GatewayUser(user_id=user_id, created_at=memory.context.clock.now(), salt=salt)
    key = derived_user_key(bytes.fromhex(record.secret), user)
    users = CollectionRepository(memory.context, USERS, GatewayUser)
    keys = CollectionRepository(memory.context, KEYS, KeyName)
    await commit_changes(
        memory.context,
        SYSTEM_SPACE,
        users.put(record.tag("gateway user", user_id), user, expects=0),
        keys.put(record.tag("gateway key", key), KeyName(user_id=user_id), expects=0),
    )
    return key, salt


@pytest.mark.parametrize("place", ["m.db", "m/"])
async def test_an_older_key_works_until_it_is_rotated_and_cannot_be_derived_again(
    place: str, tmp_path: Path, clock: FrozenClock
) -> None:
    url = f"{tmp_path}/{place}"
    async with elytron.open(url, space=None, clock=clock) as memory:
        earlier = {name: await earlier_user(memory, name) for name in ("ada", "bob")}
    async with elytron.open(url, space=None, clock=clock) as memory:
        users = MemoryGateway(memory).users
        for name, (key, _) in earlier.items():
            assert (await users.authenticate(name, key)).is_computable
        with pytest.raises(AlreadyExists):
            await users.create("ada")
        assert await users.count_computable() == 2
        renewed = await users.rotate("ada")
        assert await refused(MemoryGateway(memory), earlier["ada"][0])
        assert (await users.authenticate("ada", renewed)).is_computable is False
        assert await users.count_computable() == 1
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name, (_, salt) in earlier.items() if salt.encode() in stored] == []


async def test_copying_a_sealed_store_to_a_plain_one_reveals_no_key(tmp_path: Path, clock: FrozenClock) -> None:
    keys = FileKeys.create(tmp_path / "keys.json")
    async with elytron.open(str(tmp_path / "sealed.db"), space=None, clock=clock, keys=keys) as memory:
        (user, key) = await MemoryGateway(memory).users.create("ada")
        assert await MemoryGateway(memory).users.create("ada") == (user, key)
        async with elytron.open(str(tmp_path / "plain.db"), space=None, clock=clock) as plain:
            await copy_store(memory.context.store, plain.context.store, ids=SeededIds())
    async with elytron.open(str(tmp_path / "plain.db"), space=None, clock=clock) as plain:
        assert (await MemoryGateway(plain).users.authenticate("ada", key)).is_computable
    assert user.salt.encode() not in (tmp_path / "plain.db").read_bytes()
