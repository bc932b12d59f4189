"""`elytron install` and `uninstall`: every host's settings get our entries and lose nothing else."""

import json
import os
import shlex
import shutil
import stat
import sys
import tomllib
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.conftest import Machine

from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import WIRED_HOSTS, host_events, host_folders, timeout_s
from elytron_assistants.wiring.jsonc_text import read_text
from elytron_cli.commands.agents.install import record_path

SAMPLES = Path(__file__).parents[1] / "data" / "assistants"
PLACES = {
    "claude-code-2.1.332-settings.json": ".claude/settings.json",
    "claude-code-2.1.332-claude.json": ".claude.json",
    "codex-0.163.0-config.toml": ".codex/config.toml",
    "codex-0.163.0-hooks.json": ".codex/hooks.json",
    "copilot-1.0.14-mcp-config.json": ".copilot/mcp-config.json",
    "cursor-2026.07.17-mcp.json": ".cursor/mcp.json",
    "cursor-2026.07.17-hooks.json": ".cursor/hooks.json",
    "gemini-5411f113-settings.json": ".gemini/settings.json",
    "opencode-1.18.33-opencode.jsonc": ".config/opencode/opencode.jsonc",
    "vscode-1.128-mcp.json": ".config/Code/User/mcp.json",
}
"""Realistic settings, named by the version of the host, with their paths."""


def put_samples(home: Path) -> None:
    """Write the settings of every host into a home."""
    for name, place in PLACES.items():
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES / name, home / place)


def tree_of(home: Path) -> dict[str, bytes | None]:
    """Return the files of a home with their bytes, and its folders."""
    return {
        path.relative_to(home).as_posix(): path.read_bytes() if path.is_file() else None for path in home.rglob("*")
    }


def settings_at(path: Path) -> dict[str, Any]:
    """Return the content of a settings file."""
    text = path.read_text("utf-8")
    value = tomllib.loads(text) if path.suffix == ".toml" else read_text(text, path.name).value
    assert isinstance(value, dict)
    return value


def is_within(part: Any, whole: Any) -> bool:
    """Return whether everything in `part` is also in `whole`."""
    match part:
        case dict():
            inner = cast("dict[str, Any]", part)
            return all(key in whole and is_within(inner[key], whole[key]) for key in inner)
        case list():
            items = cast("list[Any]", part)
            return whole[: len(items)] == items
        case _:
            return part == whole


def test_every_host_gets_its_entries_once_and_loses_nothing(machine: Machine) -> None:
    put_samples(machine.home)
    report = machine.elytron.json("install", "--yes", "--json")
    assert {each["host"] for each in report["files"]} == set(WIRED_HOSTS)
    assert report["is_written"] is True
    for name, place in PLACES.items():
        before, after = settings_at(SAMPLES / name), settings_at(machine.home / place)
        assert is_within(before, after)
        assert after != before
        notes = [line.split("//", 1)[1] for line in (SAMPLES / name).read_text("utf-8").splitlines() if " // " in line]
        assert all(note in (machine.home / place).read_text("utf-8") for note in notes)
    written = tree_of(machine.home)
    again = machine.elytron.json("install", "--yes", "--json")
    assert {each["outcome"] for each in again["files"]} == {"unchanged"}
    assert tree_of(machine.home) == written


@pytest.mark.parametrize("has_settings", [True, False])
def test_uninstalling_restores_every_byte(machine: Machine, has_settings: bool) -> None:
    if has_settings:
        put_samples(machine.home)
    before = tree_of(machine.home)
    every = [part for host in WIRED_HOSTS for part in ("--only", host.value)]
    machine.elytron("install", "--yes", *every)
    machine.elytron("install", "--yes", *every, "--space", "ada")
    assert tree_of(machine.home) != before
    record = Path(os.environ["ELYTRON_STATE_DIR"], "installed.json")
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert "s3cret" not in record.read_text("utf-8")
    machine.elytron("uninstall", "--yes")
    assert tree_of(machine.home) == before
    assert not record.exists()
    assert machine.elytron.json("uninstall", "--yes")["files"] == []


@pytest.mark.parametrize("host", list(WIRED_HOSTS))
def test_the_entries_of_a_host_run_the_program_by_its_whole_path(machine: Machine, host: HostName) -> None:
    put_samples(machine.home)
    report = machine.elytron.json("install", "--yes", "--only", host.value)
    texts = [Path(each["file"]).read_text("utf-8") for each in report["files"]]
    wiring = WIRED_HOSTS[host]
    if wiring.item is None:
        text = next(text for text in texts if "const COMMANDS = " in text)
        commands: dict[str, list[str]]
        commands, _ = json.JSONDecoder().raw_decode(text.partition("const COMMANDS = ")[2])
    else:
        hooks = settings_at(Path(wiring.hooks_user.format_map(report_folders(machine)))).get("hooks", {})
        commands = {}
        for kind, event in host_events(host).items():
            item = hooks[event][-1]
            (hook,) = item.get("hooks", [item])
            commands[kind] = shlex.split(hook.get("command") or hook["bash"])
            timeout = hook.get("timeout", hook.get("timeoutSec"))
            assert timeout == timeout_s(kind) * (1_000 if host is HostName.GEMINI else 1)
    named = [] if host is HostName.CLAUDE_CODE else ["--host", host.value]
    options = ["--resident", "--store", f"sqlite://{machine.elytron.folder}/m.db", "--per-repository"]
    for kind in host_events(host):
        assert commands[kind][1:] == ["hooks", kind.value, *named, *options]
        assert Path(commands[kind][0]).is_absolute()
        assert Path(commands[kind][0]).exists()


def report_folders(machine: Machine) -> dict[str, Path]:
    """Return the folders of hosts in the home."""
    return host_folders({}, machine.home, "linux")


def test_without_confirmation_nothing_is_written(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    put_samples(machine.home)
    before = tree_of(machine.home)
    shown = machine.elytron.json("install", "--dry-run", "--json")
    assert shown["is_written"] is False
    result = machine.elytron("install", "--json", expect=2)
    assert json.loads(result.stdout) == shown
    assert json.loads(result.stderr)["error"]["details"]["field"] == "--yes"
    assert "s3cret" not in result.output
    assert tree_of(machine.home) == before


@pytest.mark.usefixtures("at_a_terminal")
def test_a_person_sees_the_entries_and_confirms(machine: Machine) -> None:
    put_samples(machine.home)
    before = tree_of(machine.home)
    refusal = machine.elytron("install", "--only", "cursor", standard_input=b"n\n", expect=1)
    assert "hooks.beforeSubmitPrompt: " in refusal.stderr
    assert tree_of(machine.home) == before
    result = machine.elytron("install", "--only", "codex", standard_input=b"y\n")
    assert "run `/hooks` in Codex" in result.stdout
    assert tree_of(machine.home) != before


@pytest.mark.usefixtures("at_a_terminal")
def test_earlier_sessions_are_offered_and_imported(machine: Machine) -> None:
    machine.put_all()
    result = machine.elytron("install", "--only", "claude-code", standard_input=b"y\ny\n")
    assert "Import the earlier sessions" in result.stderr
    stored = machine.elytron.json("repo", "show", str(machine.shop), "--json")["space"]
    items = machine.elytron.json("list", "--space", stored, "--json")["items"]
    assert {each["channel"] for each in items} == {"claude-code"}
    hint = machine.elytron("install", "--only", "codex", "--yes").stderr
    assert "`elytron sessions import codex`" in " ".join(hint.split())


def test_broken_settings_are_left_unchanged_and_reported_by_line(machine: Machine) -> None:
    put_samples(machine.home)
    broken = machine.home / ".cursor" / "hooks.json"
    broken.write_text('{\n  "version": 1\n  "hooks": {}\n}\n', "utf-8")
    report = machine.elytron.json("install", "--yes", "--only", "cursor", expect=1)
    outcomes = {Path(each["file"]).name: (each["outcome"], each.get("problem", "")) for each in report["files"]}
    assert outcomes["mcp.json"] == ("change", "")
    assert outcomes["hooks.json"] == ("refused", "file 'hooks.json', line 3 is missing a comma: fix the file first")
    assert broken.read_text("utf-8") == '{\n  "version": 1\n  "hooks": {}\n}\n'


def test_later_changes_to_a_file_are_preserved(machine: Machine) -> None:
    put_samples(machine.home)
    machine.elytron("install", "--yes")
    claude, codex = machine.home / ".claude/settings.json", machine.home / ".codex/config.toml"
    claude.write_text(claude.read_text("utf-8").replace('"opus"', '"sonnet"'), "utf-8")
    codex.write_text(codex.read_text("utf-8") + '\n# later\n[tui]\ntheme = "dark"\n', "utf-8")
    skill = machine.home / ".claude/skills/elytron-memory/SKILL.md"
    skill.write_text("mine\n", "utf-8")
    report = machine.elytron.json("uninstall", "--yes", expect=1)
    assert [each["file"] for each in report["files"] if each["outcome"] == "refused"] == [str(skill)]
    assert settings_at(claude) == settings_at(SAMPLES / "claude-code-2.1.332-settings.json") | {"model": "sonnet"}
    assert settings_at(codex) == settings_at(SAMPLES / "codex-0.163.0-config.toml") | {"tui": {"theme": "dark"}}
    assert "# later" in codex.read_text("utf-8")
    assert skill.read_text("utf-8") == "mine\n"


def test_entries_without_a_record_are_replaced_and_removed(machine: Machine) -> None:
    put_samples(machine.home)
    machine.elytron("install", "--yes", "--only", "gemini", "--space", "ada")
    Path(os.environ["ELYTRON_STATE_DIR"], "installed.json").unlink()
    machine.elytron("install", "--yes", "--only", "gemini")
    after = settings_at(machine.home / ".gemini/settings.json")
    assert [len(after["hooks"][event]) for event in host_events(HostName.GEMINI).values()] == [1] * 5
    assert "ada" not in json.dumps(after["hooks"]).replace("Lovelace", "")
    machine.elytron("uninstall", "--yes", "--only", "gemini")
    assert settings_at(machine.home / ".gemini/settings.json") == settings_at(SAMPLES / "gemini-5411f113-settings.json")


def test_a_project_is_configured_in_its_own_files(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(machine.shop)
    (machine.shop / "elytron.toml").write_text('space = "theirs"\nstore = "theirs.db"\n', "utf-8")
    before = tree_of(machine.shop)
    for host in WIRED_HOSTS:
        machine.elytron("install", "--yes", "--project", "--only", host.value)
    texts = {name: data.decode() for name, data in tree_of(machine.shop).items() if data and name not in before}
    assert {
        ".mcp.json", ".claude/settings.local.json", ".codex/config.toml", ".codex/hooks.json", ".cursor/mcp.json",
        ".cursor/hooks.json", ".gemini/settings.json", "opencode.json", ".opencode/plugins/elytron.js",
        ".vscode/mcp.json", ".github/hooks/elytron.json", ".github/hooks/elytron-vscode.json",
    } == set(texts)  # fmt: skip
    assert not any("theirs" in text for text in texts.values())
    monkeypatch.chdir(machine.elytron.folder)
    machine.elytron("uninstall", "--yes")
    assert tree_of(machine.shop) == before


def test_a_server_is_configured_with_the_variable_of_its_key(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    put_samples(machine.home)
    monkeypatch.setenv("ELYTRON_API_KEY", "ely_user_s3cret")
    url = ("--url", "https://memory.example", "--space", "shop")
    machine.elytron("install", "--yes", *url)
    written = {name: data.decode() for name, data in tree_of(machine.home).items() if data}
    assert not any("ely_user_s3cret" in text for text in written.values())
    assert settings_at(machine.home / ".codex/config.toml")["mcp_servers"]["elytron"] == {
        "url": "https://memory.example/mcp",
        "bearer_token_env_var": "ELYTRON_API_KEY",
    }
    assert "hooks keep --host codex --url https://memory.example --space shop" in written[".codex/hooks.json"]
    asked = settings_at(machine.home / ".config/Code/User/mcp.json")["inputs"]
    slash_command = written[".claude/commands/elytron.md"]
    for name in ("list", "correct", "forget"):
        assert f" client {name} {shlex.join(url)} --request '" in slash_command
    assert f' client recall "WORDS" {shlex.join(url)}`' in slash_command
    assert [each["id"] for each in asked] == ["docs-key", "elytron-key"]
    machine.elytron("uninstall", "--yes")
    assert (machine.home / ".config/Code/User/mcp.json").read_bytes() == (
        SAMPLES / "vscode-1.128-mcp.json"
    ).read_bytes()


def test_opencode_2_settings_keep_their_format(machine: Machine) -> None:
    folder = machine.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    shutil.copy(SAMPLES / "opencode-2.0.25-opencode.json", folder / "opencode.json")
    machine.elytron("install", "--yes", "--only", "opencode")
    assert set(settings_at(folder / "opencode.json")["mcp"]["servers"]) == {"docs", "elytron"}


def test_a_symlinked_file_stays_a_symlink_and_keeps_its_mode(machine: Machine) -> None:
    (machine.home / "dotfiles").mkdir(parents=True)
    (machine.home / ".claude").mkdir()
    file, link = machine.home / "dotfiles" / "claude.json", machine.home / ".claude" / "settings.json"
    file.write_text("{}\n", "utf-8")
    file.chmod(0o640)
    link.symlink_to(file)
    machine.elytron("install", "--yes", "--only", "claude-code")
    assert link.is_symlink()
    assert "hooks recall" in file.read_text("utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_without_assistants_the_report_says_so(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.elytron.folder))
    refusal = machine.elytron.error("install", "--yes", expect=2)
    assert refusal["details"]["field"] == "--only"


def test_the_users_own_status_line_also_runs(machine: Machine) -> None:
    (machine.home / ".claude").mkdir(parents=True)
    settings = machine.home / ".claude" / "settings.json"
    own = {"type": "command", "command": "mine --at '~/a b'", "padding": 0}
    settings.write_text(json.dumps({"statusLine": own}), "utf-8")
    for _ in range(2):
        machine.elytron("install", "--yes", "--only", "claude-code")
        line = settings_at(settings)["statusLine"]
        words = shlex.split(line["command"])
        assert (words[1:], line["padding"]) == (["hooks", "status", "--wrap", own["command"]], 0)
    settings.write_text(settings.read_text("utf-8") + "\n", "utf-8")
    machine.elytron("uninstall", "--yes")
    assert settings_at(settings) == {"statusLine": own}


@pytest.mark.usefixtures("whole_starts")
def test_doctor_tests_the_tools_and_creates_no_store(machine: Machine) -> None:
    put_samples(machine.home)
    machine.elytron("install", "--yes", "--only", "cursor")
    checks = machine.elytron.json("doctor")["assistants"]
    assert {(each["host"], each["part"]) for each in checks} == {("cursor", part) for part in ("file", "hook", "tools")}
    assert {each["problem"] for each in checks} == {""}
    assert not (machine.elytron.folder / "m.db").exists()
    (machine.home / ".cursor" / "mcp.json").unlink()
    shown = " ".join(machine.elytron("doctor", "--no-json").stdout.split())
    assert "mcp.json: no longer exists: run `elytron install` again" in shown


def test_the_slash_command_has_the_memory_of_the_hooks(machine: Machine) -> None:
    machine.elytron("install", "--yes", "--only", "claude-code", "--space", "team")
    text = (machine.home / ".claude/commands/elytron.md").read_text("utf-8")
    memory = f"--store sqlite://{machine.elytron.folder}/m.db --space team"
    for line in (f"list {memory} --latest", f'recall "WORDS" {memory}', f'correct ID "TEXT" {memory}'):
        assert line in text
    assert "--per-repository" not in text
    assert machine.elytron("hooks", "command", "--space", "team").stdout == text


@pytest.mark.parametrize("change", ["text", "file", "new"])
def test_a_tampered_record_writes_and_removes_nothing_else(machine: Machine, change: str) -> None:
    put_samples(machine.home)
    machine.elytron("install", "--yes")
    record_file, settings = record_path(), machine.home / ".claude/settings.json"
    record = json.loads(record_file.read_text("utf-8"))
    entry = record["files"][str(settings)]
    target = settings
    if change == "text":
        entry["undo"] = [{"start": 0, "length": len(settings.read_text("utf-8")), "text": '{"apiKeyHelper": "x"}'}]
    elif change == "new":
        entry["is_new"] = True
    else:
        target = machine.home / ".profile"
        target.write_text("export A=1\n", "utf-8")
        entry |= {"digest": blake2b(target.read_bytes(), digest_size=16).hexdigest(), "undo": [], "is_new": True}
        record["files"][str(target)] = entry
    record_file.write_text(json.dumps(record), "utf-8")
    before = target.read_bytes()
    report = machine.elytron.json("uninstall", "--yes", expect=1)
    assert [each["file"] for each in report["files"] if each["outcome"] == "refused"] == [str(target)]
    assert target.read_bytes() == before


def test_a_pipe_instead_of_settings_is_refused(machine: Machine) -> None:
    if not hasattr(os, "mkfifo"):
        return  # this system has no named pipes
    (machine.home / ".claude").mkdir(parents=True)
    os.mkfifo(machine.home / ".claude/settings.json")
    report = machine.elytron.json("install", "--yes", "--only", "claude-code", expect=1)
    (refused,) = (each for each in report["files"] if each["outcome"] == "refused")
    assert "regular file" in refused["problem"]


def test_a_status_line_with_an_unclosed_quote_is_the_users(machine: Machine) -> None:
    settings = machine.home / ".claude/settings.json"
    settings.parent.mkdir(parents=True)
    line = {"statusLine": {"type": "command", "command": "elytron hooks status --wrap 'date"}}
    settings.write_text(json.dumps(line), "utf-8")
    machine.elytron("uninstall", "--yes")
    assert settings_at(settings) == line


def test_a_dangling_symlink_is_refused(machine: Machine) -> None:
    link, target = machine.home / ".gemini" / "settings.json", machine.home / "gone" / "gemini.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    report = machine.elytron.json("install", "--yes", "--only", "gemini", expect=1)
    (refusal,) = (each for each in report["files"] if each["outcome"] == "refused")
    assert refusal["problem"].startswith(f"file '{link}' is a link to '{target}', which does not exist")
    assert report.get("todo", {}) == {}
    assert link.is_symlink()
    assert not target.parent.exists()


def test_an_unwritable_file_stops_no_other(machine: Machine) -> None:
    put_samples(machine.home)
    settings = machine.home / ".claude" / "settings.json"
    before = settings.read_bytes()
    # A name that leaves no room for the temporary file, so that not even the administrator can write it.
    long = machine.home / f"{'s' * 250}.json"
    settings.rename(long)
    settings.symlink_to(long)
    report = machine.elytron.json("install", "--yes", "--only", "claude-code", expect=1)
    problems = {each["file"]: each["problem"] for each in report["files"] if each["outcome"] == "failed"}
    assert list(problems) == [str(settings)]
    assert problems[str(settings)].startswith(f"cannot write '{settings}': ")
    assert long.read_bytes() == before
    assert (machine.home / ".claude/commands/elytron.md").exists()
    assert "cannot write '~/.claude/settings.json'" in " ".join(
        machine.elytron("install", "--yes", "--only", "claude-code", "--no-json", expect=1).stdout.split()
    )
    assert str(settings) not in Path(os.environ["ELYTRON_STATE_DIR"], "installed.json").read_text("utf-8")


def test_uninstalling_ignores_broken_files_without_entries(machine: Machine) -> None:
    (machine.home / ".cursor").mkdir(parents=True)
    (machine.home / ".cursor" / "mcp.json").write_text("{,", "utf-8")
    assert machine.elytron.json("uninstall", "--yes")["files"] == []


def test_a_project_outside_a_repository_needs_a_space(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.home.mkdir()
    monkeypatch.chdir(machine.home)
    refusal = machine.elytron.error("install", "--yes", "--project", "--only", "codex", expect=2)
    assert "this folder is not in a repository" in refusal["reason"]


def test_a_server_without_its_extra_is_reported(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    options = ("--only", "codex", "--url", "https://memory.example", "--space", "shop", "--dry-run")
    (note,) = machine.elytron.json("install", *options)["notes"]
    assert "the extra `client`" in note


def test_a_projects_symlink_never_leads_to_an_outside_file(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine.shop)
    outside = tmp_path / "outside.json"
    outside.write_text("{}", "utf-8")
    (machine.shop / ".claude").mkdir()
    (machine.shop / ".claude" / "settings.local.json").symlink_to(outside)
    report = machine.elytron.json("install", "--project", "--only", "claude-code", "--yes", expect=1)
    assert "is a link that leads out of the project" in str(report["files"])
    assert outside.read_text("utf-8") == "{}"
