"""Unaccepted connections are counted, and calls are delayed until they are accepted."""

import asyncio
import socket
import sys
from contextlib import ExitStack

import pytest

from elytron_adapter.admission_control import FairPlaces
from elytron_http_shell.server import take_up, waiting_connections

pytestmark = pytest.mark.anyio


async def test_calls_are_delayed_until_connections_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_http_shell.server.BACKLOG_HELD", 2)
    monkeypatch.setattr("elytron_http_shell.server.BACKLOG_LOOK_S", 0)
    held = asyncio.Event()

    class Watched(FairPlaces):
        def hold_calls(self):
            held.set()
            return super().hold_calls()

    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=16))
        looking = asyncio.create_task(take_up(listening, Watched()))
        for _ in range(3):
            stack.enter_context(socket.create_connection(listening.getsockname()))
        if sys.platform == "linux":
            assert waiting_connections(listening) == 3
            await held.wait()
        for _ in range(3):
            stack.enter_context(listening.accept()[0])
        assert waiting_connections(listening) == 0
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def test_without_system_support_nothing_is_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        monkeypatch.delattr(socket, "TCP_INFO", raising=False)
        assert waiting_connections(listening) == 0
    monkeypatch.undo()
    assert waiting_connections(listening) == 0
