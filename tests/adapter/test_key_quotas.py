"""A key with a quota is refused beyond it over any transport, until its minute or day ends."""

import pytest

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys, AccessQuotaRequest, Principal
from elytron_adapter.admission_control import FairPlaces, LoadBounds
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.envelope import CallOrigin, CallTransport, RejectedAnswer, Response
from elytron_adapter.key_quotas import QUOTA_STORED_EVERY_MS, KeyQuotas
from elytron_core.clock import FrozenClock
from elytron_core.errors import InvalidInput, RateLimited
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.servers.system_documents import KeyQuota, PrincipalKind
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000


@pytest.fixture
def keys(runtime: MemoryRuntime) -> AccessKeys:
    return AccessKeys(runtime.context)


async def caller(keys: AccessKeys, **quota: int) -> Principal:
    issued = await keys.add(
        AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="laptop", quota=KeyQuota(**quota))
    )
    return await keys.authenticate(f"Bearer {issued.key}")


async def list_once(admission: CallerAdmission, principal: Principal) -> Response:
    return await admission.call(
        principal, origin=CallOrigin(CallTransport.HTTP), operation="list", request_id="r", payload=b'{"limit": 3}'
    )


async def test_calls_beyond_the_daily_quota_are_refused_with_its_reset_time(
    runtime: MemoryRuntime, keys: AccessKeys, clock: FrozenClock
) -> None:
    admission = CallerAdmission(OperationDispatcher(runtime), authenticator=keys)
    principal = await caller(keys, calls_per_day=2)
    answers = [await list_once(admission, principal) for _ in range(3)]
    assert [isinstance(answer, RejectedAnswer) for answer in answers] == [False, False, True]
    refused = answers[-1]
    assert isinstance(refused, RejectedAnswer)
    assert refused.error_key == "rate_limited"
    left_s = (DAY_MS - clock.now() % DAY_MS) // 1_000 + 1
    assert f"more than 2 calls per day: try again in {left_s} s" in refused.reason
    clock.advance(left_s * 1_000)
    assert not isinstance(await list_once(admission, principal), RejectedAnswer)


async def test_body_bytes_are_limited_and_a_refused_body_is_not_counted(
    runtime: MemoryRuntime, keys: AccessKeys
) -> None:
    quotas = KeyQuotas(runtime.context)
    principal = await caller(keys, bytes_per_day=100)
    await quotas.charge(principal, 60)
    with pytest.raises(RateLimited, match="more than 100 bytes per day"):
        await quotas.charge(principal, 41)
    await quotas.charge(principal, 40)


async def test_a_quota_per_minute_replaces_the_servers_default(runtime: MemoryRuntime, keys: AccessKeys) -> None:
    admission = CallerAdmission(
        OperationDispatcher(runtime), authenticator=keys, shedding=FairPlaces(LoadBounds(calls_per_minute=1_000))
    )
    principal = await caller(keys, calls_per_minute=1)
    assert not isinstance(await list_once(admission, principal), RejectedAnswer)
    assert isinstance(await list_once(admission, principal), RejectedAnswer)


async def test_processes_sharing_a_store_count_together(clock: FrozenClock) -> None:
    store = MemoryStore()
    async with (
        elytron.open(store, space="ada", clock=clock, ids=SeededIds("one")) as one,
        elytron.open(store, space="ada", clock=clock, ids=SeededIds("other")) as other,
    ):
        principal = await caller(AccessKeys(one.context), calls_per_day=3)
        first, second = KeyQuotas(one.context), KeyQuotas(other.context)
        for _ in range(2):
            await first.charge(principal, 0)
        clock.advance(QUOTA_STORED_EVERY_MS)
        await first.charge(principal, 0)  # stores the two before it
        await second.charge(principal, 0)
        with pytest.raises(RateLimited):
            await second.charge(principal, 0)


async def test_a_quota_can_be_set_changed_and_removed_later(keys: AccessKeys) -> None:
    principal = await caller(keys)
    quota = KeyQuota(calls_per_day=5)
    assert (await keys.set_quota(AccessQuotaRequest(id=principal.id, quota=quota))).quota == quota
    assert (await keys.set_quota(AccessQuotaRequest(id=principal.id))).quota is None


async def test_an_operators_key_accepts_no_quota(keys: AccessKeys) -> None:
    with pytest.raises(InvalidInput):
        AccessAddRequest(kind=PrincipalKind.OPERATOR, label="ops", quota=KeyQuota(calls_per_day=1))
    issued = await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="ops"))
    with pytest.raises(InvalidInput, match="operator's key"):
        await keys.set_quota(AccessQuotaRequest(id=issued.access.id, quota=KeyQuota(calls_per_day=1)))
