"""Where no store is: what reads says so and leaves nothing there, what stores something new makes one."""

import json

import pytest
from tests.cli.conftest import CommandLine


@pytest.mark.parametrize("store", ["typo.db", "typo/", "sqlite:typo", "embedded:typo", "no/such/folder/typo.db"])
def test_a_command_that_reads_names_the_place_and_leaves_nothing_there(elytron: CommandLine, store: str) -> None:
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
def test_so_does_every_command_that_needs_what_was_stored(elytron: CommandLine, line: str) -> None:
    assert elytron.error(*line.split(), expect=3)["key"] == "store_missing"
    assert list(elytron.folder.iterdir()) == []


def test_the_usual_place_gets_no_folder_before_something_is_stored(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELYTRON_STORE")
    assert elytron.error("list", expect=3)["key"] == "store_missing"
    assert list(elytron.folder.iterdir()) == []
    elytron("add", "tea")
    assert elytron.json("recall", "tea")["outcome"] == "found"


def test_a_store_in_memory_is_none_that_could_be_missing(elytron: CommandLine) -> None:
    assert elytron.json("recall", "tea", "--store", "memory:")["reason"] == "empty_space"


@pytest.mark.parametrize("store", ["m.db", "m/", "no/such/folder/m.db"])
def test_a_dry_run_tells_what_would_be_stored_and_makes_no_store(elytron: CommandLine, store: str) -> None:
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
def test_what_stores_something_new_makes_the_store(elytron: CommandLine, line: str) -> None:
    elytron(*line.split())
    assert elytron.json("inspect", "--check")["store_check"]["ok"] is True
