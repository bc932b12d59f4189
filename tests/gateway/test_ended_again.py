"""A restored older copy of a store: keys and users that ended since end again through the stored erasures."""

import shutil
from pathlib import Path

import pytest
from tests.gateway.asking import add

import elytron
from elytron.erasure.reapplication import FileErasures, erase_all_again, gather_all
from elytron_adapter.access_keys import AccessAddRequest, AccessKeyRequest, AccessKeys
from elytron_core.clock import FrozenClock
from elytron_core.errors import AlreadyExists, Unauthorized
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_gateway.service import MemoryGateway
from elytron_gateway.users import UserKeys

pytestmark = pytest.mark.anyio


async def opens(memory: elytron.MemoryRuntime, key: str) -> bool:
    keys = AccessKeys(memory.context) if key.startswith("ely_") else UserKeys(MemoryGateway(memory).users)
    try:
        await keys.authenticate(f"Bearer {key}")
    except Unauthorized:
        return False
    return True


async def test_only_keys_and_users_that_ended_since_the_backup_end_again(tmp_path: Path) -> None:
    place, older, clock = tmp_path / "store.db", tmp_path / "older.db", FrozenClock(step_ms=1)
    held: dict[str, str] = {}
    ids: dict[str, str] = {}
    async with elytron.open(str(place), space=None, clock=clock) as memory:
        gateway, access = MemoryGateway(memory), AccessKeys(memory.context)
        for user in ("ada", "bob", "carol", "dora"):
            held[user] = (await gateway.users.create(user))[1]
            await gateway.add(add({"user_id": user, "user_key": held[user]}, f"{user} likes tea."))
        for label, space in (("revoked", "bob"), ("rotated", "bob"), ("kept", "bob"), ("ada's", "ada")):
            asked = AccessAddRequest(kind=PrincipalKind.DEVICE, space=SpaceId(space), label=label)
            issued = await access.add(asked)
            held[label], ids[label] = issued.key, issued.access.id
    shutil.copy(place, older)
    kept = FileErasures()
    async with elytron.open(str(place), space=None, clock=clock) as memory:
        gateway, access = MemoryGateway(memory), AccessKeys(memory.context)
        await gateway.erase_user("ada")
        await gateway.users.rotate("bob")
        await gateway.users.revoke("carol")
        await access.revoke(AccessKeyRequest(id=ids["revoked"]))
        renewed = await access.rotate(AccessKeyRequest(id=ids["rotated"]))
        await gather_all(memory.context, kept, erased_ids=())
        await erase_all_again(memory.context, kept, dry_run=False)
        assert await opens(memory, renewed.key)
        with pytest.raises(AlreadyExists, match="rotate"):
            await gateway.users.create("bob")

    async with elytron.open(str(older), space=None, clock=clock) as memory:
        assert [name for name in held if not await opens(memory, held[name])] == []
        await erase_all_again(memory.context, kept, dry_run=True)
        clock.advance(60_000)
        assert [name for name in held if not await opens(memory, held[name])] == []
        reports = await erase_all_again(memory.context, kept, dry_run=False)
        assert [report.space for report in reports if report.changed] == ["elytron:system"]
        clock.advance(60_000)
        assert [name for name in held if await opens(memory, held[name])] == ["dora", "kept"]
        users = MemoryGateway(memory).users
        assert sorted([user.user_id async for user in users.all()]) == ["bob", "carol", "dora"]
        assert [one.text for one in (await memory.list(user_id="ada")).items] == []
        assert len((await memory.list(user_id="bob")).items) == 1
        assert await opens(memory, await users.rotate("bob"))
        again = await erase_all_again(memory.context, kept, dry_run=False)
        assert not any(report.changed for report in again)
