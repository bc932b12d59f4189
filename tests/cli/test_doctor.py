"""Output of doctor and version."""

import pytest
from click.testing import CliRunner
from tests.cli.conftest import CommandLine
from tests.cli.test_commands import damage
from tests.store.postgres_server import PostgresServer

from elytron_cli.app import elytron_group


def test_the_version_is_that_of_the_distribution(elytron: CommandLine) -> None:
    from importlib.metadata import version

    assert elytron.json("version") == {"version": version("elytron")}
    assert elytron("version", "--no-json").stdout == f"elytron {version('elytron')}\n"
    assert elytron("--version").stdout == f"elytron {version('elytron')}\n"


def test_settings_are_shown_with_their_sources_and_masked_secrets(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELYTRON_KEYS", "k1:" + "A" * 43 + "=")
    elytron.write("elytron.toml", b'space = "ada"\n')
    report = elytron.json("doctor", "--store", "x.db")
    assert report["config"] == {
        "store": {"value": "x.db", "origin": "--store"},
        "space": {"value": "ada", "origin": "elytron.toml"},
        "keys": {"value": "********", "origin": "ELYTRON_KEYS"},
    }
    assert "A" * 43 not in elytron("doctor", "--no-json").stdout


def test_a_missing_store_is_not_created(elytron: CommandLine) -> None:
    assert elytron.json("doctor")["store"]["state"] == "absent"
    assert not (elytron.folder / "m.db").exists()


def test_a_sound_store_is_reported_as_sound(elytron: CommandLine) -> None:
    elytron("add", "tea")
    report = elytron.json("doctor")
    assert (report["store"]["state"], report["store"]["engine"], report["store"]["check"]["ok"]) == (
        "sound",
        "sqlite",
        True,
    )
    assert report["sqlite"]["journal_mode"] in {"wal", "delete"}
    assert report["store"]["queued_spaces"] == 0
    assert set(report["versions"]) >= {"elytron", "python", "pydantic"}
    assert "store is" in elytron("doctor", "--no-json").stdout


def test_a_damaged_store_exits_with_13(elytron: CommandLine) -> None:
    elytron("add", "tea")
    damage(elytron.folder / "m.db", b'"tea"', b'"pea"')
    assert elytron.json("doctor", expect=13)["store"]["state"] == "damaged"


def test_a_store_that_cannot_be_opened_is_reported_with_its_error(elytron: CommandLine) -> None:
    elytron.write("m.db", b"not a database at all" * 100)
    report = elytron.json("doctor", expect=12)
    assert (report["store"]["state"], report["store"]["error_key"]) == ("refused", "store_foreign")
    assert "refused" in elytron("doctor", "--no-json", expect=12).stdout
    assert elytron.json("doctor", "--store", "redis:x", expect=2)["store"]["error_key"] == "store_url_invalid"


def test_a_database_server_is_checked_for_risks_to_a_store(elytron: CommandLine, postgres: PostgresServer) -> None:
    url = f"{postgres.make_database()}?sealed=no"
    refused = f"{url}&options=-c%20synchronous_commit%3Doff"
    report = elytron.json("doctor", "--store", refused, expect=12)
    (danger,) = [item for item in report["server"] if item["danger"]]
    assert (danger["name"], danger["value"], report["store"]["state"]) == ("synchronous_commit", "off", "refused")
    assert "synchronous_commit" in report["store"]["reason"]
    shown = elytron("doctor", "--no-json", "--store", url).stdout
    assert "full_page_writes" in shown
    assert "none; this build creates version 2" in shown
    away = elytron.json("doctor", "--store", "postgresql://ada:tea-time@127.0.0.1:1/m?sealed=no", expect=9)
    assert (away["server"], away["store"]["error_key"]) == ([], "store_unavailable")
    assert "tea-time" not in str(away)


def test_a_corrupted_manifest_is_neither_a_usage_nor_an_internal_error(elytron: CommandLine) -> None:
    elytron("add", "tea", "--store", "kept/")
    path = elytron.folder / "kept" / "manifest.json"
    whole = path.read_bytes()
    said: dict[int, int] = {}
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        result = CliRunner().invoke(elytron_group, ["list", "--store", "kept/"])
        said[place] = result.exit_code
    assert set(said.values()) <= {0, 12}, said
    path.write_bytes(whole)
    assert elytron.json("list", "--store", "kept/")["items"][0]["text"] == "tea"
