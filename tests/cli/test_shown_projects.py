"""What people see of projects and sessions: tables instead of JSON, and refusals with a remedy."""

import json
import sqlite3
from pathlib import Path

import pytest
from tests.cli.conftest import Machine

EVENT = {"session_id": "s", "cwd": "", "prompt": "What did we decide about the harbour?"}


def shown(machine: Machine, *words: str, expect: int = 0) -> str:
    """Return what a terminal shows of a command."""
    return machine.elytron(*words, "--no-json", expect=expect).output


def test_an_import_and_the_projects_it_filled_are_shown_as_tables(machine: Machine) -> None:
    assert "none" in shown(machine, "sessions", "list")
    machine.put_all()
    assert "would store" in shown(machine, "sessions", "import", "--dry-run")
    assert "messages of" in shown(machine, "sessions", "import")
    assert "imported" in shown(machine, "sessions", "list")
    assert machine.space in shown(machine, "repo", "list")
    assert machine.space in shown(machine, "repo", "show", str(machine.shop))
    assert machine.space in shown(machine, "repo", "pin", machine.space, str(machine.shop))
    assert "pin" in shown(machine, "repo", "list")
    assert "no session of a hook" in shown(machine, "repo", "migrate", "--dry-run")


def test_a_path_needs_an_assistant_and_must_exist(machine: Machine) -> None:
    assert "requires HOST" in machine.elytron("sessions", "list", "--path", "x", expect=2).output
    assert "names nothing that exists" in machine.elytron("sessions", "list", "codex", "--path", "x", expect=2).output
    machine.put("codex-0.163.0.jsonl", "elsewhere/2026/11/03/rollout-2026-11-03T10-00-00-0199a000.jsonl")
    place = str(machine.home / "elsewhere")
    assert machine.elytron.json("sessions", "list", "codex", "--path", place)["total"] == 1


def test_a_command_defaults_to_this_folders_project(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine.shop)
    assert machine.elytron.json("repo")["space"] == machine.space
    assert "NAME=FOLDER" in machine.elytron("repo", "migrate", "--assign", "x=/nowhere", expect=2).output


def test_cursor_composers_are_assigned_by_their_workspace(machine: Machine) -> None:
    machine.put("cursor-2026.07.17-editor.sql", ".config/Cursor/User/globalStorage/state.vscdb")
    storage = machine.home / ".config/Cursor/User/workspaceStorage"
    with sqlite3.connect(machine.home / ".config/Cursor/User/globalStorage/state.vscdb") as raw:
        keys = [
            key.partition(":")[2]
            for (key,) in raw.execute("SELECT key FROM cursorDiskKV WHERE key LIKE 'composerData:%'")
        ]
    raw.close()
    for name, address in (
        ("one", machine.shop.as_uri()),
        ("two", "vscode-remote://host/w"),
        ("three", "file://host/w"),
    ):
        (storage / name).mkdir(parents=True)
        (storage / name / "workspace.json").write_text(json.dumps({"folder": address}))
        with sqlite3.connect(storage / name / "state.vscdb") as raw:
            raw.execute("CREATE TABLE ItemTable (key TEXT, value BLOB)")
            listed = json.dumps({"allComposers": [{"composerId": key} for key in keys]})
            raw.execute("INSERT INTO ItemTable VALUES ('composer.composerData', ?)", (listed,))
            raw.execute("INSERT INTO ItemTable VALUES ('composer.composerData', 7)")
        raw.close()
    (storage / "four").mkdir()
    (storage / "four/workspace.json").write_text("no object")
    assert machine.run("cursor")["sessions"] == len(keys)
    assert {filed["space"] for filed in machine.run("cursor", "--again")["spaces"]} == {machine.space}


def test_a_database_of_another_program_is_counted_and_not_read(machine: Machine) -> None:
    place = machine.home / ".config/Cursor/User/globalStorage/state.vscdb"
    place.parent.mkdir(parents=True)
    with sqlite3.connect(place) as raw:
        raw.execute("CREATE TABLE other (x)")
    raw.close()
    assert machine.run("cursor")["skipped"]["unreadable"] == 1
    place.write_bytes(b"no database at all")
    assert machine.run("cursor")["skipped"]["unreadable"] == 1


def test_an_event_without_a_folder_or_words_shows_and_stores_nothing(machine: Machine) -> None:
    event = json.dumps(EVENT).encode()
    assert machine.elytron("hooks", "recall", "--per-repository", standard_input=event).stdout == ""
    nothing = json.dumps(EVENT | {"prompt": " "}).encode()
    assert machine.elytron("hooks", "recall", standard_input=nothing).stdout == ""
    reply = json.dumps(EVENT | {"last_assistant_message": "We moor at nine."}).encode()
    assert "does not name a readable transcript" in machine.elytron("hooks", "keep", standard_input=reply).output
    gone = json.dumps(EVENT | {"transcript_path": str(Path("/nowhere/at/all.jsonl"))}).encode()
    assert machine.elytron("hooks", "keep", standard_input=gone).output == ""  # the session was already shown it
    assert "session_id is missing" in machine.elytron("hooks", "keep", standard_input=b"{}").output


def test_an_inspection_is_shown_as_a_table(machine: Machine) -> None:
    machine.elytron("add", "We moor at nine.", "--speaker", "Ada")
    assert "nothing acknowledged" in shown(machine, "inspect", "--acknowledge")
    assert "Ada" in shown(machine, "inspect")
    assert "sound" in shown(machine, "inspect", "--check") or "ok" in shown(machine, "inspect", "--check")
    assert "journal" in shown(machine, "inspect", "--fingerprints")
    assert "default" in shown(machine, "spaces")
