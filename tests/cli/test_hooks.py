"""Hooks of Claude Code: what is said in one session is kept at its stop and recalled at the prompt of another."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

SESSION = "c45af7b1-cb7c-4e51-93db-8cbb250a877a"


def said(role: str, content: Any, /, **more: Any) -> dict[str, Any]:
    """Return a transcript's entry as Claude Code writes it."""
    message = {"role": role, "content": content}
    return {"type": role, "uuid": f"u-{len(str(content))}", "isSidechain": False, "message": message, **more}


def event(elytron: CommandLine, name: str, /, **more: Any) -> bytes:
    """Return what Claude Code writes to a hook's standard input."""
    told = {
        "session_id": SESSION,
        "transcript_path": str(elytron.folder / "session.jsonl"),
        "cwd": str(elytron.folder / "boiler"),
        "permission_mode": "default",
        "hook_event_name": name,
    }
    return json.dumps(told | more).encode()


@pytest.fixture
def transcript(elytron: CommandLine) -> Path:
    entries = [
        {"type": "summary", "summary": "boiler"},
        said("user", "An earlier prompt."),
        said("assistant", [{"type": "text", "text": "An earlier reply."}]),
        said("user", "Which code does the boiler take? I moved it to the cellar."),
        said("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me look."}]),
        said("assistant", [{"type": "tool_use", "name": "Read", "input": {}}]),
        said("user", [{"type": "tool_result", "content": "s3cret tool output"}]),
        said("user", "<command-name>/clear</command-name>"),
        said("user", "Caveat: a note of the program.", isMeta=True),
        said("assistant", [{"type": "text", "text": "Side talk."}], isSidechain=True),
        said("assistant", [{"type": "text", "text": "The boiler takes the code 4417."}]),
    ]
    lines = "\n".join(map(json.dumps, entries))
    return Path(elytron.write("session.jsonl", f"{lines}\n{{broken".encode()))


@pytest.mark.usefixtures("transcript")
def test_the_last_turn_is_kept_once_and_recalled_in_another_session(elytron: CommandLine) -> None:
    stop = event(elytron, "Stop", stop_hook_active=False)
    assert elytron("hooks", "keep", standard_input=stop).output == ""
    elytron("hooks", "keep", standard_input=stop)
    listed = elytron.json("list")["items"]
    assert [(item["role"], item["text"]) for item in listed] == [
        ("user", "Which code does the boiler take? I moved it to the cellar."),
        ("assistant", "The boiler takes the code 4417."),
    ]
    assert {(item["channel"], item["conversation"]) for item in listed} == {("claude-code", SESSION)}
    asked = event(elytron, "UserPromptSubmit", session_id="another", prompt="What is the code of the boiler?")
    told = json.loads(elytron("hooks", "recall", standard_input=asked).stdout)["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert "The boiler takes the code 4417." in told["additionalContext"]
    short = elytron("hooks", "recall", "--max-chars", "1500", standard_input=asked).stdout
    assert len(json.loads(short)["hookSpecificOutput"]["additionalContext"]) <= 1_500


def test_the_reply_that_the_event_tells_is_the_one_that_is_kept(elytron: CommandLine, transcript: Path) -> None:
    transcript.unlink()
    stop = event(elytron, "Stop", last_assistant_message="It is 4417.")
    result = elytron("hooks", "keep", standard_input=stop, expect=1)
    assert "the reply was stored without its prompt" in result.stderr
    assert [item["text"] for item in elytron.json("list")["items"]] == ["It is 4417."]


def test_without_anything_to_say_nothing_is_printed_or_made(elytron: CommandLine) -> None:
    for given in (
        event(elytron, "UserPromptSubmit", prompt="What is the code of the boiler?"),
        event(elytron, "UserPromptSubmit", prompt="  "),
    ):
        assert elytron("hooks", "recall", standard_input=given).output == ""
    assert list(elytron.folder.iterdir()) == []


@pytest.mark.parametrize("path", ["session.jsonl", "a\0b"])
def test_a_transcript_that_cannot_be_read_is_told(elytron: CommandLine, path: str) -> None:
    result = elytron("hooks", "keep", standard_input=event(elytron, "Stop", transcript_path=path), expect=1)
    assert "transcript_path names no file that can be read" in result.stderr
    assert list(elytron.folder.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"type": "user", "message": {"content": 5}}',
        '{"type": "assistant", "message": {"content": true}}',
        '{"type": "user", "message": 1.5}',
        '{"type": "user", "message": {"content": "x"}, "timestamp": "noon", "isMeta": 1}',
    ],
)
def test_an_odd_line_of_a_transcript_loses_no_turn(elytron: CommandLine, transcript: Path, line: str) -> None:
    with transcript.open("a") as file:
        file.write(f"\n{line}\n")
    elytron("hooks", "keep", standard_input=event(elytron, "Stop"))
    assert len(elytron.json("list")["items"]) == 2


def test_a_turn_has_the_times_of_the_transcript(elytron: CommandLine, transcript: Path) -> None:
    lines = [
        {
            "type": "user",
            "timestamp": "2026-03-01T10:00:00.000Z",
            "message": {"role": "user", "content": "Which code?"},
        },
        {
            "type": "assistant",
            "timestamp": "2026-03-01T10:00:07Z",
            "message": {"role": "assistant", "content": "4417."},
        },
    ]
    transcript.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    elytron("hooks", "keep", standard_input=event(elytron, "Stop"))
    times = [item["at"] for item in elytron.json("list")["items"]]
    assert times == [1_772_359_200_000, 1_772_359_207_000]


@pytest.mark.parametrize("given", [b"", b"{", b"[]", b'{"prompt": "s3cret"}'])
@pytest.mark.parametrize("verb", ["recall", "keep"])
def test_what_goes_wrong_never_stops_the_prompt(elytron: CommandLine, verb: str, given: bytes) -> None:
    result = elytron("hooks", verb, standard_input=given, expect=1)  # an exit code 2 would
    assert result.stdout == ""
    assert "elytron: " in result.stderr
    assert "s3cret" not in result.stderr


def test_hooks_are_configured_once_beside_those_that_are_there(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(elytron.folder))
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "audit"}]}
    (elytron.folder / ".claude").mkdir()
    elytron.write(".claude/settings.json", json.dumps({"model": "opus", "hooks": {"PreToolUse": [other]}}).encode())
    for space, changed in (("ada", True), ("ada", False), ("bob", True)):
        assert elytron.json("hooks", "claude-code", "install", "--space", space)["changed"] is changed
    made = json.loads((elytron.folder / ".claude" / "settings.json").read_text("utf-8"))
    assert (made["model"], made["hooks"]["PreToolUse"]) == ("opus", [other])
    for name, verb in (("UserPromptSubmit", "recall"), ("Stop", "keep")):
        ((hook,),) = [group["hooks"] for group in made["hooks"][name]]
        assert hook["type"] == "command"
        assert hook["timeout"] > 0
        words = shlex.split(hook["command"])
        assert words[1:] == ["hooks", verb, "--store", f"sqlite://{elytron.folder}/m.db", "--space", "bob"]
    told = elytron("hooks", "claude-code", "install", "--project", "--url", "http://localhost:8010", "--no-json")
    assert "settings.local.json" in told.stdout.replace("\n", "")
    local = (elytron.folder / ".claude" / "settings.local.json").read_text("utf-8")
    assert "--url http://localhost:8010 --space default" in local


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"hooks": []}'])
def test_settings_that_are_none_are_left_alone(elytron: CommandLine, content: bytes) -> None:
    (elytron.folder / ".claude").mkdir()
    path = Path(elytron.write(".claude/settings.local.json", content))
    elytron.error("hooks", "claude-code", "install", "--project", expect=2)
    assert path.read_bytes() == content


def test_paths_in_the_hooks_are_plain(elytron: CommandLine) -> None:
    (elytron.folder / "inner").mkdir()
    told = elytron.json("hooks", "claude-code", "install", "--project", "--store", "inner/../hk.db")
    assert f"sqlite://{elytron.folder.resolve().as_posix()}/hk.db" in told["recall"]


def test_a_server_needs_no_resident_process(elytron: CommandLine) -> None:
    result = elytron(
        "hooks", "claude-code", "install", "--project", "--resident", "--url", "http://127.0.0.1:1", expect=2
    )
    assert "a server answers by itself" in result.stderr
    assert list(elytron.folder.iterdir()) == []


def test_the_hook_of_a_prompt_is_configured_with_a_resident_process(elytron: CommandLine) -> None:
    told = elytron.json("hooks", "claude-code", "install", "--project", "--resident")
    assert "hooks recall --resident" in told["recall"]
    assert "--resident" not in told["keep"]
