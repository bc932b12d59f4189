"""`elytron serve --agent-model`: a killed server resumes its turn, and without the option no agent is served."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.agent.service.responses.clients import client_of
from tests.agent.service.served import ServedUser, said
from tests.models.fake_server import serving
from tests.transports.serving import served as served_over

from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def process(folder: Path, *options: str) -> AsyncGenerator[tuple[asyncio.subprocess.Process, dict[str, Any]]]:
    """Yield a server in a separate process, and its own description."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from elytron_cli.main import run_command_line; run_command_line()",
        "serve", "--port", "0", "--development", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, cwd=folder,
        env={**os.environ, "ELYTRON_STORE": str(folder / "m.db"), "ELYTRON_SPACE": "ada"},
    )  # fmt: skip
    assert started.stdout is not None
    told = ""
    try:
        while not told.rstrip().endswith("}"):
            line = (await started.stdout.readline()).decode()
            assert line, "it ended before it listened"
            told += line
        yield started, json.loads(told)
    finally:
        if started.returncode is None:
            started.send_signal(signal.SIGTERM)
        await started.wait()


async def test_a_killed_server_continues_its_turn_after_a_restart(tmp_path: Path) -> None:
    async with serving() as model, httpx.AsyncClient(timeout=30) as client:
        model.reply = lambda _: said("I was away, and am back.")
        model.gate = asyncio.Event()
        options = ("--agent-model", f"chat:scripted@{model.url}/v1", "--web-search", "searxng=http://127.0.0.1:1")
        async with process(tmp_path, *options) as (server, told):
            ada = ServedUser(client, "none")
            client.base_url = httpx.URL(told["address"])
            await ada.made("POST", "/init")
            async with ada.stream("POST", "/chat", {"input": "Are you there?"}) as events:
                assert (await anext(events)).kind == "agent.typing"
                while not model.asked:
                    await asyncio.sleep(0.01)
                server.kill()
                await server.wait()
        assert "agent" in told["protocols"]
        assert "web_search" in str(model.asked[0].body["tools"])
        model.gate.set()
        async with process(tmp_path, *options) as (_, told):
            client.base_url = httpx.URL(told["address"])
            while len(items := (await ada.items("?order=asc"))["data"]) < 2:
                await asyncio.sleep(0.5)
    assert [item["text"] for item in items] == ["Are you there?", "I was away, and am back."]


@pytest.mark.usefixtures("whole_starts")
async def test_a_background_response_continues_after_a_restart(tmp_path: Path) -> None:
    async with serving() as model:
        model.reply = lambda _: said("Here it is.")
        model.gate = asyncio.Event()
        options = ("--agent-model", f"chat:scripted@{model.url}/v1")
        async with process(tmp_path, *options) as (server, told), client_of(told["address"], "none") as client:
            made = await client.responses.create(model="scripted", input="Write it", background=True)
            while not model.asked:
                await asyncio.sleep(0.01)
            server.kill()
            await server.wait()
        model.gate.set()
        async with process(tmp_path, *options) as (_, told), client_of(told["address"], "none") as client:
            while (shown := await client.responses.retrieve(made.id)).status != "completed":
                await asyncio.sleep(0.5)
            later = await client.responses.create(model="scripted", input="Thanks", previous_response_id=made.id)
    assert (shown.output_text, later.status) == ("Here it is.", "completed")


async def test_without_a_model_no_agent_is_served() -> None:
    async with served_over(SurfaceOptions()) as server, httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Authorization": f"Bearer {await server.key(PrincipalKind.USER, 'ada')}"}
        answer = await client.post("/v1/agent/init", json={}, headers=headers)
    assert (answer.status_code, answer.json()["code"], "agent" in server.protocols) == (404, "not_found", False)
