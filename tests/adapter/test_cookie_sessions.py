"""Session cookies: how long they are valid, on which servers, and which are evicted."""

from collections.abc import AsyncIterator

import pytest

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeyRequest, AccessKeys
from elytron_adapter.sessions import CookieSessions, SessionCookie
from elytron_core.clock import FrozenClock
from elytron_core.ids import SYSTEM_SPACE, SeededIds
from elytron_core.planes.servers.system_documents import SESSIONS, PrincipalKind
from elytron_core.ports.store import scan_documents

pytestmark = pytest.mark.anyio
NAME = "session"


@pytest.fixture
async def memory() -> AsyncIterator[MemoryRuntime]:
    async with elytron.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as opened:
        yield opened


def sessions(
    memory: MemoryRuntime, *, name: str = NAME, lifetime_s: float = 60, most: int = 9, each: int = 2
) -> CookieSessions:
    return CookieSessions(memory.context, SessionCookie(name, "/", lifetime_s=lifetime_s, most=most, each=each))


def headers(token: str, *, name: str = NAME) -> dict[str, str]:
    return {"cookie": f"a=1; {name}={token}"}


async def stored(memory: MemoryRuntime) -> list[bytes]:
    return [document.body async for document in scan_documents(memory.context.store, SYSTEM_SPACE, SESSIONS)]


async def test_beyond_a_holders_limit_the_oldest_session_is_dropped(memory: MemoryRuntime) -> None:
    kept = sessions(memory, each=2)
    tokens = [await kept.open("ada", f"Bearer {number}") for number in range(4)]
    shown = [await kept.credential(headers(token)) for token in tokens]
    assert shown == [None, None, "Bearer 2", "Bearer 3"]


async def test_beyond_the_total_limit_the_oldest_session_is_dropped(memory: MemoryRuntime) -> None:
    kept = sessions(memory, most=2)
    tokens = [await kept.open(holder, f"Bearer {holder}") for holder in ("ada", "bob", "cyn")]
    assert [await kept.is_open(headers(token)) for token in tokens] == [False, True, True]


@pytest.mark.parametrize("lifetime_s", [0, -1])
async def test_an_expired_session_opens_nothing_and_is_not_counted(memory: MemoryRuntime, lifetime_s: float) -> None:
    kept = sessions(memory, lifetime_s=lifetime_s)
    assert await kept.credential(headers(await kept.open("ada", "Bearer ada"))) is None
    await kept.open("bob", "Bearer bob")
    assert len(await stored(memory)) == 1


async def test_a_credential_in_the_request_takes_precedence_over_the_cookie(memory: MemoryRuntime) -> None:
    kept = sessions(memory)
    token = await kept.open("ada", "Bearer ada")
    assert await kept.credential(headers(token) | {"authorization": "Bearer other"}) == "Bearer other"
    await kept.end({})
    assert await kept.credential({}) is None
    assert await kept.credential(headers("0" * 64)) is None
    await kept.end(headers(token))
    assert await kept.credential(headers(token)) is None


async def test_every_server_of_a_store_accepts_a_session_and_sees_its_end(memory: MemoryRuntime) -> None:
    here, elsewhere = sessions(memory), sessions(memory)
    token = await here.open("ada", "Bearer ada")
    assert await elsewhere.credential(headers(token)) == "Bearer ada"
    assert await here.page_token(token) == await elsewhere.page_token(token)
    await elsewhere.end(headers(token))
    assert not await here.is_open(headers(token))


async def test_a_cookie_of_one_kind_opens_no_session_of_another(memory: MemoryRuntime) -> None:
    token = await sessions(memory).open("ada", "Bearer ada")
    assert await sessions(memory, name="other").credential(headers(token, name="other")) is None


async def test_the_store_contains_neither_cookie_nor_credential_nor_holder(memory: MemoryRuntime) -> None:
    token = await sessions(memory).open("ada of lisbon", "Bearer s3cret")
    (body,) = await stored(memory)
    assert not [word for word in (token, "s3cret", "lisbon", b"s3cret".hex()) if word.encode() in body]


@pytest.mark.parametrize("change", ["rotate", "revoke"])
async def test_sessions_of_a_key_end_with_it(memory: MemoryRuntime, change: str) -> None:
    keys, kept = AccessKeys(memory.context), sessions(memory)
    issued = [await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label=label)) for label in ("one", "two")]
    ended, other = [await kept.open(key.access.id, f"Bearer {key.key}") for key in issued]
    await getattr(keys, change)(AccessKeyRequest(id=issued[0].access.id))
    assert [await kept.is_open(headers(token)) for token in (ended, other)] == [False, True]
