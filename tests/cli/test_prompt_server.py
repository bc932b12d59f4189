"""A resident process answers the prompts of a coding agent as the command does, and ends when it is not wanted."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_process import finish, start

import elytron
from elytron_cli.agents import prompt_client

PROMPT = {"session_id": "s", "cwd": "/boiler", "prompt": "What is the code of the boiler?"}
STORE = ("--store", "m.db")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    (tmp_path / "run").mkdir()
    return kept | {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}


def asked(folder: Path, environment: dict[str, str], *arguments: str, prompt: str = PROMPT["prompt"]) -> str:
    """Return what a hook prints for a prompt."""
    process = start(folder, environment, "hooks", "recall", *STORE, *arguments, standard_input=subprocess.PIPE)
    out, err = process.communicate(json.dumps(PROMPT | {"prompt": prompt}).encode(), timeout=100)
    assert (process.returncode, err) == (0, b"")
    return out.decode()


def add(folder: Path, text: str) -> None:
    with elytron.open(folder / "m.db", space="default") as memory:
        memory.add(text)


@pytest.fixture
def resident(tmp_path: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    add(tmp_path, "The boiler takes the code 4417.")
    process = start(tmp_path, environment, "hooks", "resident", *STORE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"answers at ")
    yield process
    process.kill()
    process.communicate()


@pytest.mark.usefixtures("resident")
def test_it_answers_with_what_others_stored_since(tmp_path: Path, environment: dict[str, str]) -> None:
    assert "4417" in asked(tmp_path, environment, "--resident")
    add(tmp_path, "The cellar door sticks in winter.")
    assert "sticks" in asked(tmp_path, environment, "--resident", prompt="does the cellar door stick in winter?")


@pytest.mark.usefixtures("resident")
def test_a_second_one_does_not_take_its_place(tmp_path: Path, environment: dict[str, str]) -> None:
    code, out, _ = finish(start(tmp_path, environment, "hooks", "resident", *STORE))
    assert (code, out) == (0, "")
    assert "4417" in asked(tmp_path, environment, "--resident")


def test_it_ends_when_its_store_is_another_one(
    tmp_path: Path, environment: dict[str, str], resident: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "m.db").rename(tmp_path / "former.db")
    assert resident.wait(timeout=100) == 0
    assert list((tmp_path / "run" / "elytron").iterdir()) == []


def test_without_one_the_command_answers_and_starts_it(tmp_path: Path, environment: dict[str, str]) -> None:
    add(tmp_path, "The boiler takes the code 4417.")
    assert "4417" in asked(tmp_path, environment, "--resident")
    (tmp_path / "m.db").unlink()  # what was started ends by itself


def test_a_folder_that_others_may_enter_holds_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert prompt_client.resident_address(["hooks", "recall"]) is not None
    (tmp_path / "elytron").chmod(0o755)
    assert prompt_client.resident_address(["hooks", "recall"]) is None


def test_other_arguments_settings_and_folders_have_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = {prompt_client.resident_address(["hooks", "recall", "--resident"])}
    assert found == {prompt_client.resident_address(["hooks", "resident"])}
    found.add(prompt_client.resident_address(["hooks", "recall", "--space", "b"]))
    monkeypatch.setenv("ELYTRON_SPACE", "b")
    found.add(prompt_client.resident_address(["hooks", "recall"]))
    monkeypatch.chdir(tmp_path)
    found.add(prompt_client.resident_address(["hooks", "recall"]))
    assert len(found) == 4


def test_a_process_that_says_nothing_leaves_the_answer_to_the_command(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "The boiler takes the code 4417.")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", environment)
    address = prompt_client.resident_address(["hooks", "recall", *STORE])
    assert address is not None
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(address))
        assert "4417" in asked(tmp_path, environment, "--resident")
