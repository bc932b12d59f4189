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
        space: str = self.elytron.json("repo", "show", str(folder))["space"]
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


def test_what_no_person_said_is_nowhere_in_the_store(machine: Machine) -> None:
    machine.put_all()
    machine.put("claude-code-2.1.332-subagent.jsonl", machine.claude / "5e0c0001/subagents/agent-x2.jsonl")
    report = machine.run()
    stored = "\n".join(text for _, text in machine.said())
    for words in (
        *("prefer tabs", "prefer spaces", "secret output", "vault 9", "Four spaces", "four spaces", "They want ruff"),
        *("black", "floats", "Delete the archive", "Search for carts", "a later version", "List every page", "a.py"),
    ):
        assert words not in stored
    assert report["skipped"] == {
        "program": 4, "rewound": 6, "side_chain": 1, "subagent": 2, "no_folder": 1,
    }  # fmt: skip
    assert report["unknown"] == {
        "claude-code:holographic-note": 1,
        "codex:response_item/quantum_call": 1,
        "cursor:bubble/9": 1,
        "gemini:telepathy": 1,
        "opencode:hologram": 1,
    }
    assert report["spaces"] == [{"label": "shop", "sessions": 5, "space": machine.space, "stored": 17}]


def test_what_was_done_stands_beside_what_was_said_without_a_tools_output(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    where = ("--channel", "claude-code", "--conversation", "5e0c0001", "--space", machine.space)
    turns = machine.elytron.json("transcript", "replay", "--view", "raw_owner_only", *where)["slice"]["turns"]
    reply = next(turn for turn in turns if "line length of 100" in turn["messages"][0]["text"])
    assert [(seen["tool_name"], seen["summary"]) for seen in reply["tool_observations"]] == [
        ("Bash", "pytest -q (exit code 2)"),
        ("Edit", "pyproject.toml"),
        ("Bash", "pytest -q (exit code 0)"),
    ]
    assert reply["metadata"] == {"branch": "main"}
    assert reply["source"]["model_resolved"] == "sample-model"
    assert reply["messages"][0]["at"] == 1_793_527_209_000
    assert "secret output" not in json.dumps(turns)


def test_a_second_run_reads_nothing_and_changes_nothing(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    before = machine.elytron.json("inspect", "--space", machine.space)["state_fingerprint"]
    again = machine.run()
    assert (again["unchanged"], again["sessions"], again["read_bytes"], again["changed"]) == (7, 0, 0, False)
    whole = machine.run("--again")
    assert (whole["stored"], whole["duplicates"], whole["changed"]) == (0, 17, False)
    assert machine.elytron.json("inspect", "--space", machine.space)["state_fingerprint"] == before


def add_turn(file: Path, parent: str, number: int, prompt: str, reply: str) -> None:
    """Append a turn to a session of Claude Code."""
    at = f"2026-11-05T10:00:{number:02}.000Z"
    lines = [
        {"type": "user", "uuid": f"p{number}", "parentUuid": parent, "timestamp": at, "message": {"content": prompt}},
        {"type": "assistant", "uuid": f"r{number}", "parentUuid": f"p{number}", "timestamp": at,
         "message": {"id": f"msg_{number}", "content": [{"type": "text", "text": reply}]}},
    ]  # fmt: skip
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(json.dumps(line) + "\n" for line in lines)


def test_of_a_grown_session_only_its_end_is_read(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    machine.run()
    add_turn(file, "a8", 1, "Name the cart in the title.", "The title names it.")
    with file.open("a", encoding="utf-8") as opened:
        opened.write('{"type":"user","uuid":"half')
    grown = machine.run()
    assert (grown["stored"], grown["updated"], grown["skipped"]) == (2, 0, {"program": 2, "side_chain": 1})
    assert grown["read_bytes"] < file.stat().st_size / 2
    assert machine.said("claude-code")[-2:] == [
        ("user", "Name the cart in the title."),
        ("assistant", "The title names it."),
    ]


def test_what_is_taken_back_after_it_was_stored_is_hidden(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    machine.run()
    add_turn(file, "a5", 1, "Leave the pages out.", "They are out.")
    report = machine.run()
    assert (report["stored"], report["hidden"]) == (2, 3)
    assert [text for _, text in machine.said("claude-code")] == [
        *(text for _, text in SAID["claude-code"][:3]),
        "Leave the pages out.",
        "They are out.",
    ]


def test_a_reply_that_was_not_finished_is_replaced_by_the_finished_one(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:6]), "utf-8")
    machine.run()
    assert machine.said()[-1] == ("assistant", "I will fix the settings.")
    file.write_text("".join(lines), "utf-8")
    assert machine.run()["updated"] == 1
    assert sorted(machine.said("claude-code")) == sorted(SAID["claude-code"])


def test_what_was_erased_stays_gone_when_its_session_is_read_again(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    erased = [
        item["id"]
        for item in machine.elytron.json("list", "--space", machine.space)["items"]
        if item["text"] in {"Add a cart page.", "Prices are stored in cents.", "The archive job runs nightly."}
    ]
    machine.elytron("erase", *erased, "--yes", "--space", machine.space)
    report = machine.run("--again")
    assert (report["erased"], report["stored"]) == (3, 0)
    assert len(machine.said()) == 14


def test_a_session_and_an_assistant_are_erased_by_their_names(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    for name, left in (("session:5e0c0001", 11), ("session:codex", 6)):
        token = machine.elytron.json("erase", "--origin", name, "--dry-run", "--space", machine.space)["token"]
        machine.elytron("erase", "--origin", name, "--token", token, "--space", machine.space)
        assert len(machine.said()) == left
    assert (machine.run("--again")["stored"], len(machine.said())) == (0, 6)


def test_a_forks_copies_are_stored_once(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    machine.run()
    machine.put("claude-code-2.1.332-fork.jsonl", machine.claude / "5e0c0002.jsonl")
    machine.put("opencode-2.0.25.sql", ".local/share/opencode/opencode.db")
    report = machine.run()
    assert report["skipped"] == {"fork": 4}
    texts = [text for _, text in machine.said()]
    assert texts[6:] == [
        "Try a darker header.", "The header is dark blue.",
        "Parcels leave on Tuesdays.", "The calendar has Tuesdays.",
        "And on Fridays in December.", "December has Fridays.", "Print the labels in pairs.",
    ]  # fmt: skip


def test_opencodes_two_generations_in_one_database_are_not_counted_twice(machine: Machine) -> None:
    place = ".local/share/opencode/opencode.db"
    machine.put("opencode-1.18.33.sql", place)
    machine.run()
    assert machine.said() == SAID["opencode"]
    machine.put("opencode-2.0.25.sql", place)
    report = machine.run()
    assert (report["stored"], report["duplicates"]) == (3, 2)
    assert [text for _, text in machine.said()].count("Parcels leave on Tuesdays.") == 1
