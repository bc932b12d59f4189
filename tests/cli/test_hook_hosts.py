"""Hooks of each assistant, as processes, on events and transcripts of the shape that its version writes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import Result
from tests.assistants.test_project_identity import repository
from tests.cli.conftest import FIXTURES, CommandLine, Machine
from tests.command_processes import RUN

from elytron_assistants.hooks.activity import ActivityFolder, read_activity
from elytron_assistants.hooks.events import HOSTS, HookKind, read_event
from elytron_assistants.hosts import HostName


class HostSample(NamedTuple):
    """Events of a host, its session on disk, and what that says."""

    events: str
    session: str
    place: str
    evidence: str
    turns: int
    shape: str


SAMPLES = {
    HostName.CLAUDE_CODE: HostSample(
        "claude-code-2.1.332.json",
        "claude-code-2.1.332.jsonl",
        ".claude/projects/-w-shop/5e0c0001.jsonl",
        "We always use ruff with line length 100.",
        6,
        '{"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": ',
    ),
    HostName.CODEX: HostSample(
        "codex-0.163.0.json",
        "codex-0.163.0.jsonl",
        ".codex/sessions/2026/11/03/rollout-2026-11-03T10-00-00-0199a000-0000-7000-8000-000000000001.jsonl",
        "Prices are stored in cents.",
        5,
        '{"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": ',
    ),
    HostName.CURSOR: HostSample(
        "cursor-2026.07.17.json",
        "cursor-2026.07.17-cli.jsonl",
        ".cursor/projects/w-shop/agent-transcripts/0c0c0001.jsonl",
        "Coupons expire after thirty days.",
        2,
        '{"continue": true, "additional_context": ',
    ),
    HostName.GEMINI: HostSample(
        "gemini-5411f113.json",
        "gemini-5411f113.jsonl",
        ".gemini/tmp/shop/chats/session-2026-11-04T10-00-6e3a0001.jsonl",
        "Orders older than a year are archived.",
        2,
        '{"hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": ',
    ),
    HostName.OPENCODE: HostSample(
        "opencode-1.18.33.json",
        "opencode-1.18.33.sql",
        ".local/share/opencode/opencode.db",
        "Parcels leave on Tuesdays.",
        2,
        '{"additionalContext": ',
    ),
    HostName.COPILOT: HostSample(
        "copilot-1.0.14.json",
        "copilot-1.0.14.jsonl",
        ".copilot/session-state/c0b10001/events.jsonl",
        "Invoices are stored for ten years.",
        2,
        '{"modifiedTransformedPrompt": "<reminder>x</reminder>\\nHow long are invoices stored?\\n\\n',
    ),
    HostName.VSCODE: HostSample(
        "vscode-1.110.json",
        "copilot-1.0.14.jsonl",
        ".copilot/session-state/c0b10001/events.jsonl",
        "Invoices are stored for ten years.",
        2,
        '{"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": ',
    ),
}
EACH = pytest.mark.parametrize("host", SAMPLES)


class HookedHost:
    """A machine on which one host calls its hooks."""

    def __init__(self, machine: Machine, host: HostName) -> None:
        self.machine = machine
        self.host = host
        self.sample = SAMPLES[host]
        self.transcript = machine.put(self.sample.session, self.sample.place)
        text = (FIXTURES / "hooks" / self.sample.events).read_text("utf-8")
        text = text.replace("/w/shop", machine.shop.as_posix()).replace("HOME", machine.home.as_posix())
        self.events: dict[str, dict[str, Any]] = json.loads(text)
        self.store = f"sqlite://{machine.elytron.folder.as_posix()}/m.db"

    def call(self, kind: str, *, session: str = "", **fields: Any) -> Result:
        """Run a hook on an event of the host; `session` takes the place of the event's own."""
        words, data = self._command(kind, session, fields)
        return self.machine.elytron(*words, standard_input=data)

    def start_process(self, kind: str, *, session: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a hook as the host does."""
        words, data = self._command(kind, session, {})
        command = [sys.executable, "-c", RUN, *words]
        return subprocess.run(command, input=data.decode(), capture_output=True, text=True, check=False)

    def _command(self, kind: str, session: str, fields: dict[str, Any]) -> tuple[list[str], bytes]:
        event = self.events[kind] | fields
        for name in HOSTS[self.host].fields.session if session else ():
            event |= {name: session} if name in event else {}
        words = ["hooks", kind, "--host", self.host.value, "--store", self.store, "--per-repository"]
        return words, json.dumps(event).encode()

    def texts(self) -> list[str]:
        """Return what is stored for the repository."""
        words = ("list", "--per-repository", "--store", self.store)
        return [item["text"] for item in self.machine.elytron.json(*words)["items"]]


@pytest.fixture
def hooked(host: HostName, elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> HookedHost:
    machine = Machine(elytron)
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.setenv("XDG_DATA_HOME", str(machine.home / ".local" / "share"))
    monkeypatch.chdir(machine.shop)
    return HookedHost(machine, host)


@EACH
def test_a_session_is_stored_and_answers_a_prompt_of_another_one_once(hooked: HookedHost) -> None:
    sample = hooked.sample
    kept = hooked.start_process("keep")
    assert (kept.returncode, kept.stdout, kept.stderr) == (0, "", "")
    texts = hooked.texts()
    assert sample.evidence in texts
    assert not {"I prefer tabs.", "Look at the calendar.", "Search for invoices.", "Search for carts."} & set(texts)
    assert "secret output" not in "".join(texts)
    hooked.call("keep")
    assert hooked.texts() == texts
    answer = hooked.start_process("recall", session="another")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith(sample.shape)
    assert sample.evidence in answer.stdout
    again = hooked.call("recall", session="another")
    assert sample.evidence not in again.stdout
    (activity,) = read_activity(records_folder())
    assert activity.label == "shop"
    assert (activity.counts.prompts, activity.counts.recalled, activity.counts.stored_turns) == (2, 1, len(texts))


def records_folder() -> Path:
    return Path(os.environ["ELYTRON_STATE_DIR"]) / "assistants"


@EACH
def test_a_session_starts_with_how_things_stand_and_hears_it_again_after_a_compaction(hooked: HookedHost) -> None:
    assert hooked.call("start").stdout == ""
    hooked.call("keep")
    first = hooked.call("start", session="another").stdout
    assert hooked.sample.evidence in first
    assert len(json.loads(first).get("additionalContext", "")) <= 1_500
    assert hooked.call("start", session="another", source="resume").stdout == ""
    assert hooked.sample.evidence in hooked.call("start", session="another", source="compact").stdout


@pytest.mark.parametrize("host", [HostName.CLAUDE_CODE])
def test_a_session_in_a_copy_with_another_history_begins_with_a_notice(hooked: HookedHost, tmp_path: Path) -> None:
    shop, copy = (repository(tmp_path / name, origin="https://example.com/acme/shop") for name in ("real", "forged"))
    transcript = hooked.transcript.read_text("utf-8").replace(hooked.machine.shop.as_posix(), shop.as_posix())
    hooked.transcript.write_text(transcript, "utf-8")
    hooked.call("keep", cwd=str(shop))
    assert "systemMessage" not in json.loads(hooked.call("start", session="another", cwd=str(shop)).stdout)
    message = json.loads(hooked.call("start", session="third", cwd=str(copy)).stdout)["systemMessage"]
    assert str(shop / ".git") in message


@pytest.mark.parametrize("host", [HostName.CLAUDE_CODE])
def test_a_wish_is_not_shown_in_the_session_in_which_it_was_said(hooked: HookedHost) -> None:
    for session in ("", "another"):
        hooked.call("start", session=session)
    hooked.call("keep")
    assert hooked.call("recall", prompt="thanks").stdout == ""
    # A session without a start, or with one that is gone from its context, has not been shown it.
    wish = hooked.call("recall", session="third", prompt="thanks").stdout
    hooked.call("compact", session="another", transcript_path=str(hooked.transcript))
    assert hooked.sample.evidence in wish
    assert hooked.sample.evidence in hooked.call("recall", session="another", prompt="thanks").stdout


@EACH
def test_missing_fields_do_nothing_and_are_said_in_one_line(hooked: HookedHost) -> None:
    for kind in hooked.events.keys() - {"end"}:
        hooked.events[kind] = {}
        outcome = hooked.call(kind)
        assert outcome.stdout == ""
        assert outcome.stderr.count("\n") == 1
    assert not (hooked.machine.elytron.folder / "m.db").exists()


@EACH
def test_a_prompt_that_is_missing_is_named_and_an_empty_one_is_none(hooked: HookedHost) -> None:
    event = hooked.events["recall"]
    for name in set(HOSTS[hooked.host].fields.prompt) & event.keys():
        del event[name]
    assert "prompt" in hooked.call("recall").stderr
    assert hooked.call("recall", prompt="").output == ""


@pytest.mark.parametrize("host", [HostName.CLAUDE_CODE, HostName.OPENCODE])
def test_a_subagent_neither_stores_nor_recalls(hooked: HookedHost) -> None:
    hooked.call("keep")
    texts = hooked.texts()
    parent = {HOSTS[hooked.host].fields.parent[0]: "x1"}
    assert hooked.call("recall", session="another", **parent).stdout == ""
    with hooked.transcript.open("a") as file:
        file.write("\n")
    hooked.call("keep", **parent)
    assert hooked.texts() == texts


@pytest.mark.parametrize("host", [HostName.CLAUDE_CODE])
def test_paused_hooks_do_nothing_until_they_are_resumed(hooked: HookedHost) -> None:
    elytron = hooked.machine.elytron
    elytron("hooks", "pause")
    hooked.call("keep")
    assert not (elytron.folder / "m.db").exists()
    records = ActivityFolder(records_folder())
    assert records.read("claude-code", "5e0c0001").notice == "paused"
    pauses = records_folder() / "paused.json"
    text = pauses.read_text("utf-8")
    pauses.write_text(text[:-5], "utf-8")
    hooked.call("keep")
    assert not (elytron.folder / "m.db").exists()
    assert "delete it" in elytron("hooks", "resume", expect=6).output
    pauses.write_text(text, "utf-8")
    elytron("hooks", "resume")
    hooked.call("keep")
    assert hooked.texts()


@pytest.mark.parametrize("host", [HostName.CLAUDE_CODE])
def test_variables_of_a_repository_choose_neither_store_nor_space(
    hooked: HookedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooked.call("keep")
    (hooked.machine.shop / "elytron.toml").write_text('store = "other.db"\nspace = "bank"\n')
    monkeypatch.setenv("ELYTRON_SPACE", "bank")
    monkeypatch.setenv("ELYTRON_STORE", "other.db")
    assert hooked.sample.evidence in hooked.call("recall", session="another").stdout
    hooked.call("keep", session="third")
    assert not list(hooked.machine.shop.glob("*.db"))


@pytest.mark.parametrize("host", [HostName.CLAUDE_CODE])
def test_a_failing_memory_is_reported_once_and_ends_no_prompt(hooked: HookedHost) -> None:
    (hooked.machine.elytron.folder / "m.db").write_bytes(b"no database" * 100)
    first = hooked.call("recall")
    assert json.loads(first.stdout).keys() == {"systemMessage"}
    assert hooked.call("recall").output == ""


@pytest.mark.parametrize("host", [HostName.CLAUDE_CODE])
def test_hits_that_the_reply_uses_are_counted(hooked: HookedHost) -> None:
    hooked.call("keep")
    hooked.transcript.rename(hooked.transcript.with_name("first.jsonl"))
    hooked.call("recall", session="another")
    lines = [
        {
            "type": "user",
            "uuid": "n1",
            "message": {"role": "user", "content": "Which line length does ruff have here?"},
        },
        {"type": "assistant", "message": {"role": "assistant", "content": "We always use ruff with line length 100."}},
    ]
    hooked.transcript.with_name("another.jsonl").write_text("\n".join(map(json.dumps, lines)))
    path = str(hooked.transcript.with_name("another.jsonl"))
    hooked.call("keep", session="another", transcript_path=path, last_assistant_message=None)
    assert ActivityFolder(records_folder()).read("claude-code", "another").counts.used_hits > 0


def test_a_hook_of_claude_code_that_cursor_calls_is_read_as_cursors() -> None:
    data = (FIXTURES / "hooks" / "cursor-2026.07.17.json").read_bytes()
    event = read_event(HostName.CLAUDE_CODE, HookKind.RECALL, json.dumps(json.loads(data)["recall"]).encode())
    assert (event.host, event.session, event.query) == (HostName.CURSOR, "0c0c0001", "When do coupons expire?")
