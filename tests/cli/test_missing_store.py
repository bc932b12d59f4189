"""Without a store, reading commands say so and leave nothing behind, and storing commands create one."""

import json

import pytest
from tests.cli.conftest import CommandLine


@pytest.mark.parametrize("store", ["typo.db", "typo/", "sqlite:typo", "embedded:typo", "no/such/folder/typo.db"])
def test_a_reading_command_reports_the_missing_store_and_creates_nothing(elytron: CommandLine, store: str) -> None:
    error = elytron.error("recall", "tea", "--store", store, expect=3)
    assert error["key"] == "store_missing"
    assert error["details"]["place"].startswith(str(elytron.folder))
    assert "typo" in error["details"]["place"]
    assert "`elytron add`" in error["reason"]
    assert list(elytron.folder.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "project tea", "get x", "list", "history x", "inspect", "inspect --check", "export a.zip", "replay",
        "export b.zip --public", "forget x", "correct x y", "erase x", "erase --all --yes", "candidates list",
        "candidates accept x", "jobs list", "jobs run", "maintain", "facts merge", "continuity show",
        "continuity export a.json", "notes list", "garden list", "subjects list", "skills list", "skills show x",
        "skills disable x", "skills govern", "tools list", "tools show x", "tools hints",
        "transcript replay", "transcript export", "transcript repair", "access list", "model embed", "backup b.db",
        "migrate --to b.db", "platform capabilities",
    ],
)  # fmt: skip
def test_every_command_that_needs_stored_content_reports_a_missing_store(elytron: CommandLine, line: str) -> None:
    assert elytron.error(*line.split(), expect=3)["key"] == "store_missing"
    assert list(elytron.folder.iterdir()) == []


def test_the_default_folder_is_created_only_when_something_is_stored(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELYTRON_STORE")
    assert elytron.error("list", expect=3)["key"] == "store_missing"
    assert list(elytron.folder.iterdir()) == []
    elytron("add", "tea")
    assert elytron.json("recall", "tea")["outcome"] == "found"


def test_an_in_memory_store_cannot_be_missing(elytron: CommandLine) -> None:
    assert elytron.json("recall", "tea", "--store", "memory:")["reason"] == "empty_space"


@pytest.mark.parametrize("store", ["m.db", "m/", "no/such/folder/m.db"])
def test_a_dry_run_shows_what_would_be_stored_and_creates_no_store(elytron: CommandLine, store: str) -> None:
    where = ("--dry-run", "--store", store)
    said = elytron.folder / "said.json"
    said.write_text(json.dumps([{"role": "user", "content": "Ada likes tea."}]))
    assert elytron.json("import", str(said), *where)["messages"] == 1
    skill = elytron.folder / "tea.md"
    skill.write_text(
        "---\nname: brew\ntopic: tea\ntitle: Brew tea\nsummary: How\ncitations: t1 t2\n---\n1. Boil.\n2. Pour.\n"
    )
    elytron("skills", "import", str(skill), *where)
    assert {path.name for path in elytron.folder.iterdir()} == {"said.json", "tea.md"}


@pytest.mark.parametrize(
    "line",
    [
        "add tea",
        "notes write 2026-08 tea",
        "garden write q tea --role diary",
        "access add --kind user --label phone",
    ],
)
def test_commands_that_store_something_create_the_store(elytron: CommandLine, line: str) -> None:
    elytron(*line.split())
    assert elytron.json("inspect", "--check")["store_check"]["ok"] is True
