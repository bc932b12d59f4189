"""`elytron erasures`: a restored backup loses again what was erased since."""

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

SECRET = "The key is under the oar."


def texts(elytron: CommandLine, space: str) -> list[str]:
    return [item["text"] for item in elytron.json("list", "--space", space)["items"]]


def stored(folder: Path) -> bytes:
    """Return every byte of the store m.db or m."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".new")


@pytest.mark.parametrize("engine", ["sqlite", "file"])
def test_a_restored_backup_loses_what_was_erased_since(
    elytron: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    live, old, told = tmp_path / "live", tmp_path / "old", str(tmp_path / "erasures.jsonl")
    live.mkdir()
    monkeypatch.setenv("ELYTRON_STORE", f"{engine}:{live}/m")
    gone = elytron.json("add", SECRET, "--space", "ada")["decisions"][0]["id"]
    elytron("add", "The ferry leaves at nine.", "--space", "ada")
    elytron("add", SECRET, "--space", "bob")
    elytron("backup", str(old))
    elytron("erase", gone, "--space", "ada")
    kept = elytron.json("erasures", "keep", told)
    assert {each["space"]: each.get("erased", {}) for each in kept["spaces"]} == {"ada": {"transcript": 1}, "bob": {}}
    elytron("erase", "--all", "--yes", "--space", "bob")
    shown = elytron("erasures", "keep", told, "--gone", "bob", "--no-json").stdout
    assert "erased as a whole; nothing erased" in shown
    assert elytron.error("erasures", "keep", told, "--gone", "nobody", expect=3)["key"] == "not_found"

    shutil.rmtree(live)
    live.mkdir()
    shutil.move(old, live / "m")
    assert SECRET.encode() in stored(live)
    assert elytron.json("erasures", "apply", told, "--dry-run")["changed"] is False
    assert texts(elytron, "bob") == [SECRET]
    done = elytron("erasures", "apply", told, "--no-json").stdout
    assert "ada  erased 1 transcript" in done
    assert "bob  erased 1 transcript" in done
    assert (texts(elytron, "ada"), texts(elytron, "bob")) == (["The ferry leaves at nine."], [])
    assert SECRET.encode() not in stored(live)
    assert "nothing to erase" in elytron("erasures", "apply", told, "--no-json").stdout


def test_an_erased_space_with_later_writes_is_reported_and_kept(elytron: CommandLine, tmp_path: Path) -> None:
    elytron("add", SECRET)
    shutil.copy(tmp_path / "m.db", tmp_path / "old.db")
    elytron("erasures", "keep", "told")
    elytron("erase", "--all", "--yes")
    elytron("erasures", "keep", "told", "--gone", "default")
    for path in tmp_path.glob("m.db*"):
        path.unlink()
    (tmp_path / "old.db").rename(tmp_path / "m.db")
    elytron("add", "written since")
    assert "written to since the restore" in elytron("erasures", "apply", "told", "--no-json", expect=4).stdout
    assert len(texts(elytron, "default")) == 2


def test_a_store_without_spaces_and_an_invalid_file_are_reported(elytron: CommandLine, tmp_path: Path) -> None:
    elytron("add", "tea")
    elytron("erase", "--all", "--yes")
    assert "none" in elytron("erasures", "keep", "told", "--no-json").stdout
    assert "none" in elytron("erasures", "apply", "told", "--no-json").stdout
    (tmp_path / "told").write_bytes(b"x")
    assert elytron.error("erasures", "apply", "told", expect=6)["key"] == "unreadable_file"
    assert elytron.error("erasures", "keep", "told", "--store", "nowhere.db", expect=3)["key"] == "store_missing"
