"""Origin checks and body limits: foreign pages are recognised, and a body ends at its limit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_adapter.envelope import reject_error
from elytron_adapter.http.requests import body_pieces, heads_of, is_own_page, read_body, require_length
from elytron_adapter.http.responses import turn_away
from elytron_core.errors import ElytronError, PayloadTooLarge, PermissionRefused, Unauthorized

HOST = "localhost:8010"


def asked(method: str = "POST", scheme: str = "http", **headers: str) -> dict[str, Any]:
    """Return the scope of a request with these headers."""
    given = {"host": HOST} | headers
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    return {"type": "http", "method": method, "scheme": scheme, "headers": raw}


@pytest.mark.parametrize(
    ("scope", "is_own"),
    [
        (asked(), True),
        (asked(origin=f"http://{HOST}"), True),
        (asked(origin=f"http://{HOST}", sec_fetch_site="same-origin"), True),
        (asked(scheme="ws", origin=f"http://{HOST}"), True),
        (asked(scheme="wss", origin=f"https://{HOST}"), True),
        (asked(host="localhost", origin="http://localhost:80"), True),
        (asked(host="localhost", scheme="https", origin="https://localhost"), True),
        (asked(origin=f"https://{HOST}"), False),
        (asked(origin="http://localhost:3000"), False),
        (asked(origin="http://127.0.0.1:8010"), False),
        (asked(origin="http://elsewhere.example:8010"), False),
        (asked(origin="null"), False),
        (asked(origin=""), False),
        (asked(origin="http://localhost:x"), False),
        (asked(host="", origin="null"), False),
        (asked(sec_fetch_site="cross-site"), False),
        (asked(sec_fetch_site="same-site"), False),
        (asked("GET", sec_fetch_site="cross-site"), True),
    ],
)
def test_a_page_with_another_scheme_host_or_port_is_cross_origin(scope: dict[str, Any], *, is_own: bool) -> None:
    assert is_own_page(scope, heads_of(scope)) is is_own


@pytest.mark.parametrize("declared", ["11", "-1", "+1", "1e1", " 1", "", "x", "١", "1" * 19])
def test_a_content_length_that_is_too_large_or_malformed_is_rejected(declared: str) -> None:
    raw = [(b"content-length", declared.encode())]
    with pytest.raises(PayloadTooLarge):
        require_length({"type": "http", "headers": raw}, limit=10)


@pytest.mark.parametrize("declared", ["0", "9", "10"])
def test_a_content_length_up_to_the_limit_is_accepted(declared: str) -> None:
    require_length({"type": "http", "headers": [(b"content-length", declared.encode())]}, limit=10)


@pytest.mark.anyio
@given(pieces=st.lists(st.binary(max_size=6), max_size=6), limit=st.integers(0, 20))
async def test_a_body_is_read_up_to_its_limit_and_rejected_beyond_it(pieces: list[bytes], limit: int) -> None:
    for reader in (read_whole, read_pieces):
        if len(b"".join(pieces)) <= limit:
            assert await reader(pieces, limit) == b"".join(pieces)
        else:
            with pytest.raises(PayloadTooLarge):
                await reader(pieces, limit)


def sending(pieces: list[bytes]) -> Any:
    """Return a function that receives a body in pieces; nothing is requested after the last one."""
    left = [*pieces, b""]

    async def receive() -> dict[str, Any]:
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    return receive


async def read_whole(pieces: list[bytes], limit: int) -> bytes:
    return await read_body({"type": "http", "headers": []}, sending(pieces), limit=limit)


async def read_pieces(pieces: list[bytes], limit: int) -> bytes:
    found = body_pieces({"type": "http", "headers": []}, sending(pieces), limit=limit)
    return b"".join([piece async for piece in found])


@pytest.mark.anyio
@pytest.mark.parametrize(("error", "code"), [(Unauthorized(), 4401), (PermissionRefused("not yours"), 4403)])
async def test_a_handshake_without_an_http_response_is_closed_with_a_code(error: ElytronError, code: int) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    rejected = reject_error(error, request_id="r1")
    await turn_away(rejected, {"type": "websocket", "headers": []}, sending([]), send)
    assert sent == [{"type": "websocket.close", "code": code, "reason": error.key}]
