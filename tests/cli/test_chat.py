"""`elytron chat` over a scripted model server: it streams, remembers across starts, and goes on after a kill."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine
from tests.models.fake_server import LINES, FakeServer, Sent, serving_apart
from tests.models.streams import lines

RUN = "from elytron_cli.main import run; run()"
WAIT_S = 60


def said(*texts: str, calls: tuple[tuple[str, dict[str, Any]], ...] = (), hangs: bool = False) -> Sent:
    """Return an answer of Ollama's dialect in pieces, perhaps with calls of tools."""
    made = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    pieces: list[dict[str, Any]] = [
        {"message": {"role": "assistant", "content": text}, "done": False} for text in texts
    ]
    last: dict[str, Any] = {"role": "assistant", "content": ""} | ({"tool_calls": made} if made else {})
    end = () if hangs else ({"message": last, "done": True, "done_reason": "stop"},)
    return Sent((lines(*pieces, *end),), media_type=LINES, hangs=hangs)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    return kept | {"XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONUNBUFFERED": "1"}


def start(folder: Path, environment: dict[str, str], server: FakeServer) -> "subprocess.Popen[str]":
    arguments = ["chat", "--model", f"ollama:m@{server.url}", "--store", "m.db", "--no-json"]
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: "subprocess.Popen[str]", wanted: str) -> Iterator[str]:
    """Yield what a process prints until it has printed `wanted`."""
    assert process.stdout is not None
    heard = ""
    while wanted not in heard:
        char = process.stdout.read(1)
        assert char, heard
        heard += char
        yield char


def asked(server: FakeServer) -> str:
    """Return the last request as text."""
    return json.dumps(server.asked[-1].body, ensure_ascii=False)


def test_a_chat_answers_line_by_line_and_remembers_at_the_next_start(elytron: CommandLine) -> None:
    with serving_apart(said("Nice to ", "meet you, Ada."), said("Your boat is called Marimba.")) as server:
        model = f"ollama:m@{server.url}"
        first = elytron("chat", "--model", model, "--no-json", standard_input=b"I am Ada. My boat is called Marimba.\n")
        assert "What may I call you" in first.stdout
        assert "Nice to meet you, Ada." in first.stdout
        second = elytron("chat", "--model", model, "--no-json", standard_input=b"What is my boat called?\n/memory\n")
        assert "What may I call you" not in second.stdout
        assert "Your boat is called Marimba." in second.stdout
        assert "1 earlier turns" in second.stdout
        assert "My boat is called Marimba." in asked(server)
    hits = elytron.json("recall", "what is the boat called?")["hits"]
    assert "I am Ada. My boat is called Marimba." in [hit["text"] for hit in hits]


def test_memory_shows_what_was_recalled_and_why(elytron: CommandLine) -> None:
    elytron("add", "The harbour master is called Bento.", "--conversation", "elsewhere")
    with serving_apart(said("Bento.")) as server:
        done = elytron(
            "chat", "--model", f"ollama:m@{server.url}", "--no-json",
            standard_input=b"/memory\nWhat is the harbour master called?\n/memory\n",
        )  # fmt: skip
    assert "say something first" in done.stdout
    assert "The harbour master is called Bento." in done.stdout
    assert "block human: (empty)" in done.stdout


def test_a_chat_edits_its_blocks_by_tools_and_by_hand(elytron: CommandLine) -> None:
    wanted = ("memory_append", {"block": "human", "content": "Called Ada."})
    with serving_apart(said(calls=(wanted,)), said("Noted.")) as server:
        done = elytron(
            "chat", "--model", f"ollama:m@{server.url}", "--no-json",
            standard_input=b"I am Ada.\n/blocks\n/block human Called Ada Lovelace.\n/block boat Marimba\n/blocks\n",
        )  # fmt: skip
    assert "memory_append" in done.stdout
    assert "block human: Called Ada.\n" in done.stdout
    assert done.stdout.count("block human: Called Ada Lovelace.") == 2
    assert done.stdout.count("block boat: Marimba") == 2


def test_without_a_terminal_each_event_is_a_line_of_json(elytron: CommandLine) -> None:
    with serving_apart(said("Hello.")) as server:
        done = elytron("chat", "--model", f"ollama:m@{server.url}", standard_input=b"Hello?\n/quit\nnever\n")
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    assert kinds == ["run_started", "context_given", "text_said", "step_taken", "run_ended"]


def test_a_compaction_is_shown_done_and_undone(elytron: CommandLine) -> None:
    with serving_apart(said("Yes.")) as server:
        typed = b"One.\nTwo.\nThree.\nFour.\n/preview\n/compact\n/undo\n/undo\n/help\n"
        done = elytron("chat", "--model", f"ollama:m@{server.url}", "--no-json", standard_input=typed)
    assert "2 of 4 turns would be summed up" in done.stdout
    assert "Summed up: The user said: One." in done.stdout
    assert "2 turns are shown again." in done.stdout
    assert "/quit" in done.stdout


def test_a_model_that_does_not_answer_is_told_and_fails_the_command(elytron: CommandLine) -> None:
    with serving_apart(None) as server:
        server.answers = [Sent((b'{"error":"no such model"}',), status=404, media_type="application/json")]
        done = elytron("chat", "--model", f"ollama:m@{server.url}", "--no-json", standard_input=b"Hi.\n", expect=1)
    assert "refused the request" in done.stdout


def test_a_chat_without_a_model_says_how_to_name_one(elytron: CommandLine) -> None:
    assert elytron.error("chat", expect=2, standard_input=b"")["key"] == "invalid_input"


def test_the_transcript_of_the_page_is_true(elytron: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs/chat.md").read_text("utf-8")
    told = page.partition("```text\n")[2].partition("```")[0].splitlines()
    typed = [line.removeprefix("> ") for line in told if line.startswith("> ")]
    wanted = ("memory_append", {"block": "human", "content": "Called Ada. Has a boat, Marimba."})
    with serving_apart(said(calls=(wanted,)), said("Nice to meet you, Ada.")) as server:
        entered = "".join(f"{line}\n" for line in typed).encode()
        done = elytron("chat", "--model", f"ollama:m@{server.url}", "--no-json", standard_input=entered)
    assert done.stdout.splitlines() == [line for line in told if not line.startswith("> ")]


def test_a_chat_that_was_killed_goes_on_where_it_was(tmp_path: Path, environment: dict[str, str]) -> None:
    wanted = ("memory_append", {"block": "human", "content": "Called Ada."})
    with serving_apart(said(calls=(wanted,)), said("Well met", hangs=True), said("Noted, Ada.")) as server:
        process = start(tmp_path, environment, server)
        assert process.stdin is not None
        process.stdin.write("I am Ada.\n")
        process.stdin.flush()
        "".join(until(process, "Well met"))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=WAIT_S)
        again = start(tmp_path, environment, server)
        out, err = again.communicate("/blocks\n", timeout=WAIT_S)
    assert err == ""
    assert "going on with what was broken off: I am Ada." in out
    assert "Noted, Ada." in out
    assert "block human: Called Ada.\n" in out


def test_an_interrupt_ends_the_turn_and_not_the_chat(tmp_path: Path, environment: dict[str, str]) -> None:
    with serving_apart(said("Let me think", hangs=True), said("Good morning.")) as server:
        process = start(tmp_path, environment, server)
        assert process.stdin is not None
        process.stdin.write("Count to a million.\n")
        process.stdin.flush()
        "".join(until(process, "Let me think"))
        process.send_signal(signal.SIGINT)
        "".join(until(process, "cancelled"))
        out, _ = process.communicate("Good morning!\n", timeout=WAIT_S)
    assert process.returncode == 0
    assert "Good morning." in out


SAMPLE = Path(__file__).parents[1] / "agent/agent_file/samples/voyager.af"


def test_an_agent_file_is_taken_in_written_again_and_its_agent_deleted(elytron: CommandLine, tmp_path: Path) -> None:
    assert elytron("--no-json", "agent", "import", str(SAMPLE)).stdout.count("Voyager") >= 2
    assert elytron.json("agent", "import", str(SAMPLE), "--name", "copy")["blocks"] == 4
    written = tmp_path / "copy.af"
    assert "blocks" in elytron("--no-json", "agent", "export", "copy", str(written)).stdout
    assert json.loads(written.read_text())["agents"][0]["name"] == "Voyager"
    assert elytron.error("agent", "export", "copy", str(written), expect=2)["key"] == "invalid_input"
    assert elytron.json("agent", "export", "copy", str(written), "--force")["messages"] == 6
    assert elytron.json("agent", "delete", "copy", "--dry-run")["dry_run"]
    assert "erased" in elytron("--no-json", "agent", "delete", "copy", "--yes").stdout
    assert elytron.error("agent", "delete", "copy", "--yes", expect=3)["key"] == "not_found"
