"""How a socket ends: with its key, before any further action, and with the code that explains it."""

import logging
import sys

import pytest
from tests.http_shell.test_websocket import TEA, Doormen, answer, ask, ended, opened, told
from tests.transports.live import Live
from websockets.exceptions import ConnectionClosed

from elytron_adapter.access_keys import ACCESS_CACHE_MS
from elytron_core import limits
from elytron_core.contracts.events import CloseCode
from elytron_http_shell.events import StreamBounds
from elytron_http_shell.telemetry.logs import RepeatFilter

pytestmark = pytest.mark.anyio


def test_a_revoked_key_is_detected_within_two_seconds() -> None:
    assert limits.STREAM_RECHECK_S * 1000 + ACCESS_CACHE_MS < 2_000


async def test_a_revoked_key_does_nothing_even_before_the_next_check() -> None:
    keys = Doormen()
    with Live(authenticator=keys, bounds=StreamBounds(recheck_s=3_600)) as live:
        async with opened(live) as socket:
            assert (await answer(socket, "command.write", TEA))["type"] == "event.report"
            keys.revoked.add("ada")
            await ask(socket, "command.write", TEA | {"id": "2"})
            assert (await told(socket))["error"]["code"] == "unauthorized"
            assert await ended(socket) == CloseCode.UNAUTHORIZED
            keys.revoked.clear()
        async with opened(live) as socket:
            listed = await answer(socket, "command.list")
            assert len(listed["report"]["items"]) == 1


async def test_a_non_utf8_frame_ends_its_socket_with_the_matching_code() -> None:
    with Live(authenticator=Doormen()) as live:
        async with opened(live) as socket:
            await socket.send(b"\xff\xfe", text=True)
            with pytest.raises(ConnectionClosed):
                await told(socket)
        assert socket.close_code == 1007
    record = logging.LogRecord(
        "uvicorn.error", logging.ERROR, "", 0, "Invalid UTF-8 sequence received from client.", (), sys.exc_info()
    )
    assert RepeatFilter().filter(record)
    assert (record.levelname, record.exc_info) == ("WARNING", None)
