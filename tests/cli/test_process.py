"""The command as a separate process: first run, restart, two at once, and what it loads."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import elytron

LINES = b"".join(json.dumps({"role": "user", "content": f"message {number}"}).encode() + b"\n" for number in range(300))
RUN = "from elytron_cli.main import run_command_line; run_command_line()"
pytestmark = pytest.mark.usefixtures("whole_starts")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    return kept | {"XDG_DATA_HOME": str(tmp_path / "data")}


def start(
    folder: Path, environment: dict[str, str], *arguments: str, standard_input: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder,
        env=environment,
        stdin=standard_input,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=100)
    return process.returncode, out.decode(), err.decode()


def test_one_process_recalls_what_another_stored(tmp_path: Path, environment: dict[str, str]) -> None:
    code, out, err = finish(start(tmp_path, environment, "add", "The ferry leaves at six."))
    assert (code, err) == (0, "")
    assert json.loads(out)["decisions"][0]["outcome"] == "stored"
    with elytron.open(tmp_path / "data" / "elytron" / "memory.db", space="default") as memory:
        assert [hit.text for hit in memory.recall("ferry").hits] == ["The ferry leaves at six."]


def test_two_processes_importing_one_file_at_once_store_each_message_once(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "chat.jsonl").write_bytes(LINES)
    both = [start(tmp_path, environment, "--store", "m.db", "import", "chat.jsonl") for _ in range(2)]
    reports: list[dict[str, int]] = []
    for process in both:
        code, out, err = finish(process)
        assert (code, err) == (0, "")
        reports.append(json.loads(out))
    assert sum(report["stored"] for report in reports) == 300
    assert sum(report["duplicates"] for report in reports) == 300
    with elytron.open(tmp_path / "m.db", space="default") as memory:
        found = memory.inspect(check=True)
    assert found.store_check is not None
    assert (found.documents["turns"], found.store_check.ok) == (300, True)


def test_the_entry_point_and_the_help_load_little(tmp_path: Path, environment: dict[str, str]) -> None:
    script = (
        "import sys, elytron_cli.main\n"
        "assert not {'click', 'pydantic', 'numpy', 'elytron'} & set(sys.modules)\n"
        "for word in ('--help', 'version'):\n"
        "    sys.argv = ['elytron', word]\n"
        "    try: elytron_cli.main.run_command_line()\n"
        "    except SystemExit as end: assert not end.code\n"
        "heavy = {'pydantic', 'numpy', 'elytron', 'cryptography', 'starlette'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_a_closed_output_pipe_ends_the_run_quietly(tmp_path: Path, environment: dict[str, str]) -> None:
    process = start(tmp_path, environment, "--help")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=100) == 1
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_at_a_terminal_erasing_everything_needs_confirmation(tmp_path: Path, environment: dict[str, str]) -> None:
    with elytron.open(tmp_path / "m.db") as memory:
        memory.add("tea")
    terminal, theirs = pty.openpty()
    os.write(terminal, b"n\n")
    process = start(tmp_path, environment, "--store", "m.db", "erase", "--all", standard_input=theirs)
    ended, _, told = finish(process)
    os.close(theirs)
    os.close(terminal)
    assert (ended, "nothing was changed" in told) == (1, True)
    with elytron.open(tmp_path / "m.db") as memory:
        assert memory.inspect().exists


def test_a_server_freezes_loaded_objects_and_collects_garbage_less_often() -> None:
    asked = (
        "import gc; from elytron_cli.commands.servers.serve import ease_collector; ease_collector();"
        " looks = gc.get_stats()[0]['collections'];"
        " made = [[] for _ in range(5_000)];"
        " print(gc.get_freeze_count() > len(made), gc.get_stats()[0]['collections'] - looks, gc.isenabled())"
    )
    told = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout
    assert told.split() == ["True", "0", "True"]
