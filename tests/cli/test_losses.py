"""What a repair could not save is shown by every answering command until an operator acknowledges it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

EMPTY = "is empty"
SHOWING = [("inspect",), ("list",), ("recall", "crate"), ("spaces",)]


def damage_one(file: Path) -> None:
    """Alter a byte of one stored message directly in the file."""
    data = file.read_bytes()
    assert data.count(b'"The red crate') == 1
    file.write_bytes(data.replace(b'"The red crate', b'"The rad crate'))


def zero_pages(file: Path) -> None:
    """Truncate a file to its first pages."""
    data = file.read_bytes()
    file.write_bytes(data[:8_192] + bytes(len(data) - 8_192))


@pytest.fixture
def lossy(elytron: CommandLine) -> CommandLine:
    """A repaired store that has lost one of two messages."""
    elytron("add", "The red crate stands in hall 7.")
    elytron("add", "The blue crate stands in hall 8.")
    damage_one(elytron.folder / "m.db")
    repaired = elytron.json("inspect", "--repair", expect=13)
    assert (repaired["store_check"]["repaired"], repaired["store_check"]["losses"]) == (True, 1)
    return elytron


@pytest.mark.parametrize("command", SHOWING, ids=lambda command: command[0])
def test_a_loss_is_shown_until_it_is_acknowledged(lossy: CommandLine, command: tuple[str, ...]) -> None:
    (loss,) = lossy.json(*command)["losses"]
    assert (loss["space"], loss["documents"]) == ("default", 1)
    assert "LOST" in lossy(*command, "--no-json").stdout
    acknowledged = lossy.json("inspect", "--acknowledge")
    assert (acknowledged["losses"], acknowledged["acknowledged"]) == ([loss], 1)
    assert lossy.json(*command)["losses"] == []
    assert "LOST" not in lossy(*command, "--no-json").stdout


def test_check_and_doctor_exit_with_13_until_a_loss_is_acknowledged(lossy: CommandLine) -> None:
    checked = lossy.json("inspect", "--check", expect=13)["store_check"]
    assert (checked["ok"], checked["problems"], checked["losses"]) == (False, [], 1)
    doctor = lossy.json("doctor", expect=13)["store"]
    assert (doctor["state"], [loss["documents"] for loss in doctor["losses"]]) == ("lossy", [1])
    assert "lossy" in lossy("doctor", "--no-json", expect=13).stdout
    assert lossy("inspect").exit_code == 0
    lossy("inspect", "--acknowledge")
    assert lossy.json("inspect", "--check")["store_check"]["ok"] is True
    assert lossy.json("doctor")["store"]["state"] == "sound"


def test_acknowledging_a_loss_does_not_cover_a_later_one(lossy: CommandLine) -> None:
    lossy("inspect", "--acknowledge")
    lossy("add", "The red crate is back.")
    damage_one(lossy.folder / "m.db")
    (loss,) = lossy.json("inspect", "--repair", expect=13)["losses"]
    assert loss["documents"] == 1


def test_acknowledge_cannot_be_combined_with_repair_or_check(elytron: CommandLine) -> None:
    elytron("add", "tea")
    for option in ("--repair", "--check"):
        assert elytron.error("inspect", option, "--acknowledge", expect=2)["details"]["field"] == "acknowledge"


def test_an_acknowledgement_reports_what_it_covered_and_what_remains(lossy: CommandLine) -> None:
    nothing = lossy("inspect", "--acknowledge", "--space", "bob", "--no-json")
    assert "nothing acknowledged" in nothing.output
    assert "still recorded: 'default'" in nothing.output
    done = lossy("inspect", "--acknowledge", "--no-json").output
    assert "acknowledged, not reported any more" in done
    assert "at least 1 document (" in done
    assert ("LOST" in done, "damage took" in done) == (False, False)


def test_other_spaces_do_not_report_the_loss_of_one(lossy: CommandLine) -> None:
    lossy("add", "The green crate", "--space", "bob")
    assert lossy.json("recall", "crate", "--space", "bob")["losses"] == []
    assert lossy.json("inspect", "--acknowledge", "--space", "bob")["acknowledged"] == 0
    assert len(lossy.json("list")["losses"]) == 1


def test_a_space_that_lost_everything_is_never_called_empty(elytron: CommandLine) -> None:
    for number in range(20):
        elytron("add", f"Note {number}: the crate stands in hall {number}.")
    zero_pages(elytron.folder / "m.db")
    elytron("inspect", "--repair", expect=13)
    recalled = elytron("recall", "crate")
    assert json.loads(recalled.stdout)["reason"] == "lost"
    assert EMPTY not in recalled.stderr
    shown = [elytron(*command, "--no-json") for command in SHOWING]
    assert all("LOST" in answer.stdout and EMPTY not in answer.output for answer in shown)
    assert "nothing can be read" in elytron("inspect", "--no-json").stdout
    report: dict[str, Any] = elytron.json("inspect", "--acknowledge")
    assert report["acknowledged"] == len(report["losses"]) == 1
    assert elytron.json("inspect", "--check")["store_check"]["losses"] == 0


def test_a_repair_of_a_store_in_use_asks_to_stop_the_server(elytron: CommandLine) -> None:
    elytron("add", "tea")
    # A separate process, because closing a file here would end the locks of this one.
    code = "import sqlite3, sys; raw = sqlite3.connect(sys.argv[1]); raw.execute('SELECT * FROM manifest').fetchall(); "
    code += "raw.execute('BEGIN IMMEDIATE'); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(elytron.folder / "m.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        zero_pages(elytron.folder / "m.db")
        refused = elytron.error("inspect", "--repair", expect=9)
        other.communicate("")
    assert "stop the server that has this store open, then retry" in refused["reason"]
