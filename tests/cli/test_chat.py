"""`elytron chat` with a scripted model server: it streams, remembers across starts, and resumes after a kill."""

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

RUN = "from elytron_cli.main import run_command_line; run_command_line()"
WAIT_S = 60


def said(*texts: str, calls: tuple[tuple[str, dict[str, Any]], ...] = (), hangs: bool = False) -> Sent:
    """Return an answer in Ollama's dialect in pieces, optionally with tool calls."""
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
    kept |= {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
    return kept | {"PYTHONUNBUFFERED": "1"}


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


def test_a_chat_answers_each_line_and_remembers_at_the_next_start(elytron: CommandLine) -> None:
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
    assert "send a message first" in done.stdout
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


def test_every_line_of_a_scripted_chat_is_json(elytron: CommandLine) -> None:
    commands = ["memory", "blocks", "block boat Marimba", "preview", "compact", "undo", "help", "nothing-like-it"]
    words = [b"\xff\xfe no text", b"x" * 40_001, b"//etc/passwd is a file", b"Hello?"]
    typed = b"\n".join([*(f"/{command}".encode() for command in commands), *words, b"/memory", b"/quit"])
    with serving_apart(said("A file."), said("Hello.")) as server:
        done = elytron("chat", "--model", f"ollama:m@{server.url}", standard_input=typed)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [each["key"] for each in found if each["kind"] == "line_refused"]
    assert refused == ["not_found", "invalid_input", "invalid_input", "invalid_input"]
    asked_for = [each["input"] for each in found if each["kind"] == "run_started"]
    assert asked_for == ["/etc/passwd is a file", "Hello?"]
    answers = [each for each in found if each["kind"] == "command_answer"]
    assert [each["command"] for each in answers] == [
        "/memory", "/blocks", "/block", "/preview", "/compact", "/help", "/memory",
    ]  # fmt: skip
    assert answers[2]["blocks"][0]["value"] == "Marimba"
    assert answers[-1]["given"]["turns"] == 1
    assert "'/nothing-like-it' is not a command" in done.stdout


@pytest.mark.parametrize(
    ("typed", "code"),
    [(b"/nothing-like-it\n", 2), (b"/nothing-like-it\nHi.\n", 0), (b"Hi.\n\xff\n", 2), (b"/undo\n", 3)],
)
def test_the_exit_code_reflects_the_last_line(elytron: CommandLine, typed: bytes, code: int) -> None:
    with serving_apart(said("Hello.")) as server:
        elytron("chat", "--model", f"ollama:m@{server.url}", standard_input=typed, expect=code)


def test_a_run_that_ends_without_an_answer_fails_the_command(elytron: CommandLine) -> None:
    wanted = ("memory_append", {"block": "human", "content": "again"})
    with serving_apart(said(calls=(wanted,))) as server:
        done = elytron("chat", "--model", f"ollama:m@{server.url}", standard_input=b"Hi.\n", expect=1)
    assert json.loads(done.stdout.splitlines()[-1])["reason"] == "steps"


def test_a_second_start_shows_agent_store_and_last_message(elytron: CommandLine) -> None:
    with serving_apart(said("Nice to meet you, Ada.")) as server:
        model = f"ollama:m@{server.url}"
        elytron("chat", "--model", model, standard_input=b"I am Ada.\n")
        again = elytron("--space", "default", "chat", "--model", model, "--no-json", standard_input=b"").stdout
    first, said_last, answered = again.splitlines()
    assert first == f"Agent 'main' with {model}, in the space 'default' of m.db"
    assert said_last.startswith("  · last message, ")
    assert said_last.endswith(" UTC: I am Ada.")
    assert answered == "  · answer: Nice to meet you, Ada."


def test_a_model_without_its_key_is_rejected_before_the_chat_starts(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    refused = elytron.error("chat", "--model", "openai:gpt-5", standard_input=b"Hi.\n", expect=2)
    assert "OPENAI_API_KEY is not set" in refused["reason"]


def test_a_compaction_is_previewed_done_and_undone(elytron: CommandLine) -> None:
    with serving_apart(said("Yes.")) as server:
        typed = b"One.\nTwo.\nThree.\nFour.\n/preview\n/compact\n/undo\n/undo\n/help\n"
        done = elytron("chat", "--model", f"ollama:m@{server.url}", "--no-json", standard_input=typed)
    assert "2 of 4 turns would be summarised" in done.stdout
    assert "Summarised: user: One." in done.stdout
    assert "2 turns." in done.stdout
    assert "/quit" in done.stdout


def test_an_unresponsive_model_is_reported_and_fails_the_command(elytron: CommandLine) -> None:
    with serving_apart(None) as server:
        server.answers = [Sent((b'{"error":"no such model"}',), status=404, media_type="application/json")]
        done = elytron("chat", "--model", f"ollama:m@{server.url}", "--no-json", standard_input=b"Hi.\n", expect=1)
    assert "refused the request" in done.stdout


def test_a_chat_without_a_model_explains_how_to_configure_one(elytron: CommandLine) -> None:
    assert elytron.error("chat", expect=2, standard_input=b"")["key"] == "invalid_input"


def test_the_transcript_in_the_docs_is_accurate(elytron: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/chat-at-the-terminal.md").read_text("utf-8")
    told = page.partition("```text\n")[2].partition("```")[0].splitlines()
    typed = [line.removeprefix("> ") for line in told if line.startswith("> ")]
    wanted = ("memory_append", {"block": "human", "content": "Called Ada. Has a boat, Marimba."})
    with serving_apart(said(calls=(wanted,)), said("Nice to meet you, Ada.")) as server:
        entered = "".join(f"{line}\n" for line in typed).encode()
        done = elytron("chat", "--model", f"ollama:m@{server.url}", "--no-json", standard_input=entered)
    printed = done.stdout.splitlines()
    assert told[0].startswith("Agent 'main' with ")
    assert printed[0] == f"Agent 'main' with ollama:m@{server.url}, in the space 'default' of m.db"
    assert printed[1:] == [line for line in told[1:] if not line.startswith("> ")]


def test_a_killed_chat_resumes_where_it_stopped(tmp_path: Path, environment: dict[str, str]) -> None:
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
    assert "resuming the interrupted turn: I am Ada." in out
    assert "Noted, Ada." in out
    assert "block human: Called Ada.\n" in out


@pytest.mark.usefixtures("whole_starts")
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


def test_sigterm_during_an_answer_ends_the_chat_and_the_next_start_resumes(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with serving_apart(said("Let me think", hangs=True), said("Good morning.")) as server:
        process = start(tmp_path, environment, server)
        assert process.stdin is not None
        process.stdin.write("Good morning!\n")
        process.stdin.flush()
        "".join(until(process, "Let me think"))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, err) == (143, "")
        out, _ = start(tmp_path, environment, server).communicate("", timeout=WAIT_S)
    assert "another terminal" not in out
    assert "resuming the interrupted turn: Good morning!" in out
    assert "Good morning.\n" in out


def test_a_second_terminal_is_told_immediately_that_the_agent_is_busy(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with serving_apart(said("Let me think", hangs=True), said("Hello.")) as server:
        first = start(tmp_path, environment, server)
        assert first.stdin is not None
        first.stdin.write("Count to a million.\n")
        first.stdin.flush()
        "".join(until(first, "Let me think"))
        second = start(tmp_path, environment, server)
        "".join(until(second, "another terminal or process is using 'main'"))
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=WAIT_S)
        out, _ = second.communicate("Hello?\n", timeout=WAIT_S)
    assert "Hello." in out


SAMPLE = Path(__file__).parents[1] / "agent/agent_file/samples/voyager.af"


def test_an_agent_file_is_imported_exported_and_its_agent_deleted(elytron: CommandLine, tmp_path: Path) -> None:
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
