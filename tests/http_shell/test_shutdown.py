"""A server can be stopped only by its operator on the same machine."""

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer
from tests.transports.live import Live

from elytron import MemoryRuntime
from elytron.remote.memory import shut_down
from elytron.remote.wire import address_of
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.errors import ElytronError
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio

PATH = "/v1/shutdown"


class Ended:
    """Counts how often a server was stopped."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


async def asked(
    runtime: MemoryRuntime, *, peer: str = "127.0.0.1", headers: dict[str, str] | None = None
) -> tuple[int, int]:
    """Return the status for `peer` in development mode, and how often the server was stopped."""
    admission, ended = CallerAdmission(OperationDispatcher(runtime), authenticator=DevelopmentCallers()), Ended()
    admission.end = ended
    transport = httpx.ASGITransport(create_app(admission), client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.post(PATH, json={"reason": "done"}, headers=headers)
    return response.status_code, ended.times


async def test_an_operator_on_the_machine_stops_the_server(runtime: MemoryRuntime) -> None:
    assert await asked(runtime) == (200, 1)
    assert await asked(runtime, peer="::1") == (200, 1)


@pytest.mark.parametrize("peer", ["192.0.2.7", "2001:db8::7", "unknown"])
async def test_a_caller_on_another_machine_cannot_stop_the_server(runtime: MemoryRuntime, peer: str) -> None:
    assert await asked(runtime, peer=peer) == (403, 0)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
async def test_a_caller_behind_a_proxy_cannot_stop_the_server(runtime: MemoryRuntime, header: str) -> None:
    assert await asked(runtime, headers={header: "192.0.2.7"}) == (403, 0)


async def test_a_request_without_preflight_cannot_stop_the_server(runtime: MemoryRuntime) -> None:
    assert await asked(runtime, headers={"Content-Type": "text/plain"}) == (415, 0)


async def test_members_cannot_stop_a_server_and_an_embedded_one_is_stopped_by_its_program(
    server: httpx.AsyncClient, keys: Keys
) -> None:
    for key in (keys.user, keys.device):
        assert (await server.post(PATH, json={}, headers=bearer(key))).status_code == 403
    assert (await server.post(PATH, json={})).status_code == 401
    answer = await server.post(PATH, json={}, headers=bearer(keys.operator))
    assert (answer.status_code, answer.json()["code"]) == (422, "unsupported")


async def test_close_is_not_a_route(server: httpx.AsyncClient, keys: Keys) -> None:
    assert (await server.post("/v1/close", json={}, headers=bearer(keys.operator))).status_code == 404
    assert (await server.post("/v1/list", json={}, headers=bearer(keys.user))).status_code == 200


async def test_a_real_server_answers_and_stops() -> None:
    with Live() as live:
        report = await shut_down(address_of(live.url, api_key=None), reason="over")
        assert report.reason == "over"
        assert live.ended()
        with pytest.raises(ElytronError):
            await shut_down(address_of(live.url, api_key=None))
