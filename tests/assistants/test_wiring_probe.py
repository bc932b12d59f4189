"""`elytron doctor` tests what `elytron install` wrote, without storing anything."""

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import host_folders
from elytron_assistants.wiring.probe import check_wiring
from elytron_assistants.wiring.wiring_files import (
    WiringChoice,
    WiringRecord,
    host_goals,
    plan_file,
    read_record,
    write_plan,
)


def wired(folder: Path, host: HostName, program: str, address: str | None = None) -> WiringRecord:
    """Configure a host in a home folder, like `elytron install`."""
    choice = WiringChoice(program, ("--space", "ada"), host_folders({}, folder, "linux"), "linux", address=address)
    record, file = WiringRecord(), folder / "state" / "installed.json"
    for goal in host_goals(host, choice):
        record = write_plan(plan_file(goal, record), record, file)
    assert read_record(file) == record
    return record


def problems(record: WiringRecord, program: str) -> dict[tuple[str, str], str]:
    """Return what is wrong with each part."""
    checks = check_wiring(record, os.environ, program=program)
    return {(Path(check.file).name, check.part): check.problem for check in checks}


def program_at(folder: Path, code: str) -> str:
    """Create a program called `elytron` that runs the code."""
    folder.mkdir()
    program = folder / "elytron"
    program.write_text(f"#!{sys.executable}\nimport json, sys\n{code}\n", "utf-8")
    program.chmod(0o755)
    return str(program)


ANSWER = """
if "mcp" in sys.argv:
    asked = json.loads(sys.stdin.readline())
    assert sys.argv[-2:] == ["--store", "memory:"]
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"serverInfo": {"name": "elytron"}}}))
elif json.loads(sys.stdin.read()).keys() != {"session_id", "prompt"}:
    sys.exit(4)
"""


@pytest.mark.parametrize("host", [HostName.CURSOR, HostName.CODEX, HostName.OPENCODE, HostName.COPILOT])
def test_an_answering_wiring_works(tmp_path: Path, host: HostName) -> None:
    program = program_at(tmp_path / "a b", ANSWER)
    checks = problems(wired(tmp_path, host, program), program)
    assert {part for _, part in checks} == {"file", "hook", "tools"}
    assert set(checks.values()) == {""}


def test_a_failing_command_is_reported_with_its_last_output(tmp_path: Path) -> None:
    program = program_at(tmp_path / "bin", 'sys.exit("no such option")')
    checks = problems(wired(tmp_path, HostName.CURSOR, program), program)
    assert checks["hooks.json", "hook"] == "the command exited with code 1: no such option"
    assert checks["mcp.json", "tools"] == "the command exited with code 1: no such option"


def test_a_command_of_another_program_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    record = wired(tmp_path, HostName.CURSOR, program_at(tmp_path / "bin", f"open({str(mark)!r}, 'w')"))
    checks = problems(record, program_at(tmp_path / "own", ANSWER))
    assert checks["hooks.json", "hook"].endswith("was not run: run `elytron install` again")
    assert checks["mcp.json", "tools"].endswith("was not run: run `elytron install` again")
    assert not mark.exists()


def test_a_hook_that_fails_silently_is_reported(tmp_path: Path) -> None:
    code = 'print("elytron: the server cannot be reached", file=sys.stderr)'
    program = program_at(tmp_path / "bin", code)
    assert (
        problems(wired(tmp_path, HostName.CODEX, program), program)["hooks.json", "hook"]
        == "the server cannot be reached"
    )


def test_a_missing_program_or_file_is_reported(tmp_path: Path) -> None:
    record = wired(tmp_path, HostName.CURSOR, str(tmp_path / "elytron"))
    (tmp_path / ".cursor" / "mcp.json").unlink()
    hooks = tmp_path / ".cursor" / "hooks.json"
    hooks.write_text(json.dumps(json.loads(hooks.read_text("utf-8"))), "utf-8")
    assert problems(record, str(tmp_path / "elytron")) == {
        ("mcp.json", "file"): "no longer exists: run `elytron install` again",
        ("hooks.json", "file"): "was changed since `elytron install`",
        ("hooks.json", "hook"): f"{tmp_path}/elytron does not exist: run `elytron install` again",
    }


def test_a_server_is_tested_at_its_address(tmp_path: Path) -> None:
    program = program_at(tmp_path / "bin", ANSWER)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/mcp"
        record = wired(tmp_path, HostName.GEMINI, program, address)
        assert set(problems(record, program).values()) == {""}
    assert "cannot be reached: ConnectionRefusedError" in problems(record, program)["settings.json", "tools"]


def test_paths_and_commands_of_other_systems_are_correct() -> None:
    """Not tested on those systems: the table is queried as if it ran there."""
    windows = host_folders({"APPDATA": "D:/ada/AppData/Roaming"}, Path("D:/ada"), "win32")
    assert windows["vscode"] == Path("D:/ada/AppData/Roaming/Code/User")
    assert windows["opencode"] == Path("D:/ada/.config/opencode")
    macos = host_folders({"CODEX_HOME": "/Volumes/x/codex"}, Path("/Volumes/ada"), "darwin")
    assert macos["vscode"] == Path("/Volumes/ada/Library/Application Support/Code/User")
    assert (macos["codex"], macos["claude"]) == (Path("/Volumes/x/codex"), Path("/Volumes/ada/.claude"))
    choice = WiringChoice("D:\\Ada L\\elytron.exe", ("--space", "a b"), windows, "win32")
    texts = {goal.path.name: goal for goal in host_goals(HostName.COPILOT, choice)}
    hook = texts["elytron.json"].entries[0].value
    assert isinstance(hook, dict)
    line = '"D:/Ada L/elytron.exe" hooks start --host copilot --space "a b"'
    assert (hook["bash"], hook["powershell"]) == (line, f"& {line}")
