"""Keys are shown once, stored as digests, and valid for their purpose until rotated or revoked."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

import elytron
from elytron import MemoryRuntime
from elytron.state import change_lines
from elytron_adapter.access_keys import (
    ACCESS_CACHE_MS,
    ACCESS_USED_EVERY_MS,
    AccessAddRequest,
    AccessKeyIssued,
    AccessKeyRequest,
    AccessKeys,
    AccessListRequest,
    Principal,
)
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.errors import Conflict, InvalidInput, NotFound, StoreFull, Unauthorized
from elytron_core.ids import SYSTEM_SPACE, SeededIds, SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.policy.redaction import scrub_secrets
from elytron_core.ports.store import Batch, CommitReceipt, ErasureTarget
from elytron_store.engine import PassingStore

pytestmark = pytest.mark.anyio

Add = Callable[..., Awaitable[AccessKeyIssued]]


@pytest.fixture
def keys(runtime: MemoryRuntime) -> AccessKeys:
    return AccessKeys(runtime.context)


async def user(keys: AccessKeys, space: str = "ada") -> AccessKeyIssued:
    return await keys.add(AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId(space), label="laptop"))


async def test_a_key_opens_its_holders_space(keys: AccessKeys) -> None:
    issued = await user(keys)
    assert issued.key.startswith("ely_user_")
    assert await keys.authenticate(f"Bearer {issued.key}") == Principal(
        id=issued.access.id, kind=PrincipalKind.USER, space=SpaceId("ada")
    )
    assert await keys.authenticate(f"bearer  {issued.key} ")


async def test_an_operators_key_is_for_every_space(keys: AccessKeys) -> None:
    assert await keys.open_kinds() == frozenset()
    issued = await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="ops"))
    assert (await keys.authenticate(f"Bearer {issued.key}")).space is None
    assert await keys.open_kinds() == {PrincipalKind.OPERATOR}
    await keys.revoke(AccessKeyRequest(id=issued.access.id))
    assert await keys.open_kinds() == frozenset()


async def test_all_callers_without_a_valid_key_get_the_same_answer(keys: AccessKeys) -> None:
    key = (await user(keys)).key
    other = key[:-1] + ("0" if key[-1] != "0" else "1")
    unknown = f"ely_user_{'0' * 16}_{'0' * 64}"
    device = key.replace("ely_user_", "ely_device_")
    told: set[str] = set()
    for given in (None, "", key, f"Basic {key}", f"Bearer {other}", f"Bearer {unknown}", f"Bearer {device}", "Bearer"):
        with pytest.raises(Unauthorized) as refused:
            await keys.authenticate(given)
        told.add(refused.value.message)
    assert len(told) == 1


async def test_without_any_key_nobody_is_admitted(keys: AccessKeys) -> None:
    with pytest.raises(Unauthorized):
        await keys.authenticate(f"Bearer ely_user_{'0' * 16}_{'0' * 64}")
    with pytest.raises(Unauthorized):
        await keys.signer("0" * 16)
    assert (await keys.list()).items == ()


async def test_a_rotated_key_has_a_new_secret_and_the_same_holder(keys: AccessKeys) -> None:
    first = await user(keys)
    await keys.authenticate(f"Bearer {first.key}")
    second = await keys.rotate(AccessKeyRequest(id=first.access.id))
    with pytest.raises(Unauthorized):
        await keys.authenticate(f"Bearer {first.key}")
    assert (await keys.authenticate(f"Bearer {second.key}")).id == first.access.id
    assert second.access.fingerprint != first.access.fingerprint
    assert second.webhook_secret != first.webhook_secret


async def test_a_revoked_key_opens_nothing_and_stays_listed(keys: AccessKeys) -> None:
    issued = await user(keys)
    named = AccessKeyRequest(id=issued.access.id)
    ended = await keys.revoke(named)
    assert await keys.revoke(named) == ended
    with pytest.raises(Unauthorized):
        await keys.authenticate(f"Bearer {issued.key}")
    with pytest.raises(Unauthorized):
        await keys.signer(issued.access.id)
    with pytest.raises(NotFound):
        await keys.rotate(named)
    assert (await keys.list()).items == (ended,)


async def test_an_unknown_key_is_not_found(keys: AccessKeys) -> None:
    for change in (keys.rotate, keys.revoke):
        with pytest.raises(NotFound):
            await change(AccessKeyRequest(id="0" * 16))
    await user(keys)
    with pytest.raises(NotFound):
        await keys.revoke(AccessKeyRequest(id="0" * 16))


async def test_a_key_revoked_elsewhere_is_refused_after_a_moment() -> None:
    clock = FrozenClock()
    async with elytron.open("memory:", clock=clock, ids=SeededIds()) as runtime:
        here, elsewhere = AccessKeys(runtime.context), AccessKeys(runtime.context)
        issued = await user(elsewhere)
        await here.authenticate(f"Bearer {issued.key}")
        await elsewhere.revoke(AccessKeyRequest(id=issued.access.id))
        clock.advance(ACCESS_CACHE_MS)
        with pytest.raises(Unauthorized):
            await here.authenticate(f"Bearer {issued.key}")


async def test_key_usage_is_recorded_by_the_hour_with_one_write_per_hour() -> None:
    clock = FrozenClock()
    async with elytron.open("memory:", clock=clock, ids=SeededIds()) as runtime:
        keys, store = AccessKeys(runtime.context), runtime.context.store

        async def written() -> int:
            return len(await store.journal(SYSTEM_SPACE, after=0, limit=100))

        issued = await user(keys)
        assert (await keys.list()).items[0].last_used_at is None
        first, before = clock.now(), await written()
        for _ in range(5):
            await keys.authenticate(f"Bearer {issued.key}")
            clock.advance(ACCESS_CACHE_MS)
        await AccessKeys(runtime.context).authenticate(f"Bearer {issued.key}")
        assert (await keys.list()).items[0].last_used_at == first
        assert await written() == before + 1
        clock.advance(ACCESS_USED_EVERY_MS)
        await keys.authenticate(f"Bearer {issued.key}")
        assert (await keys.list()).items[0].last_used_at == clock.now()
        assert await written() == before + 2


async def test_two_servers_record_one_use(runtime: MemoryRuntime) -> None:
    one, other = AccessKeys(runtime.context), AccessKeys(runtime.context)
    issued = await user(one)
    before = await runtime.context.store.journal(SYSTEM_SPACE, after=0, limit=99)
    await asyncio.gather(*(keys.authenticate(f"Bearer {issued.key}") for keys in (one, other)))
    await other.note_use("nobody")
    assert len(await runtime.context.store.journal(SYSTEM_SPACE, after=0, limit=99)) == len(before) + 1


async def test_a_key_works_even_if_its_use_cannot_be_recorded(runtime: MemoryRuntime) -> None:
    issued = await user(AccessKeys(runtime.context))

    class Full(PassingStore):
        async def commit(self, batch: Batch, /) -> CommitReceipt:
            raise StoreFull(engine="memory")

    keys = AccessKeys(replace(runtime.context, store=Full(runtime.context.store)))
    assert (await keys.authenticate(f"Bearer {issued.key}")).id == issued.access.id


async def test_the_number_of_cached_keys_is_limited(keys: AccessKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACCESS_KEYS_CACHED", 1)
    issued = [await user(keys, f"s{number}") for number in range(3)]
    for one in (*issued, *issued):
        assert (await keys.authenticate(f"Bearer {one.key}")).id == one.access.id


async def test_keys_are_listed_in_pages(keys: AccessKeys) -> None:
    made = sorted([(await user(keys, f"s{number}")).access.id for number in range(5)])
    page = await keys.list(AccessListRequest(limit=3))
    rest = await keys.list(AccessListRequest(limit=3, cursor=page.next_cursor))
    assert [item.id for item in (*page.items, *rest.items)] == made
    assert rest.next_cursor is None
    with pytest.raises(InvalidInput, match="cursor"):
        await keys.list(AccessListRequest(cursor="zz"))


async def test_an_operator_is_found_after_a_page_of_users(keys: AccessKeys) -> None:
    for number in range(101):
        await user(keys, f"s{number}")
    await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="ops"))
    assert await keys.open_kinds() == {PrincipalKind.USER, PrincipalKind.OPERATOR}


async def test_no_usable_credential_is_stored(runtime: MemoryRuntime, keys: AccessKeys) -> None:
    issued = await user(keys)
    secret = issued.key.rpartition("_")[2]
    assert issued.webhook_secret is not None
    for collection in ("access_keys", "space"):
        for document in await runtime.context.store.scan(SYSTEM_SPACE, collection, limit=10):
            assert secret.encode() not in document.body
            assert issued.webhook_secret.encode() not in document.body
    assert secret not in (await keys.list()).model_dump_json()


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "developer", "label": "x"},
        {"kind": "operator", "space": "ada", "label": "x"},
        {"kind": "user", "label": "x"},
        {"kind": "device", "space": SYSTEM_SPACE, "label": "x"},
        {"kind": "user", "space": "ada", "label": ""},
    ],
)
def test_a_key_for_invalid_spaces_is_rejected(fields: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        AccessAddRequest(**fields)  # pyright: ignore[reportArgumentType]


async def test_two_callers_creating_the_first_key_concurrently_both_get_one() -> None:
    async with elytron.open("memory:", ids=SeededIds()) as runtime:
        one, other = AccessKeys(runtime.context), AccessKeys(runtime.context)
        record, is_new = await runtime.context.spaces.found_or_new(SYSTEM_SPACE)
        assert is_new
        del record
        made = [await user(one), await user(other)]
        for issued in made:
            assert await one.authenticate(f"Bearer {issued.key}")


async def test_a_key_can_be_created_after_the_system_space_was_erased_concurrently() -> None:
    async with elytron.open("memory:", ids=SeededIds()) as runtime:
        keys = AccessKeys(runtime.context)
        first = await user(keys)
        assert await keys.authenticate(f"Bearer {first.key}")
        erasure = ErasureTarget(space=SYSTEM_SPACE, at=runtime.context.clock.now(), whole_space=True)
        await runtime.context.store.erase(erasure)
        second = await user(keys)
        assert (await keys.authenticate(f"Bearer {second.key}")).id == second.access.id
        assert [key.id for key in (await keys.list()).items] == [second.access.id]
        assert first.access.id != second.access.id


async def test_a_key_in_a_text_is_redacted(keys: AccessKeys) -> None:
    key = (await user(keys)).key
    assert key not in scrub_secrets(f"my key is {key}, keep it").text


async def test_concurrent_rotations_or_revocations_of_one_key_are_both_answered(keys: AccessKeys) -> None:
    issued = await user(keys)
    named = AccessKeyRequest(id=issued.access.id)
    turned = await asyncio.gather(keys.rotate(named), keys.rotate(named))
    assert len({issued.key, *(each.key for each in turned)}) == 3
    reports = await asyncio.gather(keys.revoke(named), keys.revoke(named))
    assert reports[0] == reports[1]


async def test_a_store_whose_keys_change_on_every_attempt_is_a_conflict(
    runtime: MemoryRuntime, keys: AccessKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_lines, "RACES", 3)
    named = AccessKeyRequest(id=(await user(keys)).access.id)

    async def overtaken(batch: Batch, /) -> CommitReceipt:
        raise Conflict(what="document", expected=0, found=1)

    monkeypatch.setattr(runtime.context.store, "commit", overtaken)
    for change in (user(keys), keys.rotate(named), keys.revoke(named)):
        with pytest.raises(Conflict, match="document"):
            await change
