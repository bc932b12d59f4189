"""`elytron stats`: what hooks did in each repository, from their record."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.conftest import CommandLine, Machine

from elytron_assistants.hooks.activity import ActivityCounts, ActivityFolder, SessionActivity
from elytron_core.clock import Instant

FACT = "The staging database of the shop listens on port 5544."


@pytest.fixture(autouse=True)
def state_folder(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hooks keep their record in the test's folder."""
    monkeypatch.setenv("ELYTRON_STATE_DIR", str(elytron.folder / "state"))


def run_session(elytron: CommandLine, folder: Path, session: str, prompt: str, reply: str, /) -> None:
    """Run the hooks of one prompt of Claude Code and its answer."""
    entries = [
        {"type": role, "uuid": f"{session}-{role}", "cwd": str(folder), "message": {"role": role, "content": text}}
        for role, text in (("user", prompt), ("assistant", reply))
    ]
    transcript = elytron.write(f"{session}.jsonl", "".join(f"{json.dumps(entry)}\n" for entry in entries).encode())
    event = {"session_id": session, "transcript_path": transcript, "cwd": str(folder)}
    for name, fields in (("recall", {"prompt": prompt}), ("keep", {"last_assistant_message": reply})):
        # As an installer names the store, which is m.db for `elytron stats`.
        store = f"sqlite://{elytron.folder}/m.db"
        elytron("hooks", name, "--per-repository", "--store", store, standard_input=json.dumps(event | fields).encode())


def counted(stats: dict[str, Any], /) -> dict[str, Any]:
    """Return the machine-independent figures of a repository."""
    varying = {"space", "added_chars", "prompt_cpu_ms", "changed_at", "changed_at_iso"}
    return {name: value for name, value in stats.items() if name not in varying}


def test_prompts_hits_and_turns_are_counted_for_each_repository(machine: Machine) -> None:
    elytron, notes = machine.elytron, machine.elytron.folder / "notes"
    (notes / ".git").mkdir(parents=True)
    run_session(elytron, machine.shop, "first", FACT, "Noted.")
    run_session(
        elytron, machine.shop, "second", "Which port does the staging database listen on?", "That of the shop: 5544."
    )
    run_session(elytron, notes, "third", "Sort the headings of the list.", "Sorted.")
    report = elytron.json("stats")
    last, first = report["repositories"]
    assert [last["label"], first["label"]] == ["notes", "shop"]
    assert counted(first) == {
        "label": "shop",
        "is_here": True,
        "hosts": ["claude-code"],
        "sessions": 2,
        "prompts": 2,
        "recalled": 1,
        "shown_hits": 1,
        "used_hits": 1,
        "stored_turns": 4,
        "turns": 4,
    }
    assert first["added_chars"] > len(FACT)
    assert first["prompt_cpu_ms"] > 0
    assert (last["prompts"], last["recalled"], last["turns"]) == (1, 0, 2)
    assert report["store_bytes"] >= (elytron.folder / "m.db").stat().st_size


def test_any_folder_of_a_repository_shows_that_repository(machine: Machine) -> None:
    elytron, part = machine.elytron, machine.shop / "src"
    part.mkdir()
    run_session(elytron, machine.shop, "first", FACT, "Noted.")
    assert [stats["label"] for stats in elytron.json("stats", "--repository", str(part))["repositories"]] == ["shop"]
    assert elytron.json("stats", "--repository", str(elytron.folder))["repositories"] == []


def test_a_repository_whose_memory_is_in_another_store_is_marked(machine: Machine) -> None:
    elytron = machine.elytron
    run_session(elytron, machine.shop, "first", FACT, "Noted.")
    (stats,) = elytron.json("stats", "--store", str(elytron.folder / "other.db"))["repositories"]
    assert (stats["is_here"], stats["stored_turns"]) == (False, 2)
    assert "turns" not in stats


@pytest.mark.usefixtures("at_a_terminal")
def test_the_table_fits_into_80_columns(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    counts = ActivityCounts(
        prompts=1_204, recalled=345, added_chars=98_765, shown_hits=1_780, used_hits=1_023, stored_turns=1_190
    )
    activity = SessionActivity(host="codex", repository="project-1", label="acme/storefront", counts=counts)
    records = ActivityFolder(machine.elytron.folder / "state/assistants")
    records.change("codex", "s", lambda _: activity, at=Instant(1_796_000_000_000))
    lines = click.unstyle(machine.elytron("stats").output).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("345/1204" in line and "98765" in line and "1023/1780" in line for line in lines)


@pytest.mark.usefixtures("at_a_terminal")
def test_people_see_a_table(machine: Machine) -> None:
    elytron = machine.elytron
    assert "no hook has run yet" in elytron("stats").output
    run_session(elytron, machine.shop, "first", FACT, "Noted.")
    lines = elytron("stats").output.splitlines()
    assert any(line.split()[:2] == ["shop", "0/1"] for line in lines)
    assert any(line.startswith("size of the store: ") for line in lines)
