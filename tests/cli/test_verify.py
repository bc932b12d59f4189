"""`elytron verify`: heads stored elsewhere detect a rolled-back store."""

import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from elytron_core import limits


def told(report: dict[str, Any]) -> dict[str, str | None]:
    """Return how each space stands."""
    return {space["space"]: space.get("standing") for space in report["spaces"]}


def test_a_continued_store_verifies_and_a_rolled_back_one_does_not(elytron: CommandLine, tmp_path: Path) -> None:
    elytron("add", "The account is 17.")
    revoked = elytron.json("access", "add", "--kind", "operator", "--label", "first")["access"]["id"]
    assert elytron.error("verify", "heads.json", expect=6)["key"] == "unreadable_file"
    first = elytron.json("verify", "heads.json", "--accept")
    assert told(first) == {"default": None, "elytron:system": None}
    assert (first["ok"], first["renewed"]) == (True, True)
    assert stat.S_IMODE((tmp_path / "heads.json").stat().st_mode) == 0o600
    shutil.copy(tmp_path / "m.db", tmp_path / "older.db")

    elytron("access", "revoke", revoked)
    assert told(elytron.json("verify", "heads.json")) == {"default": "current", "elytron:system": "contained"}

    (tmp_path / "older.db").replace(tmp_path / "m.db")
    for _ in range(2):  # a refusal leaves the heads unchanged
        put_back = elytron.json("verify", "heads.json", expect=13)
        assert told(put_back) == {"default": "current", "elytron:system": "behind"}
        assert (put_back["ok"], put_back["renewed"]) == (False, False)
    shown = elytron("verify", "heads.json", "--no-json", expect=13).stdout
    assert "behind" in shown
    assert elytron.json("verify", "heads.json", "--accept")["renewed"] is True
    assert elytron.json("verify", "heads.json")["ok"] is True


def test_a_missing_space_is_reported(elytron: CommandLine) -> None:
    elytron("add", "tea")
    elytron("add", "cake", "--space", "bob")
    elytron("verify", "heads.json", "--accept")
    elytron("erase", "--all", "--space", "bob", "--yes")
    found = elytron.json("verify", "heads.json", expect=13)
    assert told(found) == {"default": "current", "bob": "absent"}
    assert "bob" in elytron("verify", "heads.json", "--no-json", expect=13).stdout


def test_a_space_is_verified_against_its_head(elytron: CommandLine) -> None:
    elytron("add", "tea")
    head = elytron.json("inspect", "--fingerprints")["head"]
    elytron("add", "cake")
    found = elytron.json("inspect", "--head", head, "--check")
    assert (found["head_standing"], found["journal_account"]["altered"]) == ("contained", 0)
    shown = elytron("inspect", "--head", head, "--check", "--no-json").stdout
    assert "contained" in shown
    assert "3 documents match their last journal entries" in shown
    sequence, _, rest = head.partition(".")
    assert elytron.json("inspect", "--head", f"{sequence}.{rest[::-1].replace('.', '.', 1)}", expect=13)
    assert elytron.error("inspect", "--head", "no head", expect=2)["key"] == "invalid_input"


def test_a_rolled_back_document_is_reported(elytron: CommandLine, tmp_path: Path) -> None:
    elytron("add", "tea", "--conversation", "one")
    elytron("verify", "heads.json", "--accept")
    raw = sqlite3.connect(tmp_path / "m.db")
    before = raw.execute("SELECT * FROM documents WHERE collection = 'turns'").fetchone()
    raw.close()
    memory = elytron.json("list")["items"][0]["id"]
    elytron("forget", memory)
    raw = sqlite3.connect(tmp_path / "m.db")
    raw.execute(f"INSERT OR REPLACE INTO documents VALUES ({', '.join('?' * len(before))})", before)
    raw.commit()
    raw.close()
    found = elytron.json("verify", "heads.json", expect=13)
    assert [space["account"]["altered"] for space in found["spaces"]] == [1]
    assert "1 DO NOT" in elytron("verify", "heads.json", "--no-json", expect=13).stdout
    assert "1 DO NOT" in elytron("inspect", "--check", "--no-json", expect=13).stdout


def test_write_errors_are_reported(elytron: CommandLine) -> None:
    elytron("add", "tea")
    assert elytron.error("verify", "no/such/folder/heads", "--accept", expect=2)["key"] == "invalid_input"
    assert elytron.error("verify", "x" * 5_000, "--accept", expect=2)["key"] == "invalid_input"


def test_heads_beyond_the_limit_of_a_file_are_not_stored(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    elytron("add", "tea")
    monkeypatch.setattr(limits, "JSON_BYTES", 10)
    assert elytron.error("verify", "heads.json", "--accept", expect=7)["key"] == "limit_exceeded"
