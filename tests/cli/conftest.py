"""The command line in this process: in its own folder, with nothing configured."""

import json
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from elytron_cli.app import elytron_group

FIXTURES = Path(__file__).parents[2] / "fixtures" / "assistants"


@dataclass(frozen=True)
class CommandLine:
    """Runs `elytron` on the store m.db in the test's folder."""

    folder: Path

    def __call__(self, *arguments: str, standard_input: bytes | None = None, expect: int = 0) -> Result:
        """Return the result of a run, which must exit with `expect`."""
        result = CliRunner().invoke(elytron_group, arguments, input=standard_input)
        assert result.exit_code == expect, result.output
        return result

    def json(self, *arguments: str, standard_input: bytes | None = None, expect: int = 0) -> Any:
        """Return the report of a run that succeeds."""
        return json.loads(self(*arguments, standard_input=standard_input, expect=expect).stdout)

    def error(self, *arguments: str, expect: int, standard_input: bytes | None = None) -> dict[str, Any]:
        """Return the error of a failed run, which prints nothing else."""
        result = self(*arguments, standard_input=standard_input, expect=expect)
        assert result.stdout == ""
        error: dict[str, Any] = json.loads(result.stderr)["error"]
        return error

    def write(self, name: str, content: bytes) -> str:
        """Write a file into the folder and return its path."""
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def make(self) -> None:
        """Create the store, with nothing in the space that commands use."""
        self("add", "made", "--space", "another")

    def state(self) -> tuple[str, int]:
        """Return a value that changes with any change of the space."""
        report = self.json("inspect", "--fingerprints")
        return report["state_fingerprint"], report["sequence"]


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the standard streams of commands count as a terminal."""

    def is_terminal(_: object) -> bool:
        return True

    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", is_terminal, raising=False)


@pytest.fixture
def elytron(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in [name for name in os.environ if name.startswith("ELYTRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("ELYTRON_STORE", "m.db")
    monkeypatch.setenv("ELYTRON_STATE_DIR", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("COLUMNS", "100")
    return CommandLine(tmp_path)


class Machine:
    """A home with a repository and assistants' files, which the command reads like a person's."""

    def __init__(self, elytron: CommandLine) -> None:
        self.elytron = elytron
        self.home = elytron.folder / "home"
        self.shop = elytron.folder / "shop"
        (self.shop / ".git").mkdir(parents=True)
        self.claude = self.home / ".claude/projects/-w-shop"

    def put(self, fixture: str, place: str | Path) -> Path:
        """Write a sample into the home, with the repository's real folder in it."""
        text = (FIXTURES / fixture).read_text("utf-8").replace("/w/shop", self.shop.as_posix())
        path = self.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if fixture.endswith(".sql"):
            with sqlite3.connect(path) as connection:
                connection.executescript(text)
            connection.close()
        else:
            path.write_text(text, "utf-8")
        return path

    def put_all(self) -> None:
        """Leave the sample of each assistant."""
        self.put("claude-code-2.1.332.jsonl", self.claude / "5e0c0001.jsonl")
        self.put("codex-0.163.0.jsonl", ".codex/sessions/2026/11/03/rollout-2026-11-03T10-00-00-0199a000.jsonl")
        self.put("gemini-5411f113.jsonl", ".gemini/tmp/shop/chats/session-2026-11-04T10-00-6e3a0001.jsonl")
        (self.home / ".gemini/projects.json").write_text(json.dumps({"projects": {self.shop.as_posix(): "shop"}}))
        self.put("opencode-1.18.33.sql", ".local/share/opencode/opencode.db")
        self.put("cursor-2026.07.17-editor.sql", ".config/Cursor/User/globalStorage/state.vscdb")

    def run(self, *arguments: str, expect: int = 0) -> dict[str, Any]:
        """Return the report of an import."""
        report: dict[str, Any] = self.elytron.json("sessions", "import", *arguments, expect=expect)
        return report

    def said(self, channel: str | None = None) -> list[tuple[str, str]]:
        """Return what is stored in the repository's space, with its speaker."""
        items = self.elytron.json("list", "--space", self.space)["items"]
        return [(item["role"], item["text"]) for item in items if channel in {None, item["channel"]}]

    @property
    def space(self) -> str:
        """The space of the repository."""
        return self.space_of(self.shop)

    def space_of(self, folder: Path) -> str:
        """Return the space of a folder."""
        space: str = self.elytron.json("repo", "show", str(folder))["space"]
        return space


@pytest.fixture
def machine(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Run the command for a person whose home is in the test's folder."""
    machine = Machine(elytron)
    monkeypatch.setenv("HOME", str(machine.home))
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "OPENCODE_DB",
        "CURSOR_CONFIG_DIR",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return machine
