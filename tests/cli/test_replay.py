"""Turn ledgers, and fixtures replayed on stores."""

import re
from pathlib import Path

from tests.cli.conftest import CommandLine

FIXTURE = Path("fixtures/first-words.json").resolve()
CASE = min(Path("fixtures/wall").glob("*.json")).resolve()


def test_a_conversations_turns_are_read_in_their_order(elytron: CommandLine) -> None:
    for text in ("one", "two", "three"):
        elytron("add", text, "--conversation", "count", "--speaker", "Ada", "--at", "2025-01-01")
    first = elytron.json("replay", "--conversation", "count", "--limit", "2")
    assert [turn["messages"][0]["text"] for turn in first["turns"]] == ["two", "three"]
    rest = elytron.json("replay", "--conversation", "count", "--cursor", first["next_cursor"])
    assert [turn["sequence"] for turn in rest["turns"]] == [1]
    shown = elytron("replay", "--conversation", "count", "--limit", "2", "--no-json").stdout
    assert "2 of 3 turns" in shown
    assert f"more: --cursor {first['next_cursor']}" in shown


def test_forgotten_messages_are_marked(elytron: CommandLine) -> None:
    memory = elytron.json("add", "tea")["decisions"][0]["id"]
    elytron("forget", memory)
    assert "(forgotten)" in elytron("replay", "--no-json").stdout


def test_a_fixture_is_replayed_on_the_named_stores(elytron: CommandLine) -> None:
    report = elytron.json("replay", str(FIXTURE), "--stores", "memory")
    assert report["stores"] == ["memory"]
    assert report["rows"][0]["verdicts"] == {"memory": "equal"}
    assert "1 of 1 fixtures equal" in elytron("replay", str(FIXTURE), "--stores", "memory", "--no-json").stdout


def test_a_fixture_is_replayed_on_a_remote_store_too(elytron: CommandLine) -> None:
    report = elytron.json("replay", str(FIXTURE), "--stores", "memory,gateway,gateway+sealed")
    assert report["rows"][0]["verdicts"] == dict.fromkeys(("memory", "gateway", "gateway+sealed"), "equal")


def test_a_folder_stands_for_its_fixtures(elytron: CommandLine) -> None:
    elytron.write(FIXTURE.name, FIXTURE.read_bytes())
    assert len(elytron.json("replay", ".", "--stores", "memory")["rows"]) == 1
    (elytron.folder / "empty").mkdir()
    assert "no fixtures" in elytron.error("replay", "empty", expect=2)["reason"]


def test_a_difference_exits_with_1_and_recording_stores_it(elytron: CommandLine) -> None:
    text = FIXTURE.read_text("utf-8")
    (recorded,) = set(re.findall(r'"state": "([0-9a-f]{64})"', text))
    file = elytron.write(FIXTURE.name, text.replace(recorded, "0" * 64).encode())
    elytron("replay", file, "--stores", "memory", expect=1)
    elytron("replay", file, "--stores", "memory", "--record")
    assert Path(file).read_text("utf-8") == text


def test_an_unknown_store_or_fixture_is_an_error(elytron: CommandLine) -> None:
    assert elytron.error("replay", "x" * 5_000, expect=6)["key"] == "unreadable_file"
    assert elytron.error("replay", str(FIXTURE), "--stores", "redis", expect=2)["key"] == "invalid_input"
    assert elytron.error("replay", elytron.write("bad.json", b"{"), expect=6)["key"] == "unreadable_file"


def test_a_wall_with_unmeasured_kinds_fails(elytron: CommandLine) -> None:
    report = elytron.json("replay", "--wall", str(CASE), "--stores", "memory", expect=1)
    assert {row["case"] for row in report["rows"]} == {CASE.stem}
    assert all(row["metrics"]["latency_ms"] > 0 for row in report["rows"])
    assert len(report["missing"]) == 6
    shown = elytron("replay", "--wall", str(CASE), "--stores", "memory", "--no-json", expect=1).stdout
    assert "fails on memory" in shown


def test_a_wall_is_measured_on_each_named_store(elytron: CommandLine) -> None:
    report = elytron.json("replay", "--wall", str(CASE), "--stores", "memory,file", expect=1)
    assert report["stores"] == ["memory", "file"]
    assert [row["store"] for row in report["rows"]] == ["memory", "memory", "file", "file"]


def test_the_gate_is_a_command(elytron: CommandLine) -> None:
    report = elytron.json("replay", "gate", str(FIXTURE), "--operation", "erase", expect=1)
    assert "erase" in report["missing"]
    shown = elytron("replay", "gate", str(FIXTURE.parent), "--all", "--no-json").stdout
    assert "every required operation is covered" in shown
    assert (
        "an unknown operation"
        in elytron.error("replay", "gate", str(FIXTURE), "--operation", "eraze", expect=2)["reason"]
    )
