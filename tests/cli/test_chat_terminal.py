"""`elytron chat` at a terminal: lines are edited, a pasted text is one, and what was typed comes back."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.cli.test_chat import RUN, WAIT_S, asked, said
from tests.models.fake_server import FakeServer, serving_apart

from elytron_cli.chat.line_input import HISTORY_LINES, LineHistory

PASTE = "\x1b[200~{}\x1b[201~"
UP, LEFT = "\x1b[A", "\x1b[D"


@dataclass
class Terminal:
    """A chat in a terminal of its own."""

    process: "subprocess.Popen[bytes]"
    handle: int
    screen: str = ""
    seen: int = field(default=0)

    def type(self, text: str) -> None:
        os.write(self.handle, text.encode())

    def until(self, wanted: str) -> None:
        """Read until the terminal shows `wanted` after what was waited for before."""
        end = time.monotonic() + WAIT_S
        while (at := self.screen.find(wanted, self.seen)) < 0:
            ready, _, _ = select.select([self.handle], [], [], max(end - time.monotonic(), 0))
            assert ready, self.screen
            self.screen += os.read(self.handle, 65_536).decode("utf-8", "replace")
        self.seen = at + len(wanted)

    def until_idle(self) -> None:
        """Wait until the chat does nothing but wait for a key."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        end = time.monotonic() + WAIT_S
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < end

    def end(self) -> int:
        """End the chat at its prompt and return its exit code."""
        self.type("\x04")
        return self.process.wait(WAIT_S)


@contextmanager
def chatting(folder: Path, server: FakeServer, *options: str) -> Generator[Terminal]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    places = {"XDG_DATA_HOME": str(folder / "data"), "XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm"}
    arguments = ["chat", "--model", f"ollama:m@{server.url}", "--store", "m.db", *options]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder, env=kept | places, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait(WAIT_S)
        os.close(master)


def words_of(server: FakeServer) -> str:
    return str(server.asked[-1].body["messages"][-1]["content"])


def test_a_line_is_edited_a_pasted_text_is_one_and_the_history_comes_back(tmp_path: Path) -> None:
    with serving_apart(said("First."), said("Second."), said("Third.")) as server:
        with chatting(tmp_path, server) as terminal:
            terminal.until("> ")
            terminal.type(f"helo{LEFT}l\r")
            terminal.until("First.")
            assert words_of(server).endswith("hello")
            terminal.until("> ")
            terminal.type(PASTE.format("one key sk-ant-api03-" + "q7Zx" * 12 + "\r/two") + "\r")
            terminal.until("Second.")
            assert "one key" in words_of(server)
            assert words_of(server).endswith("\n/two")
            terminal.until("> ")
            assert terminal.end() == 0
        with chatting(tmp_path, server) as terminal:
            terminal.until("answered: Second.")
            terminal.until("> ")
            terminal.type(f"{UP}{UP}\r")
            terminal.until("Third.")
        assert words_of(server).endswith("hello")
    (history,) = (tmp_path / "state").rglob("chat_history")
    assert history.stat().st_mode & 0o777 == 0o600
    assert "\x1b" not in asked(server)
    assert "q7Zx" not in history.read_text()


@pytest.mark.parametrize("options", [("--no-history",), ("--key-file", "k.json")])
def test_no_file_of_what_is_typed_is_kept_without_a_history_or_beside_a_sealed_store(
    elytron: CommandLine, options: tuple[str, ...]
) -> None:
    tmp_path = elytron.folder
    elytron("keys", "create", "--key-file", "k.json")
    with serving_apart(said("First.")) as server, chatting(tmp_path, server, *options) as terminal:
        terminal.until("> ")
        terminal.type("Hello.\r")
        terminal.until("First.")
        terminal.until("> ")
        assert terminal.end() == 0
    assert not list(tmp_path.rglob("chat_history"))


def test_sigterm_at_the_prompt_ends_the_chat(tmp_path: Path) -> None:
    with serving_apart(said("First.")) as server, chatting(tmp_path, server) as terminal:
        terminal.until("> ")
        terminal.until_idle()
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(WAIT_S) == 143


def test_a_history_is_bounded_and_what_is_no_text_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state" / "chat_history"
    history = LineHistory(path)
    assert history.load() == []
    history.add("a\nb")
    path.chmod(0o644)
    with path.open("a") as file:
        file.write("no json\n7\n" + "".join(json.dumps(f"line {number}") + "\n" for number in range(2 * HISTORY_LINES)))
    assert history.load() == [f"line {number}" for number in range(HISTORY_LINES, 2 * HISTORY_LINES)]
    assert len(path.read_bytes().splitlines()) == HISTORY_LINES
    assert path.stat().st_mode & 0o777 == 0o600
    history.add("a\nb")
    assert history.load()[-1] == "a\nb"
