"""The pages of assistants match the table of hosts.

    python -m tests.gates.test_assistant_pages

rewrites them.
"""

from pathlib import Path

import pytest
from tests.gates.tree import ROOT

from elytron_assistants.hooks.events import HookKind
from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import (
    HOST_TABLE,
    WIRED_HOSTS,
    HostWiring,
    host_events,
    host_folders,
    timeout_s,
)
from elytron_assistants.wiring.wiring_files import SKILL

FOLDER = ROOT / "docs" / "how-to" / "assistants"
FOLDERS = host_folders({}, Path("~"), "linux")
EFFECTS = {
    HookKind.START: "adds a short digest of the repository's memory",
    HookKind.RECALL: "adds memories that fit the prompt, or nothing",
    HookKind.COMPACT: "stores what the session has said so far",
    HookKind.KEEP: "stores the turn",
    HookKind.END: "stores the rest of the session",
}
VERSIONS = {
    HostName.CLAUDE_CODE: "Claude Code 2.1.332",
    HostName.CODEX: "Codex CLI 0.163",
    HostName.COPILOT: "Copilot CLI 1.0.14",
    HostName.CURSOR: "Cursor 2026.07.17",
    HostName.GEMINI: "Gemini CLI of August 2026",
    HostName.OPENCODE: "OpenCode 1.18.33 and 2.0.25",
    HostName.VSCODE: "VS Code 1.128",
}
NOTES = {
    HostName.CLAUDE_CODE: "A status line of your own stays: it is run first, and the one of Elytron is appended.",
    HostName.CODEX: "`codex exec` may run no hooks, and Codex has no event for the end of a session.",
    HostName.COPILOT: "MCP servers are only read from the user's settings, so a project gets the hooks.",
    HostName.CURSOR: "Cursor also runs the hooks of Claude Code; a memory is still shown once. `-p` runs few hooks.",
    HostName.GEMINI: "Timeouts in its settings are in milliseconds.",
    HostName.OPENCODE: "The module waits two seconds at most, and leaves out sessions of subagents.",
    HostName.VSCODE: "VS Code also reads hooks of Copilot CLI and Claude Code. An organization may disable hooks.",
}


def file_rows(wiring: HostWiring) -> list[tuple[str, str]]:
    """Return each file of a user, and what is written to it."""
    hooks = "the hooks, as a module" if wiring.item is None else "the hooks"
    hooks += " and the status line" if wiring.has_status_line else ""
    rows = [(wiring.tools_user[0], "the MCP server `elytron`"), (wiring.hooks_user, hooks)]
    if rows[0][0] == rows[1][0]:
        rows = [(wiring.hooks_user, "the MCP server `elytron` and the hooks")]
    if wiring.skills:
        rows.append((f"{wiring.skills}/{SKILL}/SKILL.md", "a skill that explains the tools to the model"))
    if wiring.commands:
        rows.append(
            (f"{wiring.commands}/elytron.md", "the command `/elytron`, which shows, corrects, forgets and pauses")
        )
    return [(f"`{place.format_map(FOLDERS)}`", content) for place, content in rows]


def host_page(host: HostName) -> str:
    """Return the page of a host."""
    row, wiring = HOST_TABLE[host], WIRED_HOSTS[host]
    files = "\n".join(f"| {place} | {content} |" for place, content in file_rows(wiring))
    events = "\n".join(
        f"| `{event}` | {EFFECTS[kind]} | {timeout_s(kind)} s |" for kind, event in host_events(host).items()
    )
    project = ", ".join(f"`{place}`" for place in dict.fromkeys((*wiring.tools_project[:1], wiring.hooks_project)))
    return f"""# {row.title}

```console
$ elytron install --only {host.value}
```

The command shows what it would write, asks, and writes it. Then: {wiring.todo}.

| file | content |
|---|---|
{files}

With `--project`, these in the current folder: {project}.
{NOTES[host]}

| event | effect | timeout |
|---|---|---|
{events}

What you typed and the replies are stored in the memory of the repository. Tool output, reminders and other text that
programs write are not, and secrets are redacted.

`elytron hooks pause` stops both in the repository of the current folder. `elytron doctor` tries the hooks and tools and
stores nothing. `elytron uninstall --only {host.value}` removes them.

Tested with settings in the published format of {VERSIONS[host]},
but not inside the program, and on Linux only: the paths for macOS and Windows are checked without running there.
"""


@pytest.mark.parametrize("host", list(WIRED_HOSTS))
def test_an_assistants_page_matches_the_table(host: HostName) -> None:
    page = (FOLDER / f"{host.value}.md").read_text("utf-8")
    assert page == host_page(host), "python -m tests.gates.test_assistant_pages"
    assert len(page.splitlines()) <= 60


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "website" / "navigation.toml").read_text("utf-8")
    assert {page.stem for page in FOLDER.glob("*.md")} == set(WIRED_HOSTS)
    assert [host for host in WIRED_HOSTS if f'"how-to/assistants/{host.value}.md"' not in navigation] == []


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in WIRED_HOSTS:
        (FOLDER / f"{name.value}.md").write_text(host_page(name), encoding="utf-8")
