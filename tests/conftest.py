"""Fixtures that every test may use."""

import os
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("ELYTRON_HYPOTHESIS", "ci"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_foreign_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail any test that connects beyond this machine: nobody asked for that."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        host = str(address[0]) if self.family in {socket.AF_INET, socket.AF_INET6} else "local"
        if host not in {"127.0.0.1", "::1", "localhost", "local"}:
            raise AssertionError(f"a test opened a socket to {host!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
