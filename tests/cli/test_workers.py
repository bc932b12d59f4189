"""`elytron serve --workers`: several processes answer on one port, over one store, and end together."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from elytron_cli.server import workers
from elytron_cli.server.workers import WorkerGroup, end_with_input, require_workers, run_workers, worker_arguments
from elytron_core.errors import InvalidInput
from elytron_http_shell.server import bound_socket, listening_address

pytestmark = pytest.mark.anyio
RUN = "from elytron_cli.main import run_command_line; run_command_line()"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
TURN = {"kind": "transcript", "turns": [{"messages": [{"role": "user", "text": "The ferry leaves at six."}]}]}


def test_a_worker_gets_the_servers_arguments_and_its_port() -> None:
    given = ["serve", "--workers", "2", "--store", "m.db", "--workers=3", "--operator-key"]
    common = ["serve", "--store", "m.db"]
    assert worker_arguments(given, 7, is_first=False) == [*common, "--listen-fd", "7", "--json"]
    assert worker_arguments(given, 7, is_first=True) == [*common, "--operator-key", "--listen-fd", "7", "--json"]


@pytest.mark.parametrize("store", ["memory:", "embedded:", "mcp+https://host/mcp"])
def test_a_store_of_one_process_has_no_workers(store: str) -> None:
    with pytest.raises(InvalidInput):
        require_workers(store)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def call(address: str, operation: str, **request: object) -> Any:
    """Return the report of a call on a new connection, which any worker may accept."""
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.post(f"{address}/v1/{operation}", json={"scope": {"space": "eve"}, **request})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def started(folder: Path) -> tuple["subprocess.Popen[bytes]", dict[str, Any]]:
    """Start a server of two workers on a file in `folder`; return it and its report."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    command = [sys.executable, "-c", RUN, "serve", "--store", "m.db", "--development", "--port", "0", "--workers", "2"]
    process = subprocess.Popen(command, cwd=folder, env=kept, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = (await asyncio.to_thread(process.stdout.readline)).decode()
        assert line, "the server ended"
        text += line
    return process, json.loads(text)


@pytest.mark.usefixtures("whole_starts")
async def test_all_workers_answer_from_one_store_and_end_together(tmp_path: Path) -> None:
    server, report = await started(tmp_path)
    address = report["address"]
    assert len(report["workers"]) == 2
    assert report["pid"] == server.pid
    written = await call(address, "write", write=TURN)
    found = [await call(address, "recall", query="ferry", min_sequence=written["sequence"]) for _ in range(8)]
    assert all(one == found[0] for one in found)
    assert found[0]["hits"][0]["text"] == "The ferry leaves at six."
    server.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(server.wait, 60) == 0
    server.communicate()
    assert [process for process in report["workers"] if is_running(process)] == []


async def test_a_space_is_unlocked_and_locked_in_all_workers(tmp_path: Path) -> None:
    server, report = await started(tmp_path)

    async def posted(path: str, **body: object) -> int:
        # Each on a new connection, which any worker may accept.
        async with httpx.AsyncClient(base_url=report["address"], timeout=60) as client:
            return (await client.post(path, json=body)).status_code

    try:
        assert await posted("/v1/add", text="The ferry leaves at six.") == 200
        assert await posted("/v1/secret", words=WORDS) == 200
        assert {await posted("/v1/search", query="ferry") for _ in range(16)} == {200}
        assert await posted("/v1/secret/lock") == 200
        assert {await posted("/v1/search", query="ferry") for _ in range(16)} == {423}
        assert await posted("/v1/secret/unlock", words=WORDS) == 200
        assert {await posted("/v1/search", query="ferry") for _ in range(16)} == {200}
    finally:
        server.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.communicate)


async def test_workers_whose_server_was_killed_end_too(tmp_path: Path) -> None:
    server, report = await started(tmp_path)
    ends = [os.pidfd_open(process) for process in report["workers"]]
    server.kill()
    server.communicate()
    for end in ends:
        assert (await asyncio.to_thread(select.select, [end], [], [], 60))[0] == [end]
        os.close(end)


async def test_a_worker_that_was_killed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_STEADY_S", 0.0)
    arguments = ["serve", "--store", f"{tmp_path}/m.db", "--development", "--log-level", "error"]
    with bound_socket("127.0.0.1", 0) as listening:
        address = listening_address(listening)
        group = WorkerGroup(arguments, listening, 2)
        told: asyncio.Future[Sequence[int]] = asyncio.get_running_loop().create_future()

        def ready(_: Mapping[str, Any], processes: Sequence[int]) -> None:
            told.set_result(processes)

        running = asyncio.create_task(group.run(ready))
        first, second = await told
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(60):
            while set(group.processes) <= {first, second}:
                await call(address, "inspect")
        await call(address, "write", write=TURN)
        group.end()
        assert await running == 0
        assert not is_running(second)


@pytest.mark.parametrize("store", ["m.db", "folder/", "postgres://host/db"])
def test_a_store_that_processes_share_has_workers(store: str) -> None:
    require_workers(store)


async def test_workers_that_cannot_begin_end_the_server_with_their_code() -> None:
    with bound_socket("127.0.0.1", 0) as listening:
        listens: list[Mapping[str, Any]] = []
        code = await run_workers(["serve", "--no-such-option"], listening, 2, lambda report, _: listens.append(report))
    assert (code, listens) == (2, [])


async def test_a_worker_that_ends_soon_after_its_start_ends_the_server(tmp_path: Path) -> None:
    arguments = ["serve", "--store", f"{tmp_path}/m.db", "--development", "--log-level", "error"]
    with bound_socket("127.0.0.1", 0) as listening:
        group = WorkerGroup(arguments, listening, 2)
        code = await group.run(lambda _, processes: os.kill(processes[0], signal.SIGKILL))
    assert code == 1


async def test_a_worker_ends_when_its_input_does(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    ended = asyncio.Event()
    with os.fdopen(reading) as given:
        monkeypatch.setattr(sys, "stdin", given)
        end_with_input(ended.set)
        os.write(writing, b"x")
        os.close(writing)
        async with asyncio.timeout(10):
            await ended.wait()
