"""A resident process answers the prompts of a coding agent as the command does, and ends when it is not wanted."""

import asyncio
import io
import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from elytron_cli import main
from elytron_cli.agents import hooks, prompt_client
from elytron_cli.agents.hooks import PromptServer, start_resident
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
    # The path of a socket is short, and a test's own folder may have a long one.
    with TemporaryDirectory(prefix="e", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder, "elytron")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return what asks the resident process as a hook does: what it prints; None if the command has to answer."""

    def asked(prompt: str = "What is the code of the boiler?", *, event: bytes = b"") -> bytes | None:
        sent = event or json.dumps({"session_id": "s", "cwd": "/boiler", "prompt": prompt}).encode()
        shown = StandardStream()
        monkeypatch.setattr(sys, "stdin", StandardStream(sent))
        monkeypatch.setattr(sys, "stdout", shown)
        is_answered = prompt_client.print_resident_answer(RECALL)
        return shown.buffer.getvalue() if is_answered else None

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
        server = PromptServer(session, settings.space.value, settings.store.value, max_chars=4_000)
        address = prompt_client.resident_address(RECALL)
        assert address is not None
        ready = asyncio.Event()
        serving = asyncio.create_task(server.serve(address, ready=ready.set))
        waiting = asyncio.create_task(ready.wait())
        # A server that fails to start is the test's failure, not its timeout.
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not ready.is_set():
            await serving
        yield serving
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_it_answers_with_what_others_stored_since(boiler: CommandLine, ask: Ask) -> None:
    async with residing(boiler.folder):
        told = await asyncio.to_thread(ask)
        assert told is not None
        assert "4417" in json.loads(told)["hookSpecificOutput"]["additionalContext"]
        await asyncio.to_thread(boiler, "add", "The cellar door sticks in winter.")
        assert b"sticks" in (await asyncio.to_thread(ask, "does the cellar door stick in winter?") or b"")


@pytest.mark.parametrize("event", [b"{", b'{"session_id": ""}', b"[" * 100_000], ids=["cut", "no session", "deep"])
async def test_what_it_cannot_read_is_left_to_the_command(boiler: CommandLine, ask: Ask, event: bytes) -> None:
    async with residing(boiler.folder):
        assert await asyncio.to_thread(lambda: ask(event=event)) is None
        assert sys.stdin.buffer.read() == event


async def test_a_prompt_without_words_is_answered_by_nothing(boiler: CommandLine, ask: Ask) -> None:
    async with residing(boiler.folder):
        assert await asyncio.to_thread(ask, "  ") == b""


async def test_a_second_one_does_not_take_its_place(
    boiler: CommandLine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["elytron", "hooks", "resident"])
    async with residing(boiler.folder):
        code = await asyncio.to_thread(boiler, "hooks", "resident")
        assert code.output == ""
        assert await asyncio.to_thread(ask) is not None


async def test_it_ends_when_its_store_is_another_one(
    boiler: CommandLine, ask: Ask, runtime_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "CHECK_S", 0.001)
    async with residing(boiler.folder) as serving:
        (boiler.folder / "m.db").rename(boiler.folder / "former.db")
        await serving
        assert list(runtime_folder.iterdir()) == []
        assert await asyncio.to_thread(ask) is None


async def test_it_ends_when_no_prompt_comes(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "CHECK_S", 0.001)
    monkeypatch.setattr(hooks, "IDLE_S", 0.002)
    async with residing(boiler.folder) as serving:
        await serving


def test_a_socket_that_nothing_answers_at_is_taken_over(boiler: CommandLine, ask: Ask) -> None:
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
    answers = iter([True, False])

    def print_answer(_: list[str]) -> bool:
        return next(answers)

    monkeypatch.setattr(prompt_client, "print_resident_answer", print_answer)
    monkeypatch.setattr(sys, "argv", ["elytron", *RECALL])
    main.run_command_line()
    monkeypatch.setattr(sys, "argv", ["elytron", "hooks", "recall", "--resident", "--max-chars", "a"])
    with pytest.raises(SystemExit):
        main.run_command_line()
    assert boiler.json("list")["items"]


def test_a_command_that_answers_by_itself_starts_one(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def start(command: list[str], **_: Any) -> None:
        started.append(command)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(sys, "argv", ["elytron", *RECALL])
    event = json.dumps({"session_id": "s", "cwd": "/boiler", "prompt": "What is the code of the boiler?"}).encode()
    assert "4417" in boiler(*RECALL, standard_input=event).stdout
    assert [command[-2:] for command in started] == [["hooks", "resident"]]


async def test_no_second_one_is_started(boiler: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    async with residing(boiler.folder):
        await asyncio.to_thread(start_resident, RECALL)


def test_a_folder_that_others_may_enter_holds_no_socket(runtime_folder: Path, elytron: CommandLine) -> None:
    assert prompt_client.resident_address(RECALL) is not None
    runtime_folder.chmod(0o755)
    assert prompt_client.resident_address(RECALL) is None
    assert "needs local sockets" in elytron("hooks", "resident", expect=1).stderr
    assert not prompt_client.print_resident_answer(RECALL)
    start_resident(RECALL)


def test_other_arguments_settings_and_folders_have_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {prompt_client.resident_address(RECALL)}
    assert found == {prompt_client.resident_address(["hooks", "resident"])}
    found.add(prompt_client.resident_address(["hooks", "recall", "--space", "b"]))
    monkeypatch.setenv("ELYTRON_SPACE", "b")
    found.add(prompt_client.resident_address(RECALL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELYTRON_SPACE", "c")
    found.add(prompt_client.resident_address(RECALL))
    assert len(found) == 4


async def test_a_long_runtime_folder_gives_way_to_a_short_one(
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
