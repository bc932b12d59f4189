"""A principal stays in his space and within his kind, whatever he asks for and by which transport."""

from typing import Any

import pytest

from elytron import MemoryRuntime
from elytron_adapter.dispatch import Dispatcher
from elytron_adapter.entry import Entrance
from elytron_adapter.envelope import Accepted, Rejected, Response, Transport
from elytron_adapter.principals import DEVELOPER, SYSTEM_SPACE, Development, Principal, PrincipalKind
from elytron_adapter.shedding import Bounds, FairPlaces
from elytron_core.ids import SpaceId

pytestmark = pytest.mark.anyio

ADA = Principal(id="u1", kind=PrincipalKind.USER, space=SpaceId("ada"))
BOB = Principal(id="u2", kind=PrincipalKind.USER, space=SpaceId("bob"))
DEVICE = Principal(id="d1", kind=PrincipalKind.DEVICE, space=SpaceId("ada"))
OPERATOR = Principal(id="o1", kind=PrincipalKind.OPERATOR)
WRITE = b'{"write": {"kind": "transcript", "turns": [{"messages": [{"text": "We moved to Lisbon."}]}]}}'


@pytest.fixture
def entrance(runtime: MemoryRuntime) -> Entrance:
    return Entrance(Dispatcher(runtime), authenticator=Development())


async def call(entrance: Entrance, who: Principal, operation: str, payload: bytes = b"{}", **more: Any) -> Response:
    told: dict[str, Any] = {"transport": Transport.HTTP, "request_id": "r"} | more
    return await entrance.call(who, operation=operation, payload=payload, **told)


def key_of(answer: Response) -> str:
    assert isinstance(answer, Rejected), answer
    return answer.error_key


async def test_without_a_scope_a_principal_is_in_his_own_space(entrance: Entrance) -> None:
    await call(entrance, BOB, "write", WRITE)
    for who, count in ((BOB, 1), (ADA, 0)):
        listed = await call(entrance, who, "list")
        assert isinstance(listed, Accepted)
        assert len(listed.report.model_dump()["items"]) == count


async def test_another_space_is_refused_alike_whether_it_is_there_or_not(entrance: Entrance) -> None:
    await call(entrance, BOB, "write", WRITE)
    answers = [
        await call(entrance, ADA, "recall", b'{"query": "Lisbon", "scope": {"space": "%b"}}' % space)
        for space in (b"bob", b"nobody", SYSTEM_SPACE.encode())
    ]
    assert answers[0] == answers[1] == answers[2]
    assert key_of(answers[0]) == "permission_refused"


async def test_ones_own_space_may_be_named_and_narrowed(entrance: Entrance) -> None:
    await call(entrance, ADA, "write", WRITE)
    answer = await call(entrance, ADA, "recall", b'{"query": "Lisbon", "scope": {"space": "ada", "agent": "x"}}')
    assert isinstance(answer, Accepted)


@pytest.mark.parametrize("who", [OPERATOR, DEVELOPER], ids=lambda who: who.kind)
async def test_the_servers_own_space_is_nobodys(entrance: Entrance, who: Principal) -> None:
    payload = b'{"scope": {"space": "%b"}}' % SYSTEM_SPACE.encode()
    assert key_of(await call(entrance, who, "list", payload)) == "permission_refused"
    assert isinstance(await call(entrance, who, "inspect", b'{"check": true}'), Accepted)


async def test_a_device_does_not_erase_the_whole_space(entrance: Entrance) -> None:
    await call(entrance, ADA, "write", WRITE)
    whole = b'{"whole_space": "ada"}'
    assert key_of(await call(entrance, DEVICE, "erase", whole)) == "permission_refused"
    assert key_of(await call(entrance, DEVICE, "recover")) == "permission_refused"
    assert isinstance(await call(entrance, ADA, "erase", whole), Accepted)


async def test_what_is_wrong_with_an_envelope_is_an_answer(entrance: Entrance) -> None:
    answer = await call(entrance, ADA, "recall", b'{"query": "x"}', idempotency_key="")
    assert key_of(answer) == "invalid_input"


async def test_a_call_beyond_the_rate_is_an_answer(runtime: MemoryRuntime) -> None:
    shedding = FairPlaces(Bounds(calls_per_minute=1))
    entrance = Entrance(Dispatcher(runtime), authenticator=Development(), shedding=shedding)
    assert isinstance(await call(entrance, ADA, "list"), Accepted)
    assert key_of(await call(entrance, ADA, "list")) == "rate_limited"


async def test_in_development_everybody_is_the_developer(entrance: Entrance) -> None:
    assert await entrance.authenticate(None) == DEVELOPER
    assert await entrance.authenticate("Bearer whatever") == DEVELOPER
