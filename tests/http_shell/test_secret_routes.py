"""A user's secret over HTTP: the answers, their recipients, and other protocols' answers about a locked space."""

import json
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

from elytron import MemoryRuntime
from elytron_adapter.http.secrets import secret_surfaces
from elytron_core.clock import FrozenClock
from elytron_core.ids import SpaceId
from elytron_core.ports.store import PutChange
from elytron_http_shell import create_app
from elytron_store.secret.derivation.user_key import terms_of_words
from elytron_store.secret.holds import fresh_until
from elytron_store.secret.records import SECRET_SLOT, SecretSlot, SecretSlotState, fresh_inner, secret_batch

pytestmark = pytest.mark.anyio

OTHER_WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


@pytest.fixture
async def server(runtime: MemoryRuntime) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(runtime, further=(secret_surfaces,)))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as connected:
        yield connected


class SecretCaller:
    """Calls the routes with one key."""

    def __init__(self, server: httpx.AsyncClient, key: str) -> None:
        self._server = server
        self._headers = bearer(key)

    async def call(
        self, method: str, path: str, body: Mapping[str, object] | None = None, **headers: str
    ) -> httpx.Response:
        kind = {"Content-Type": "application/json"} if body is not None else {}
        sent = json.dumps(body).encode() if body is not None else b""
        return await self._server.request(method, path, content=sent, headers={**self._headers, **kind, **headers})

    async def made(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, object]:
        answer = await self.call(method, path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def ada(server: httpx.AsyncClient, keys: Keys) -> SecretCaller:
    return SecretCaller(server, keys.user)


async def test_words_seal_lock_and_unlock_a_space(ada: SecretCaller, runtime: MemoryRuntime) -> None:
    await runtime.add("the boat key is under the oar")
    assert (await ada.made("GET", "/v1/secret"))["state"] == "plain"
    answer = await ada.call("POST", "/v1/secret/words")
    words = answer.json()["words"]
    assert (len(words.split()), answer.headers["cache-control"]) == (12, "no-store")
    assert (await ada.made("POST", "/v1/secret", {"words": words}))["state"] == "unlocked"
    found = await ada.made("POST", "/v1/search", {"query": "boat key"})
    assert (await ada.made("POST", "/v1/secret/lock"))["state"] == "locked"
    for path, body in (("/v1/search", {"query": "boat"}), ("/v1/add", {"text": "more"})):
        locked = await ada.call("POST", path, body)
        assert (locked.status_code, locked.json()["code"]) == (423, "space_locked")
    refused = await ada.call("POST", "/v1/secret/unlock", {"words": OTHER_WORDS})
    assert (refused.status_code, refused.json()["code"]) == (403, "secret_refused")
    wrong = await ada.call("POST", "/v1/secret/unlock", {"words": OTHER_WORDS.replace("yellow", "zebra")})
    assert (wrong.status_code, wrong.json()["code"], "zebra" in wrong.text) == (422, "words_invalid", False)
    opened = await ada.made("POST", "/v1/secret/unlock", {"words": words, "minutes": 5})
    assert opened["state"] == "unlocked"
    assert await ada.made("POST", "/v1/search", {"query": "boat key"}) == found


async def test_a_key_acts_on_its_own_space(
    server: httpx.AsyncClient, keys: Keys, ada: SecretCaller, runtime: MemoryRuntime
) -> None:
    await runtime.add("the boat key is under the oar")
    await ada.made("POST", "/v1/secret", {"passphrase": "the tide table hangs here"})
    bob = SecretCaller(server, keys.stranger)
    assert (await bob.made("GET", "/v1/secret"))["state"] == "plain"
    for path, body in (("lock", None), ("unlock", {"passphrase": "the tide table hangs here"}), ("grant", {})):
        assert (await bob.call("POST", f"/v1/secret/{path}", body)).status_code == 404
    assert (await SecretCaller(server, keys.device).call("POST", "/v1/secret/lock")).status_code == 403
    operator = await SecretCaller(server, keys.operator).call("POST", "/v1/secret/lock")
    assert (operator.status_code, "use a user's key" in operator.text) == (422, True)
    assert (await server.get("/v1/secret")).status_code == 401
    assert runtime.secrets.store.sessions.is_open(SpaceId("ada"))


async def test_a_repeat_under_an_idempotency_key_stores_no_secret(ada: SecretCaller, runtime: MemoryRuntime) -> None:
    body = {"passphrase": "the tide table hangs here"}
    first = await ada.call("POST", "/v1/secret", body, **{"Idempotency-Key": "once"})
    assert first.status_code in {200, 422}
    assert b"tide" not in first.content


async def test_wrong_secrets_delay_only_their_caller(
    ada: SecretCaller, keys: Keys, server: httpx.AsyncClient, runtime: MemoryRuntime
) -> None:
    await ada.made("POST", "/v1/secret", {"words": OTHER_WORDS})
    await ada.made("POST", "/v1/secret/lock")
    clock = runtime.context.clock
    assert isinstance(clock, FrozenClock)

    async def wrong() -> int:
        body = {"passphrase": "no such secret here"}
        return (await ada.call("POST", "/v1/secret/unlock", body)).status_code

    assert [await wrong() for _ in range(7)] == [403] * 5 + [429] * 2
    for _ in range(20):
        clock.advance(8_000)
        assert [await wrong(), await wrong()] == [403, 429]
    refused = await ada.call("POST", "/v1/secret/unlock", {"words": OTHER_WORDS})
    assert (refused.status_code, int(refused.headers["retry-after"]) <= 8) == (429, True)
    elsewhere = httpx.ASGITransport(create_app(runtime, further=(secret_surfaces,)), client=("192.0.2.7", 1))
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://localhost") as other_place:
        opened = await SecretCaller(other_place, keys.user).call("POST", "/v1/secret/unlock", {"words": OTHER_WORDS})
        assert opened.status_code == 200
    clock.advance(8_000)
    assert (await ada.call("POST", "/v1/secret/unlock", {"words": OTHER_WORDS})).status_code == 200
    assert [await wrong() for _ in range(6)] == [403] * 5 + [429]


async def test_a_secret_is_changed_and_work_is_granted(ada: SecretCaller) -> None:
    await ada.made("POST", "/v1/secret", {"words": OTHER_WORDS})
    changed = await ada.made(
        "POST", "/v1/secret/change", {"words": OTHER_WORDS, "new_passphrase": "the tide table hangs here"}
    )
    assert (changed["kind"], changed["state"]) == ("passphrase", "unlocked")
    assert (await ada.made("POST", "/v1/secret/grant", {"minutes": 30}))["grant_until"] is not None
    rotated = await ada.made("POST", "/v1/secret/rotate", {"passphrase": "the tide table hangs here"})
    assert (rotated["state"], rotated.get("grant_until")) == ("unlocked", None)
    refused = await ada.call("POST", "/v1/secret/rotate", {"passphrase": "the tide table hangs there"})
    assert (refused.status_code, refused.json()["code"]) == (403, "secret_refused")
    assert (await ada.call("POST", "/v1/secret/grant", {"minutes": 24 * 60 + 1})).status_code == 422
    assert (await ada.made("DELETE", "/v1/secret/grant")).get("grant_until") is None
    await ada.made("POST", "/v1/secret/lock")
    assert (await ada.call("POST", "/v1/secret/grant", {})).status_code == 423
    both = {"words": OTHER_WORDS, "passphrase": "the tide table hangs here"}
    assert (await ada.call("POST", "/v1/secret/unlock", both)).status_code == 422


async def test_the_events_of_a_locked_space_end(ada: SecretCaller, server: httpx.AsyncClient, keys: Keys) -> None:
    await ada.made("POST", "/v1/secret", {"words": OTHER_WORDS})
    await ada.made("POST", "/v1/secret/lock")
    answer = await server.get("/v1/events?after=0", headers=bearer(keys.user))
    assert (answer.status_code, answer.json()["code"]) == (423, "space_locked")


async def test_a_partially_sealed_space_is_erased_in_one_step(ada: SecretCaller, runtime: MemoryRuntime) -> None:
    await runtime.add("the boat key is under the oar")
    clock = runtime.context.clock
    slot = SecretSlot(
        state=SecretSlotState.MAKING,
        inner=fresh_inner(),
        terms=terms_of_words(),
        made_at=clock.now(),
        until=fresh_until(clock),
    )
    await runtime.store.commit(secret_batch(SpaceId("ada"), clock, PutChange(SECRET_SLOT, slot.to_bytes(), 0)))
    for path, body in (("search", {"query": "boat"}), ("secret/lock", {}), ("secret/grant", {})):
        refused = await ada.call("POST", f"/v1/{path}", body)
        assert (refused.status_code, refused.json()["code"]) == (409, "space_incomplete")
    erased = await ada.call("POST", "/v1/erase", {"whole_space": "ada"}, **{"Idempotency-Key": "once"})
    assert (erased.status_code, erased.json()["changed"]) == (200, True)
    assert (await ada.made("POST", "/v1/search", {"query": "boat"}))["hits"] == []
