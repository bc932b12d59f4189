"""Without extras every command loads, and one that needs an extra names it."""

import json
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions

from packaging.requirements import Requirement
from tests.gates.tree import ROOT

_ALONE = '''
import sys


class Without:
    """A finder that does not see the modules of extras."""

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in absent else self.finder.find_spec(name, path, target)


absent = set(sys.argv[1].split())
sys.meta_path[:] = map(Without, sys.meta_path)

from elytron_cli.app import elytron_group, load_command
from elytron_cli.terminal.help_page import COMMANDS

for name in COMMANDS:
    load_command(name)
for arguments in sys.argv[2:]:
    try:
        elytron_group.main(["--store", "memory:", *arguments.split()])
    except SystemExit as ended:
        print(ended.code, arguments)
'''


def of_extras() -> set[str]:
    """Return the modules missing from an installation without extras."""
    brought, wanted = set[str](), ["elytron"]
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in brought:
            continue
        brought.add(name)
        needs = [Requirement(line) for line in distribution(name).requires or ()]
        wanted += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return {
        module
        for module, names in packages_distributions().items()
        if brought.isdisjoint(name.lower().replace("_", "-") for name in names)
    }


NEEDS = (
    ("serve --development", "server", "run-a-server"),
    ("serve --development --agent-model ollama:x", "agent", "serve-agents"),
    ("serve --development --llm-upstream http://127.0.0.1:1", "proxy", "model-proxy"),
    ("console", "server", "use-the-console"),
    ("proxy --upstream http://127.0.0.1:1", "proxy", "model-proxy"),
    ("chat --model ollama:x", "llm", "chat-at-the-terminal"),
    ("mcp", "mcp", "connect-mcp-hosts"),
    ("client recall tea", "client", "call-a-server"),
)
"""Commands, the extra that each needs, and the page about it."""


def test_a_command_without_its_extra_names_it_and_the_others_load() -> None:
    commands = [command for command, _, _ in NEEDS]
    absent = of_extras()
    assert {"mcp", "mcp_types", "starlette", "httpx"} <= absent
    run = subprocess.run(
        [sys.executable, "-c", _ALONE, " ".join(absent), *commands], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [f"8 {command}" for command in commands]
    errors = [json.loads(line)["error"] for line in run.stderr.splitlines()]
    assert [error["key"] for error in errors] == ["missing_extra"] * len(commands)
    assert [error["details"]["extra"] for error in errors] == [extra for _, extra, _ in NEEDS]
    pages = {page: (ROOT / f"docs/how-to/{page}.md").read_text("utf-8") for _, _, page in NEEDS}
    assert [(extra, page) for _, extra, page in NEEDS if f"`{extra}`" not in pages[page]] == []
