"""Claude Code hooks: what is said in one session is stored at its stop and recalled at another's prompt."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from elytron_core import limits

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
def test_turns_are_stored_once_and_recalled_in_another_session(elytron: CommandLine) -> None:
    stop = event(elytron, "Stop", stop_hook_active=False)
    assert elytron("hooks", "keep", standard_input=stop).output == ""
    elytron("hooks", "keep", standard_input=stop)
    listed = elytron.json("list")["items"]
    assert [(item["role"], item["text"]) for item in listed] == [
        ("user", "An earlier prompt."),
        ("assistant", "An earlier reply."),
        ("user", "Which code does the boiler take? I moved it to the cellar."),
        ("assistant", "The boiler takes the code 4417."),
    ]
    assert {(item["channel"], item["conversation"]) for item in listed} == {("claude-code", SESSION)}
    asked = event(elytron, "UserPromptSubmit", session_id="another", prompt="What is the code of the boiler?")
    told = json.loads(elytron("hooks", "recall", standard_input=asked).stdout)["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert "The boiler takes the code 4417." in told["additionalContext"]
    assert len(told["additionalContext"]) <= 800


def test_the_events_reply_is_stored_before_the_transcript_contains_it(elytron: CommandLine, transcript: Path) -> None:
    complete = transcript.read_text("utf-8")
    transcript.write_text(complete.rpartition('{"type": "assistant"')[0], "utf-8")
    elytron("hooks", "keep", standard_input=event(elytron, "Stop", last_assistant_message="It is 4417."))
    texts = [item["text"] for item in elytron.json("list")["items"]]
    assert texts[-2:] == ["Which code does the boiler take? I moved it to the cellar.", "It is 4417."]
    transcript.write_text(complete, "utf-8")
    elytron("hooks", "keep", standard_input=event(elytron, "Stop"))
    assert len(elytron.json("list")["items"]) == len(texts)


def test_without_memories_nothing_is_printed_or_created(elytron: CommandLine) -> None:
    for given in (
        event(elytron, "UserPromptSubmit", prompt="What is the code of the boiler?"),
        event(elytron, "UserPromptSubmit", prompt="  "),
    ):
        assert elytron("hooks", "recall", standard_input=given).output == ""
    assert list(elytron.folder.iterdir()) == []


@pytest.mark.parametrize("path", ["session.jsonl", "a\0b"])
def test_an_unreadable_transcript_is_reported(elytron: CommandLine, path: str) -> None:
    result = elytron("hooks", "keep", standard_input=event(elytron, "Stop", transcript_path=path))
    assert "transcript_path does not name a readable transcript" in result.stderr
    assert "transcript_path" in json.loads(result.stdout)["systemMessage"]


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
    assert len(elytron.json("list")["items"]) == 4


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
def test_errors_never_block_the_prompt(elytron: CommandLine, verb: str, given: bytes) -> None:
    result = elytron("hooks", verb, standard_input=given)  # exit code 2 would
    assert result.stdout == ""
    assert "elytron: " in result.stderr
    assert "s3cret" not in result.stderr


def test_an_oversized_event_is_reported(elytron: CommandLine) -> None:
    result = elytron("hooks", "recall", standard_input=b" " * (limits.JSON_BYTES + 1))
    assert "is larger than" in result.stderr


def test_hooks_are_configured_once_next_to_existing_ones(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert Path(words[0]).is_absolute()
        assert Path(words[0]).exists()
        assert words[1:] == ["hooks", verb, "--store", f"sqlite://{elytron.folder}/m.db", "--space", "bob"]
    url = ("--url", "http://localhost:8010")
    report = elytron("hooks", "claude-code", "install", "--project", *url, "--space", "ada", "--no-json")
    assert "settings.local.json" in report.stdout.replace("\n", "")
    local = (elytron.folder / ".claude" / "settings.local.json").read_text("utf-8")
    assert "--url http://localhost:8010 --space ada" in local
    assert elytron.error("hooks", "claude-code", "install", *url, expect=2)["details"]["field"] == "--space"


def test_older_hooks_that_share_a_space_are_reported_until_reinstalled(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(elytron.folder))
    install = ("hooks", "claude-code", "install")
    elytron("add", "x")
    file = Path(elytron.json(*install)["file"])
    assert elytron.json("doctor")["shared_hooks"] == []
    earlier = file.read_text("utf-8").replace(" --per-repository", "")
    file.write_text(earlier, "utf-8")
    assert elytron.json("doctor")["shared_hooks"] == [str(file)]
    assert "all repositories share the space 'default'" in " ".join(elytron("doctor", "--no-json").stdout.split())
    assert "Its memories remain there" in elytron(*install, "--no-json").stdout
    assert elytron.json("doctor")["shared_hooks"] == []
    file.write_text(earlier, "utf-8")
    report = elytron.json(*install, "--space", "team")
    assert (report["was_shared"], report["space"]) == (True, "team")
    assert elytron.json(*install, "--space", "team")["was_shared"] is False


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"hooks": []}'])
def test_invalid_settings_are_left_unchanged(elytron: CommandLine, content: bytes) -> None:
    (elytron.folder / ".claude").mkdir()
    path = Path(elytron.write(".claude/settings.local.json", content))
    refusal = elytron.error("hooks", "claude-code", "install", "--project", expect=6)
    assert "settings.local.json', line 1 " in refusal["reason"]
    assert path.read_bytes() == content
    assert elytron.json("doctor")["shared_hooks"] == []


def test_paths_in_the_hooks_are_plain(elytron: CommandLine) -> None:
    (elytron.folder / "inner").mkdir()
    told = elytron.json("hooks", "claude-code", "install", "--project", "--store", "inner/../hk.db")
    assert f"sqlite://{elytron.folder.resolve().as_posix()}/hk.db" in told["recall"]


def test_a_server_needs_no_resident_process(elytron: CommandLine) -> None:
    result = elytron(
        "hooks", "claude-code", "install", "--project", "--resident", "--url", "http://127.0.0.1:1", expect=2
    )
    assert "cannot be used with --url" in result.stderr
    assert list(elytron.folder.iterdir()) == []


def test_every_hook_is_configured_with_a_resident_process(elytron: CommandLine) -> None:
    told = elytron.json("hooks", "claude-code", "install", "--project", "--resident")
    assert "hooks recall --resident" in told["recall"]
    assert "hooks keep --resident" in told["keep"]


PROGRAM_TEXTS = (
    "<task-notification><result>the deploy key is in vault 9</result></task-notification>",
    "<system-reminder>\nI prefer tabs.\n</system-reminder>",
    "<command-message>review is running</command-message>\n<command-name>/review</command-name>",
    "<command-name>/clear</command-name><command-args></command-args>",
    "<bash-input>ls</bash-input>",
    "<user-prompt-submit-hook>Remember the tabs.</user-prompt-submit-hook>",
    "<hook_context>I prefer tabs.</hook_context>",
    "<environment_context>\n<cwd>/w/shop</cwd>\n</environment_context>",
    "<cross-session-message>I prefer tabs.</cross-session-message>",
    "<memory-1a2b>\nAda prefers tabs.\n</memory-1a2b>",
    "[Request interrupted by user]",
    "[Request interrupted by user for tool use]",
)


OUTPUT = "<local-command-stdout>Cleared.</local-command-stdout>"


@pytest.mark.parametrize("text", [*PROGRAM_TEXTS, OUTPUT])
def test_text_that_a_program_writes_as_the_user_is_not_stored(elytron: CommandLine, text: str) -> None:
    lines = [
        said("user", "Fix the test."),
        said("assistant", "Done."),
        said("user", text),
        said("user", [{"type": "text", "text": text}]),
        said("assistant", "Going on."),
    ]
    elytron.write("session.jsonl", "\n".join(map(json.dumps, lines)).encode())
    elytron("hooks", "keep", standard_input=event(elytron, "Stop"))
    assert [item["text"] for item in elytron.json("list")["items"]] == ["Fix the test.", "Going on."]


@pytest.mark.parametrize("text", PROGRAM_TEXTS)
def test_only_the_persons_part_of_a_mixed_message_is_stored(elytron: CommandLine, text: str) -> None:
    elytron.write("session.jsonl", json.dumps(said("user", f"{text}\nFix the <b> tag.\n{text}")).encode())
    elytron("hooks", "keep", standard_input=event(elytron, "Stop"))
    assert [item["text"] for item in elytron.json("list")["items"]] == ["Fix the <b> tag."]


@pytest.mark.parametrize("text", [f"{OUTPUT}\nFix the <b> tag.", f"Fix the <b> tag.\n{OUTPUT}"])
def test_text_around_output_is_the_persons(elytron: CommandLine, text: str) -> None:
    elytron.write("session.jsonl", json.dumps(said("user", text)).encode())
    elytron("hooks", "keep", standard_input=event(elytron, "Stop"))
    assert [item["text"] for item in elytron.json("list")["items"]] == ["Fix the <b> tag."]


@pytest.mark.parametrize(
    "entry",
    [
        said("user", "This session is being continued. I prefer tabs.", isCompactSummary=True),
        said("user", "I prefer tabs.", isVisibleInTranscriptOnly=True),
        said("user", "I prefer tabs.", isSidechain=True),
        said("user", "I prefer tabs.", toolUseResult={"stdout": "I prefer tabs."}),
        said("user", [{"type": "tool_result", "content": "x"}, {"type": "text", "text": "I prefer tabs."}]),
        said("user", "This session is being continued. I prefer tabs.", parentUuid="boundary"),
    ],
)
def test_an_entry_that_no_person_typed_is_not_stored(elytron: CommandLine, entry: dict[str, Any]) -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "boundary", "parentUuid": None}
    lines = [said("user", "Fix the test."), said("assistant", "Done."), boundary, entry]
    elytron.write("session.jsonl", "\n".join(map(json.dumps, lines)).encode())
    elytron("hooks", "keep", standard_input=event(elytron, "Stop"))
    assert [item["text"] for item in elytron.json("list")["items"]] == ["Fix the test.", "Done."]


@pytest.mark.parametrize("scope", ["--project", "for the user"])
def test_repositories_share_no_memory_unless_a_space_is_named(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setenv("HOME", str(elytron.folder / "home"))
    commands: dict[str, tuple[list[str], list[str]]] = {}
    for name in ("shop", "bank"):
        (elytron.folder / name / ".git").mkdir(parents=True)
        monkeypatch.chdir(elytron.folder / name)
        options = ("--project",) if scope == "--project" else ()
        store = ("--store", str(elytron.folder / "m.db"))
        report = elytron.json("hooks", "claude-code", "install", *options, *store)
        commands[name] = (shlex.split(report["recall"])[1:], shlex.split(report["keep"])[1:])
    lines = [said("user", "In this repository we always use ruff, never black."), said("assistant", "Noted.")]
    elytron.write("session.jsonl", "\n".join(map(json.dumps, lines)).encode())

    def at(name: str, **more: Any) -> bytes:
        path = str(elytron.folder / "session.jsonl")
        return event(elytron, "Stop", cwd=str(elytron.folder / name), transcript_path=path, **more)

    elytron(*commands["shop"][1], standard_input=at("shop"))
    prompt = "Which formatter do we use in this repository?"
    found = {
        name: elytron(*recall, standard_input=at(name, session_id="new", prompt=prompt)).stdout
        for name, (recall, _) in commands.items()
    }
    assert "always use ruff" in found["shop"]
    assert found["bank"] == ""


def test_a_folder_that_many_projects_share_needs_a_space(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(elytron.folder))
    monkeypatch.chdir(elytron.folder)
    refusal = elytron.error("hooks", "claude-code", "install", "--project", expect=2)
    assert refusal["details"]["field"] == "--space"
