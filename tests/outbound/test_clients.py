"""Clients of other servers share no cookie, follow no redirect, and have a read limit."""

import gzip
from collections.abc import Callable
from typing import Any

import pytest
from tests.models.fake_server import Sent, serving, serving_apart

from elytron_core.errors import InvalidInput, LimitExceeded, MissingExtra
from elytron_outbound import clients
from elytron_outbound.answers import (
    AnswerBounds,
    blocking_request_within,
    bound_items,
    read_beginning,
    request_within,
)
from elytron_outbound.clients import ClientSettings, blocking_http_client, http_client, is_local, mcp_http_client

pytestmark = pytest.mark.anyio
COOKIE = Sent((b"{}",), headers={"set-cookie": "session=of-ada; Path=/", "connection": "keep-alive"})


def settings(url: str = "", *, timeout_s: float = 20.0) -> ClientSettings:
    return ClientSettings(extra="client", purpose="a test", url=url, timeout_s=timeout_s)


@pytest.mark.parametrize("opened", [http_client, mcp_http_client])
async def test_cookies_are_not_sent_in_later_requests(opened: Callable[[ClientSettings], Any]) -> None:
    async with serving(COOKIE) as server, opened(settings(server.url)) as client:
        for _ in range(2):
            await client.get("/")
    assert [asked.headers.get("cookie") for asked in server.asked] == [None, None]


async def test_a_redirect_is_not_followed() -> None:
    sent = Sent((b"",), 307, headers={"location": "/elsewhere"})
    async with serving(sent) as server, http_client(settings(server.url)) as client:
        assert (await client.get("/")).status_code == 307
    assert [asked.path for asked in server.asked] == ["/"]


async def test_an_oversized_body_is_not_read_further() -> None:
    sent = Sent((gzip.compress(b"0" * 5_000_000),), headers={"content-encoding": "gzip"})
    async with serving(sent) as server, http_client(settings(server.url)) as client:
        with pytest.raises(LimitExceeded):
            await request_within(client, "GET", "/", limit=1_000)
        within = await request_within(client, "GET", "/", limit=6_000_000)
        assert (len(within.content), "content-encoding" in within.headers) == (5_000_000, False)
        response = await client.send(client.build_request("GET", "/"), stream=True)
        assert await read_beginning(response, limit=10) == b"0" * 10


def test_a_blocking_client_has_the_same_read_limit() -> None:
    sent = Sent((b"0" * 50,))
    with serving_apart(sent) as server, blocking_http_client(settings(server.url)) as client:
        assert blocking_request_within(client, "GET", "/", limit=50).content == b"0" * 50
        with pytest.raises(LimitExceeded):
            blocking_request_within(client, "GET", "/", limit=49)


def test_a_missing_library_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(clients, "import_module", fail)
    with pytest.raises(MissingExtra, match="a test"):
        http_client(settings())


def test_an_invalid_address_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        http_client(settings("http://[::1"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://localhost:1", True), ("http://127.1.2.3", True), ("https://[::1]/", True), ("http://a.example", False)],
)
def test_a_server_on_this_machine_is_recognized(url: str, *, expected: bool) -> None:
    assert is_local(url) is expected


def test_items_are_bounded_in_number_size_and_total() -> None:
    def bounded(bounds: AnswerBounds) -> tuple[tuple[str, ...], int]:
        found = bound_items(["aaaa", "bb", "cccc"], bounds, size=len, clip=lambda text, chars: text[:chars])
        return found.items, found.dropped

    assert bounded(AnswerBounds(2, 9, 99)) == (("aaaa", "bb"), 1)
    assert bounded(AnswerBounds(9, 3, 99)) == (("aaa", "bb", "ccc"), 0)
    assert bounded(AnswerBounds(9, 9, 5)) == (("aaaa", "b"), 1)
