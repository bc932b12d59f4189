"""The proxy as users start it: a separate command, a part of `serve`, a demonstration."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.cli.conftest import CommandLine
from tests.models.fake_server import serving, serving_apart
from tests.models.streams import TEXTS
from tests.proxy.proxy_setup import PATHS, asked, recorded
from tests.transports.serving import served

from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_proxy import ModelUpstream, ProxySettings

RUN = "from elytron_cli.main import run_command_line; run_command_line()"
TEXT = "".join(TEXTS)


@contextmanager
def started(folder: Path, *arguments: str) -> Generator[str]:
    """Give the address of a server that a command started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments, "--port", "0", "--no-json", "--store", "m.db"],
        cwd=folder,
        env=kept,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://[^ ]+", process.stdout.readline())
        assert found is not None
        yield found[0].strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.usefixtures("whole_starts")
def test_the_command_proxies_a_model_server(tmp_path: Path) -> None:
    with serving_apart(recorded("chat")) as upstream, started(tmp_path, "proxy", "--upstream", upstream.url) as url:
        for said in ("My boat is called Petrel.", "What is my boat called?"):
            answer = httpx.post(f"{url}{PATHS['chat']}", json=asked("chat", said), timeout=20)
            assert answer.status_code == 200
        assert "called Petrel" in str(upstream.asked[1].body)
        # A turn is committed after the end of its answer.
        asking = (httpx.get(f"{url}/v1/bm/provider-capabilities").json() for _ in range(1_000))
        told = next(told for told in asking if told["counted"]["committed"] == 2)
        assert told["placement"] == "tail"
        assert "elytron_proxy_committed_total 2.0" in httpx.get(f"{url}/metrics").text
        elsewhere = httpx.get(f"{url}/v1/models", headers={"Origin": "https://evil.example"})
        assert elsewhere.status_code == 403


def test_a_proxy_beyond_this_machine_requires_keys(elytron: CommandLine) -> None:
    error = elytron.error("proxy", "--host", "0.0.0.0", "--port", "0", expect=5)
    assert "elytron access add" in error["reason"]


@pytest.mark.parametrize("url", ["ftp://host", "http://user:secret@host", "nothing", "http://host?key=1"])
def test_an_invalid_upstream_is_rejected_without_echoing_it(elytron: CommandLine, url: str) -> None:
    error = elytron.error("proxy", "--upstream", url, expect=2)
    assert "secret" not in str(error)


def test_the_demonstration_shows_what_the_second_conversation_knows(elytron: CommandLine) -> None:
    calls = elytron.json("demo", "proxy", "--json")["calls"]
    assert calls[0]["recalled"] == 0
    assert calls[1]["answered"] == "Your boat is called Petrel."
    assert "<elytron-memory" in calls[1]["placed"]
    assert "Your boat is called Petrel." in elytron("demo", "proxy").stdout


@pytest.mark.anyio
async def test_serve_offers_the_same_routes_under_llm() -> None:
    async with serving(recorded("messages")) as upstream:
        llm = ProxySettings(upstreams=(ModelUpstream(upstream.url),))
        async with served(SurfaceOptions(llm=llm)) as server, httpx.AsyncClient(timeout=20) as client:
            key = await server.key(PrincipalKind.USER, "ada")
            url = f"{server.url}/llm{PATHS['messages']}"
            refused = await client.post(url, json=asked("messages", "Hello"))
            assert (refused.status_code, refused.json()["type"]) == (401, "error")
            for said in ("My boat is called Petrel.", "What is my boat called?"):
                answer = await client.post(url, json=asked("messages", said), headers={"x-api-key": key})
                assert answer.status_code == 200
            assert "called Petrel" in str(upstream.asked[1].body)
            assert upstream.asked[0].path == PATHS["messages"]
            operator = await server.key(PrincipalKind.OPERATOR, None)
            figures = await client.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {operator}"})
            assert "elytron_proxy_calls_total 3.0" in figures.text
            assert 'elytron_requests_total{method="POST",route="/llm",status="200"} 2.0' in figures.text
