"""The demonstration shows what is true of the store it writes."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

from elytron_cli.commands import demo
from elytron_core.errors import UnreadableFile


def test_it_writes_a_store_asks_ten_questions_and_can_be_run_again(elytron: CommandLine) -> None:
    shown = elytron("demo").stdout
    assert "486 turns" in shown
    assert "turns/s written" in shown
    assert "the evidence was found for 10 of 10 questions" in shown
    assert shown.count("✓") >= 10
    assert "elytron --store elytron-demo.db recall" in shown
    assert (elytron.folder / "elytron-demo.db").exists()
    assert not (elytron.folder / "m.db").exists(), "the user's own store is left alone"
    before = elytron.json("inspect", "--store", "elytron-demo.db")
    assert "nothing new to write" in elytron("demo").stdout
    assert elytron.json("inspect", "--store", "elytron-demo.db") == before


def test_a_store_can_be_named_and_the_report_be_had_as_json(elytron: CommandLine) -> None:
    report = elytron.json("demo", "--store", "mine.db", "--json")
    assert (report["store"], report["imported"]["stored"]) == ("mine.db", 486)
    assert len(report["answered"]) == 10
    assert all(answered["evidence_at"] for answered in report["answered"])
    assert len(report["projection"]["system_memory_block"]) <= report["projection"]["budget"]


def test_the_conversation_is_found_in_the_package_or_the_checkout() -> None:
    assert (demo.folder() / demo.CONVERSATION).is_file()
    assert (demo.folder() / demo.QUESTIONS).is_file()


def test_damaged_files_are_named(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "folder", lambda: tmp_path)
    elytron.write(demo.QUESTIONS, json.dumps([]).encode())
    with pytest.raises(UnreadableFile, match=demo.CONVERSATION):
        demo._read()  # pyright: ignore[reportPrivateUsage] - the whole command would say the same
