"""The console of a remote server, run as a command in this process."""

import os
import signal
import sys
from collections.abc import Callable
from threading import Thread

import httpx
import pytest
from tests.cli.conftest import CommandLine

NOWHERE = "http://127.0.0.1:9"


def page_reader(answers: list[int]) -> Callable[[str], None]:
    """Return a function that opens a page like a browser in a thread, and then ends the process's command."""

    def read(address: str) -> None:
        try:
            answers.append(httpx.get(address, trust_env=False).status_code)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    return lambda address: Thread(target=read, args=(address,)).start()


def test_a_remote_console_is_relayed_until_a_signal(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[int] = []
    monkeypatch.setattr("webbrowser.open", page_reader(answers))
    before = signal.getsignal(signal.SIGINT)
    report = elytron.json("console", "--url", NOWHERE, "--port", "0", "--open")
    assert report["server"] == NOWHERE
    assert report["address"].endswith("/console")
    assert answers == [httpx.codes.SERVICE_UNAVAILABLE]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_relayed_console_is_available_only_on_this_machine(elytron: CommandLine) -> None:
    refused = elytron.error("console", "--url", NOWHERE, "--host", "0.0.0.0", expect=2)
    assert refused["key"] == "invalid_input"
    assert "local address" in refused["reason"]


def test_a_relay_needs_the_http_client(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert elytron.error("console", "--url", NOWHERE, expect=8)["key"] == "missing_extra"
