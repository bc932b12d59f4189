"""Keys of sealed stores, from the command line."""

import os
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from elytron_core.errors import InvalidInput
from elytron_store.sealed.providers import FileKeys


@pytest.fixture
def sealed(elytron: CommandLine) -> CommandLine:
    elytron("keys", "create", "k.json")
    elytron("add", "s3cret tea", "--key-file", "k.json")
    return elytron


def test_a_key_file_is_owner_only_and_never_overwritten(elytron: CommandLine) -> None:
    report = elytron.json("keys", "create", "k.json")
    assert stat.S_IMODE(Path("k.json").stat().st_mode) == 0o600
    assert report["current"].startswith("key-")
    before = Path("k.json").read_bytes()
    assert elytron.error("keys", "create", "--key-file", "k.json", expect=2)["key"] == "invalid_input"
    assert Path("k.json").read_bytes() == before
    assert "created other.json" in elytron("keys", "create", "other.json", "--no-json").stdout


def test_a_sealed_store_opens_only_with_its_key(sealed: CommandLine) -> None:
    assert sealed.json("recall", "tea", "--key-file", "k.json")["hits"][0]["text"] == "s3cret tea"
    assert b"s3cret" not in Path("m.db").read_bytes()
    assert sealed.error("recall", "tea", expect=12)["key"] == "store_foreign"
    sealed("keys", "create", "other.json")
    assert sealed.error("recall", "tea", "--key-file", "other.json", expect=14)["key"] == "key_missing"


def test_a_key_file_that_others_may_read_is_refused(sealed: CommandLine) -> None:
    os.chmod("k.json", 0o644)  # noqa: PTH101 - what a user would do
    assert sealed.error("recall", "tea", "--key-file", "k.json", expect=5)["key"] == "permission_refused"


def test_rotation_rewraps_everything_under_a_new_key(sealed: CommandLine) -> None:
    report = sealed.json("keys", "rotate", "--key-file", "k.json")
    assert report["rewrapped"] > 0
    assert sealed.json("recall", "tea", "--key-file", "k.json")["outcome"] == "found"
    shown = sealed("keys", "rotate", "--key-file", "k.json", "--no-json").stdout
    assert "rotate the other stores" in shown
    assert report["current"] not in shown


def test_rotation_needs_a_key_file_and_a_sealed_store(elytron: CommandLine) -> None:
    assert "--key-file is missing" in elytron.error("keys", "rotate", expect=2)["reason"]
    elytron("keys", "create", "k.json")
    elytron("add", "tea")
    before = Path("k.json").read_bytes()
    assert elytron.error("keys", "rotate", "--key-file", "k.json", expect=12)["key"] == "store_foreign"
    assert Path("k.json").read_bytes() == before


def test_keys_may_come_from_the_environment(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELYTRON_KEYS", "k1:" + "A" * 43 + "=")
    elytron("add", "s3cret tea")
    assert elytron.json("recall", "tea")["outcome"] == "found"
    assert b"s3cret" not in Path("m.db").read_bytes()
    monkeypatch.setenv("ELYTRON_KEYS", "k1:s3cret")
    assert "s3cret" not in str(elytron.error("recall", "tea", expect=2))


def test_invalid_and_impossible_key_files_are_reported(elytron: CommandLine) -> None:
    os.mkdir("folder")  # noqa: PTH102 - what a user would do
    for name in ("folder", "", "x" * 5_000):
        assert elytron.error("add", "tea", "--key-file", name, expect=14)["key"] == "key_missing"
    for name in ("missing/k.json", "x" * 5_000):
        assert "cannot be created" in elytron.error("keys", "create", name, expect=2)["reason"]


def test_a_key_is_not_added_to_an_unwritable_file(tmp_path: Path) -> None:
    keys = FileKeys.create(tmp_path / ("k" * 252))
    with pytest.raises(InvalidInput, match="cannot be created"):
        keys.add_key()
