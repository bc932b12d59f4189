"""Where settings come from, and what is never shown of them."""

import sys
from pathlib import Path

import pytest

from elytron_cli.config import FoundSetting, RunSettings, default_store, program_path, resolve_settings
from elytron_core.errors import InvalidInput, UnreadableFile


def settings(
    folder: Path, toml: str | bytes | None = None, *, options: dict[str, str] | None = None, **env: str
) -> RunSettings:
    if toml is not None:
        (folder / "elytron.toml").write_bytes(toml if isinstance(toml, bytes) else toml.encode())
    return resolve_settings(options or {}, environment=env, folder=folder)


def test_by_default_the_users_store_and_the_default_space_are_used(tmp_path: Path) -> None:
    assert settings(tmp_path) == RunSettings(
        store=FoundSetting(str(default_store()), "default"), space=FoundSetting("default", "default")
    )


def test_options_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    toml = 'store = "file.db"\nspace = "file"\nkey_file = "file.keys"\n'
    found = settings(tmp_path, toml, options={"store": "o.db"}, ELYTRON_STORE="e.db", ELYTRON_SPACE="e")
    assert found == RunSettings(
        store=FoundSetting("o.db", "--store"),
        space=FoundSetting("e", "ELYTRON_SPACE"),
        key_file=FoundSetting("file.keys", "elytron.toml"),
    )


def test_an_empty_variable_is_ignored(tmp_path: Path) -> None:
    assert settings(tmp_path, ELYTRON_SPACE="").space == FoundSetting("default", "default")


def test_the_gateways_secret_comes_only_from_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    found = settings(tmp_path, ELYTRON_GATEWAY_SECRET="s3cret" * 8)
    assert found.gateway_secret is not None
    assert found.gateway_secret.value == "s3cret" * 8
    assert "s3cret" not in repr(found) + found.gateway_secret.masked_value
    with pytest.raises(InvalidInput, match="ELYTRON_GATEWAY_SECRET") as refused:
        settings(tmp_path, ELYTRON_GATEWAY_SECRET="s3cret")
    assert "s3cret" not in refused.value.message


def test_keys_from_the_environment_are_never_shown(tmp_path: Path) -> None:
    found = settings(tmp_path, ELYTRON_KEYS="k1:s3cret")
    assert found.keys is not None
    assert (found.keys.value, found.keys.masked_value) == ("k1:s3cret", "********")
    assert "s3cret" not in repr(found)


def test_a_key_file_is_used_before_keys_from_the_environment(tmp_path: Path) -> None:
    found = settings(tmp_path, ELYTRON_KEYS="k1:s3cret", ELYTRON_KEY_FILE="k.json")
    assert (found.keys, found.key_file) == (None, FoundSetting("k.json", "ELYTRON_KEY_FILE"))


@pytest.mark.parametrize(
    ("toml", "kind", "problem"),
    [
        ("stor = 'x'", InvalidInput, "has the unknown key 'stor'"),
        ("store = 7", InvalidInput, "elytron.toml, store is not a string"),
        ("store = ''", InvalidInput, "elytron.toml, store is not a string"),
        ("store = ", UnreadableFile, "is not TOML"),
        (b"store = '\xff'", UnreadableFile, "is not TOML in UTF-8"),
        (b"#" * 70_000, UnreadableFile, "is larger than"),
    ],
)
def test_an_invalid_file_is_an_error_and_not_ignored(
    tmp_path: Path, toml: str | bytes, kind: type[InvalidInput], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        settings(tmp_path, toml)


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "elytron.toml").mkdir()
    with pytest.raises(UnreadableFile, match="is a folder"):
        settings(tmp_path)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://ada:t@ea-time@db/m", "postgresql://ada:********@db/m"),
        (
            "postgresql://ada@db/m?password=tea-time&sslmode=require",
            "postgresql://ada@db/m?password=********&sslmode=require",
        ),
        ("http://127.0.0.1:8010/@ada", "http://127.0.0.1:8010/@ada"),
    ],
)
def test_a_password_in_a_url_is_not_shown(given: str, shown: str) -> None:
    assert FoundSetting(given, "--store").masked_value == shown


def test_other_programs_start_the_command_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tool" / "elytron"
    program.parent.mkdir()
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program_path(str(program)) == str(program)
    beside = Path(sys.executable).with_name("elytron")
    assert program_path("pytest") == (str(beside) if beside.exists() else "elytron")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert program_path("elytron") == "elytron"
    monkeypatch.setenv("PATH", str(program.parent))
    assert program_path("elytron") == str(program)
