"""`elytron chat` at a terminal: lines are editable, pasted text is one line, and history is restored."""

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

from elytron_cli.chat.conversation import HISTORY_LINES, LineHistory

SCRIPT = str(Path(__file__).parents[1] / "agent/loop/mcp_note_server.py")
CONTROLLED = "import os; os.open(os.ttyname(0), os.O_RDWR); "
"""Make the terminal the controlling one, whose keys interrupt the process."""
PASTE = "\x1b[200~{}\x1b[201~"
UP, LEFT = "\x1b[A", "\x1b[D"


@dataclass
class Terminal:
    """A chat in its own terminal."""

    process: "subprocess.Popen[bytes]"
    handle: int
    screen: str = ""
    seen: int = field(default=0)

    def type(self, text: str) -> None:
        os.write(self.handle, text.encode())

    def until(self, wanted: str) -> None:
        """Read until the terminal shows `wanted` after the previous match."""
        end = time.monotonic() + WAIT_S
        while (at := self.screen.find(wanted, self.seen)) < 0:
            ready, _, _ = select.select([self.handle], [], [], max(end - time.monotonic(), 0))
            assert ready, self.screen
            self.screen += os.read(self.handle, 65_536).decode("utf-8", "replace")
        self.seen = at + len(wanted)

    def until_idle(self) -> None:
        """Wait until the chat only waits for a key."""
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
        [sys.executable, "-c", CONTROLLED + RUN, *arguments],
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


def test_lines_are_editable_pasted_text_is_one_line_and_history_is_restored(tmp_path: Path) -> None:
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
            terminal.until("answer: Second.")
            terminal.until("> ")
            terminal.type(f"{UP}{UP}\r")
            terminal.until("Third.")
        assert words_of(server).endswith("hello")
    (history,) = (tmp_path / "state").rglob("chat_history")
    assert history.stat().st_mode & 0o777 == 0o600
    assert "\x1b" not in asked(server)
    assert "q7Zx" not in history.read_text()


@pytest.mark.parametrize("options", [("--no-history",), ("--key-file", "k.json")])
def test_no_input_history_is_stored_when_disabled_or_with_a_sealed_store(
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


@pytest.mark.usefixtures("whole_starts")
def test_sigterm_at_the_prompt_ends_the_chat(tmp_path: Path) -> None:
    with serving_apart(said("First.")) as server, chatting(tmp_path, server) as terminal:
        terminal.until("> ")
        terminal.until_idle()
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(WAIT_S) == 143


def test_a_history_is_bounded_and_omits_non_text(tmp_path: Path) -> None:
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


def test_an_mcp_tool_that_may_write_waits_for_approval(tmp_path: Path) -> None:
    servers = {"mcpServers": {"notes": {"command": sys.executable, "args": [SCRIPT]}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    writing = [said(calls=(("notes_write_note", {"text": f"Note {number}."}),)) for number in range(4)]
    reading = said(calls=(("notes_read", {}),))
    answers = (*writing, reading, said("All done."))
    with serving_apart(*answers) as server, chatting(tmp_path, server, "--mcp-config", "mcp.json") as terminal:
        terminal.until("> ")
        terminal.type("Write them.\ry\r")
        terminal.until('call notes_write_note with {"text":')
        terminal.until("[y/n/a]")
        terminal.type("n\r")
        terminal.until("[y/n/a]")
        terminal.type("y\r")
        terminal.until("[y/n/a]")
        terminal.type("a\r")
        terminal.until("= The ferry leaves at six. Note 1. Note 2. Note 3.")
        terminal.until("All done.")
        terminal.until("> ")
        assert terminal.end() == 0


def test_ctrl_c_at_an_approval_prompt_calls_nothing_and_ends_the_turn(tmp_path: Path) -> None:
    writing = said(calls=(("notes_write_note", {"text": "Note."}),))
    server_of_tools = f"notes={sys.executable} {SCRIPT}"
    with serving_apart(writing, said("Good.")) as server, chatting(tmp_path, server, "--mcp", server_of_tools) as chat:
        chat.until("> ")
        chat.type("Write it.\r")
        chat.until("[y/n/a]")
        chat.type("\x03")
        chat.until("cancelled")
        chat.until("> ")
        chat.type("Hello?\r")
        chat.until("Good.")
        assert "written" not in chat.screen


def test_without_a_terminal_tools_that_may_write_need_blanket_approval(elytron: CommandLine) -> None:
    answers = (said(calls=(("notes_write_note", {"text": "Note."}),)), said("Done."))
    tools = ("--mcp", f"notes={sys.executable} {SCRIPT}")
    for approval, is_refused in (((), True), (("--approve", "all"), False)):
        with serving_apart(*answers) as server:
            model = ("--model", f"ollama:m@{server.url}")
            done = elytron("chat", *model, *tools, *approval, standard_input=b"Write it.\n")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        (answered,) = [event for event in events if event["kind"] == "tool_answered"]
        assert (answered["is_refused"], answered["text"] == "written") == (is_refused, not is_refused)
    asking = ("chat", "--model", "ollama:m", *tools, "--approve", "ask")
    assert "no terminal" in elytron.error(*asking, expect=2, standard_input=b"")["reason"]
    assert "--no-tools" in elytron.error("chat", "--model", "ollama:m", *tools, "--no-tools", expect=2)["reason"]
