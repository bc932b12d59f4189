"""The plugin folder matches the table of hosts, with one version, in the format of each host."""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.gates.tree import ROOT

from elytron.api.line_tools import line_tools
from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import WIRED_HOSTS, host_folders
from elytron_assistants.wiring.plugins import plugin_files, write_plugins
from elytron_assistants.wiring.settings_text import add_entries
from elytron_assistants.wiring.wiring_files import SKILL, WiringChoice, host_goals, packaged_text

SCHEMAS = ROOT / "tests" / "data" / "assistants" / "schemas"
FORMS = {
    ".agents/plugins/marketplace.json": "codex-0.163.0#marketplace",
    ".claude-plugin/marketplace.json": "claude-code-2.1.332#marketplace",
    ".cursor-plugin/marketplace.json": "cursor-2026.07.17#marketplace",
    "agent-plugin/mcp.json": "agent-plugins-1.0.0#mcp",
    "agent-plugin/plugin.json": "agent-plugins-1.0.0#plugin",
    "claude-code/.claude-plugin/plugin.json": "claude-code-2.1.332#plugin",
    "claude-code/.mcp.json": "claude-code-2.1.332#mcp",
    "claude-code/hooks/hooks.json": "claude-code-2.1.332#hooks",
    "codex/.codex-plugin/plugin.json": "codex-0.163.0#plugin",
    "codex/.mcp.json": "codex-0.163.0#mcp",
    "codex/hooks/hooks.json": "codex-0.163.0#hooks",
    "copilot/hooks/elytron.json": "copilot-1.0.14#hooks",
    "copilot/mcp-config.json": "copilot-1.0.14#mcp",
    "cursor/.cursor-plugin/plugin.json": "cursor-2026.07.17#plugin",
    "cursor/hooks/hooks.json": "cursor-2026.07.17#hooks",
    "cursor/mcp.json": "cursor-2026.07.17#mcp",
    "gemini/gemini-extension.json": "gemini-5411f113#extension",
    "gemini/hooks/hooks.json": "gemini-5411f113#hooks",
    "opencode/package.json": "opencode-1.18.33#package",
    "server.json": "mcp-registry-2025-12-11#server",
    "vscode/hooks/elytron-vscode.json": "vscode-1.128#hooks",
    "vscode/mcp.json": "vscode-1.128#mcp",
}
"""Formats of the JSON files: the host with its version, and the part of its schema."""


def problems(value: Any, form: str) -> list[str]:
    """Return what a format rejects in a value."""
    name, _, part = form.partition("#")
    schema = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    checked: Any = Draft202012Validator({**schema, "$ref": f"#/$defs/{part}"})
    return [f"{error.json_path}: {error.message}" for error in checked.iter_errors(value)]


def test_the_folder_matches_the_table() -> None:
    folder = ROOT / "plugin"
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    stored = {name: path.read_text("utf-8") for name, path in paths.items()}
    assert stored == plugin_files(version("elytron")), "python -m elytron_assistants.wiring.plugins plugin"


def test_every_manifest_has_the_format_of_its_host() -> None:
    files = {name: text for name, text in plugin_files(version("elytron")).items() if name.endswith(".json")}
    assert set(files) == set(FORMS)
    assert {name: found for name, form in FORMS.items() if (found := problems(json.loads(files[name]), form))} == {}


def test_every_manifest_has_the_version_of_the_package() -> None:
    texts = [text for name, text in plugin_files("9.8.7").items() if name.endswith(".json")]
    versions = [json.loads(text)["version"] for text in texts if '"version": "' in text]
    assert len(versions) == 7
    assert set(versions) == {"9.8.7"}


@pytest.mark.parametrize("host", [host for host, wiring in WIRED_HOSTS.items() if wiring.item is not None])
def test_installed_hooks_have_the_same_format(host: HostName) -> None:
    folders = host_folders({}, Path("home"), "linux")
    goals = host_goals(host, WiringChoice("elytron", (), folders, "linux", has_tools=False))
    for goal in (goal for goal in goals if goal.entries):
        head = '{"version": 1}' if goal.is_versioned else "{}"
        text, _ = add_entries(head, goal.entries, goal.style, goal.path.name)
        settings = {name: value for name, value in json.loads(text).items() if name != "statusLine"}
        form = next(form for name, form in FORMS.items() if name.startswith(f"{host.value}/hooks/"))
        assert problems(settings, form) == []


def test_rewriting_removes_files_that_no_longer_exist(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "plugin.json").write_text("{}", "utf-8")
    write_plugins(tmp_path, "9.8.7")
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(plugin_files("9.8.7"))


def test_the_skill_names_tools_that_a_host_has() -> None:
    _, head, text = packaged_text("skill.md").split("---\n", 2)
    assert f"name: {SKILL}\n" in head
    tools = {tool.name for tool in line_tools()}
    assert set(re.findall(r"(?:Call |^- )`(\w+)`", text, re.MULTILINE)) <= tools
    assert {"search", "context", "remember_fact", "add", "forget"} <= set(re.findall(r"`(\w+)`", text)) & tools


PROGRAM = """
import json, sys
event = json.load(sys.stdin)
with open(sys.argv[0] + ".log", "a") as log:
    print(json.dumps([sys.argv[1:], event]), file=log)
if sys.argv[2] == "recall":
    print(json.dumps({"additionalContext": "<memory>Deploys are on Thursdays.</memory>"}))
if sys.argv[2] == "start":
    print("A plain digest.")
"""
SESSION = """
import { ElytronMemory } from "./elytron.mjs"
const parts = [{ type: "text", text: "When do we deploy?" }]
const reply = { info: { id: "m2", role: "assistant" }, parts: [{ type: "text", text: "On Thursdays." }] }
const sessions = { s1: {}, s2: { parentID: "s1" } }
const client = {
  session: {
    get: async ({ path }) => ({ data: sessions[path.id] }),
    messages: async () => ({ data: [{ info: { id: "m1", role: "user" }, parts }, reply] }),
  },
}
const hooks = await ElytronMemory({ client, directory: process.cwd() })
await hooks["chat.message"]({ sessionID: "s1" }, { message: { id: "m1" }, parts })
await hooks["chat.message"]({ sessionID: "s2" }, { message: { id: "m9" }, parts })
const sent = { messages: [{ info: { id: "m1", role: "user" }, parts: parts.map((part) => ({ ...part })) }] }
await hooks["experimental.chat.messages.transform"]({}, sent)
await hooks["experimental.chat.messages.transform"]({}, sent)
const system = ["You are a coder."]
await hooks["experimental.chat.system.transform"]({ sessionID: "s1" }, { system })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s1" } } })
await hooks["chat.message"]({ sessionID: "s1" }, undefined)
process.on("exit", () => console.log(JSON.stringify({ text: sent.messages[0].parts[0].text, system })))
"""


def test_the_module_of_opencode_shows_and_stores_through_the_program(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        return  # the module runs inside OpenCode
    program = tmp_path / "elytron"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}", "utf-8")
    program.chmod(0o755)
    choice = WiringChoice(str(program), ("--space", "ada"), host_folders({}, tmp_path, "linux"), "linux")
    module = next(goal.text for goal in host_goals(HostName.OPENCODE, choice) if goal.path.suffix == ".js")
    assert module is not None
    (tmp_path / "elytron.mjs").write_text(module, "utf-8")
    (tmp_path / "session.mjs").write_text(SESSION, "utf-8")
    command = [node, "session.mjs"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True, timeout=60)
    assert json.loads(run.stdout) == {
        "text": "When do we deploy?\n\n<memory>Deploys are on Thursdays.</memory>",
        "system": ["You are a coder.\n\nA plain digest."],
    }
    calls = [json.loads(line) for line in (tmp_path / "elytron.log").read_text("utf-8").splitlines()]
    assert [words for words, _ in calls] == [
        ["hooks", verb, "--host", "opencode", "--space", "ada"] for verb in ("recall", "start", "keep")
    ]
    assert {event["session_id"] for _, event in calls} == {"s1"}
    stored = calls[2][1]
    assert (stored["prompt"], stored["last_assistant_message"]) == ("When do we deploy?", "On Thursdays.")
