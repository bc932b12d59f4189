"""A resident process answers a coding agent's prompts like the command does, and ends when unneeded."""

import asyncio
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from tests.cli.conftest import CommandLine
from tests.command_processes import RUN

from elytron_assistants.hooks.activity import ActivityFolder
from elytron_cli import main
from elytron_cli.agents import prompt_client, resident
from elytron_cli.agents.hook_space import HookPlace
from elytron_cli.agents.resident import HookServer, start_resident
from elytron_cli.config import resolve_settings
from elytron_cli.session import open_session

pytestmark = pytest.mark.anyio

RECALL = ["hooks", "recall", "--resident"]
Ask = Callable[..., bytes | None]


class StandardStream:
    """A standard stream in memory, with its bytes beneath."""

    def __init__(self, content: bytes = b"") -> None:
        self.buffer = io.BytesIO(content)

    def flush(self) -> None:
        """Do nothing: what was written is there."""


@pytest.fixture(autouse=True)
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    # Socket paths are short, and a test's own folder may have a long one.
    with TemporaryDirectory(prefix="e", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder, "elytron")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that calls the resident process like a hook: its output, or None if the command must answer."""

    def asked(prompt: str = "What is the code of the boiler?", *, event: bytes = b"") -> bytes | None:
        # A session never shows a line twice.
        sent = event or json.dumps({"session_id": uuid4().hex, "cwd": "/boiler", "prompt": prompt}).encode()
        shown = StandardStream()
        monkeypatch.setattr(sys, "stdin", StandardStream(sent))
        monkeypatch.setattr(sys, "stdout", shown)
        code = prompt_client.print_resident_answer(RECALL)
        return shown.buffer.getvalue() if code is not None else None

    return asked


@pytest.fixture
def boiler(elytron: CommandLine) -> CommandLine:
    elytron("add", "The boiler takes the code 4417.")
    return elytron


@asynccontextmanager
async def residing(folder: Path) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve the store m.db of `folder` until the end of the block."""
    settings = resolve_settings({"store": "m.db"}, environment={}, folder=folder)
    async with open_session(settings) as session:
        place = HookPlace(settings, settings.space.value)
        server = HookServer(session.runtime, place, ActivityFolder(folder.parent / "records"))
        address = prompt_client.resident_address(RECALL)
        assert address is not None
        ready = asyncio.Event()
        serving = asyncio.create_task(server.serve(address, ready=ready.set))
        waiting = asyncio.create_task(ready.wait())
        # A server that fails to start fails the test without a timeout.
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not ready.is_set():
            await serving
        yield serving
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_the_process_recalls_what_others_stored_since(boiler: CommandLine, ask: Ask) -> None:
    async with residing(boiler.folder):
        told = await asyncio.to_thread(ask)
        assert told is not None
        assert "4417" in json.loads(told)["hookSpecificOutput"]["additionalContext"]
        await asyncio.to_thread(boiler, "add", "The cellar door sticks in winter.")
        assert b"sticks" in (await asyncio.to_thread(ask, "does the cellar door stick in winter?") or b"")


@pytest.mark.parametrize("event", [b"{", b'{"session_id": ""}', b"[" * 100_000], ids=["cut", "no session", "deep"])
async def test_an_unreadable_event_is_answered_with_one_line(
    boiler: CommandLine, ask: Ask, event: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    async with residing(boiler.folder):
        assert await asyncio.to_thread(lambda: ask(event=event)) == b""
    assert capsys.readouterr().err.startswith("elytron: ")


async def test_an_unreadable_call_is_left_to_the_command(
    boiler: CommandLine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*RECALL, "--host", "abacus"]
    async with residing(boiler.folder):
        assert await asyncio.to_thread(ask) is not None
        monkeypatch.setattr(sys, "stdin", StandardStream(b"{}"))
        assert await asyncio.to_thread(prompt_client.print_resident_answer, arguments) is None
        assert sys.stdin.buffer.read() == b"{}"


async def test_a_prompt_without_words_is_answered_by_nothing(boiler: CommandLine, ask: Ask) -> None:
    async with residing(boiler.folder):
        assert await asyncio.to_thread(ask, "  ") == b""


async def test_a_second_process_does_not_replace_the_first(
    boiler: CommandLine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["elytron", "hooks", "resident"])
    async with residing(boiler.folder):
        code = await asyncio.to_thread(boiler, "hooks", "resident")
        assert code.output == ""
        assert await asyncio.to_thread(ask) is not None


async def test_the_process_ends_when_its_store_is_replaced(
    boiler: CommandLine, ask: Ask, runtime_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "CHECK_S", 0.001)
    async with residing(boiler.folder) as serving:
        (boiler.folder / "m.db").rename(boiler.folder / "former.db")
        await serving
        assert list(runtime_folder.iterdir()) == []
        assert await asyncio.to_thread(ask) is None


async def test_the_process_ends_when_no_prompt_comes(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "CHECK_S", 0.001)
    monkeypatch.setattr(resident, "IDLE_S", 0.002)
    async with residing(boiler.folder) as serving:
        await serving


def test_an_abandoned_socket_is_taken_over(boiler: CommandLine, ask: Ask) -> None:
    address = prompt_client.resident_address(RECALL)
    assert address is not None
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(address))
    assert ask() is None

    async def answered() -> bytes | None:
        async with residing(boiler.folder):
            return await asyncio.to_thread(ask)

    assert asyncio.run(answered()) is not None


def test_the_command_prints_its_answer_or_answers_itself(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([0, None])

    def print_answer(_: list[str]) -> int | None:
        return next(answers)

    monkeypatch.setattr(prompt_client, "print_resident_answer", print_answer)
    monkeypatch.setattr(sys, "argv", ["elytron", *RECALL])
    with pytest.raises(SystemExit, match="0"):
        main.run_command_line()
    monkeypatch.setattr(sys, "argv", ["elytron", "hooks", "recall", "--resident", "--max-chars", "a"])
    with pytest.raises(SystemExit):
        main.run_command_line()
    assert boiler.json("list")["items"]


def test_a_command_that_answers_itself_starts_a_process(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def start(command: list[str], **_: Any) -> SimpleNamespace:
        started.append(command)
        return SimpleNamespace(stdin=None)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(sys, "argv", ["elytron", *RECALL])
    event = json.dumps({"session_id": "s", "cwd": "/boiler", "prompt": "What is the code of the boiler?"}).encode()
    assert "4417" in boiler(*RECALL, standard_input=event).stdout
    assert [command[-2:] for command in started] == [["hooks", "resident"]]


class StartedProcess:
    """A started process: its standard output, and its exit code."""

    def __init__(self, said: bytes | None, code: int) -> None:
        reading, self._writing = os.pipe()
        self.stdout = os.fdopen(reading, "rb")
        self._code = code
        if said is not None:
            os.write(self._writing, said)
            os.close(self._writing)

    def wait(self) -> int:
        """Return the exit code."""
        return self._code


def start_as(monkeypatch: pytest.MonkeyPatch, process: StartedProcess) -> None:
    """Let commands start `process`."""

    def start(*_: object, **__: object) -> StartedProcess:
        return process

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.mark.parametrize(("said", "code"), [(b"listening\n", 0), (b"", 0)], ids=["ready", "another is there"])
async def test_a_prompt_is_answered_by_the_process_that_it_starts(
    boiler: CommandLine, monkeypatch: pytest.MonkeyPatch, said: bytes, code: int
) -> None:
    prompt = {"session_id": uuid4().hex, "cwd": "/boiler", "prompt": "What is the code of the boiler?"}
    shown = StandardStream()
    arguments = [*RECALL, "--store", "m.db"]
    start_as(monkeypatch, StartedProcess(said, code))
    # This test's server has the address of the command without a named store.
    address = prompt_client.resident_address(RECALL)

    def own_address(_: object) -> Path | None:
        return address

    monkeypatch.setattr(prompt_client, "WAIT_S", 60)
    monkeypatch.setattr(sys, "stdin", StandardStream(json.dumps(prompt).encode()))
    monkeypatch.setattr(sys, "stdout", shown)
    async with residing(boiler.folder):
        monkeypatch.setattr(prompt_client, "resident_address", own_address)
        assert await asyncio.to_thread(prompt_client.print_started_answer, arguments) == 0
    assert b"4417" in shown.buffer.getvalue()


def test_a_slow_process_leaves_the_prompt_without_memory(
    boiler: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start_as(monkeypatch, StartedProcess(None, 0))
    monkeypatch.setattr(prompt_client, "WAIT_S", 0)
    monkeypatch.setattr(sys, "stdin", StandardStream(b"{}"))
    assert boiler.folder.exists()
    assert prompt_client.print_started_answer([*RECALL, "--store=m.db"]) == 0
    assert capsys.readouterr().out == ""


def test_a_command_works_without_a_process(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    start_as(monkeypatch, StartedProcess(b"", 3))
    store = boiler.folder.as_posix()
    assert prompt_client.print_started_answer([*RECALL, "--store", f"sqlite://{store}/m.db"]) is None
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    assert prompt_client.print_started_answer([*RECALL, "--store", "missing.db"]) is None
    assert prompt_client.print_started_answer(RECALL) is None
    assert prompt_client.print_started_answer(["hooks", "keep", "--resident", "--store", "m.db"]) is None


async def test_no_second_process_is_started(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    async with residing(boiler.folder):
        await asyncio.to_thread(start_resident, RECALL)


def test_a_folder_that_others_can_enter_holds_no_socket(runtime_folder: Path, elytron: CommandLine) -> None:
    assert prompt_client.resident_address(RECALL) is not None
    runtime_folder.chmod(0o755)
    assert prompt_client.resident_address(RECALL) is None
    assert "needs local sockets" in elytron("hooks", "resident", expect=2).stderr
    assert prompt_client.print_resident_answer(RECALL) is None
    start_resident(RECALL)


def test_each_memory_has_one_process_for_all_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELYTRON_STORE", raising=False)
    addresses = {prompt_client.resident_address(RECALL)}
    assert addresses == {
        prompt_client.resident_address(["hooks", "resident"]),
        prompt_client.resident_address(["hooks", "keep", "--host", "codex", "--resident"]),
        prompt_client.resident_address(["hooks", "recall", "--host=codex", "--max-chars", "500", "--resident"]),
    }
    monkeypatch.chdir(tmp_path)
    assert prompt_client.resident_address(RECALL) in addresses
    addresses.add(prompt_client.resident_address(["hooks", "recall", "--space", "b"]))
    monkeypatch.setenv("ELYTRON_SPACE", "b")
    addresses.add(prompt_client.resident_address(RECALL))
    monkeypatch.setenv("ELYTRON_STORE", "memory.db")
    addresses.add(prompt_client.resident_address(RECALL))
    monkeypatch.chdir(tmp_path.parent)
    addresses.add(prompt_client.resident_address(RECALL))
    assert len(addresses) == 5


@pytest.mark.parametrize("name", ["HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "APPDATA"])
def test_another_home_has_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    address = prompt_client.resident_address(RECALL)
    monkeypatch.setenv(name, str(tmp_path / "other"))
    assert prompt_client.resident_address(RECALL) != address


async def test_a_long_runtime_folder_path_is_replaced_by_a_short_one(
    boiler: CommandLine, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("r" * 90)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    address = prompt_client.resident_address(RECALL)
    assert address is not None
    assert len(str(address)) <= prompt_client.ADDRESS_BYTES
    assert list(long.iterdir()) == []
    async with residing(boiler.folder):
        assert await asyncio.to_thread(ask) is not None


def test_without_local_sockets_the_command_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    assert prompt_client.resident_address(RECALL) is None


PROMPTS, CRASHES = 500, 20


class ResidentProcesses:
    """Starts resident processes of a store like a hook."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def start(self) -> "subprocess.Popen[str]":
        """Start one, and return when it answers or has ended."""
        command = [sys.executable, "-c", RUN, "hooks", "resident"]
        process = self._stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self._folder)
        )
        self._stack.callback(process.kill)
        assert process.stdout is not None
        process.stdout.readline()
        return process


def store_holders(store: Path) -> list[int]:
    """Return the processes that have the store's file open, apart from this one."""
    holders: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            paths = {str(link.readlink()) for link in (folder / "fd").iterdir()}
        except OSError:
            continue
        if str(store) in paths and int(folder.name) != os.getpid():
            holders.append(int(folder.name))
    return holders


def test_prompts_and_crashes_leave_one_process_and_in_the_end_none(boiler: CommandLine, ask: Ask) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("counts the processes in /proc")
    store = boiler.folder / "m.db"
    with ExitStack() as stack:
        residents = ResidentProcesses(boiler.folder, stack)
        process = residents.start()
        assert all(ask("Thank you, that is all.") == b"" for _ in range(PROMPTS))
        assert store_holders(store) == [process.pid]
        for _ in range(CRASHES):
            process.kill()
            process.wait()
            assert ask() is None
            process = residents.start()
            assert b"4417" in (ask() or b"")
        rivals = [residents.start() for _ in range(3)]
        assert [rival.wait() for rival in rivals] == [0, 0, 0]
        assert store_holders(store) == [process.pid]
        store.rename(boiler.folder / "former.db")
        assert process.wait() == 0
        assert store_holders(store) == store_holders(boiler.folder / "former.db") == []
