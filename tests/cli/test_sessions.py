"""Sessions of coding assistants: read from their files and databases, and stored once in the memory of their folder."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

FIXTURES = Path(__file__).parents[2] / "fixtures" / "assistants"
SAID = {
    "claude-code": [
        ("user", "We always use ruff with line length 100."),
        ("assistant", "Ruff is set to a line length of 100."),
        ("tool", "`pytest -q` failed with exit code 2 and passed after changes to pyproject.toml."),
        ("user", "Add a cart page."),
        ("user", "And a page for orders."),
        ("assistant", "Both pages are tested too."),
    ],
    "codex": [
        ("user", "Prices are stored in cents."),
        ("assistant", "Prices are whole cents now."),
        ("tool", "`npm test` failed with exit code 1 and passed after changes to src/price.ts."),
        ("user", "Round half to even."),
        ("assistant", "Rounding is half to even."),
    ],
    "gemini": [
        ("user", "Orders older than a year are archived."),
        ("assistant", "The archive job runs nightly."),
    ],
    "opencode": [
        ("user", "Parcels leave on Tuesdays."),
        ("assistant", "The calendar has Tuesdays."),
    ],
    "cursor": [
        ("user", "Invoices start at 1000 each year."),
        ("assistant", "Invoices are numbered by year."),
    ],
}
"""What each assistant's sample says, in its order."""


class Machine:
    """A home with a repository and the files that assistants left; the command reads them as it would a person's."""

    def __init__(self, elytron: CommandLine) -> None:
        self.elytron = elytron
        self.home = elytron.folder / "home"
        self.shop = elytron.folder / "shop"
        (self.shop / ".git").mkdir(parents=True)
        self.claude = self.home / ".claude/projects/-w-shop"

    def put(self, fixture: str, place: str | Path) -> Path:
        """Leave a sample at a place in the home, with the repository's real folder in it."""
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
        """Return what is stored in the repository's space, and who said it."""
        items = self.elytron.json("list", "--space", self.space)["items"]
        return [(item["role"], item["text"]) for item in items if channel in {None, item["channel"]}]

    @property
    def space(self) -> str:
        """The space of the repository."""
        return self.space_of(self.shop)

    def space_of(self, folder: Path) -> str:
        """Return the space of a folder."""
        space: str = self.elytron.json("repo", "show", "--path", str(folder))["space"]
        return space


@pytest.fixture
def machine(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Have the command run for a person whose home is in the test's folder."""
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


@pytest.mark.parametrize("host", SAID)
def test_what_was_said_in_each_assistant_is_stored_in_the_repositorys_memory(machine: Machine, host: str) -> None:
    machine.put_all()
    report = machine.run(host)
    assert (report["sessions"], report["duplicates"]) == (1, 0)
    assert machine.said(host) == SAID[host]
